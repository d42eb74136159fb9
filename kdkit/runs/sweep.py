"""Sweeps: one run for each choice of some settings, and the best of them."""

import contextlib
import dataclasses
import json
import math
import pathlib
import random
from collections.abc import Callable

from tensorboard.plugins.hparams import api as hparams

from kdkit.backends import tf
from kdkit.errors import UsageError
from kdkit.io.files import write_text
from kdkit.runs.directory import RunDirectory
from kdkit.runs.events import RunFinished
from kdkit.runs.pipeline import Pipeline
from kdkit.runs.settings import DistillSettings
from kdkit.runs.settings import PretrainSettings
from kdkit.settings import canonical_path
from kdkit.settings import override
from kdkit.settings import to_dict
from kdkit.tasks import get_task
from kdkit.training.making import check_sizes
from kdkit.training.model_settings import check_one_process

TRIALS = "trials"


@dataclasses.dataclass(frozen=True)
class Yardstick:
    """What trials compare by.

    Args:
        metric: string.
        direction: string, `"max"` or `"min"`: what is better.
        split: string. What it is measured on, never test data.
        what: string. The task, or `"text"`.
    """

    metric: str
    direction: str
    split: str
    what: str

    @property
    def where(self) -> str:
        """What is measured on, in words."""
        return "text held out" if self.split == "held_out" else self.split

    def rank(self, trial: "Trial") -> float:
        """A number that is least for the best trial."""
        return -trial.metric if self.direction == "max" else trial.metric


@dataclasses.dataclass(frozen=True)
class Trial:
    """A finished run of a sweep.

    Args:
        values: dict from field to value.
        path: `pathlib.Path` of its run directory.
        metric: float. The task's main metric on dev, or the perplexity of the
            text that was held out.
    """

    values: dict
    path: pathlib.Path
    metric: float


def yardstick(settings: DistillSettings | PretrainSettings) -> Yardstick:
    """Returns what runs with these settings compare by.

    Raises:
        UsageError: if they have no number in common: runs on text that learn
            states of the teacher alone are measured by losses, which change
            with their weights.
    """
    if isinstance(settings, DistillSettings):
        task = get_task(settings.data.task)
        return Yardstick(task.primary_metric, "max", "dev", task.name)
    if not any(stage.trains_head for stage in settings.stages):
        raise UsageError(
            f"Runs of recipe {settings.recipe!r} on text predict no tokens, so "
            "that they have no perplexity to compare by. Expected --task, or "
            "another recipe."
        )
    return Yardstick("perplexity", "min", "held_out", "text")


def run_trial(
    settings, values: dict, directory, announce, force: bool = False
) -> Trial:
    """Makes the run of a choice of values in `DIR/trials/`.

    Args:
        settings: `DistillSettings` or `PretrainSettings` of all trials.
        values: dict from dotted field to value.
        directory: path of the sweep.
        announce: callable of a line that says where the run is.
        force: bool, as in `kdkit.training.distill`. Defaults to `False`.
    """
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
    """Returns settings with other values of some fields.

    Raises:
        UsageError: if a value is impossible.
    """
    return override(
        settings,
        [f"{field}={json.dumps(value)}" for field, value in values.items()],
    )


def trial_name(values: dict) -> str:
    """The directory of a choice of values, such as `temperature=5`."""
    return ",".join(
        f"{field.rsplit('.', 1)[-1]}={json.dumps(value)}".replace("/", "_")
        for field, value in values.items()
    )


# What runs share, or have before them: no trial has its own.
OTHER_MODELS = (
    "teacher.", "pretrained.", "control.", "general.", "augmented.made_by.",
)  # fmt: skip
SHARED = ("general.", "augmented.made_by.", "cache.")
# Of runs on a task: what decides which rows they are measured on.
OF_DEV = ("data.task", "data.data_dir", "data.dev_split")
# Of runs on text: what decides which tokens a perplexity is of.
MEASURED = (
    "corpus.masking", "corpus.spans", "corpus.held_out",
    "corpus.held_out_every", "corpus.sequence_length", "corpus.column",
    "corpus.columns", "corpus.detokenizer", "corpus.one_document", "tokenizer",
    "vocabulary_size", "separate_vocabularies",
)  # fmt: skip
# Likewise, where what is held out is of the files that are trained on.
MEASURED_OF_FILES = ("corpus.files", "corpus.max_texts")


