"""The work of `kdkit augment`: what it needs, loaded and put together."""

import pathlib
import time

from kdkit import models
from kdkit import tasks
from kdkit.augmentation import Augmentation
from kdkit.augmentation import Augmenter
from kdkit.augmentation import MaskedWords
from kdkit.augmentation import PieceNeighbors
from kdkit.augmentation import VectorNeighbors
from kdkit.augmentation import check_output
from kdkit.augmentation import copies_for
from kdkit.augmentation import default_stop_words
from kdkit.augmentation import write_augmented
from kdkit.data import read_all_word_vectors
from kdkit.errors import UsageError
from kdkit.errors import all_mistakes

MOST_VECTORS = 100_000  # as in the code of TinyBERT's authors
SECONDS_BETWEEN_LINES = 15


def augment(options) -> None:
    """Augments the training rows of a task.

    Args:
        options: the parsed options of `kdkit augment`.

    Raises:
        UsageError: with all mistakes, before any work.
        RunError: if the file cannot be written.
    """
    task = tasks.get_task(options.task)
    with all_mistakes() as check:
        with check():
            _check_task(task)
        with check():
            task.check_data(["train"], options.data_dir)
        with check():
            check_output(options.output)
        with check():
            settings = _settings(options, task)
        with check():
            loaded = _load_model(options.model)
        with check():
            stop_words = _stop_words(options.stop_words)
        with check():
            known = _vector_neighbors(options)
    as_code = options.parity == "tinybert"
    augmenter = Augmenter(
        settings,
        MaskedWords(
            loaded.model,
            loaded.tokenizer,
            settings.num_candidates,
            with_original=as_code,
        ),
        PieceNeighbors(
            loaded.model, loaded.tokenizer, settings.num_candidates, known
        ),
        loaded.tokenizer,
        stop_words,
        options.seed,
    )
    examples = task.load("train", options.data_dir)
    columns = ("sentence",)
    if task.num_texts == 2:
        columns = ("sentence1", "sentence2")
    progress = write_augmented(
        examples,
        augmenter,
        options.output,
        columns,
        {
            "model": str(pathlib.Path(options.model).resolve()),
            "word_vectors": options.word_vectors,
            "stop_words": options.stop_words,
            "parity": options.parity,
            "seed": options.seed,
            **vars(settings),
        },
        in_place=as_code,
        announce=_Lines(len(examples)),
    )
    print(
        f"{options.output}: {progress.copies} copies of {progress.rows} rows.",
        flush=True,
    )


class _Lines:
    """Tells how far the work is, now and then."""

    def __init__(self, num_rows):
        self._num_rows = num_rows
        self._first = None
        self._last = self._start = time.monotonic()

    def __call__(self, progress):
        now = time.monotonic()
        if self._first is None:
            self._first = progress.rows  # what compiling took is not counted
            self._start = now
        if now - self._last < SECONDS_BETWEEN_LINES:
            return
        self._last = now
        done = progress.rows - self._first
        left = ""
        if done:
            rest = self._num_rows - progress.rows
            minutes = (now - self._start) * rest / done / 60
            left = f", {minutes:.1f} min left"
        print(
            f"{progress.rows} of {self._num_rows} rows, {progress.copies} "
            f"copies{left}",
            flush=True,
        )


def _check_task(task):
    if task.head.kind != "sequence":
        raise UsageError(
            "Augmentation is for tasks on sentences and pairs. Received: task "
            f"{task.name!r}, {task.kind.title}."
        )


def _settings(options, task):
    copies = options.copies
    return Augmentation(
        num_copies=(
            copies_for(task.name, options.parity) if copies is None else copies
        ),
        probability=options.probability,
        num_candidates=options.candidates,
        sequential=options.sequential,
    )


def _load_model(place):
    loaded = models.load_masked_lm(place)
    if not loaded.has_trained_head:
        raise UsageError(
            f"{place} has no trained head for masked tokens. Expected a run of "
            f"kdkit pretrain: kdkit pretrain --model {place} --corpus TEXT "
            "--run-dir RUN"
        )
    return loaded


def _stop_words(file):
    if file is None:
        return default_stop_words()
    try:
        text = pathlib.Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"Cannot read the stop words in {file}: {error.strerror}. Expected "
            "one word a line."
        ) from error
    return frozenset(text.lower().split())


def _vector_neighbors(options):
    if options.word_vectors is None:
        return None
    words, vectors = read_all_word_vectors(options.word_vectors, MOST_VECTORS)
    return VectorNeighbors(
        words,
        vectors,
        options.candidates,
        include_word=options.parity == "tinybert",
    )
