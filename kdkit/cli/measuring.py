"""Measures a MODEL on a split of a task, on texts of two sides or on text."""

import contextlib
import pathlib

from kdkit.cli.embedder_evaluation import (
    is_about_embeddings,
    open_on_embeddings,
)
from kdkit.cli.models import locate, open_model, require_labels
from kdkit.cli.text_evaluation import (
    Measurable,
    is_about_sentences,
    is_about_text,
    open_on_sentences,
    open_on_text,
)
from kdkit.cli.verb_flags import reject_given
from kdkit.runs import inputs
from kdkit.runs.events import Measurement
from kdkit.training.source import predict_logits


def measure_and_note(options) -> dict:
    """Measures a model, and logs the metrics in its run if it has one."""
    with open_measurable(options) as model:
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


@contextlib.contextmanager
def open_measurable(options):
    """Opens a model with a split of its task, or with text."""
    place = locate(options.model, options.arm)
    options.pooling = options.pooling or place.pooling
    if is_about_embeddings(place, options):
        yield open_on_embeddings(place, options)
    elif is_about_sentences(options):
        yield open_on_sentences(place, options)
    elif is_about_text(place, options):
        with open_on_text(place, options) as measurable:
            yield measurable
    else:
        yield _open_on_task(place, options)


def _open_on_task(place, options):
    names = ("column", "one_document", "detokenizer", "stride")
    reject_given(options, names, "without --corpus")
    opened = open_model(place, options)
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