@dataclasses.dataclass(frozen=True)
class Axis:
    """A setting that a sweep varies.

    Args:
        field: string. Dotted path in the settings, as `--set` takes it.
        values: tuple. What it is tried with.
    """

    field: str
    values: tuple

    def __post_init__(self):
        if len(set(map(json.dumps, self.values))) < len(self.values):
            raise UsageError(
                f"{self.field} is tried twice with a value. Received: "
                f"{list(self.values)}."
            )
        if not self.values:
            raise UsageError(
                f"{self.field} needs values to be tried with, such as 1,2. "
                "Received: none."
            )


def find_field(settings, name: str) -> str:
    """Returns the dotted path of the one setting that a name means.

    Args:
        settings: a dataclass of settings.
        name: string. A path as `--set` takes it, such as
            `"stages.0.learning_rate"`, or the end of one, such as
            `"temperature"`. Only a whole path means settings of another model
            than the student.

    Raises:
        UsageError: if there is none or more than one.
    """
    if "." in name and (whole := canonical_path(settings, name)):
        return whole
    paths = [
        path
        for path in _leaves(to_dict(settings), "")
        if path == name
        or (path.endswith(f".{name}") and not path.startswith(OTHER_MODELS))
    ]
    if name in paths:
        return name
    if len(paths) == 1:
        return paths[0]
    if not paths:
        raise UsageError(
            f"There is no setting {name!r}. Expected a dotted path as --set "
            "takes it, or the end of one; kdkit show RECIPE lists them."
        )
    raise UsageError(
        f"{name!r} may mean {' or '.join(paths)}. Give more of the path."
    )


def run_sweep(
    settings: DistillSettings | PretrainSettings,
    axes: tuple[Axis, ...],
    directory,
    max_trials: int | None = None,
    announce: Callable[[str], None] = print,
    force: bool = False,
) -> list[Trial]:
    """Runs a recipe for each choice of values, best first.

    A choice is a run directory in `DIR/trials/`, so a sweep that was stopped
    goes on where it was. Runs on a task are compared on dev alone, runs on
    text by the perplexity of what they hold out.

    Args:
        settings: `DistillSettings` or `PretrainSettings`, the same for all but
            the axes.
        axes: tuple of `Axis`.
        directory: path of the sweep.
        max_trials: int or `None`. The number of choices to draw at random by
            the settings' seed, see `choices`. Defaults to `None`, all of them.
        announce: callable of a line about the trial that begins.
        force: bool, as in `kdkit.training.distill`. Defaults to `False`.

    Returns:
        List of `Trial`, the best first.

    Raises:
        UsageError: if a choice of values is impossible, before any run.
    """
    directory = pathlib.Path(directory)
    check_axes(settings, axes)
    measure = yardstick(settings)
    trials = [
        run_trial(settings, values, directory, announce, force)
        for values in choices(axes, max_trials, settings.seed)
    ]
    trials.sort(key=measure.rank)
    _write_hparams(directory, axes, trials, measure.metric)
    _write_results(directory, trials, measure)
    return trials


def choices(
    axes: tuple[Axis, ...], max_trials: int | None = None, seed: int = 0
) -> list[dict]:
    """Returns the choices of values that a sweep tries, in their order.

    All combinations, the last axis varying fastest as in `itertools.product`;
    or some of them, different ones, in a random order that the seed decides.

    Args:
        axes: tuple of `Axis`.
        max_trials: int or `None`. How many choices to draw; all combinations
            if there are fewer. Defaults to `None`, all in their order.
        seed: int. Defaults to `0`.

    Returns:
        List of dicts from field to value.

    >>> axes = Axis("temperature", (1, 2)), Axis("seed", (0, 1))
    >>> [tuple(choice.values()) for choice in choices(axes)]
    [(1, 0), (1, 1), (2, 0), (2, 1)]
    >>> len(choices(axes, max_trials=3))
    3
    """
    numbers = range(math.prod(len(axis.values) for axis in axes))
    if max_trials is not None:
        drawn = min(max_trials, len(numbers))
        numbers = random.Random(seed).sample(numbers, drawn)
    return [_choice(axes, number) for number in numbers]


