"""Dates in exported files (goes with export/metadata.py)."""

from kdkit.export import metadata


def test_what_an_exported_file_says_is_the_same_at_any_time(
    tmp_path, monkeypatch
):
    contents = set()
    for second in (1e9, 2e9):
        path = tmp_path / f"{second}.tflite"
        path.write_bytes(b"TFL3" * 10)
        monkeypatch.setattr("time.time", lambda second=second: second)
        metadata.attach(path, metadata.Metadata("fp32", 1, None, "0"))
        contents.add(path.read_bytes())
    assert len(contents) == 1
