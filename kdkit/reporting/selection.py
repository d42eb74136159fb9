"""The evaluations, files, sizes and curves in a run's events."""

import collections
import dataclasses
import os
from collections.abc import Iterable

from kdkit.reporting.formatting import NOT_RUN, metric_format
from kdkit.reporting.records import RunRecords, finite_numbers
from kdkit.runs import events

PRECISIONS = ("fp32", "fp16", "int16x8", "int8", "static_int8", "int4")


@dataclasses.dataclass(frozen=True, order=True)
class Setting:
    """The conditions in which a latency was measured."""

    threads: int
    batch_size: int
    sequence_length: int
    room: tuple[int, ...] = ()
    device: str = ""
    delegate: str = ""

    @classmethod
    def of(cls, latency) -> "Setting":
        """The setting of a `LatencyReport`, or of its event."""
        return cls(
            latency.threads,
            latency.batch_size,
            latency.sequence_length,
            tuple(latency.room or ()),
            f"{latency.device} (Android {latency.android})"
            if latency.device
            else "",
            latency.delegate or "",
        )

    @property
    def parts(self) -> tuple[str, str, str]:
        """The threads, the batch and the length, in words."""
        plural = "" if self.threads == 1 else "s"
        room = f" (context length {self._room})" if self.room else ""
        place = f" on {self.device}" if self.device else ""
        if self.delegate:
            place += f" (delegate {self.delegate})"
        return (
            f"{self.threads} thread{plural}{place}",
            f"batch {self.batch_size}",
            f"length {self.sequence_length}{room}",
        )

    @property
    def length(self) -> str:
        """The tokens of a row; for a sentence, also the context length."""
        room = f" of {self._room}" if self.room else ""
        return f"{self.sequence_length}{room}"

    @property
    def _room(self):
        return " and ".join(map(str, dict.fromkeys(self.room)))

    def __str__(self):
        return ", ".join(self.parts)


@dataclasses.dataclass(frozen=True)
class ExportedFile:
    """One exported file of one arm.

    `latencies` are "latency" events, by the setting that they were measured in.
    """

    file: str
    format: str
    title: str
    precision: str = NOT_RUN
    size_bytes: int | None = None
    arm: str = ""
    sequence_length: int | None = None
    metrics: dict = dataclasses.field(default_factory=dict)
    split: str | None = None
    examples: int | None = None
    max_abs_difference: float | None = None
    same_top_class: float | None = None
    latencies: dict = dataclasses.field(default_factory=dict)
    smallest_cosine: float | None = None
    dimensions: int | None = None

    @classmethod
    def of(cls, described, **more) -> "ExportedFile":
        """The file of an `ExportReport`, or of its event."""
        names = {field.name for field in dataclasses.fields(cls)}
        found = {
            field.name: getattr(described, field.name)
            for field in dataclasses.fields(described)
            if field.name in names
        }
        return cls(**{**found, **more})


def best_evaluation(records: RunRecords, arm: str) -> events.Evaluation | None:
    """Returns the evaluation that tables show for one arm."""
    evaluations = evaluations_of(records, arm)
    best = _best_as_evaluation(records, arm)
    if best is not None:
        for evaluation in reversed(evaluations):
            same_place = (evaluation.stage, evaluation.epoch) == (
                best.stage,
                best.epoch,
            )
            if same_place and evaluation.metrics == best.metrics:
                return evaluation
        return best
    if evaluations:
        return evaluations[-1]
    if arm == "teacher" and is_measured_alike(records):
        run = records.teacher_run
        return best_evaluation(run, run.trained_arm)
    return None


def is_measured_alike(records: RunRecords) -> bool:
    """Whether a run and that of its teacher were measured on the same."""
    run = records.teacher_run
    if run is None or not records.is_on_text:
        return run is not None
    is_masked = any(
        "masked_accuracy" in (event.metrics or {})
        for event in run.events_of(events.Evaluation)
    )
    # Decoders have masking but do not use it.
    unused = set() if is_masked else {"masking"}
    corpora = [
        corpus.model_dump(exclude=unused)
        for one in (run, records)
        if (corpus := getattr(one.config, "corpus", None)) is not None
    ]
    return corpora[:1] == corpora[1:]


def evaluations_of(records: RunRecords, arm: str) -> list[events.Evaluation]:
    """Returns the evaluations of one arm, oldest first."""
    split = shown_split(records)
    latest = {}
    for event in records.events_of(events.Evaluation, arm):
        if event.split != split:
            continue
        key = (event.stage, event.epoch)
        latest.pop(key, None)
        latest[key] = dataclasses.replace(
            event,
            metrics=finite_numbers(event.metrics),
            agreement=finite_numbers(event.agreement),
        )
    return list(latest.values())


def shown_split(records: RunRecords) -> str:
    """Returns the split for choosing models, which tables show."""
    splits = [event.split for event in records.events_of(events.Evaluation)]
    return "dev" if "dev" in splits or not splits else splits[-1]


def other_splits(records: RunRecords) -> dict[str, dict[str, dict]]:
    """Returns the metrics on splits that tables do not show."""
    found = {}
    shown = shown_split(records)
    for event in records.events_of(events.Evaluation):
        if event.split != shown:
            metrics = finite_numbers(event.metrics)
            found.setdefault(event.split, {})[event.arm] = metrics
    return found