def _choice(axes, number):
    """The choice with a number, without a list of all combinations."""
    chosen = {}
    for axis in reversed(axes):
        number, place = divmod(number, len(axis.values))
        chosen[axis.field] = axis.values[place]
    return {axis.field: chosen[axis.field] for axis in axes}


def check_axes(
    settings: DistillSettings | PretrainSettings, axes: tuple[Axis, ...]
) -> None:
    """Tries each value on its own, so that mistakes are told before any run.

    Raises:
        UsageError: if a value is impossible, the trials would not be measured
            on the same, or several processes would make the runs.
    """
    check_one_process(settings)
    on_task = isinstance(settings, DistillSettings)
    has_cache = on_task and settings.cache is not None
    for axis in axes:
        if axis.field.startswith(SHARED) or (
            axis.field.startswith("teacher") and has_cache
        ):
            raise UsageError(
                f"{axis.field} is of what the trials share. Expected a setting "
                "of the distillation itself. Make a sweep for each value."
            )
        if on_task and axis.field in OF_DEV:
            raise UsageError(
                f"{axis.field} decides which rows are measured, so that the "
                "trials would not compare. Expected a setting of the training "
                f"alone. Received: {axis.field} with {list(axis.values)}. Make "
                "a sweep for each value."
            )
        if not on_task and _is_measured(settings, axis.field):
            raise UsageError(
                f"{axis.field} decides which tokens are measured, so that the "
                "perplexities of the trials would not compare. Expected a "
                f"setting of the training alone. Received: {axis.field} with "
                f"{list(axis.values)}. Make a run of kdkit pretrain for each "
                "value and measure their models alike: by kdkit evaluate "
                "RUN/encoder (or RUN/decoder) --corpus FILE, on a task or on "
                "pairs."
            )
        for value in axis.values:
            chosen = with_values(settings, {axis.field: value})
            check_sizes(chosen.student if on_task else chosen.model)


def _is_measured(settings, field):
    """Whether a setting of a run on text decides what is measured."""
    names = MEASURED
    if not settings.corpus.held_out:
        names += MEASURED_OF_FILES
    return any(f"{field}.".startswith(f"{name}.") for name in names)


def _write_hparams(directory, axes, trials, metric):
    """Writes what TensorBoard's hparams view shows."""
    logdir = directory / "tensorboard"
    with _one_file(logdir):
        hparams.hparams_config(
            hparams=[
                hparams.HParam(
                    axis.field,
                    hparams.Discrete([_scalar(value) for value in axis.values]),
                )
                for axis in axes
            ],
            metrics=[hparams.Metric(metric)],
        )
    for trial in trials:
        name = trial.path.name
        with _one_file(logdir / name), tf.summary.record_if(True):
            hparams.hparams(
                {
                    field: _scalar(value)
                    for field, value in trial.values.items()
                },
                trial_id=name,
            )
            tf.summary.scalar(metric, trial.metric, step=1)


@contextlib.contextmanager
def _one_file(folder):
    """Writes a file for TensorBoard in the place of those that are there."""
    before = list(folder.glob("*tfevents*"))
    writer = tf.summary.create_file_writer(str(folder))
    with writer.as_default():
        yield
    writer.close()
    for file in before:
        file.unlink()


def _scalar(value):
    """What TensorBoard takes: numbers and texts."""
    plain = isinstance(value, bool | int | float | str)
    return value if plain else json.dumps(value)


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
    """Yields the dotted paths of all values that are no dicts or lists.

    Entries of lists are named by their `name`, as `--set` takes them.
    """
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
