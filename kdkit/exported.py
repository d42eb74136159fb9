"""Reports on exported files, which are logged without importing an export."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportReport:
    """A written file, and its differences from the Keras model.

    `dataclasses.asdict` returns the fields of an "export" event.

    Args:
        file: string. The path of the file or directory.
        format: string. The name of the exporter, such as `"litert"`.
        title: string. The exporter's title, such as `"LiteRT"`.
        precision: string, such as `"fp32"` or `"static_int8"`.
        size_bytes: int. The size on disk.
        sequence_length: int or `None`. The only length in tokens that the
            file accepts, `None` for any length.
        max_abs_difference: float. The largest absolute difference between the
            outputs of the file and of the Keras model.
        same_top_class: float in [0, 1] or `None`. The share of outputs with
            the same highest logit, or with `"sigmoid"` of equal decisions, one
            for each label; `None` for a single logit (regression) and for an
            embedder. Padding does not count.
        examples: int. The number of compared rows; for a decoder and an
            encoder-decoder in LiteRT the number of compared positions.
        outputs: string. `"logits"`, `"softmax"`, `"sigmoid"` or, for an
            embedder, `"sentence_embedding"`. Defaults to `"logits"`.
        smallest_cosine: float or `None`. For an embedder, the smallest cosine
            between a vector from the file and the Keras model's. Defaults to
            `None`.
        mean_cosine: float or `None`. The mean of these cosines. Defaults to
            `None`.
        dimensions: int or `None`. For an embedder, the width of the vectors in
            the file. Defaults to `None`.
    """

    file: str
    format: str
    title: str
    precision: str
    size_bytes: int
    sequence_length: int | None = None
    max_abs_difference: float
    same_top_class: float | None = None
    examples: int
    outputs: str = "logits"
    smallest_cosine: float | None = None
    mean_cosine: float | None = None
    dimensions: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class LatencyReport:
    """A file's times. `dataclasses.asdict` returns a "latency" event's fields.

    Args:
        file: string. The path of the file.
        median_ms: float. Median time of one batch, in milliseconds.
        p95_ms: float. 95th percentile, in milliseconds.
        threads: int. CPU threads of the runtime.
        batch_size: int. Rows in the batch.
        sequence_length: int. Tokens in a row, padding included.
        warmup: int. Untimed runs before the first timed one.
        runs: int. Timed runs.
        size_bytes: int. Size of the file.
        parameters: int or `None`. Parameters of the model in the file; `None`
            for a file that kdkit did not write.
        reads_tokens: bool. Whether a time is for one token, read by a decoder
            with a capacity of `sequence_length` tokens.
        reads_sources: bool. Whether a time is for one sentence: an
            encoder-decoder reads a source and writes `sequence_length` tokens.
        room: tuple of two ints or `None`. For an encoder-decoder's file, its
            capacity in tokens for a source and for a target. Its time depends
            on this capacity, not on the length of a sentence.
        delegate: string or `None`. `"xnnpack"` or `"none"` for a LiteRT file
            that was measured with or without XNNPACK on purpose. Defaults to
            `None`, the runtime's own choice.
        device: string or `None`. The model of the phone that was measured.
            Defaults to `None`, this machine.
        android: string or `None`. The phone's version of Android.
        processor: string or `None`. This machine's processor, if it was
            measured.
        initialization_ms: float or `None`. The time to open the file, if it
            was measured on a phone.
        peak_memory_mb: float or `None`. The largest memory use, if it was
            measured on a phone.
        end_to_end_ms: float or `None`. The median time from a batch of strings
            to classes, tokenizer included, if it was measured.
        sentences_per_second: float or `None`. For an embedder's file, the texts
            of a batch by its median time.
    """

    file: str
    median_ms: float
    p95_ms: float
    threads: int
    batch_size: int
    sequence_length: int
    warmup: int
    runs: int
    size_bytes: int
    parameters: int | None = None
    reads_tokens: bool = False
    reads_sources: bool = False
    room: tuple[int, int] | None = None
    delegate: str | None = None
    device: str | None = None
    android: str | None = None
    processor: str | None = None
    initialization_ms: float | None = None
    peak_memory_mb: float | None = None
    end_to_end_ms: float | None = None
    sentences_per_second: float | None = None
