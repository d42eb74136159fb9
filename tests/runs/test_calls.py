"""`kdkit.distill`: a recipe in one call, with the command line's runs."""

import gc
import json
import re

import keras_hub
import numpy as np
import pandas
import pytest

import kdkit
from kdkit.cli.arguments import Call
from kdkit.cli.main import main
from kdkit.errors import UsageError
from kdkit.runs.given import table_columns

STUDENT = {
    "num_layers": 1,
    "hidden_dim": 8,
    "num_heads": 4,
    "intermediate_dim": 16,
    "max_sequence_length": 32,
}
SETTINGS = {
    "data.max_train_rows": 32,
    "data.sequence_length": 32,
    "jit_compile": False,
}
SIZES = {
    **SETTINGS,
    **{f"student.{name}": size for name, size in STUDENT.items()},
}
OF_COMMANDS = ("kdkit", "Next:", "done in")
CHANGING = ("time", "seconds", "own_digest", "findings")


@pytest.fixture
def teacher(finished_run):
    return finished_run / "teacher_run"


def events(run):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [
        {
            name: value
            for name, value in json.loads(line).items()
            if name not in CHANGING
        }
        for line in lines
    ]


def settings_in(run):
    config = json.loads((run / "config.json").read_text())
    del config["provenance"]
    return config


def test_a_call_is_the_run_of_the_command_line(teacher, tmp_path, capsys):
    words = [f"{path}={json.dumps(value)}" for path, value in SIZES.items()]
    command = ["distill", "vanilla_kd", "--task", "sentiment", "--seed", "3"]
    command += ["--student", "tinybert_4_layer_en_uncased", "--epochs", "1"]
    places = ["--teacher", str(teacher), "--run-dir", str(tmp_path / "command")]
    assert main([*command, *places, *words]) == 0
    by_command = capsys.readouterr().out.splitlines()
    result = kdkit.distill(
        teacher,
        "tinybert_4_layer_en_uncased",
        "sentiment",
        "vanilla_kd",
        tmp_path / "call",
        epochs=1,
        seed=3,
        settings=SIZES,
    )
    assert settings_in(tmp_path / "call") == settings_in(tmp_path / "command")
    logged = events(tmp_path / "call")
    assert logged == events(tmp_path / "command")
    assert result.metrics == logged[-1]["best"]["student"]["metrics"]
    by_call = capsys.readouterr().out.splitlines()
    for line in by_command:
        shown = line.replace("command", "call")
        assert shown in by_call or any(word in line for word in OF_COMMANDS)


@pytest.mark.large
def test_models_in_memory_and_a_temporary_run(teacher, finished_run):
    teacher = keras_hub.models.TextClassifier.from_preset(
        str(teacher / "teacher")
    )
    student = kdkit.models.student(STUDENT, teacher=teacher)
    student.preprocessor = None  # the teacher's is used
    before = student.get_weights()
    call = {
        "data": "sentiment",
        "recipe": "vanilla_kd",
        "epochs": 1,
        "settings": SETTINGS,
        "verbose": 0,
    }
    with kdkit.distill(teacher, student, **call) as result:
        for one, other in zip(before, student.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)
        other = kdkit.Distillation(finished_run)
        assert result.teacher_metrics == other.teacher_metrics
        place, kept = result.run_dir, result.student
    assert not place.exists()
    assert kept.predict(["fine"], verbose=0).shape == (1, 2)


def test_a_result_has_what_its_run_has_logged(finished_run):
    result = kdkit.Distillation(finished_run)
    logged = events(finished_run)
    best = logged[-1]["best"]
    assert result.metrics == best["student"]["metrics"]
    assert result.control_metrics == best["control"]["metrics"]
    (evaluated,) = (
        event["metrics"]
        for event in logged
        if (event["event"], event.get("arm")) == ("evaluation", "teacher")
    )
    assert result.teacher_metrics == evaluated
    assert str(result.metrics) in repr(result)


def test_a_temporary_run_is_removed_with_its_result(tmp_path):
    (tmp_path / "run").mkdir()
    result = kdkit.Distillation(tmp_path / "run", is_temporary=True)
    del result
    gc.collect()
    assert not (tmp_path / "run").exists()


