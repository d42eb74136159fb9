"""kdkit.reporting.cards: model cards next to exported files."""

import dataclasses
import pathlib
import re
from importlib.util import find_spec

import pytest
from kit.encoders import encoder, tokenizer
from kit.references import reference

from kdkit import export
from kdkit.reporting.cards import MARKER, license_in, write_card

FRONT = "---\nlanguage: en\nlicense: {}\n---\nlicense: mit\n"


@pytest.fixture
def run(distillation_run):
    """A run whose files exist."""
    folder = distillation_run.run_dir / "exports"
    folder.mkdir()
    for precision in ("fp32", "fp16", "int8"):
        (folder / f"student-{precision}.tflite").touch()
    return distillation_run.records


def card_of(records, **options):
    path = write_card(records.run_dir / "exports", records, **options)
    return path.read_text("utf-8")


def test_card_has_the_runs_numbers(run):
    card = card_of(run)
    assert card.startswith('---\nlicense: "unknown"\n')
    assert MARKER in card
    for text in (
        "| teacher |",
        "| control |",
        "| student-int8.tflite | LiteRT | int8 | 14.50 | 128 | 2.4e-02 |",
        ". Jiao et al., 2019",
        "Interpreter('student-int8.tflite')",
        "on 872 examples of dev",
        "cut off after 128 tokens",
        "model comes from name no license",
        'datasets: ["nyu-mll/glue"]',
        "\nkdkit distill tinybert",
    ):
        assert text in card, text


def test_card_of_the_teachers_files_is_the_teachers(run):
    card = card_of(run, arm="teacher")
    assert ": teacher of tinybert on sst2\n" in card
    assert "student learned from" not in card
    assert "kdkit train-teacher" in card
    run = dataclasses.replace(run, teacher_run=None)
    assert "How the model was trained" in card_of(run, arm="teacher")


FORMATS = {"litert": ".tflite", "onnx": ".onnx", "saved_model": ""}


@pytest.mark.parametrize("format", FORMATS)
def test_code_in_a_card_runs(format, tmp_path, monkeypatch, capsys):
    if format == "onnx":
        reference("tf2onnx")
    more = {}
    if format == "litert":
        labels, words = ["bad", "fair", "good"], tokenizer("bert")
        more = {"mediapipe": True, "tokenizer": words, "labels": labels}
        more["sequence_length"] = 8
    file = f"student{FORMATS[format]}"
    report = export.export_model(
        encoder("bert"), tmp_path / file, format=format, **more
    )
    card = write_card(tmp_path, reports=[report]).read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", card, re.S)
    assert len(blocks) == 1 + (format == "litert")
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        if "mediapipe" in block and not find_spec("mediapipe"):
            continue
        exec(block, {})
        assert capsys.readouterr().out


def test_license_is_the_teachers_or_the_users_and_stays(run, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    config = run.config.replace(pretrained=str(checkpoint))
    run = dataclasses.replace(run, config=config, teacher_run=None)
    (checkpoint / "LICENSE").write_text("All rights reserved")
    for _ in range(2):  # also in place of an earlier card
        assert "its own license in checkpoint/LICENSE" in card_of(run)
    (run.run_dir / "exports" / "README.md").unlink()
    (checkpoint / "README.md").write_text(FRONT.format("apache-2.0"))
    assert "the license of the checkpoint checkpoint." in card_of(run)
    assert 'license: "mit"' in card_of(run, license="mit")
    assert 'license: "mit"' in card_of(run)  # of the earlier card


def test_license_is_one_that_all_checkpoints_have(run, tmp_path):
    names, places = ("cc-by-nc-4.0", "apache-2.0"), []
    for name in names:
        place = tmp_path / name
        place.mkdir()
        (place / "README.md").write_text(FRONT.format(name))
        places.append(str(place))
    student = {"copy_from": places[0], "num_layers": 1}
    for teacher, license in ((places[1], "unknown"), (places[0], names[0])):
        config = run.config.replace(student=student, teacher=[teacher])
        found = dataclasses.replace(run, config=config, teacher_run=None)
        assert f'license: "{license}"' in card_of(found)
        teachers = pathlib.Path(teacher).name
        assert f'license: "{teachers}"' in card_of(found, arm="teacher")


def test_license_of_another_model_is_not_inherited(tmp_path):
    for name, license in (("a", "mit"), ("a", "mit"), ("b", "unknown")):
        file = tmp_path / f"{name}.tflite"
        file.touch()
        report = export.ExportReport(
            file=str(file),
            format="litert",
            title="LiteRT",
            precision="fp32",
            size_bytes=1,
            max_abs_difference=0.0,
            examples=2,
        )
        chosen = "mit" if not (tmp_path / "README.md").exists() else None
        card = write_card(tmp_path, reports=[report], license=chosen)
        assert f'license: "{license}"' in card.read_text("utf-8")


def test_control_is_called_that(run):
    card = card_of(run, arm="control")
    assert ": control of tinybert on sst2\n" in card
    assert "student learned from" not in card


def test_readme_of_the_users_own_is_left(run):
    folder = run.run_dir / "exports"
    (folder / "README.md").write_text("mine")
    assert write_card(folder, run) is None
    assert (folder / "README.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (FRONT.format("apache-2.0"), "apache-2.0"),
        (FRONT.format('"mit"'), "mit"),
        (FRONT.format("unknown"), None),
        (FRONT.format(""), None),
        ("license: mit\n", None),
        ("---\nlicense: [a, b]\n---\n", None),
        ("---", None),
        ("---\nlicense: mit\udcff\n---\n", None),
    ],
)
def test_license_is_read_from_the_metadata_alone(content, expected, tmp_path):
    path = tmp_path / "README.md"
    path.write_text(content, "utf-8", "surrogateescape")
    assert license_in(path) == expected
