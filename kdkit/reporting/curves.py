"""What happened over the epochs of a run: losses, metrics, seconds."""

import dataclasses

from kdkit.reporting.event_fields import LESS_ENTROPY
from kdkit.reporting.formatting import metric_format
from kdkit.reporting.records import RunRecords
from kdkit.reporting.records import finite_numbers
from kdkit.reporting.selection import evaluations_of


@dataclasses.dataclass(frozen=True)
class Curve:
    """One number over the epochs of one stage of one arm.

    Args:
        arm: string.
        stage: string.
        name: string. The objective's name, or `"loss"`.
        train: tuple of (epoch, value).
        dev: tuple of (epoch, value), from the log named `val_…`.
        less_entropy: bool. Whether the teacher's entropy is subtracted from the
            values. Defaults to `False`.
    """

    arm: str
    stage: str
    name: str
    train: tuple
    dev: tuple
    less_entropy: bool = False


@dataclasses.dataclass(frozen=True)
class MetricCurve:
    """The main metric on dev over the epochs of one arm, stages joined.

    Args:
        arm: string.
        points: tuple of (epoch, value); epochs count on from stage to stage.
        stages: tuple of (stage, first epoch, last epoch).
    """

    arm: str
    points: tuple
    stages: tuple


def loss_curves(records: RunRecords) -> list[Curve]:
    """Returns the losses over epochs, one curve per arm, stage and objective.

    Learning rates, metrics and agreement, which the logs of an epoch hold
    too, are left out. A repeated epoch counts once, with its last numbers.
    Losses with the teacher's entropy, as kdkit 0.1 logged them, and those
    without it are two curves.
    """
    not_losses = {"learning_rate"}
    for event in records.events_of("evaluation"):
        not_losses.update(event.get("metrics") or {})
        not_losses.update(event.get("agreement") or {})
    points = {}
    for event in records.events_of("epoch"):
        less_entropy = event.get(LESS_ENTROPY) or ()
        for log, value in finite_numbers(event.get("logs")).items():
            name = log.removeprefix("val_")
            is_share = metric_format(name).unit == "%"
            if name not in not_losses and not is_share:
                is_less = name in less_entropy
                key = (event["arm"], event["stage"], name, is_less)
                curve = points.setdefault(key, {"train": {}, "dev": {}})
                side = "train" if name == log else "dev"
                curve[side][event["epoch"]] = value
    return [
        Curve(
            arm,
            stage,
            name,
            train=tuple(sorted(curve["train"].items())),
            dev=tuple(sorted(curve["dev"].items())),
            less_entropy=is_less,
        )
        for (arm, stage, name, is_less), curve in points.items()
    ]


def metric_curve(
    records: RunRecords, arm: str, metric: str
) -> MetricCurve | None:
    """Returns a metric of one arm over its epochs.

    Args:
        records: `RunRecords`.
        arm: string.
        metric: string. A key of the evaluations' metrics.

    Returns:
        A `MetricCurve`, or `None` where no epoch of the arm was evaluated.
    """
    by_stage = {}
    for evaluation in evaluations_of(records, arm):
        if evaluation.epoch is not None and metric in evaluation.metrics:
            stage = by_stage.setdefault(evaluation.stage, {})
            stage[evaluation.epoch] = evaluation.metrics[metric]
    points = []
    stages = []
    num_epochs_before = 0
    for stage, values in by_stage.items():
        points += [
            (num_epochs_before + epoch, value)
            for epoch, value in sorted(values.items())
        ]
        last = num_epochs_before + max(values)
        stages.append((stage, num_epochs_before + 1, last))
        num_epochs_before = last
    return MetricCurve(arm, tuple(points), tuple(stages)) if points else None


def training_curve(records: RunRecords, arm: str, metric: str) -> tuple:
    """Returns a metric on the training data over the epochs of one arm.

    Args:
        records: `RunRecords`.
        arm: string.
        metric: string. The name of the log.

    Returns:
        A tuple of (epoch, value), stages joined as in `metric_curve`; empty
        where it was not measured while training.
    """
    shown = {evaluation.stage for evaluation in evaluations_of(records, arm)}
    by_stage = {}
    for event in records.events_of("epoch"):
        if event["arm"] == arm and event["stage"] in shown:
            stage = by_stage.setdefault(event["stage"], {})
            value = finite_numbers(event.get("logs")).get(metric)
            stage[event["epoch"]] = value
    points = []
    num_epochs_before = 0
    for values in by_stage.values():
        points += [
            (num_epochs_before + epoch, value)
            for epoch, value in sorted(values.items())
            if value is not None
        ]
        num_epochs_before += max(values)
    return tuple(points)


def stage_seconds(records: RunRecords) -> dict[tuple[str, str], float]:
    """Returns the seconds of training, by (arm, stage), in order.

    A stage that has not finished counts the epochs it has behind it.
    """
    epochs = {}
    for event in records.events_of("epoch"):
        key = (event["arm"], event["stage"])
        epochs.setdefault(key, {})[event["epoch"]] = event["seconds"]
    seconds = {key: sum(value.values()) for key, value in epochs.items()}
    for event in records.events_of("stage_finished"):
        seconds[event["arm"], event["stage"]] = event["seconds"]
    return seconds


def run_seconds(records: RunRecords) -> float | None:
    """Returns the seconds of the whole run, `None` before it has finished."""
    finished = records.events_of("run_finished")
    return finished[-1]["seconds"] if finished else None
