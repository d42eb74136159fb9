"""The events of a run: one class for each kind, which writes and reads it.

`RunDirectory.log` appends an event to `metrics.jsonl`. `RunDirectory.events`
and `kdkit.reporting.read_run` return objects of the same classes. A line of a
log may be damaged, of another version, or made by another program.
`read_event` compares every field with its annotation, so that the code that
reads an event need not.
"""

import dataclasses
from typing import ClassVar

from kdkit.errors import UsageError
from kdkit.runs.event_fields import (
    Fields,
    PositiveFloat,
    PositiveInt,
    Texts,
    read_fields,
)

ARMS = ("teacher", "control", "student")
# Names of the model that a run on text trains.
LANGUAGE_MODELS = ("encoder", "decoder", "encoder_decoder")

LATEST = 253_402_300_799  # seconds; the end of the year 9999
_KINDS = {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Event(Fields):
    """A line of `metrics.jsonl`. Its subclasses have the fields of one kind."""

    kind: ClassVar[str] = ""
    line: dict = dataclasses.field(
        default_factory=dict, repr=False, compare=False
    )

    def __init_subclass__(cls, kind: str, **keywords):
        super().__init_subclass__(**keywords)
        cls.kind = kind
        _KINDS[kind] = cls

    @property
    def time(self) -> float | None:
        """Seconds since 1970 when it was logged, `None` before that."""
        return self.line.get("time")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inputs(Event, kind="inputs"):
    """The checksums of the run's inputs."""

    digests: dict


@dataclasses.dataclass(frozen=True, kw_only=True)
class Doctor(Event, kind="doctor"):
    """The findings of the checks before the run."""

    findings: tuple[dict, ...]
    forced: bool | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model(Event, kind="model"):
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
class Unlabeled(Event, kind="unlabeled"):
    """The counts of the unlabelled examples, which the teacher labels."""

    rows: int
    dropped: int
    compared_with: tuple[str, ...]
    per_labeled: float | None = None
    empty: int | None = None
    repeated: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Augmented(Event, kind="augmented"):
    """The counts of the augmented examples."""

    rows: int
    copies: int
    left_out: int
    rows_of_epoch: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class TeacherCache(Event, kind="teacher_cache"):
    """The precision of the cached teacher outputs."""

    precision: str | None = None
    relative_errors: tuple[dict, ...] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Epoch(Event, kind="epoch"):
    """The losses of a finished epoch."""

    arm: str
    stage: str
    epoch: int
    step: int | None = None
    seconds: float
    logs: dict
    less_teacher_entropy: Texts | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation(Event, kind="evaluation"):
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
class StageFinished(Event, kind="stage_finished"):
    """The end of a stage."""

    arm: str
    stage: str
    seconds: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Best(Fields):
    """The final weights of an arm, and their metrics."""

    stage: str | None = None
    epoch: int | None = None
    split: str | None = None
    metrics: dict | None = None
    agreement: dict | None = None
    collapsed: str | None = None
    untrained_layers: Texts | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFinished(Event, kind="run_finished"):
    """The end of the run."""

    seconds: float
    best: dict[str, Best]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Export(Event, kind="export"):
    """An exported file, with the fields of `kdkit.export.ExportReport`."""

    arm: str
    file: str
    format: str
    title: str | None = None
    precision: str
    size_bytes: PositiveInt
    sequence_length: int | None = None
    max_abs_difference: float | None = None
    same_top_class: float | None = None
    examples: int | None = None
    metrics: dict | None = None
    split: str | None = None
    task: str | None = None
    collapsed: str | None = None
    made_from: dict | None = None
    file_digest: str | None = None
    outputs: str | None = None
    smallest_cosine: float | None = None
    mean_cosine: float | None = None
    dimensions: PositiveInt | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Latency(Event, kind="latency"):
    """The speed of a file, with the fields of `kdkit.export.LatencyReport`."""

    file: str
    median_ms: PositiveFloat
    p95_ms: float
    threads: int
    batch_size: int
    sequence_length: int
    warmup: int | None = None
    runs: int | None = None
    size_bytes: PositiveInt | None = None
    parameters: int | None = None
    reads_tokens: bool | None = None
    reads_sources: bool | None = None
    room: tuple[int, ...] | None = None
    delegate: str | None = None
    device: str | None = None
    android: str | None = None
    initialization_ms: float | None = None
    peak_memory_mb: float | None = None
    end_to_end_ms: float | None = None
    sentences_per_second: float | None = None


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
    rows_digest: str | None = None
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


def read_event(line: dict) -> Event | None:
    """Returns the event in an object of a log, or `None` if it has none."""
    kind, time = line.get("event"), line.get("time")
    is_event = (
        isinstance(kind, str)
        and type(time) in (int, float)
        and 0 <= time <= LATEST
    )
    if not is_event:
        return None
    if kind not in _KINDS:
        return Event(line=line)
    try:
        return _KINDS[kind](line=line, **read_fields(_KINDS[kind], line))
    except UsageError:
        return None
