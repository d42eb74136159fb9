"""Sweeps: one run per choice of some settings, ranked by a metric."""

import dataclasses
import json
import math
import pathlib
import random
from collections.abc import Callable

from kdkit.errors import UsageError, unknown
from kdkit.io.files import write_text
from kdkit.runs.directory import RunDirectory
from kdkit.runs.events import RunFinished
from kdkit.runs.pipeline import Pipeline
from kdkit.runs.settings import DistillSettings, PretrainSettings
from kdkit.settings import canonical_path, override, to_dict
from kdkit.training.tasks import open_task

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


def yardstick(settings: DistillSettings | PretrainSettings) -> Yardstick:
    """Returns the metric that runs with these settings are ranked by."""
    if isinstance(settings, DistillSettings):
        task = open_task(settings.data)
        return Yardstick(task.primary_metric, "max", "dev", task.name)
    return Yardstick("perplexity", "min", "held_out", "text")


def run_trial(
    settings, values: dict, directory, announce, force: bool = False
) -> Trial:
    """Runs one choice of values in `DIR/trials/`."""
    chosen = with_values(settings, values)
    path = pathlib.Path(directory) / TRIALS / trial_name(values)
    announce(f"{path}")
    on_task = isinstance(settings, DistillSettings)
    Pipeline(chosen, path).run(force, needs_models=False)
    (finished,) = RunDirectory(path).events(RunFinished)
    best = finished.best
    trained = best["student"] if on_task else next(iter(best.values()))
    metric = trained.metrics[yardstick(settings).metric]
    return Trial(values, path, metric)


def with_values(settings, values: dict):
    """Returns settings with some fields changed."""
    return override(
        settings,
        [f"{field}={json.dumps(value)}" for field, value in values.items()],
    )


def trial_name(values: dict) -> str:
    """Returns the directory's name for some values, e.g. `temperature=5`."""
    return ",".join(
        f"{field.rsplit('.', 1)[-1]}={json.dumps(value)}".replace("/", "_")
        for field, value in values.items()
    )


# Settings of earlier steps and of the control.
OTHER_MODELS = (
    "teacher.", "pretrained.", "control.", "general.", "augmented.made_by.",
)  # fmt: skip
# For runs on a task: the settings that decide which examples are measured.
OF_DEV = ("data.task", "data.data_dir", "data.dev_split", "data.table")
# For runs on text: the settings that decide which tokens a perplexity counts.
MEASURED = (
    "corpus.masking", "corpus.spans", "corpus.held_out",
    "corpus.held_out_every", "corpus.sequence_length", "corpus.column",
    "corpus.columns", "corpus.detokenizer", "corpus.one_document", "tokenizer",
    "vocabulary_size",
)  # fmt: skip
# The same, if the held-out text is from the training files.
MEASURED_OF_FILES = ("corpus.files", "corpus.max_texts")


@dataclasses.dataclass(frozen=True)
class Axis:
    """A setting that a sweep varies."""

    field: str
    values: tuple


def find_field(settings, name: str) -> str:
    """Returns the dotted path of the setting with a name."""
    if "." in name and (whole := canonical_path(settings, name)):
        return whole
    leaves = [*_leaves(to_dict(settings), "")]
    paths = [
        path
        for path in leaves
        if path == name
        or (path.endswith(f".{name}") and not path.startswith(OTHER_MODELS))
    ]
    if name in paths:
        return name
    if len(paths) == 1:
        return paths[0]
    if not paths:
        ends = {path.rpartition(".")[2] for path in leaves}
        raise unknown("setting", name, ends)
    raise UsageError(f"{name!r} matches {' and '.join(paths)}.")


def run_sweep(
    settings: DistillSettings | PretrainSettings,
    axes: tuple[Axis, ...],
    directory,
    max_trials: int | None = None,
    announce: Callable[[str], None] = print,
    force: bool = False,
) -> list[Trial]:
    """Runs a recipe for each choice of values and ranks the runs."""
    directory = pathlib.Path(directory)
    validate_axes(settings, axes)
    measure = yardstick(settings)
    trials = [
        run_trial(settings, values, directory, announce, force)
        for values in choices(axes, max_trials, settings.seed)
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


def validate_axes(
    settings: DistillSettings | PretrainSettings, axes: tuple[Axis, ...]
) -> None:
    """Validates each value before any run."""
    for axis in axes:
        if _is_measured(settings, axis.field):
            raise UsageError(
                f"{axis.field} decides what is measured, so the trials could "
                "not be compared. Make a sweep for each value."
            )
        for value in axis.values:
            with_values(settings, {axis.field: value})


def _is_measured(settings, field):
    """Whether a setting decides which examples or tokens are measured."""
    names = OF_DEV
    if isinstance(settings, PretrainSettings):
        names = MEASURED
        if not settings.corpus.held_out:
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


def _leaves(values, path):
    """Yields the dotted paths of all values except dicts and lists."""
    if isinstance(values, dict) and values:
        entries = values.items()
    elif isinstance(values, list) and values:
        entries = [
            (entry.get("name", str(index)), entry)
            if isinstance(entry, dict)
            else (str(index), entry)
            for index, entry in enumerate(values)
        ]
    else:
        yield path
        return
    for key, value in entries:
        yield from _leaves(value, f"{path}.{key}" if path else key)
