"""Sweeps: one run per choice of some fields, ranked by a metric."""

import dataclasses
import json
import math
import pathlib
import random
from collections.abc import Callable

from kdkit.config.runs import AnyRun
from kdkit.errors import UsageError, unknown
from kdkit.io.files import write_text
from kdkit.runs.directory import Run
from kdkit.runs.events import RunFinished
from kdkit.settings import from_dict

TRIALS = "trials"


@dataclasses.dataclass(frozen=True)
class Yardstick:
    """The metric that ranks the trials."""

    metric: str
    direction: str
    split: str
    what: str

    @property
    def where(self) -> str:
        """The data that is measured on, in words."""
        return "text held out" if self.split == "held_out" else self.split

    def rank(self, trial: "Trial") -> float:
        """Returns a number that is smallest for the best trial."""
        return -trial.metric if self.direction == "max" else trial.metric


@dataclasses.dataclass(frozen=True)
class Trial:
    """A finished run of a sweep."""

    values: dict
    path: pathlib.Path
    metric: float


def yardstick(config: AnyRun) -> Yardstick:
    """Returns the metric that runs with this config are ranked by."""
    from kdkit.training.tasks import open_task

    if config.kind == "task":
        task = open_task(config.data)
        return Yardstick(task.primary_metric, "max", "dev", task.name)
    if config.kind == "text":
        return Yardstick("perplexity", "min", "held_out", "text")
    raise UsageError("A sweep ranks runs on a task or on text.")


def run_trial(
    config: AnyRun, values: dict, directory, announce, force: bool = False
) -> Trial:
    """Runs one choice of values in `DIR/trials/`."""
    from kdkit.runs.run import run

    path = pathlib.Path(directory) / TRIALS / trial_name(values)
    announce(f"{path}")
    done = run(with_values(config, values), path, force, needs_models=False)
    metrics = best_metrics(done)
    return Trial(values, path, metrics[yardstick(config).metric])


def best_metrics(done: Run) -> dict:
    """Returns a finished run's metrics on dev or on its held-out text."""
    (finished,) = done.events(RunFinished)
    best = finished.best
    return best.get("student", next(iter(best.values()))).metrics


def with_values(config: AnyRun, values: dict) -> AnyRun:
    """Returns a config with the values of some dotted paths changed."""
    tree = config.model_dump(mode="json")
    for path, value in values.items():
        *parents, last = path.split(".")
        part = tree
        for name in parents:
            part = part[name]
        part[last] = value
        if last == "epochs":  # as many as given, also on a small table
            part["least_updates"] = 0
    return from_dict(type(config), tree)


def trial_name(values: dict) -> str:
    """Returns the directory's name for some values, e.g. `temperature=5`."""
    return ",".join(
        f"{field.rsplit('.', 1)[-1]}={json.dumps(value)}".replace("/", "_")
        for field, value in values.items()
    )


# For runs on a task: the fields that decide which examples are measured.
OF_DEV = ("data.task", "data.data_dir", "data.dev_split", "data.table")
# For runs on text: the fields that decide which tokens a perplexity counts.
MEASURED = (
    "corpus.masking", "corpus.spans", "corpus.held_out",
    "corpus.held_out_every", "corpus.sequence_length", "corpus.column",
    "corpus.columns", "corpus.detokenizer", "corpus.one_document", "tokenizer",
)  # fmt: skip
# The same, if the held-out text is from the training files.
MEASURED_OF_FILES = ("corpus.files", "corpus.max_texts")


@dataclasses.dataclass(frozen=True)
class Axis:
    """A field that a sweep varies."""

    field: str
    values: tuple


def find_field(config: AnyRun, name: str) -> str:
    """Returns the dotted path of the field with a name, the end of its path."""
    # Fields of earlier steps have their whole path.
    paths = [*_leaves(config.model_dump(mode="json"), "")]
    found = [
        path
        for path in paths
        if path.endswith(f".{name}") and not path.startswith("steps.")
    ]
    if name in paths:
        return name
    if not found:
        raise unknown(
            "field", name, {path.rpartition(".")[2] for path in paths}
        )
    if len(found) > 1:
        raise UsageError(f"{name!r} matches {' and '.join(found)}.")
    return found[0]


def run_sweep(
    config: AnyRun,
    axes: tuple[Axis, ...],
    directory,
    max_trials: int | None = None,
    announce: Callable[[str], None] = print,
    force: bool = False,
) -> list[Trial]:
    """Runs a recipe for each choice of values and ranks the runs."""
    directory = pathlib.Path(directory)
    validate_axes(config, axes)
    measure = yardstick(config)
    trials = [
        run_trial(config, values, directory, announce, force)
        for values in choices(axes, max_trials, config.training.seed)
    ]
    trials.sort(key=measure.rank)
    _write_results(directory, trials, measure)
    return trials


def choices(
    axes: tuple[Axis, ...], max_trials: int | None = None, seed: int = 0
) -> list[dict]:
    """Returns the choices of values that a sweep tries, in their order."""
    numbers = range(math.prod(len(axis.values) for axis in axes))
    if max_trials is not None:
        drawn = min(max_trials, len(numbers))
        numbers = random.Random(seed).sample(numbers, drawn)
    return [_choice(axes, number) for number in numbers]


def _choice(axes, number):
    """The choice with a number, computed without a list of all choices."""
    chosen = {}
    for axis in reversed(axes):
        number, place = divmod(number, len(axis.values))
        chosen[axis.field] = axis.values[place]
    return {axis.field: chosen[axis.field] for axis in axes}


def validate_axes(config: AnyRun, axes: tuple[Axis, ...]) -> None:
    """Validates each value before any run."""
    for axis in axes:
        if _is_measured(config, axis.field):
            raise UsageError(
                f"{axis.field} decides what is measured, so the trials could "
                "not be compared. Make a sweep for each value."
            )
        for value in axis.values:
            with_values(config, {axis.field: value})


def _is_measured(config, field):
    """Whether a field decides which examples or tokens are measured."""
    names = OF_DEV
    if config.kind == "text":
        names = MEASURED
        if not config.corpus.held_out:
            names += MEASURED_OF_FILES
    return any(f"{field}.".startswith(f"{name}.") for name in names)


def _write_results(directory, trials: list[Trial], measure: Yardstick):
    write_text(
        directory / "sweep.json",
        json.dumps(
            {
                "metric": measure.metric,
                "split": measure.split,
                "trials": [
                    {
                        "values": trial.values,
                        "run": trial.path.relative_to(directory).as_posix(),
                        measure.metric: trial.metric,
                    }
                    for trial in trials
                ],
            },
            indent=2,
        )
        + "\n",
    )


def _leaves(value, path):
    """Yields the dotted paths of all values except dicts with entries."""
    if not (isinstance(value, dict) and value):
        yield path
        return
    for key, one in value.items():
        yield from _leaves(one, f"{path}.{key}" if path else key)
