"""Sweeps: fields by name, every choice a run, the best on dev first."""

import dataclasses
import itertools
import json
import shutil

import pytest

from kdkit.cli.main import main
from kdkit.cli.sweep import split_values
from kdkit.errors import UsageError
from kdkit.recipes import RECIPES, lightpaff
from kdkit.recipes.ablations import SEARCHES
from kdkit.runs import smoke
from kdkit.runs.sweep import OF_DEV, Axis, choices, find_field, validate_axes
from kdkit.training import CorpusSettings

GRID = ("--over", "temperature=1.0,5.0", "learning_rate=1e-3")


def command(finished_run, directory, *words):
    return [
        "sweep", "vanilla_kd", "--task", "sentiment",
        "--teacher", str(finished_run / "teacher_run"),
        "--pretrained", str(finished_run / "teacher_run"),
        "--set", "stages.0.epochs=1", "--set", "data.max_train_rows=32",
        "--set", "data.sequence_length=32", "--set", "jit_compile=false",
        "--run-dir", str(directory), *words,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def swept(finished_run, tmp_path_factory):
    """A grid of two settings, and what the command printed last."""
    directory = tmp_path_factory.mktemp("sweeps") / "grid"
    assert main(command(finished_run, directory, *GRID)) == 0
    return directory


@pytest.mark.large
def test_every_choice_is_a_run_with_its_values(swept):
    results = json.loads((swept / "sweep.json").read_text())
    assert results["split"] == "dev"
    assert len(results["trials"]) == 2
    chosen = set()
    for trial in results["trials"]:
        config = json.loads((swept / trial["run"] / "config.json").read_text())
        (stage,) = config["stages"]
        (objective,) = stage["objectives"]
        chosen.add((objective["loss"]["temperature"], stage["learning_rate"]))
        assert chosen >= {tuple(trial["values"].values())}
    assert chosen == {(1.0, 1e-3), (5.0, 1e-3)}


@pytest.mark.large
def test_best_on_dev_comes_first(swept):
    trials = json.loads((swept / "sweep.json").read_text())["trials"]
    values = [trial["accuracy"] for trial in trials]
    assert values == sorted(values, reverse=True)
    for trial in trials:
        lines = (swept / trial["run"] / "metrics.jsonl").read_text()
        events = [json.loads(line) for line in lines.splitlines()]
        (finished,) = [e for e in events if e["event"] == "run_finished"]
        best = finished["best"]["student"]["metrics"]["accuracy"]
        assert trial["accuracy"] == best


@pytest.mark.large
def test_a_finished_sweep_needs_no_models(
    swept, finished_run, tmp_path, capsys
):
    """They may have been removed for room."""
    copy = tmp_path / "grid"
    shutil.copytree(swept, copy)
    for trial in (copy / "trials").iterdir():
        shutil.rmtree(trial / "student")
        shutil.rmtree(trial / "checkpoints")
    assert main(command(finished_run, copy, *GRID)) == 0
    assert capsys.readouterr().out.count("nothing to do") == 2


def test_choices_are_all_combinations_in_order_or_some_by_seed():
    axes = Axis("a", (1, 2, 3)), Axis("b", ("x", "y")), Axis("c", ([1], None))
    every = [
        dict(zip("abc", values, strict=True))
        for values in itertools.product(*(axis.values for axis in axes))
    ]
    assert choices(axes) == every
    drawn = choices(axes, 5, seed=1)
    assert drawn == choices(axes, 5, seed=1)
    assert drawn != choices(axes, 5, seed=2)
    assert len({json.dumps(choice) for choice in drawn}) == 5
    assert all(choice in every for choice in drawn)
    # No more than there are, and as many axes as one likes.
    assert len(choices(axes, 100)) == len(every)
    many = [Axis(str(number), (0, 1)) for number in range(60)]
    assert len(choices(tuple(many), 3)) == 3


def test_the_papers_search_names_settings_that_exist():
    for steps in SEARCHES.values():
        for step in steps:
            settings = smoke.distillation(RECIPES[step.recipe])
            for name, values in step.over.items():
                Axis(find_field(settings, name), values)


def test_a_whole_path_is_no_end_of_another():
    settings = smoke.distillation(RECIPES["distilbert"])
    assert find_field(settings, "seed") == "seed"


@pytest.mark.parametrize("field", OF_DEV)
def test_what_is_measured_is_no_axis(field):
    settings = smoke.distillation(RECIPES["vanilla_kd"])
    assert find_field(settings, field) == field
    with pytest.raises(UsageError, match=f"{field} decides what is measured"):
        validate_axes(settings, (Axis(field, ("sst2", "cola")),))


@pytest.mark.parametrize(
    "field", ["masking.share", "masking.whole_words", "column", "detokenizer"]
)
def test_what_decides_the_masked_tokens_is_no_axis(field):
    with pytest.raises(UsageError, match=f"{field} decides what"):
        validate_axes(smoke.PRETRAINING, (Axis(f"corpus.{field}", (1, 2)),))


def test_texts_of_training_are_no_measure_unless_they_are_held_out_too():
    axes = (Axis("corpus.max_texts", (100, 200)),)
    with pytest.raises(UsageError, match="max_texts decides what"):
        validate_axes(smoke.PRETRAINING, axes)
    corpus = CorpusSettings(files=("a.txt",), held_out=("b.txt",))
    validate_axes(dataclasses.replace(smoke.PRETRAINING, corpus=corpus), axes)


def test_spans_and_vocabularies_are_no_axes():
    first, *_ = smoke.on_text(lightpaff.MASS, "run").steps
    for field, values in (
        ("corpus.spans.share", (0.3, 0.5)),
        ("vocabulary_size", (300, 400)),
        ("corpus.held_out.0", ("a.txt", "b.txt")),
        ("corpus.sequence_length", (16, 32)),
    ):
        with pytest.raises(UsageError, match=f"{field} decides what"):
            validate_axes(first.settings, (Axis(field, values),))


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("stages.0.learning_rate", "stages.intermediate_layer.learning_rate"),
        (
            "stages.1.objectives.0.weight",
            "stages.prediction_layer.objectives.soft_cross_entropy.weight",
        ),
        ("student.num_layers", None),
        ("teacher.stages.0.epochs", "teacher.stages.fine_tuning.epochs"),
    ],
)
def test_a_field_is_named_as_set_names_it(name, field):
    settings = smoke.distillation(RECIPES["tinybert"])
    assert find_field(settings, name) == (field or name)


def test_values_with_commas_within_are_one():
    """As --set takes them: a layer map next to the name of one."""
    assert split_values('{"1": 2, "2": 4},uniform,[1,2],"a,b"') == (
        ['{"1": 2, "2": 4}', "uniform", "[1,2]", '"a,b"']
    )
    assert split_values('a",b') == ['a"', "b"]
