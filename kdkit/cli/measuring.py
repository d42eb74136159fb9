"""Measures a MODEL on a split of a task, on texts of two sides or on text."""

import pathlib
import tempfile

from kdkit import export
from kdkit.cli.embedder_evaluation import measure_vectors
from kdkit.cli.opened import is_embedder, is_writer, open_on_task
from kdkit.cli.places import locate, require_labels
from kdkit.cli.text_evaluation import (
    measure_on_sentences,
    measure_on_text,
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
from kdkit.config.data import Pairs
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
    "the run's own pairs": {*BEAMS, "tokenizer"},
    "the run's own sentences": {"tokenizer"},
}
EVERY = set().union(*READS.values())


def measure_and_note(options) -> dict:
    """Measures a model, and logs the metrics in its run if it has one."""
    place = locate(options.model, options.arm)
    kind, measure = _kind(place, options)
    reject_given(options, sorted(EVERY - READS[kind]), f"for {kind}")
    options.pooling = options.pooling or place.pooling
    with tempfile.TemporaryDirectory() as folder:
        result, content = measure(place, options, pathlib.Path(folder))
    if place.run is not None:
        noted = {"arm": place.arm, **content, **result}
        if export.exporter_of(place.path) is not None:
            noted["file"] = place.path.name
        place.run.note(Measurement(**noted))
    return result


def _kind(place, options):
    """What a model is measured on, and the function that measures it.

    It returns the results as JSON data, and what else is noted of the data.
    """

    def are_given(names):
        return any(getattr(options, name) for name in names)

    if are_given(("pooling", *EMBEDDINGS)) or is_embedder(place):
        kind = "--queries" if are_given(RETRIEVAL) else "embedders"
        return "--bitext" if options.bitext else kind, measure_vectors
    if are_given((*PAIRS, *BEAMS)) or is_writer(options.model):
        own = "pairs" if isinstance(place.corpus, Pairs) else "sentences"
        kind = f"the run's own {own}"
        if options.corpus:
            kind = "--corpus of an encoder-decoder"
        return "--pairs" if options.pairs else kind, measure_on_sentences
    if options.corpus:
        return "--corpus", measure_on_text
    if run_on_text(place, options) is not None:
        return "the run's own text", measure_on_text
    return "tasks", _measure_on_task


def _measure_on_task(place, options, folder):
    opened = open_on_task(place, options)
    split = options.split or ("test" if options.test else "dev")
    examples = opened.read(split)
    encoded = opened.encode_rows(examples)
    require_labels(encoded, split)
    logits = predict_logits(opened.predict, encoded)
    return {
        "task": opened.task.name,
        "split": split,
        "examples": len(encoded),
        "metrics": opened.task.compute_metrics(encoded.targets, logits),
    }, {
        "data_digest": inputs.rows_digest(examples),
        "sequence_length": opened.sequence_length,
    }
