"""Measures the latency of exported files."""

import pathlib
import time
from collections.abc import Callable, Sequence

import numpy as np

from kdkit.errors import UsageError, unknown
from kdkit.export.exporters import exporter_of, open_file, size_on_disk
from kdkit.export.inputs import (
    DECODER,
    ENCODER,
    ENCODER_DECODER,
    TENSORS,
)
from kdkit.exported import LatencyReport
from kdkit.io.machine import processor
from kdkit.taps.names import SENTENCE_EMBEDDING

DELEGATES = ("xnnpack", "none")
SEQUENCE_LENGTH = 128  # tokens, if a file takes any length
SENTENCE = 25  # tokens of a sentence to read and write
TURN = 5  # timed runs of one file before the next file's turn
SEED = 0  # of random tokens
FEWEST_TOKENS = 2  # ids 0 and 1, for files without a known vocabulary


def measure_latency(path: str | pathlib.Path, **settings) -> LatencyReport:
    """Times an exported file in its runtime: LiteRT or ONNX Runtime.

    Args:
        path: string or path. The file.
        **settings: as in `measure_latencies`.

    Returns:
        A `LatencyReport`.

    Example:

    ```python
    kdkit.export.measure_latency("student-int8.tflite", threads=2).median_ms
    ```
    """
    return measure_latencies([path], **settings)[0]


def measure_latencies(
    paths: Sequence[str | pathlib.Path],
    sequence_length: int | None = None,
    batch_size: int = 1,
    threads: int = 1,
    warmup: int = 10,
    runs: int = 50,
    delegate: str | None = None,
    pipelines: Sequence[Callable] | None = None,
) -> list[LatencyReport]:
    """Times several files in turns, so that their ratios are reliable.

    The files take turns of a few runs each. Each turn starts with an untimed
    run, because the previous file has emptied the processor's caches. Anything
    else that slows the machine down affects all files equally.

    Times only the runtime, without tokenizer or preparation of inputs. Inputs
    are random tokens. For a decoder's step file one step is timed, including
    the update of the cached keys and values; every position takes equally
    long. For an encoder-decoder's file a sentence is timed: reading a source,
    and writing the same number of tokens one by one.

    Args:
        paths: list of strings or paths. The files.
        sequence_length: int or `None`. Tokens in a row. Defaults to `None`:
            the file's length or, if it accepts any, that of the other files if
            these have the same one, otherwise 128; for a sentence 25, or the
            file's capacity if it is smaller.
        batch_size: int. Rows in the batch; for multiple choice the number of
            questions, each with all its options. Defaults to `1`.
        threads: int. CPU threads. Defaults to `1`.
        warmup: int. Untimed runs at the start. Defaults to `10`.
        runs: int. Timed runs. Defaults to `50`.
        delegate: string or `None`. For LiteRT files `"xnnpack"`, or `"none"`
            for LiteRT's own kernels. Defaults to `None`, the interpreter's
            choice, which is XNNPACK.
        pipelines: sequence of callables or `None`. One for each file, from
            the opened file, the batch size and the length to a function
            without arguments, which goes from strings to classes. They are
            timed in turns as well. Defaults to `None`, not timed.

    Returns:
        A list of `LatencyReport`s in the order of the paths.

    Raises:
        UsageError: (a `ValueError`) if a file has another length or batch
            size, or no such delegate.
    """
    models = [_open(path, threads, delegate) for path in paths]
    lengths = lengths_of(models, sequence_length, batch_size)
    calls = [
        _call(model, batch_size, length)
        for model, length in zip(models, lengths, strict=True)
    ]
    whole = [
        pipeline(model, batch_size, length)
        for pipeline, model, length in zip(
            pipelines or (), models, lengths, strict=bool(pipelines)
        )
    ]
    seconds = _time_in_turns(calls, warmup, runs)
    # Afterwards, because a pipeline leaves its own inputs in the file.
    ends = _time_in_turns(whole, warmup, runs)
    ends = ends or [None] * len(models)
    return [
        latency_report(
            model,
            batch_size,
            median_ms=1000 * float(np.median(times)),
            p95_ms=1000 * float(np.percentile(times, 95)),
            threads=threads,
            sequence_length=length,
            warmup=warmup,
            runs=runs,
            reads_sources=model.kind == ENCODER_DECODER,
            room=(
                (model.source_length, model.sequence_length)
                if model.kind == ENCODER_DECODER
                else None
            ),
            delegate=delegate,
            processor=processor(),
            end_to_end_ms=end and 1000 * float(np.median(end)),
        )
        for model, length, times, end in zip(
            models, lengths, seconds, ends, strict=True
        )
    ]


