"""From options to settings: which student a recipe gets."""

import dataclasses
import logging
import shutil

import pytest

from kdkit.cli import compiling, resolving
from kdkit.cli.main import make_verb_parser
from kdkit.errors import UsageError
from kdkit.recipes import RECIPES
from kdkit.runs import runner, smoke
from kdkit.runs.directory import RunDirectory, write_json
from kdkit.runs.events import Inputs
from kdkit.runs.pipeline import Pipeline
from kdkit.runs.settings import PRETRAINED
from kdkit.runs.task_parts import DistillParts
from kdkit.training import ModelSettings, UnlabeledSettings


def settings(recipe, teacher, *words):
    options = make_verb_parser("distill").parse_args(
        [recipe, "--task", "sst2", "--teacher", str(teacher)]
        + ["--run-dir", "run", *words]
    )
    return resolving.distill_settings(options)


@pytest.fixture
def fine_tuned(finished_run, tmp_path):
    """A teacher's run that records its encoder of three blocks."""
    encoder = finished_run / "teacher_run" / "teacher"
    path = tmp_path / "teacher_run"
    path.mkdir()
    write_json(path / "config.json", {"model": {"checkpoint": str(encoder)}})
    return path


def test_student_starts_as_half_of_the_encoder_behind_the_teacher(fine_tuned):
    made = settings("pkd", fine_tuned)
    assert made.pretrained.endswith("teacher_run/teacher")
    assert made.student.copy_from == "pretrained"
    assert made.student.copy_layers == (1,)  # of three


def test_depth_and_encoder_can_be_chosen(finished_run, fine_tuned):
    encoder = finished_run / "teacher_run" / "teacher"
    words = ["--num-layers", "2", "--pretrained", str(encoder)]
    made = settings("vanilla_kd", finished_run, *words)
    assert made.pretrained == str(encoder)
    assert made.student.copy_layers == (1, 3)


def test_control_on_a_corpus_keeps_it_and_drops_the_teacher(
    finished_run, tmp_path
):
    encoder = finished_run / "teacher_run" / "teacher"
    text = tmp_path / "text.txt"
    text.write_text("some words\n")
    words = ["--pretrained", str(encoder), "--corpus", str(text), "--control"]
    made = settings("distilbert", finished_run, *words)
    assert [stage.data for stage in made.control] == ["corpus", "task"]
    assert not any(stage.objectives for stage in made.control)


def test_preset_students_take_another_depth(finished_run):
    student = settings("tinybert", finished_run, "--num-layers", "3").student
    assert (student.num_layers, student.hidden_dim) == (3, 312)


def test_unlabeled_text_comes_with_its_proportion(finished_run, tmp_path):
    file = tmp_path / "text.tsv"
    file.write_text("text\nsome words\n")
    words = ["--unlabeled", str(file), "--unlabeled-columns", "text"]
    made = settings("tinybert", finished_run, *words)
    assert made.unlabeled == UnlabeledSettings((str(file),), ("text",), 1.0)
    words += ["--unlabeled-per-labeled", "2.5"]
    made = settings("tinybert", finished_run, *words)
    assert made.unlabeled.per_labeled == 2.5


