"""`kdkit.distill`: a recipe in one call, with the command line's runs."""

import gc
import json
import re

import keras_hub
import numpy as np
import pandas
import pytest
from kit.adapter import command
from kit.helpers import as_users, eager_steps, read_events
from kit.runs import LENGTH, RUNS

import kdkit

STUDENT = {
    "num_layers": 1,
    "hidden_dim": 8,
    "num_heads": 4,
    "intermediate_dim": 16,
    "max_sequence_length": 32,
}
SETTINGS = {"data.sequence_length": LENGTH, "training.jit_compile": False}
# Lines that name the command, or how long something took.
OF_COMMANDS = ("kdkit", "Next:", "done in")
CHANGING = ("time", "seconds", "findings")


def settings_of(words):
    """The `--set` of a command line as a dict."""
    values = dict(
        words[place + 1].split("=", 1)
        for place, word in enumerate(words)
        if word == "--set"
    )
    return {key: json.loads(value) for key, value in values.items()}


def contents(run):
    """A run's settings, and its events but for times."""
    config = json.loads((run / "config.json").read_text())
    del config["provenance"]
    events = [
        {key: event[key] for key in event if key not in CHANGING}
        for event in read_events(run)
    ]
    return config, events


def test_words_a_file_and_a_call_make_the_same_run(workspace, tmp_path, capsys):
    by_command = workspace.make("pkd")
    told = workspace.told("pkd")["out"].splitlines()
    with as_users(), eager_steps():
        result = kdkit.distill(
            workspace.path / "teacher",
            data="sst2",
            recipe="pkd",
            run_dir=tmp_path / "pkd",
            data_dir=workspace.path / "data",
            num_layers=2,
            settings=settings_of(RUNS["pkd"].words),
        )
    fields = {
        "recipe": "pkd",
        "teacher": str(workspace.path / "teacher"),
        "data.task": "sst2",
        "data.data_dir": str(workspace.path / "data"),
        "student.num_layers": 2,
        **settings_of(RUNS["pkd"].words),
    }
    lines = (f"{key} = {json.dumps(fields[key])}\n" for key in fields)
    (tmp_path / "pkd.toml").write_text("".join(lines))
    by_file = ["distill", tmp_path / "pkd.toml", "--run-dir", tmp_path / "file"]
    with as_users(), eager_steps():
        assert command(by_file).status == 0
    weights = "student/model.weights.h5"
    for run in (tmp_path / "pkd", tmp_path / "file"):
        assert contents(run) == contents(by_command)
        same = (run / weights).read_bytes()
        assert same == (by_command / weights).read_bytes()
    by_call = capsys.readouterr().out.splitlines()
    for line in told:
        shown = line.replace(str(by_command), str(tmp_path / "pkd"))
        assert shown in by_call or any(word in line for word in OF_COMMANDS)
    *_, end = read_events(by_command)
    assert result.metrics == end["best"]["student"]["metrics"]


def test_a_result_has_what_its_run_has_logged(workspace):
    run = workspace.make("vanilla_kd")
    result = kdkit.Distillation(run)
    (finished,) = read_events(run, "run_finished")
    assert result.metrics == finished["best"]["student"]["metrics"]
    assert result.control_metrics == finished["best"]["control"]["metrics"]
    teacher, *_ = read_events(run, "evaluation")
    assert result.teacher_metrics == teacher["metrics"]
    assert str(result.metrics) in repr(result)


def test_a_temporary_run_is_removed_with_its_result(tmp_path):
    (tmp_path / "run").mkdir()
    result = kdkit.Distillation(tmp_path / "run", is_temporary=True)
    del result
    gc.collect()
    assert not (tmp_path / "run").exists()


@pytest.fixture
def teacher(workspace):
    """The shared teacher, in memory."""
    path = str(workspace.path / "teacher")
    return keras_hub.models.TextClassifier.from_preset(path)


@pytest.fixture
def sentences(workspace):
    """Texts of the shared task, and names of their labels."""
    examples = kdkit.tasks.get_task("sst2").load(
        "train", workspace.path / "data"
    )
    names = [("negative", "positive")[n] for n in examples.labels]
    return list(examples.texts[0]), names


