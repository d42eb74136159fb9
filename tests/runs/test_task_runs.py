"""Runs on a task: what they log of it is what their models compute.

Teachers in a cache, several teachers, unlabelled text, rounding students.
"""

import contextlib
import json
import math
import shutil

import keras_hub
import numpy as np
import pytest
from kit.adapter import command, resolved
from kit.helpers import eager_steps, log_softmax, read_events
from kit.runs import LENGTH, RUNS, TAUGHT, settings, stage

from kdkit import data, models, taps, tasks
from kdkit.config.runs import ADAPTER
from kdkit.quantization import read_quantization

TASK = tasks.get_task("sst2")


def logits(workspace, path, changed=lambda model: contextlib.nullcontext()):
    """Labels of dev and a model's logits."""
    loaded = models.load_classifier(path, TASK.head)
    examples = TASK.load("dev", workspace.path / "data")
    rows = TASK.encode(examples, loaded.tokenizer, LENGTH)
    changed(loaded.model)
    batches = data.BatchStream(rows, data.Buckets(16)).evaluation()
    found = [
        (y, loaded.model(taps.select_inputs(loaded.model, x)))
        for x, y in batches
    ]
    return (np.concatenate(part) for part in zip(*found, strict=True))


def best(run, arm="student"):
    """The epoch whose weights a run left, and what it measured there."""
    (finished,) = read_events(run, "run_finished")
    found = finished["best"][arm]
    (epoch,) = (
        event["logs"]
        for event in read_events(run, "epoch")
        if (event["arm"], event["stage"], event["epoch"])
        == (arm, found["stage"], found["epoch"])
    )
    return found, epoch


def test_losses_and_agreement_on_dev_are_those_of_the_saved_student(workspace):
    run = workspace.make("vanilla_kd")
    found, logged = best(run)
    _, taught = logits(workspace, workspace.path / "teacher")
    labels, student = logits(workspace, run)

    def divergence(temperature):
        of_teacher = log_softmax(np.float64(taught) / temperature)
        of_student = log_softmax(np.float64(student) / temperature)
        return (np.exp(of_teacher) * (of_teacher - of_student)).sum(-1).mean()

    assert found["agreement"]["kl_divergence"] == pytest.approx(
        divergence(1), rel=1e-4
    )
    chosen = log_softmax(np.float64(student))[np.arange(len(labels)), labels]
    assert logged["val_hard_label_loss"] == pytest.approx(
        -chosen.mean(), rel=1e-4
    )
    # Less the teacher's entropy, as the event says.
    stages = json.loads((run / "config.json").read_text())["stages"]
    (config,) = stages.values()
    loss = next(iter(config["objectives"].values()))["loss"]
    assert loss["scale_by_temperature_squared"]
    assert logged["val_soft_cross_entropy"] == pytest.approx(
        loss["temperature"] ** 2 * divergence(loss["temperature"]), rel=1e-4
    )


def test_epochs_name_the_losses_without_the_teachers_entropy(workspace):
    epochs = read_events(workspace.make("tinybert"), "epoch")
    assert [epoch.get("less_teacher_entropy") for epoch in epochs] == [
        *(None, None),
        *(["soft_cross_entropy", "loss"],) * 2,
    ]


def test_a_cache_gives_the_losses_of_the_teacher_that_runs(workspace):
    plain, cached = (
        read_events(workspace.make(name), "epoch")
        for name in ("tinybert", "cached")
    )
    for one, other in zip(plain, cached, strict=True):
        assert other["logs"] == pytest.approx(one["logs"], rel=1e-4)
    (event,) = read_events(workspace.make("cached"), "teacher_cache")
    (errors,) = event["relative_errors"]
    assert {"logits", "attention_logits/3", "hidden_states/0"} <= set(errors)
    assert set(errors.values()) == {0.0}


def test_teachers_share_a_cache(workspace, tmp_path):
    workspace.make("cached")
    cache = shutil.copytree(workspace.path / "cache", tmp_path / "cache")
    fill = ["cache", *RUNS["cached"].words[1:]]
    fill[fill.index("@cache")] = cache
    made = {"@teacher": workspace.make("fine_tuned")}
    others = [made.get(word, word) for word in fill]
    for words, runs in ((others, True), (fill, False), (others, False)):
        answer = command(workspace.words(words))
        assert ("running the teacher on 48" in answer.out) is runs
        assert "for all 48 examples are cached" in answer.out


def test_a_rounded_cache_reports_its_error(workspace, tmp_path):
    words = ("cache", "vanilla_kd", *TAUGHT, "--num-layers", "2")
    cache = ("--cache", tmp_path / "cache", "--cache-precision", "int8")
    printed = workspace.run(*words, *cache)
    answer = json.loads(printed.splitlines()[-1])
    ((name, error),) = answer["relative_errors"][0].items()
    assert name == "logits"
    assert 0 < error < 0.01


@pytest.fixture(scope="module")
def own_data(workspace, tmp_path_factory):
    """The task with a test split."""
    folder = tmp_path_factory.mktemp("transfer")
    shutil.copytree(workspace.path / "data", folder / "data")
    (folder / "data" / "SST-2" / "test.tsv").write_text(
        "sentence\tlabel\na text of test\t1\n"
    )
    return folder


PER_LABELED = 0.5


