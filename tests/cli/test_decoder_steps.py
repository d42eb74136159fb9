"""LightPAFF on text as one command: its runs and their inputs."""

import json
import pathlib

import pytest
from kit.helpers import decoder

from kdkit import models
from kdkit.cli.main import main
from kdkit.runs.pipeline import Pipeline
from kdkit.runs.settings import without_changeable
from kdkit.settings import to_dict


@pytest.fixture
def runs(monkeypatch):
    """What would be run: (place, settings) in order."""
    made = []

    def note(pipeline, force, findings):
        made.extend((step.place, step.settings) for step in pipeline.steps)

    monkeypatch.setattr(Pipeline, "run", note)
    return made


def distill(*arguments):
    return main(
        ["distill", "lightpaff", "--model", "gpt2", "--run-dir", "run"]
        + list(map(str, arguments))
    )


ALL = (
    "--decoder", "gpt2_medium_en", "--vocabulary-size", 300,
    "--corpus", "general.txt", "--task-text", "task.txt",
    "--task-held-out", "held_out.txt",
)  # fmt: skip


@pytest.fixture
def saved(text_files):
    """A decoder with a tokenizer of its own."""

    def save(name, text=None):
        text = text or (text_files / "general.txt").read_text()
        tokenizer = models.train_byte_pairs([text], 262)
        model = decoder(1, vocabulary_size=262)
        models.save_language_model(model, tokenizer, text_files / name, 12)
        return text_files / name

    return save


def test_four_runs_follow_each_other(text_files, runs):
    assert distill(*ALL, "--one-document") == 0
    places = [place.relative_to(place.parents[0]) for place, _ in runs]
    assert list(map(str, places)) == [
        "pretrained_run", "teacher_run", "general_run", "run",
    ]  # fmt: skip
    pretrained, teacher, general, student = (settings for _, settings in runs)
    assert pretrained.vocabulary_size == 300
    assert pretrained.model.num_layers == 24
    assert pretrained.teacher is None
    inside = {place.name: str(place.resolve()) for place, _ in runs}
    assert teacher.model.checkpoint == inside["pretrained_run"]
    assert teacher.teacher is None
    assert general.teacher == inside["pretrained_run"]
    assert general.model.num_layers == 4
    assert student.model.checkpoint == inside["general_run"]
    assert student.teacher == inside["teacher_run"]
    on_general, on_task = pretrained.corpus, teacher.corpus
    assert general.corpus == on_general
    assert student.corpus == on_task
    assert not on_general.one_document
    assert on_task.one_document
    assert [stage.soft_label_weight for stage in general.stages] == [0.4]
    assert [stage.name for stage in student.stages] == ["fine_tuning"]
    assert not teacher.stages[0].objectives


def test_settings_are_of_the_step_that_they_name(text_files, runs):
    sets = {
        "stages.0.epochs": 7,
        "general.stages.0.epochs": 2,
        "pretrained.model.num_layers": 6,
        "corpus.sequence_length": 64,
        "teacher.corpus.sequence_length": 32,
        "jit_compile": "false",
    }
    changes = [
        word
        for field, value in sets.items()
        for word in ("--set", f"{field}={value}")
    ]
    assert distill(*ALL, *changes, "--seed", 3) == 0
    pretrained, teacher, general, student = (s for _, s in runs)
    assert student.stages[0].epochs == 7
    assert general.stages[0].epochs == 2
    assert teacher.stages[0].epochs == 3
    assert pretrained.model.num_layers == 6
    lengths = [s.corpus.sequence_length for _, s in runs]
    assert lengths == [64, 32, 64, 64]
    assert [s.seed for _, s in runs] == [0, 0, 3, 3]
    assert not any(s.jit_compile for _, s in runs)


def test_a_checkpoint_stands_for_a_step(text_files, runs, saved):
    pretrained, teacher = saved("pretrained"), saved("teacher")
    arguments = ["--task-text", "task.txt", "--set"]
    arguments += ["corpus.sequence_length=12"]
    assert (
        distill("--teacher", teacher, "--general", pretrained, *arguments) == 0
    )
    ((_, student),) = runs
    assert student.teacher == str(teacher)
    assert student.model.checkpoint == str(pretrained)
    runs.clear()
    assert (
        distill(
            "--pretrained", pretrained, "--corpus", "general.txt", *arguments
        )
        == 0
    )
    assert [place.name for place, _ in runs] == [
        "teacher_run", "general_run", "run",
    ]  # fmt: skip


TRANSLATE = (
    "--model", "mass", "--decoder", "mass_6_layer", "--vocabulary-size", 400,
    "--corpus", "general.txt", "task.txt", "--languages", "en", "de",
    "--pairs", "general.txt", "task.txt",
)  # fmt: skip


def test_an_encoder_decoder_learns_sentences_and_then_pairs(text_files, runs):
    held_out = ["--task-held-out", "held_out.txt", "task.txt"]
    assert distill(*TRANSLATE, *held_out) == 0
    pretrained, teacher, general, student = (settings for _, settings in runs)
    for settings in (pretrained, general):
        assert settings.corpus.spans.share == 0.5
        assert settings.corpus.held_out == ()
    for settings in (teacher, student):
        assert settings.corpus.languages == ("en", "de")
        names = [pathlib.Path(file).name for file in settings.corpus.held_out]
        assert names == ["held_out.txt", "task.txt"]
    assert pretrained.model.mass.decoder_num_layers == 6
    assert general.model.mass.decoder_num_layers == 4
    assert [stage.soft_label_weight for stage in general.stages] == [0.7]
    assert not teacher.stages[0].objectives
    assert student.stages[0].objectives
    assert {settings.jit_compile for _, settings in runs} == {"update"}


@pytest.mark.parametrize("third", ["de", "fr"])
def test_sentences_have_further_files_and_languages(third, text_files, runs):
    words = [*TRANSLATE[:7], "general.txt", "task.txt", "held_out.txt"]
    words += ["--languages", "en", "de", third, *TRANSLATE[-3:]]
    assert distill(*words) == 0
    (_, pretrained), (_, teacher), *_ = runs
    assert pretrained.corpus.languages == ("en", "de", third)
    assert teacher.corpus.languages == ("en", "de")


def test_the_file_of_the_last_step_alone_makes_all_of_them_again(
    text_files, runs
):
    assert distill(*ALL, "--set", "general.seed=7") == 0
    first = dict(runs)
    last = first[pathlib.Path("run")]
    (text_files / "config.json").write_text(json.dumps(to_dict(last)))
    runs.clear()
    assert main(["distill", "--config", "config.json", "--run-dir", "new"]) == 0
    again = dict(runs)
    assert [place.name for place in again] == [
        "pretrained_run", "teacher_run", "general_run", "new"
    ]  # fmt: skip
    old, new = (str(text_files / name) for name in ("run", "new"))
    for (_, before), (_, after) in zip(
        first.items(), again.items(), strict=True
    ):
        moved = json.loads(
            json.dumps(to_dict(before)).replace(f"{old}/", f"{new}/")
        )
        assert without_changeable(moved) == without_changeable(to_dict(after))