def sentences(number):
    examples = kdkit.data.load_sentiment("train")
    texts, numbers = examples.texts[0][:number], examples.labels[:number]
    return list(texts), [("negative", "positive")[n] for n in numbers]


def test_models_and_data_in_memory_are_saved_in_the_run(
    teacher, tmp_path, capsys
):
    texts, labels = sentences(40)
    model = keras_hub.models.TextClassifier.from_preset(
        str(teacher / "teacher")
    )
    call = {
        "teacher": model,
        "student": kdkit.models.student(STUDENT, teacher=model),
        "recipe": "vanilla_kd",
        "epochs": 1,
        "labels": sorted(set(labels)),
        "run_dir": tmp_path / "run",
        "settings": {**SETTINGS, "data.max_train_rows": None},
        "verbose": 0,
    }
    result = kdkit.distill(
        data={
            "train": pandas.DataFrame(
                {"review": texts[8:], "mark": labels[8:]}
            ),
            "dev": pandas.DataFrame({"review": texts[:8], "mark": labels[:8]}),
        },
        text_column="review",
        label_column="mark",
        **call,
    )
    lines = (tmp_path / "run/inputs/train.jsonl").read_text().splitlines()
    assert list(map(json.loads, lines)) == [
        {"text": text, "label": label}
        for text, label in zip(texts[8:], labels[8:], strict=True)
    ]
    # The same examples in another form are the same run.
    again = {
        "train": (texts[8:], labels[8:]),
        "dev": (np.array(texts[:8]), labels[:8]),
    }
    assert kdkit.distill(data=again, **call).metrics == result.metrics
    with pytest.raises(UsageError, match="other inputs: dev differs"):
        kdkit.distill(data={**again, "dev": (texts[:4], labels[:4])}, **call)
    assert main(["evaluate", str(tmp_path / "run")]) == 0
    *_, line = capsys.readouterr().out.splitlines()
    assert json.loads(line)["metrics"] == pytest.approx(result.metrics)


def test_columns_of_data_in_memory():
    assert table_columns(
        "data",
        ((["a", b"b"], np.array(["c", "d"])), np.array([1, 0])),
        None,
        None,
    ) == {"text": ["a", "b"], "text_pair": ["c", "d"], "label": [1, 0]}


def test_a_run_continues_only_with_its_models(teacher, finished_run, tmp_path):
    model = keras_hub.models.TextClassifier.from_preset(
        str(teacher / "teacher")
    )
    call = {
        "data": "sentiment",
        "recipe": "vanilla_kd",
        "run_dir": tmp_path / "run",
        "verbose": 0,
    }
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    with pytest.raises(UsageError, match="teacher differs from"):
        kdkit.distill(model, **call)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"contrl": True}, "argument 'contrl'. Expected one of: control, "),
        ({"smoke": True}, "argument 'smoke'"),
        ({"recipe": "tinbert"}, "'tinbert'. Expected one of: tinybert"),
        ({"settings": {"data.dev_splt": 1}}, "'dev_splt'"),
        ({"data": (["a", None], [0, 1])}, "None at 1"),
        ({"data": (["a", "b"], [0, float("nan")])}, "nan at 1"),
        ({"data": (["a", "b"], [[0, 1], [1, 0]])}, "[0, 1] at 0"),
    ],
    ids=str,
)
def test_a_mistake_is_told_by_its_name(change, named, tmp_path):
    call = {"data": "sentiment", "recipe": "vanilla_kd", **change}
    call["student"] = "tinybert_4_layer_en_uncased"
    with pytest.raises(UsageError, match=re.escape(named)):
        kdkit.distill("bert_base_en_uncased", run_dir=tmp_path / "run", **call)


def test_an_encoder_in_place_of_a_teacher_is_fine_tuned_first(tmp_path):
    call = Call(
        None, None, "sentiment", "pkd", {}, {"encoder": "bert_tiny_en_uncased"}
    )
    words = call.words(tmp_path)
    assert "--teacher" not in words
    assert "--encoder=bert_tiny_en_uncased" in words
