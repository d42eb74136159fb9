"""Measures a MODEL on a split of a task, on texts of two sides or on text."""

import pathlib
import tempfile

from kdkit.cli.embedder_evaluation import open_on_embeddings
from kdkit.cli.opened import Measurable, is_embedder, is_writer, open_on_task
from kdkit.cli.places import locate, require_labels
from kdkit.cli.text_evaluation import (
    open_on_sentences,
    open_on_text,
    run_on_text,
)
from kdkit.cli.verb_flags import (
    BEAMS,
    EMBEDDINGS,
    MODEL,
    PAIRS,
    TASK,
    TEXT,
    reject_given,
)
from kdkit.runs import inputs
from kdkit.runs.events import Measurement
from kdkit.training.source import predict_logits

OF_TASK, LENGTH = {*TASK, "split"}, "sequence_length"
OF_EMBEDDERS = {*MODEL, "dimensions", "without_texts_of"}
RETRIEVAL = {"queries", "documents", "judgements", "ignore_same_id"}
# The options that each measurement reads. Others would be ignored.
READS = {
    "tasks": {*OF_TASK, "arm", "tokenizer", LENGTH},
    "--corpus": {*TEXT, "stride", LENGTH},
    "the run's own text": set(),
    "--bitext": {*OF_EMBEDDERS, "bitext"},
    "--queries": {*OF_EMBEDDERS, *RETRIEVAL},
    "embedders": {*OF_EMBEDDERS, *OF_TASK},
    "--pairs": {*PAIRS, *BEAMS, "tokenizer", LENGTH},
    "--corpus of an encoder-decoder": {
        *("corpus", "column", "languages", "tokenizer", LENGTH)
    },
    "the run's own sentences": {*BEAMS, "tokenizer"},
}
EVERY = {*OF_TASK, *MODEL, *EMBEDDINGS, *TEXT, *PAIRS, *BEAMS, "stride"}


def measure_and_note(options) -> dict:
    """Measures a model, and logs the metrics in its run if it has one."""
    place = locate(options.model, options.arm)
    kind, opens = _kind(place, options)
    reject_given(options, sorted(EVERY - READS[kind]), f"for {kind}")
    options.pooling = options.pooling or place.pooling
    with tempfile.TemporaryDirectory() as folder:
        model = opens(place, options, pathlib.Path(folder))
        metrics = model.measure()
    result = {**model.about, "metrics": metrics, **model.details}
    if model.run is not None:
        noted = {"arm": model.arm, **model.content, **result}
        if model.rows_digest is not None:
            noted["rows_digest"] = model.rows_digest
        if model.model is None:
            noted["file"] = pathlib.Path(options.model).name
        model.run.note(Measurement(**noted))
    return result


def _kind(place, options):
    """What a model is measured on, and the function that opens it."""

    def are_given(names):
        return any(getattr(options, name) for name in names)

    if are_given(("pooling", *EMBEDDINGS)) or is_embedder(place):
        kind = "--queries" if are_given(RETRIEVAL) else "embedders"
        return "--bitext" if options.bitext else kind, open_on_embeddings
    if are_given((*PAIRS, *BEAMS)) or is_writer(options.model):
        kind = "the run's own sentences"
        if options.corpus:
            kind = "--corpus of an encoder-decoder"
        return "--pairs" if options.pairs else kind, open_on_sentences
    if options.corpus:
        return "--corpus", open_on_text
    if run_on_text(place, options) is not None:
        return "the run's own text", open_on_text
    return "tasks", _open_on_task


def _open_on_task(place, options, folder):
    opened = open_on_task(place, options)
    split = options.split or ("test" if options.test else "dev")
    examples = opened.read(split)
    encoded = opened.encode_rows(examples)
    require_labels(encoded, split)

    def measure():
        logits = predict_logits(opened.predict, encoded)
        return opened.task.compute_metrics(encoded.targets, logits)

    about = {
        "task": opened.task.name,
        "split": split,
        "examples": len(encoded),
    }
    content = {
        "data_digest": inputs.rows_digest(encoded),
        "sequence_length": opened.sequence_length,
    }
    return Measurable(
        about,
        content,
        measure,
        opened.model,
        place.run,
        place.arm,
        inputs.rows_digest(examples),
    )
