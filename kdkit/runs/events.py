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
from kdkit.errors import shortened
from kdkit.runs.event_fields import Fields
from kdkit.runs.event_fields import PositiveFloat
from kdkit.runs.event_fields import PositiveInt
from kdkit.runs.event_fields import Texts
from kdkit.runs.event_fields import fits_64_bits
from kdkit.runs.event_fields import read_fields

ARMS = ("teacher", "control", "student")
# Names of the model that a run on text trains.
LANGUAGE_MODELS = ("encoder", "decoder", "encoder_decoder")

LATEST = 253_402_300_799  # seconds; the end of the year 9999
_KINDS = {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Event(Fields):
    """A line of `metrics.jsonl`. Its subclasses have the fields of one kind.

    A subclass is registered by its `kind`, the value of `"event"` in the line:
    `class Model(Event, kind="model")`. `Event` itself represents a
    line whose kind is unknown, such as one of a later version.

    Args:
        line: dict. The JSON object that the event was read from, with fields
            that this version does not know. Defaults to `{}`, an event that
            was not read.
    """

    kind: ClassVar[str] = ""
    line: dict = dataclasses.field(
        default_factory=dict, repr=False, compare=False
    )

    def __init_subclass__(cls, kind: str, **keywords):
        super().__init_subclass__(**keywords)
        cls.kind = kind
        _KINDS[kind] = cls

    def __post_init__(self):
        require_stage(self)

    @property
    def time(self) -> float | None:
        """Seconds since 1970 when it was logged, `None` before that."""
        return self.line.get("time")


def require_stage(event) -> None:
    """Raises a `UsageError` for an epoch that is not in a stage."""
    epoch = getattr(event, "epoch", None)
    if epoch is not None and event.stage is None:
        raise UsageError(
            f"An epoch is in a stage. Got epoch {epoch} and no stage. Pass "
            "the stage's name."
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inputs(Event, kind="inputs"):
    """The checksums of the run's inputs.

    Args:
        digests: dict from the name of an input, such as `"teacher"`, to its
            digest, or to a dict of digests.
    """

    digests: dict


@dataclasses.dataclass(frozen=True, kw_only=True)
class Doctor(Event, kind="doctor"):
    """The findings of the checks before the run.

    Args:
        findings: tuple of dicts with the fields of `kdkit.doctor.Finding`.
        forced: bool. Whether the run began in spite of an error (`--force`).
    """

    findings: tuple[dict, ...]
    forced: bool | None = None

    def __post_init__(self):
        for finding in self.findings:
            for name in ("check", "outcome"):
                if not isinstance(finding.get(name), str):
                    raise UsageError(
                        f"Expected a text as a finding's {name!r}. Got "
                        f"{shortened(finding.get(name))}."
                    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model(Event, kind="model"):
    """The architecture of an arm's model, as `kdkit.models.architecture`.

    Args:
        arm: string.
        name: string. For example `"BERT 4×312"`, or the checkpoint's name.
        parameters: int.
        num_layers: int. An encoder-decoder has the next two instead.
        encoder_num_layers: int.
        decoder_num_layers: int.
        hidden_dim: int.
        num_heads: int.
        intermediate_dim: int.
    """

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
    """The counts of the unlabelled examples, which the teacher labels.

    Args:
        rows: int. Examples that were read.
        dropped: int. Examples left out because a split contains them, too.
        compared_with: tuple of strings. Those splits.
        per_labeled: float. The largest number of unlabelled examples per
            labelled one in an epoch.
        empty: int. Empty lines, which a sentence encoder does not read. Since
            0.2.
        repeated: int. Repeated texts, which it does not read. Since 0.2.
    """

    rows: int
    dropped: int
    compared_with: tuple[str, ...]
    per_labeled: float | None = None
    empty: int | None = None
    repeated: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Augmented(Event, kind="augmented"):
    """The counts of the augmented examples.

    Args:
        rows: int. The task's examples.
        copies: int. The augmented examples.
        left_out: int. Augmented examples left out because dev or test
            contains them.
        rows_of_epoch: int. The number of examples in an epoch.
    """

    rows: int
    copies: int
    left_out: int
    rows_of_epoch: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class TeacherCache(Event, kind="teacher_cache"):
    """The precision of the cached teacher outputs.

    Args:
        precision: string. Of the numbers in the cache.
        relative_errors: tuple with a dict from tap to error for each teacher.
        file_agreement: dict of agreement with the teacher, where its exported
            file filled the cache.
    """

    precision: str | None = None
    relative_errors: tuple[dict, ...] | None = None
    file_agreement: dict | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Epoch(Event, kind="epoch"):
    """The losses of a finished epoch.

    Args:
        arm: string. One of `ARMS` or `LANGUAGE_MODELS`.
        stage: string.
        epoch: int. From 1 within the stage.
        step: int. The stage's updates until the end of the epoch.
        seconds: float.
        logs: dict of the losses, and of metrics and agreement on dev, whose
            names begin with `val_`.
        less_teacher_entropy: tuple with the names of the losses from which the
            teacher's entropy is subtracted. Since 0.2; the losses of 0.1
            contain it.
    """

    arm: str
    stage: str
    epoch: int
    step: int | None = None
    seconds: float
    logs: dict
    less_teacher_entropy: Texts | None = None

    def __post_init__(self):
        if self.arm not in ARMS + LANGUAGE_MODELS:
            raise UsageError(
                "The arm of an epoch must be one of "
                f"{', '.join(ARMS + LANGUAGE_MODELS)}. Got "
                f"{shortened(self.arm)}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation(Event, kind="evaluation"):
    """The metrics of an arm's model during training.

    Args:
        arm: string. Further teachers are `"teacher_2"` and so on.
        stage: string or `None` for a teacher that is not trained.
        epoch: int from 1 within the stage. `None` for a teacher and for the
            mean of `averaged_epochs`.
        averaged_epochs: tuple of ints.
        split: string. `"held_out"` for running text.
        examples: int.
        metrics: dict, the main one first.
        agreement: dict of agreement with the teacher, or `None`.
        collapsed: string. Why the model has collapsed, if it has. Since 0.2.
    """

    arm: str
    stage: str | None = None
    epoch: int | None = None
    averaged_epochs: tuple[int, ...] | None = None
    split: str
    examples: int | None = None
    metrics: dict | None = None
    agreement: dict | None = None
    collapsed: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class StageFinished(Event, kind="stage_finished"):
    """The end of a stage.

    Args:
        arm: string.
        stage: string.
        seconds: float. The sum over its epochs.
    """

    arm: str
    stage: str
    seconds: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Best(Fields):
    """The final weights of an arm, and their metrics.

    Args:
        stage: string. The last stage.
        epoch: int, or `None` for a mean of several epochs.
        averaged_epochs: tuple of ints. The epochs whose weights were averaged.
        split: string. The split of the metrics.
        metrics: dict.
        agreement: dict or `None`.
        collapsed: string or `None`. As in `Evaluation`.
        untrained_layers: tuple of strings. Layers of the head that no stage
            trained. Since 0.2.
    """

    stage: str | None = None
    epoch: int | None = None
    averaged_epochs: tuple[int, ...] | None = None
    split: str | None = None
    metrics: dict | None = None
    agreement: dict | None = None
    collapsed: str | None = None
    untrained_layers: Texts | None = None

    def __post_init__(self):
        require_stage(self)
        if self.averaged_epochs and self.stage is None:
            raise UsageError(
                "Averaged epochs are in a stage. Got no stage. Pass its name."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFinished(Event, kind="run_finished"):
    """The end of the run.

    Args:
        seconds: float. The sum over all epochs.
        best: dict from arm to `Best`.
    """

    seconds: float
    best: dict[str, Best]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Export(Event, kind="export"):
    """An exported file, with the fields of `kdkit.export.ExportReport`.

    Args:
        arm: string or `None`. The model in the file.
        file: string. The path relative to the run.
        format: string. The exporter's name.
        title: string. The exporter's title. Since 0.2.
        precision: string.
        size_bytes: int.
        sequence_length: int or `None` for any length.
        max_abs_difference: float. From the outputs of the Keras model.
        same_top_class: float or `None`.
        examples: int. Examples on which file and model were compared.
        metrics: dict or `None`. The metrics of the file.
        split: string. The split of the metrics. Since 0.2; 0.1 measured on dev.
        task: string. The task of the metrics. Since 0.2.
        collapsed: string. As in `Evaluation`. Since 0.2.
        made_from: dict. The inputs of the file of a run's teacher. Since 0.2.
        file_digest: string. The file's checksum; none for a directory. Since
            0.2.
        bytes_by_part: dict from a part of the model, such as `"embeddings"`,
            to its bytes in the file, or `None`. Since 0.2.
        outputs: string. `"logits"`, `"softmax"`, `"sigmoid"` or
            `"sentence_embedding"`.
        smallest_cosine: float or `None`. Of an embedder's file.
        mean_cosine: float or `None`. Of an embedder's file.
        dimensions: int or `None`. Of the vectors of an embedder's file.
    """

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
    bytes_by_part: dict[str, PositiveInt] | None = None
    outputs: str | None = None
    smallest_cosine: float | None = None
    mean_cosine: float | None = None
    dimensions: PositiveInt | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Latency(Event, kind="latency"):
    """The speed of a file, with the fields of `kdkit.export.LatencyReport`.

    Args:
        file: string. The path relative to the run.
        room: tuple of two ints or `None`. The context lengths of an
            encoder-decoder's file.
        sentences_per_second: float or `None`. Of an embedder's file.
    """

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
    """The metrics that `kdkit evaluate` measured for a model of the run.

    Args:
        arm: string. `None` for another model in the run's directory.
        metrics: dict, the main one first.
        examples: int.
        task: string.
        split: string.
        corpus: tuple of strings, the files of running text. 0.1 wrote a text.
        pairs: tuple of strings, the files of pairs.
        columns: tuple of two strings, the columns of source and target.
            Since 0.2.
        column: string. The column of running text.
        one_document: bool.
        detokenizer: string.
        languages: tuple of strings, of source and target.
        held_out_every: int. One in so many texts was held out.
        sequence_length: int.
        stride: int. New tokens per sequence.
        masking: dict. How tokens were masked. Since 0.2.
        spans: dict. How spans were hidden. Since 0.2.
        beam_size: int.
        length_penalty: float.
        signatures: dict from metric to sacrebleu's signature.
        data_digest: string. The checksum of the encoded data. Since 0.2.
        rows_digest: string. The checksum of the data as read. Since 0.2.
        file: string. The exported file that was measured. Since 0.2.
        queries: string. The file of queries in a retrieval benchmark.
        documents: string. Its file of documents.
        judgements: string. Its file of judgements.
        ignore_same_id: bool. Whether the document with a query's id was
            ignored.
        num_documents: int.
        unjudged_queries: int. Queries without a relevant document, which do
            not count.
        bitext: tuple of two strings, the files of texts and translations.
        metrics_by_dimensions: dict from a number of first dimensions to
            metrics.
        texts: int. Different texts of an embedder's data.
        texts_in_training: int. Those that the run was trained on.
        examples_in_training: int. Examples with such a text.
        metrics_without_training_texts: dict. The metrics of other examples.
        without_texts_of: string. The run whose texts were left out.
        left_out: int. Examples with such a text, which are not measured.
        texts_cut: int. Different texts that were truncated.
        prompts: tuple of two strings, put before the texts of both sides.
        similarity: string. What vectors are compared by, for the cosine `None`.
        collapsed: string. Why an embedder has collapsed, to follow "it".
    """

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
    """Returns the event in an object of a log, or `None` if it has none.

    Args:
        line: dict, as JSON has it.

    Returns:
        An object of the class that is registered for the line's kind, or of
        `Event` where none is. `None` if the line has no kind or no time, lacks
        a field, or a field has a value that its annotation does not allow.
    """
    kind, time = line.get("event"), line.get("time")
    is_event = (
        isinstance(kind, str)
        and type(time) in (int, float)
        and 0 <= time <= LATEST
        and fits_64_bits(line)
    )
    if not is_event:
        return None
    if kind not in _KINDS:
        return Event(line=line)
    try:
        return _KINDS[kind](line=line, **read_fields(_KINDS[kind], line))
    except UsageError:
        return None
