"""Trials of a sweep: one run each, and the number that they compare by."""

import dataclasses
import json
import pathlib

from kdkit.errors import UsageError
from kdkit.settings import override
from kdkit.tasks import get_task
from kdkit.training import pretraining
from kdkit.training import runner
from kdkit.training.run_directory import RunDirectory
from kdkit.training.run_settings import DistillSettings
from kdkit.training.run_settings import PretrainSettings

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
    if on_task:
        runner.distill(chosen, path, force, needs_models=False)
    else:
        pretraining.pretrain(chosen, path, needs_models=False, force=force)
    (finished,) = RunDirectory(path).events("run_finished")
    best = finished["best"]
    trained = best["student"] if on_task else next(iter(best.values()))
    metric = trained["metrics"][yardstick(settings).metric]
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