def latency_report(model, batch_size, median_ms, **times) -> LatencyReport:
    """Returns the report on an opened file, from its times."""
    is_embedder = getattr(model, "outputs", None) == SENTENCE_EMBEDDING
    per_second = 1000 * batch_size / median_ms
    return LatencyReport(
        file=str(model.path),
        median_ms=median_ms,
        batch_size=batch_size,
        size_bytes=size_on_disk(model.path),
        parameters=model.metadata and model.metadata.parameters,
        reads_tokens=model.kind == DECODER,
        sentences_per_second=per_second if is_embedder else None,
        **times,
    )


def _open(path, threads, delegate):
    exporter = exporter_of(path)
    if exporter is not None and not exporter.takes_threads:
        exporter.limit_threads(threads)
    if delegate is None:
        return open_file(path, threads)
    if delegate not in DELEGATES:
        raise unknown("delegate", delegate, DELEGATES)
    return exporter.open(pathlib.Path(path), threads, delegate)


def _call(model, batch_size, sequence_length):
    """Returns the function to time, which takes no arguments."""
    if model.kind in (ENCODER, TENSORS):
        model.set_inputs(full_rows(model, batch_size, sequence_length))
        return model.invoke
    rng = np.random.default_rng(SEED)
    tokens = rng.integers(model.vocabulary_size, size=sequence_length)
    # The file does not contain the size of the source vocabulary.
    source = rng.integers(FEWEST_TOKENS, size=sequence_length)

    def sentence():
        model.read_source(source)
        for token in tokens:
            model.step(token)

    if model.kind == ENCODER_DECODER:
        return sentence

    def step():
        if model.position == sequence_length:
            model.reset()
        model.step(tokens[model.position])

    return step


def _time_in_turns(calls, warmup, runs):
    """Returns the seconds of each timed run, one list per file."""
    seconds = [[] for _ in calls]
    for call in calls:
        for _ in range(warmup):
            call()
    while seconds and len(seconds[-1]) < runs:
        for call, times in zip(calls, seconds, strict=True):
            call()
            for _ in range(min(TURN, runs - len(times))):
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)
    return seconds


def full_rows(model, batch_size, sequence_length):
    """Returns a batch of random tokens without padding."""
    rng = np.random.default_rng(SEED)
    if model.kind == TENSORS:
        sizes = [size or sequence_length for size in model.sizes]
        numbers = rng.random((batch_size, *sizes))
        return {model.input_names[0]: numbers.astype("float32")}
    known = model.metadata and model.metadata.vocabulary_size
    rows = model.metadata.rows_per_output if model.metadata else 1
    shape = (batch_size * rows, sequence_length)
    batch = {
        "token_ids": rng.integers(1, known or FEWEST_TOKENS, shape),
        "segment_ids": np.zeros(shape),
        "padding_mask": np.ones(shape),
    }
    return {name: batch[name].astype("int32") for name in model.input_names}


def lengths_of(models, sequence_length, batch_size):
    """Returns the sequence length for each model, checked against the files."""
    for model in models:
        if sequence_length and not _takes(model, sequence_length):
            raise UsageError(
                f"{model.path} takes other lengths than {sequence_length}."
            )
        if model.batch_size not in (None, batch_size):
            raise UsageError(
                f"{model.path} takes batch_size={model.batch_size} only. "
                f"Received: batch_size={batch_size}."
            )
    fixed = {model.sequence_length for model in models if model.kind == ENCODER}
    fixed.discard(None)
    usual = fixed.pop() if len(fixed) == 1 else SEQUENCE_LENGTH
    return [sequence_length or _length(model, usual) for model in models]


def _takes(model, sequence_length):
    if model.kind == ENCODER_DECODER:
        return sequence_length <= model.room
    if model.kind == TENSORS:
        return None in model.sizes
    return model.sequence_length in (None, sequence_length)


def _length(model, usual):
    if model.kind == ENCODER_DECODER:
        return min(SENTENCE, model.room)
    if model.kind == TENSORS and None not in model.sizes:
        return 1  # a tensor for each example
    return model.sequence_length or usual