def exported_files(records: RunRecords, arm: str) -> list[ExportedFile]:
    """Returns the files exported from one arm with their latest latencies."""
    sources = [(records, arm)]
    if arm == "teacher" and records.teacher_run is not None:
        run = records.teacher_run
        sources.append((run, run.trained_arm))
    exports = {}
    for run, name in sources:
        for event in run.events_of(events.Export, name):
            exports[_absolute(run, event.file)] = event
    latencies = {path: {} for path in exports}
    for run, _ in sources:
        for event in run.events_of(events.Latency):
            path = _absolute(run, event.file)
            if path in exports and event.time >= exports[path].time:
                latencies[path][Setting.of(event)] = event
    shown = shown_split(records)
    files = []
    for path, event in exports.items():
        split = event.split
        if event.task not in (None, records.task):
            split = f"{split} of {event.task}"
        file = ExportedFile.of(
            event,
            arm=arm,
            split=split,
            # Other rows than those of the table are not shown in it.
            metrics=finite_numbers(event.metrics if split == shown else None),
            latencies=latencies[path],
        )
        files.append(file)
    return sorted(files, key=_file_order)


def most_timed(settings: Iterable[Setting], least: int = 1) -> Setting | None:
    """Returns the setting that occurs most often."""
    counts = collections.Counter(settings)
    return max(
        (setting for setting, count in counts.items() if count >= least),
        key=lambda setting: (counts[setting], setting),
        default=None,
    )


def model_description(records: RunRecords, arm: str) -> events.Model:
    """Returns the last `Model` event of one arm, or one without sizes."""
    found = records.events_of(events.Model, arm)
    if not found and arm == "teacher" and records.teacher_run is not None:
        run = records.teacher_run
        found = run.events_of(events.Model, run.trained_arm)
    return found[-1] if found else events.Model(arm=arm)


@dataclasses.dataclass(frozen=True)
class LossCurve:
    """One loss over the epochs of one stage of one arm."""

    arm: str
    stage: str
    name: str
    train: tuple
    dev: tuple
    less_entropy: bool = False


@dataclasses.dataclass(frozen=True)
class MetricCurve:
    """A metric over the epochs of one arm, which count on over its stages."""

    arm: str
    points: tuple
    train: tuple
    stages: tuple


def loss_curves(records: RunRecords) -> list[LossCurve]:
    """The losses over epochs, one curve per arm, stage and objective."""
    not_losses = {"learning_rate"}
    for event in records.events_of(events.Evaluation):
        not_losses.update(event.metrics or {})
        not_losses.update(event.agreement or {})
    points, less_entropy = {}, {}
    for event in records.events_of(events.Epoch):
        less_entropy[event.arm, event.stage] = event.less_teacher_entropy or ()
        for log, value in finite_numbers(event.logs).items():
            name = log.removeprefix("val_")
            is_share = metric_format(name).unit == "%"
            if name not in not_losses and not is_share:
                key = (event.arm, event.stage, name)
                train, dev = points.setdefault(key, ({}, {}))
                (train if name == log else dev)[event.epoch] = value
    return [
        LossCurve(
            arm,
            stage,
            name,
            tuple(sorted(train.items())),
            tuple(sorted(dev.items())),
            name in less_entropy[arm, stage],
        )
        for (arm, stage, name), (train, dev) in points.items()
    ]


def metric_curve(
    records: RunRecords, arm: str, metric: str
) -> MetricCurve | None:
    """Returns a metric of one arm over its epochs."""
    dev, train = {}, {}
    for evaluation in evaluations_of(records, arm):
        if evaluation.epoch is not None and metric in evaluation.metrics:
            stage = dev.setdefault(evaluation.stage, {})
            stage[evaluation.epoch] = evaluation.metrics[metric]
    for event in records.events_of(events.Epoch, arm):
        value = finite_numbers(event.logs).get(metric)
        if value is not None:
            train.setdefault(event.stage, {})[event.epoch] = value
    points, on_train, stages = [], [], []
    before = 0
    for stage, values in dev.items():
        for found, of_stage in ((points, values), (on_train, train.get(stage))):
            found += [
                (before + epoch, value)
                for epoch, value in sorted((of_stage or {}).items())
            ]
        last = before + max([*values, *train.get(stage, ())])
        stages.append((stage, before + 1, last))
        before = last
    if not points:
        return None
    return MetricCurve(arm, tuple(points), tuple(on_train), tuple(stages))


def stage_seconds(records: RunRecords) -> dict[tuple[str, str], float]:
    """Returns the seconds of training, by (arm, stage), in order."""
    epochs = {}
    for event in records.events_of(events.Epoch):
        key = (event.arm, event.stage)
        epochs.setdefault(key, {})[event.epoch] = event.seconds
    seconds = {key: sum(value.values()) for key, value in epochs.items()}
    for event in records.events_of(events.StageFinished):
        seconds[event.arm, event.stage] = event.seconds
    return seconds


def run_seconds(records: RunRecords) -> float | None:
    """Returns the seconds of the whole run, `None` before it has finished."""
    finished = records.events_of(events.RunFinished)
    return finished[-1].seconds if finished else None


def best_of_finished_run(records: RunRecords) -> dict[str, events.Best]:
    """Returns the last `RunFinished.best`, empty before the run's end."""
    finished = records.events_of(events.RunFinished)
    return finished[-1].best if finished else {}


def _best_as_evaluation(records, arm):
    best = best_of_finished_run(records).get(arm, events.Best())
    if best == events.Best():
        return None
    return events.Evaluation(
        arm=arm,
        stage=best.stage,
        epoch=best.epoch,
        split=None,
        metrics=finite_numbers(best.metrics),
        agreement=finite_numbers(best.agreement),
        collapsed=best.collapsed,
    )


def _absolute(run, file):
    return os.path.abspath(os.path.join(run.run_dir, file))


def _file_order(file):
    is_known = file.precision in PRECISIONS
    return (
        file.format != "litert",
        file.title,
        PRECISIONS.index(file.precision) if is_known else len(PRECISIONS),
        file.sequence_length or 0,
        file.file,
    )
