"""The events of a run: one class for each kind, and how a log is read.

`Run.log` appends an event to `metrics.jsonl`, and no line is changed
later. A run that continues repeats the steps after its last checkpoint, and
logs their events again. So the last event of a key counts, such as that of one
epoch of a stage. `read_log` is the only reader of a log.
"""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import ClassVar

from kdkit.exported import ExportReport, LatencyReport
from kdkit.io.reading import json_lines

ARMS = ("teacher", "control", "student")
# Names of the model that a run on text trains.
LANGUAGE_MODELS = ("encoder", "decoder", "encoder_decoder")

Texts = str | tuple[str, ...]
_KINDS = {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Event:
    """A line of `metrics.jsonl`. Its subclasses have the fields of one kind."""

    kind: ClassVar[str] = ""
    # The fields that identify an event; of `None`, all events of a kind count.
    key: ClassVar[tuple[str, ...] | None] = None
    # Seconds since 1970 when it was logged.
    time: float | None = dataclasses.field(
        default=None, repr=False, compare=False
    )

    def __init_subclass__(cls, kind: str, key=None, **keywords):
        super().__init_subclass__(**keywords)
        cls.kind, cls.key = kind, key
        _KINDS[kind] = cls

    def to_dict(self) -> dict:
        """Returns the fields that have a value, without the time."""
        fields = dataclasses.asdict(self) | {"time": None}
        return {
            name: value for name, value in fields.items() if value is not None
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inputs(Event, kind="inputs", key=()):
    """The checksums of the run's inputs."""

    digests: dict


@dataclasses.dataclass(frozen=True, kw_only=True)
class Doctor(Event, kind="doctor", key=()):
    """The findings of the checks before the run."""

    findings: tuple[dict, ...]
    forced: bool | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model(Event, kind="model", key=("arm",)):
    """The architecture of an arm's model: its name and sizes."""

    arm: str
    name: str | None = None
    parameters: int | None = None
    num_layers: int | None = None
    encoder_num_layers: int | None = None
    decoder_num_layers: int | None = None
    hidden_dim: int | None = None
    num_heads: int | None = None
    intermediate_dim: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unlabeled(Event, kind="unlabeled", key=()):
    """The counts of the unlabelled examples, which the teacher labels."""

    rows: int
    dropped: int
    compared_with: tuple[str, ...]
    per_labeled: float | None = None
    empty: int | None = None
    repeated: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Augmented(Event, kind="augmented", key=()):
    """The counts of the augmented examples."""

    rows: int
    copies: int
    left_out: int
    rows_of_epoch: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class TeacherCache(Event, kind="teacher_cache", key=()):
    """The precision of the cached teacher outputs."""

    precision: str | None = None
    relative_errors: tuple[dict, ...] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Epoch(Event, kind="epoch", key=("arm", "stage", "epoch")):
    """The losses of a finished epoch."""

    arm: str
    stage: str
    epoch: int
    step: int | None = None
    seconds: float
    logs: dict
    less_teacher_entropy: Texts | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation(
    Event, kind="evaluation", key=("arm", "stage", "epoch", "split")
):
    """The metrics of an arm's model during training."""

    arm: str
    stage: str | None = None
    epoch: int | None = None
    split: str
    examples: int | None = None
    metrics: dict | None = None
    agreement: dict | None = None
    collapsed: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Best:
    """The final weights of an arm, and their metrics."""

    stage: str | None = None
    epoch: int | None = None
    split: str | None = None
    metrics: dict | None = None
    agreement: dict | None = None
    collapsed: str | None = None
    untrained_layers: Sequence[str] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFinished(Event, kind="run_finished", key=()):
    """The end of the run."""

    seconds: float
    best: dict[str, Best]

    def __post_init__(self):
        """Makes objects of the dicts in a log."""
        for arm, one in self.best.items():
            if isinstance(one, dict):
                self.best[arm] = Best(**one)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Export(ExportReport, Event, kind="export"):
    """An exported file, from an arm of the run."""

    arm: str
    metrics: dict | None = None
    split: str | None = None
    task: str | None = None
    data_digest: str | None = None
    collapsed: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Latency(LatencyReport, Event, kind="latency"):
    """The speed of an exported file."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measurement(Event, kind="measurement"):
    """The metrics that `kdkit evaluate` measured for a model of the run."""

    arm: str | None = None
    metrics: dict | None = None
    examples: int | None = None
    task: str | None = None
    split: str | None = None
    corpus: Texts | None = None
    pairs: Texts | None = None
    columns: tuple[str, ...] | None = None
    column: str | None = None
    one_document: bool | None = None
    detokenizer: str | None = None
    languages: Texts | None = None
    held_out_every: int | None = None
    sequence_length: int | None = None
    stride: int | None = None
    masking: dict | None = None
    spans: dict | None = None
    beam_size: int | None = None
    length_penalty: float | None = None
    signatures: dict | None = None
    data_digest: str | None = None
    file: str | None = None
    queries: str | None = None
    documents: str | None = None
    judgements: str | None = None
    ignore_same_id: bool | None = None
    num_documents: int | None = None
    unjudged_queries: int | None = None
    bitext: Texts | None = None
    metrics_by_dimensions: dict | None = None
    texts: int | None = None
    texts_in_training: int | None = None
    examples_in_training: int | None = None
    metrics_without_training_texts: dict | None = None
    without_texts_of: str | None = None
    left_out: int | None = None
    texts_cut: int | None = None
    prompts: tuple[str, str] | None = None
    similarity: str | None = None
    collapsed: str | None = None


def read_log(path: pathlib.Path) -> tuple[list[Event], list[int]]:
    """Reads a log.

    Returns:
        The last event of each key, in the order of the first ones; and the
        numbers of the lines that are no events, such as one that was cut off.
    """
    found, damaged = {}, []
    for number, line in json_lines(path):
        try:
            event = _event(line)
        except (TypeError, KeyError):  # no object, or a field is missing
            damaged.append(number)
            continue
        key = number
        if event.key is not None:
            key = event.kind, *(getattr(event, name) for name in event.key)
        found[key] = event
    return [*found.values()], damaged


def _event(line):
    kind = _KINDS[line["event"]]
    known = {field.name for field in dataclasses.fields(kind)}
    values = {name: _tuple(line[name]) for name in line if name in known}
    return kind(**values | {"time": line["time"]})


def _tuple(value):
    """A tuple for a list, as fields are; what a dict contains stays."""
    return tuple(map(_tuple, value)) if isinstance(value, list) else value
