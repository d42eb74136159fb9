"""Files of encoder-decoders with room for different numbers of tokens."""

import pytest

from kdkit import export
from kdkit.cli.main import main


@pytest.mark.parametrize(
    ("rooms", "shown", "is_told"),
    [
        ([(64, 64), (64, 64)], "25 of 64", False),
        ([(64, 64), (128, 64)], "25 of 128 and 64", True),
    ],
)
def test_unlike_rooms_are_told(
    rooms, shown, is_told, tmp_path, monkeypatch, capsys
):
    files = [tmp_path / f"{number}.tflite" for number in range(2)]
    for file in files:
        file.touch()

    def measured(paths, **settings):
        return [
            export.LatencyReport(
                file=str(path),
                median_ms=1.0,
                p95_ms=1.0,
                threads=1,
                batch_size=1,
                sequence_length=25,
                warmup=1,
                runs=1,
                size_bytes=1,
                parameters=None,
                reads_sources=True,
                room=room,
            )
            for path, room in zip(paths, rooms, strict=True)
        ]

    monkeypatch.setattr(export, "measure_latencies", measured)
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["benchmark", *map(str, files)]) == 0
    captured = capsys.readouterr()
    assert shown in captured.out
    assert ("one --sequence-length" in captured.err) == is_told