@pytest.fixture(scope="module")
def transfer(workspace, own_data):
    """From two teachers to a BiLSTM with word vectors, also on own text."""
    teachers = ("@teacher", workspace.make("fine_tuned"))
    dev = TASK.load("dev", own_data / "data").texts[0][3]
    text, vectors = own_data / "text.txt", own_data / "vectors.txt"
    lines = [f"plot {'not ' * number}good" for number in range(30)]
    text.write_text("\n".join([*lines, dev.upper(), "A text of test"]))
    vectors.write_text("plot 1 2 3 4 5 6\n")
    run = own_data / "run"
    words = [
        *("distill", "distilled_bilstm", "--task", "sst2"),
        *("--data-dir", own_data / "data", "--teacher", *teachers),
        *("--teacher-weights", "3", "1", "--unlabeled", text),
        *("--unlabeled-per-labeled", PER_LABELED, "--control"),
        *stage("prediction_layer", epochs=1),
        *settings(
            training__jit_compile="false",
            data__sequence_length=LENGTH,
            student__units=4,
            student__embedding_dim=6,
            student__intermediate_dim=8,
            student__word_vectors=vectors,
        ),
        *("--run-dir", run),
    ]
    with eager_steps():
        workspace.run(*words)
    return run


def test_unlabelled_texts_of_dev_and_test_are_left_out(transfer):
    (event,) = read_events(transfer, "unlabeled")
    assert (event["rows"], event["dropped"]) == (32, 2)
    assert event["compared_with"] == ["dev", "test"]


def test_an_epoch_has_the_stated_share_and_the_control_as_many_updates(
    transfer,
):
    epochs = {event["arm"]: event for event in read_events(transfer, "epoch")}
    steps = {arm: epoch["step"] for arm, epoch in epochs.items()}
    updates = math.ceil(48 * (1 + PER_LABELED) / 16)
    assert steps == {"student": updates, "control": updates}
    assert "logit_mse" in epochs["student"]["logs"]
    assert "logit_mse" not in epochs["control"]["logs"]


def test_every_teacher_is_measured_and_agreement_is_with_the_first(
    transfer, workspace
):
    first, second, student, _ = read_events(transfer, "evaluation")
    arms = [event["arm"] for event in (first, second, student)]
    assert arms == ["teacher", "teacher_2", "student"]
    for event, path in (
        (first, workspace.path / "teacher"),
        (second, workspace.make("fine_tuned")),
    ):
        labels, found = logits(workspace, path)
        assert event["metrics"] == TASK.compute_metrics(labels, found)
    _, taught = logits(workspace, workspace.path / "teacher")
    _, learned = logits(workspace, transfer)
    assert student["agreement"] == pytest.approx(
        tasks.agreement(taught, learned), rel=1e-4
    )


def test_classes_of_a_bilstm_are_named_and_must_be_the_tasks(transfer):
    file = transfer / "student" / "labels.json"
    names = tuple(json.loads(file.read_text())["classes"])
    models.load_classifier(transfer, models.Head("sequence", 2, names))
    with pytest.raises(ValueError, match=names[0]):
        models.load_classifier(
            transfer, models.Head("sequence", 2, names[::-1])
        )


@pytest.mark.parametrize(
    ("test", "named"),
    [("", "unlabelled"), ("index\tsentence\n0\ta\tb\n", "test.tsv, line 2")],
    ids=["all of dev", "malformed"],
)
def test_text_that_cannot_be_compared_or_used_is_refused(
    test, named, workspace, tmp_path
):
    shutil.copytree(workspace.path / "data", tmp_path / "data")
    if test:
        (tmp_path / "data" / "SST-2" / "test.tsv").write_text(test)
    text = tmp_path / "text.txt"
    text.write_text(TASK.load("dev", tmp_path / "data").texts[0][0])
    words = [
        tmp_path / "data" if word == "@data" else word
        for word in RUNS["pkd"].words
    ]
    run = ("--unlabeled", text, "--run-dir", tmp_path / "run")
    answer = command(workspace.words([*words, *run]))
    assert answer.status == 2
    assert named in answer.err


def test_a_student_rounds_again_as_its_run_measured_it(workspace):
    run = workspace.make("quantized")
    (rounding,) = run.glob("student/quantization.json")
    _, exact = logits(workspace, run)
    labels, rounded = logits(workspace, run, read_quantization(rounding).apply)
    assert (rounded != exact).any()
    found, _ = best(run)
    assert found["stage"] == "quantization"
    assert found["metrics"] == TASK.compute_metrics(labels, rounded)
    _, taught = logits(workspace, workspace.path / "teacher")
    assert found["agreement"] == pytest.approx(
        tasks.agreement(taught, rounded), rel=1e-3
    )
    plain = keras_hub.models.TextClassifier.from_preset(str(run / "student"))
    whole = models.load_classifier(run, 2).model
    for one, other in zip(
        plain.get_weights(), whole.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("recipe", "task", "losses"),
    [
        ("pkd", "sst2", ["soft_cross_entropy", "patience_mse"]),
        # What the recipe compares through a projection is left out.
        ("tinybert", "sst2", ["soft_cross_entropy", "attention_mse"]),
        ("vanilla_kd", "stsb", ["logit_mse"]),
        ("fine_tuning", "sst2", []),
    ],
)
def test_the_stage_that_rounds_follows_those_of_the_recipe(
    recipe, task, losses, workspace
):
    words = (
        *("distill", recipe, "--task", task, "--data-dir", "@data"),
        *("--teacher", "@teacher", "--run-dir", "no_run", "--control"),
        *("--quantize", "int4", "--set", "stages.quantization.epochs=2"),
    )
    found = resolved(workspace.words(words))
    *before, last = found["stages"].values()
    assert before
    assert not any(one["quantize"] for one in before)
    assert (*found["stages"],)[-1] == "quantization"
    assert last["quantize"] == "int4"
    assert last["epochs"] == 2
    assert [
        one["loss"]["name"] for one in last["objectives"].values()
    ] == losses
    assert (last["hard_label_weight"] == 1) == (not losses)
    *_, control = ADAPTER.validate_python(found).arms["control"]
    assert (control.quantize, control.objectives) == ("int4", ())