@pytest.mark.large
def test_models_in_memory_and_a_temporary_run(teacher, workspace):
    student = kdkit.models.student(STUDENT, teacher=teacher)
    student.preprocessor = None  # the teacher's is used
    before = student.get_weights()
    call = {
        "data": "sst2",
        "data_dir": workspace.path / "data",
        "recipe": "vanilla_kd",
        "epochs": 1,
        "settings": SETTINGS,
        "verbose": 0,
    }
    with kdkit.distill(teacher, student, **call) as result:
        for one, other in zip(before, student.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)
        other = kdkit.Distillation(workspace.make("vanilla_kd"))
        assert result.teacher_metrics == other.teacher_metrics
        place, kept = result.run_dir, result.student
    assert not place.exists()
    assert kept.predict(["fine"], verbose=0).shape == (1, 2)


def test_models_and_data_in_memory_are_saved_in_the_run(
    teacher, sentences, tmp_path
):
    texts, labels = sentences
    call = {
        "teacher": teacher,
        "student": kdkit.models.student(STUDENT, teacher=teacher),
        "recipe": "vanilla_kd",
        "epochs": 1,
        "labels": sorted(set(labels)),
        "run_dir": tmp_path / "run",
        "settings": SETTINGS,
        "verbose": 0,
    }
    frames = {
        name: pandas.DataFrame({"review": texts[part], "mark": labels[part]})
        for name, part in (("train", slice(8, 32)), ("dev", slice(8)))
    }
    columns = {"text_column": "review", "label_column": "mark"}
    with eager_steps():
        result = kdkit.distill(data=frames, **columns, **call)
    lines = (tmp_path / "run/inputs/train.jsonl").read_text().splitlines()
    assert list(map(json.loads, lines)) == [
        {"text": text, "label": label}
        for text, label in zip(texts[8:32], labels[8:32], strict=True)
    ]
    # The same examples in another form are the same run.
    again = {
        "train": (texts[8:32], labels[8:32]),
        "dev": (np.array(texts[:8]), labels[:8]),
    }
    assert kdkit.distill(data=again, **call).metrics == result.metrics
    with pytest.raises(ValueError, match="dev differs"):
        kdkit.distill(data={**again, "dev": (texts[:4], labels[:4])}, **call)
    answer = command(["evaluate", tmp_path / "run"])
    measured = json.loads(answer.out.splitlines()[-1])["metrics"]
    assert measured == pytest.approx(result.metrics)


def test_a_run_continues_only_with_its_models(teacher, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="teacher differs from"):
        kdkit.distill(
            teacher,
            data="sentiment",
            recipe="vanilla_kd",
            run_dir=tmp_path / "run",
            verbose=0,
        )


PAIRS = ((["a", b"b"], np.array(["c", "d"])), np.array([1, 0]))


def test_pairs_in_memory_have_two_columns(tmp_path):
    with pytest.raises(ValueError, match="nothing"):
        kdkit.distill(
            "bert_base_en_uncased",
            "tinybert_4_layer_en_uncased",
            data=PAIRS,
            recipe="vanilla_kd",
            run_dir=tmp_path / "run",
            settings={"nothing": 1},
        )
    lines = (tmp_path / "run/inputs/train.jsonl").read_text().splitlines()
    assert list(map(json.loads, lines)) == [
        {"text": "a", "text_pair": "c", "label": 1},
        {"text": "b", "text_pair": "d", "label": 0},
    ]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"contrl": True}, "'contrl'. Expected one of: control, "),
        ({"smoke": True}, "'smoke'"),
        ({"recipe": "tinbert"}, "'tinbert'. Expected one of: tinybert"),
        ({"settings": {"data.dev_splt": 1}}, "'dev_splt'"),
        ({"data": (["a", None], [0, 1])}, "None at 1"),
        ({"data": (["a", "b"], [0, float("nan")])}, "nan at 1"),
        ({"data": (["a", "b"], [[0, 1], [1, 0]])}, "[0, 1] at 0"),
        # An encoder is fine-tuned first: no teacher is missing.
        (
            {
                "teacher": None,
                "encoder": "bert_tiny_en_uncased",
                "settings": {"steps.teacher.nothing": 1},
            },
            "'nothing'",
        ),
    ],
    ids=str,
)
def test_a_mistake_is_told_by_its_name(change, named, tmp_path):
    call = {
        "teacher": "bert_base_en_uncased",
        "student": "tinybert_4_layer_en_uncased",
        "data": "sentiment",
        "recipe": "vanilla_kd",
        **change,
    }
    with pytest.raises(ValueError, match=re.escape(named)):
        kdkit.distill(run_dir=tmp_path / "run", **call)