def test_bilstm_is_as_wide_as_its_word_vectors(finished_run, tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("film 0.1 0.2 0.3\n")
    words = ["--word-vectors", str(file)]
    student = settings("distilled_bilstm", finished_run, *words).student
    assert student.bilstm.word_vectors == str(file)
    assert student.bilstm.embedding_dim == 3
    assert student.bilstm.units == 150


def from_encoder(recipe, encoder, *words):
    options = make_verb_parser("distill").parse_args(
        [recipe, "--task", "sst2", "--encoder", str(encoder), *words]
        + ["--run-dir", "run"]
    )
    return resolving.distill_settings(options)


def test_all_four_steps_of_lightpaff_come_from_an_encoder(
    finished_run, tmp_path
):
    encoder = str(finished_run / "teacher_run" / "teacher")
    text = tmp_path / "text.txt"
    text.write_text("some words\n")
    made = from_encoder("lightpaff", encoder, "--corpus", str(text))
    assert made.pretrained.model.checkpoint == encoder
    assert made.pretrained.corpus == made.corpus
    assert made.teacher.model.checkpoint == "pretrained"
    assert made.teacher.data == made.data
    options = ["--set", "jit_compile=false", "--mixed-precision", "bfloat16"]
    options += ["--set", "pretrained.corpus.sequence_length=64"]
    options += ["--set", "data.max_train_rows=100"]
    changed = from_encoder(
        "lightpaff", encoder, "--corpus", str(text), *options
    )
    assert changed.teacher.data.max_train_rows == 100
    assert changed.pretrained.corpus.sequence_length == 64
    for nested in (changed.teacher, changed.pretrained):
        assert not nested.jit_compile
        assert nested.dtype_policy == "mixed_bfloat16"
    assert [stage.data for stage in made.stages] == ["corpus", "task"]


def test_teacher_is_made_from_the_encoder_that_the_run_pretrained(
    monkeypatch, tmp_path
):
    made = []
    monkeypatch.setattr(
        runner,
        "pretrain",
        lambda settings, path, *more, **force: made.append(path),
    )
    monkeypatch.setattr(
        runner, "train_teacher", lambda *made_with: made.append(made_with)
    )
    settings = smoke.distillation(RECIPES["lightpaff"])
    model = ModelSettings(checkpoint=PRETRAINED)
    settings = dataclasses.replace(
        settings, teacher=dataclasses.replace(settings.teacher, model=model)
    )
    parts = DistillParts(settings, tmp_path)
    *before, _ = Pipeline(settings, tmp_path).steps
    for step in before:
        runner._make(step, before, parts, False, None)
    places = parts.places[0], parts.pretrained
    first, (teacher, path, pretrained, force) = made
    assert places == (path, first)
    assert pretrained == first
    assert force is False
    # The recorded settings do not depend on where the run is.
    assert teacher == settings.teacher


@pytest.fixture
def of_32_positions(tmp_path):
    """What a preset directory says of its model."""
    path = tmp_path / "preset"
    path.mkdir()
    saved = {"registered_name": "x", "config": {"max_sequence_length": 32}}
    write_json(path / "config.json", saved)
    return str(path)


@pytest.mark.parametrize(
    ("words", "length"),
    [
        (["--model", "SHORT"], 32),
        (["--model", "SHORT", "--set", "corpus.sequence_length=64"], 64),
        (
            [
                *("--student", "lightpaff_mass_6_4_layer", "--languages", "en"),
                *("--set", "model.mass.max_sequence_length=48"),
            ],
            48,
        ),
    ],
)
def test_rows_on_text_fit_the_model_unless_their_length_is_set(
    words, length, of_32_positions
):
    words = [word.replace("SHORT", of_32_positions) for word in words]
    options = make_verb_parser("pretrain").parse_args(
        ["--corpus", "a.txt", "--run-dir", "run", *words]
    )
    made = resolving.pretrain_settings(options)
    assert made.corpus.sequence_length == length


def test_pkd_starts_from_the_fine_tuned_teacher_where_no_other_is_known(
    finished_run, tmp_path, caplog
):
    caplog.set_level(logging.INFO, "kdkit")
    made_by_others = finished_run / "teacher_run" / "teacher"
    made = settings("pkd", made_by_others)
    assert (made.pretrained, made.student.copy_from) == (None, "teacher")
    assert "is not recorded" in caplog.text
    gone = tmp_path / "teacher_run"
    shutil.copytree(finished_run / "teacher_run", gone)
    write_json(gone / "config.json", {"model": {"checkpoint": "/gone/bert"}})
    assert settings("pkd", gone).student.copy_from == "teacher"
    assert "is missing (/gone/bert)" in caplog.text
    write_json(
        gone / "config.json", {"model": {"checkpoint": str(made_by_others)}}
    )
    changed = RunDirectory(gone)
    changed.filter_events(lambda event: not isinstance(event, Inputs))
    changed.log(Inputs(digests={"model": "0" * 16}))
    assert settings("pkd", gone).student.copy_from == "teacher"
    assert f"has changed since ({made_by_others})" in caplog.text


@pytest.mark.parametrize(
    ("words", "epochs"),
    [
        ([], 32),  # 1,000 updates, 32 per epoch
        (["--batch-size", "100"], 50),  # the most epochs, 500 updates
        (["--batch-size", "8"], 8),
        (["--epochs", "2"], 2),
        (["--set", "stages.0.epochs=2"], 2),
        (["--parity", "pkd"], 4),
        (["--max-train", "32000"], 4),
    ],
)
def test_stages_on_small_tables_have_enough_updates(fine_tuned, words, epochs):
    rows = "1000"
    if words[:1] == ["--max-train"]:
        words, rows = [], words[1]
    made = settings(
        "pkd", fine_tuned, "--control", *words, f"data.max_train_rows={rows}"
    )
    assert made.stages[0].epochs == made.control[0].epochs == epochs


def test_unlabelled_texts_are_enough_updates(fine_tuned, tmp_path):
    (tmp_path / "more.txt").write_text("text\n")
    more = ["--unlabeled", str(tmp_path / "more.txt")]
    made = settings("pkd", fine_tuned, *more, "data.max_train_rows=1000")
    assert made.stages[0].epochs == 4


def test_a_recipe_that_learns_from_text_needs_the_pretrained_encoder(
    finished_run, tmp_path
):
    made_by_others = finished_run / "teacher_run" / "teacher"
    text = tmp_path / "text.txt"
    text.write_text("some words\n")
    with pytest.raises(UsageError, match="is not recorded. Pass --pretrained"):
        settings("distilbert", made_by_others, "--corpus", str(text))


def test_settings_of_a_control_have_the_names_of_config_json(finished_run):
    words = ["--control", "--set", "control.fine_tuning.learning_rate=0.5"]
    words += ["--set", "stages.0.epochs=7"]
    made = settings("tinybert", finished_run, *words)
    (control,) = made.control
    assert control.learning_rate == 0.5
    assert control.epochs == sum(stage.epochs for stage in made.stages)


def compiled(folder, rows, *words, run_dir="run"):
    """What XLA compiles of a distillation of one stage on so many rows."""
    place = folder / "SST-2"
    place.mkdir(exist_ok=True)
    lines = ["sentence\tlabel", *["fine\t1"] * rows, ""]
    (place / "train.tsv").write_text("\n".join(lines))
    options = make_verb_parser("distill").parse_args(
        ["pkd", "--task", "sst2", "--data-dir", str(folder), "--teacher", "t"]
        + ["--student", "s", "--run-dir", str(run_dir)]
        + ["--set", "stages.0.batch_size=1", "--set", "stages.0.epochs=2"]
        + list(words)
    )
    return resolving.distill_settings(options).jit_compile


def test_short_runs_compile_the_update_alone(tmp_path, monkeypatch):
    """Below 2,000 updates a stage, on CPUs, unless another choice is made."""
    assert compiled(tmp_path, 999) == "update"
    assert compiled(tmp_path, 1000) is True
    few = ["--set", "data.max_train_rows=999"]
    assert compiled(tmp_path, 1000, *few) == "update"
    for value in (True, False):
        word = f"jit_compile={str(value).lower()}"
        assert compiled(tmp_path, 999, "--set", word) is value
    monkeypatch.setattr(compiling, "DRIVERS", (tmp_path,))
    monkeypatch.setattr(
        compiling.tf.config, "list_physical_devices", lambda kind: [kind]
    )
    assert compiled(tmp_path, 999) is True


def test_a_run_that_was_begun_compiles_what_it_did(tmp_path):
    for value in (True, "update"):
        path = tmp_path / f"run_{value}"
        path.mkdir()
        write_json(path / "config.json", {"jit_compile": value})
        for rows in (10, 1000):
            assert compiled(tmp_path, rows, run_dir=path) == value
