"""Times exported files from a string to a class, tokenizer included."""

import contextlib
import itertools
import logging

import numpy as np

from kdkit import data
from kdkit.cli.models import file_tokenizer, task_of
from kdkit.data import Examples
from kdkit.errors import UsageError

NUM_TEXTS = 64  # different texts, so that no cache helps
NUM_WORDS = 16  # in a generated text; SST-2's dev split has 19 on average
SEED = 0

_log = logging.getLogger(__name__)


def pipeline(place, tokenizer: str | None):
    """Returns a pipeline for `kdkit.export.measure_latencies`."""
    loaded = file_tokenizer(place, tokenizer)
    texts, encode = _texts(place, loaded)

    def make(file, batch_size, sequence_length):
        starts = itertools.cycle(range(0, len(texts), batch_size))

        def classify():
            first = next(starts)
            rows = (first + np.arange(batch_size)) % len(texts)
            encoded = encode(texts.take(rows), loaded, sequence_length)
            batch = encoded.inputs(np.arange(batch_size), sequence_length)
            return file(batch).argmax(axis=-1)

        return classify

    return make


def _texts(place, tokenizer):
    """Returns texts of the run's dev split, or generated ones, and `encode`."""
    if place.task_data is not None:
        with contextlib.suppress(OSError, UsageError):  # missing files
            task, data_dir = task_of(place.task_data)
            texts = task.load("dev", data_dir)
            chosen = range(min(NUM_TEXTS, len(texts)))
            return texts.take(chosen), task.encode
    _log.info(
        f"Generated texts of {NUM_WORDS} words for {place.path}: its data is "
        "unknown or missing."
    )
    rng = np.random.default_rng(SEED)
    ids = rng.integers(tokenizer.vocabulary_size(), size=NUM_TEXTS * NUM_WORDS)
    words = [str(tokenizer.id_to_token(int(number))) for number in ids]
    texts = [" ".join(words[at::NUM_TEXTS]) for at in range(NUM_TEXTS)]
    return Examples((texts,)), data.encode
