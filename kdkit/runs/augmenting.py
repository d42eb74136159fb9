"""Writes a run's file of augmented examples, or reuses a complete one."""

import logging
import pathlib
import time

from kdkit import models, tasks
from kdkit.augmentation import (
    Augmenter,
    MaskedWords,
    PieceNeighbors,
    VectorNeighbors,
    default_stop_words,
    join_parts,
    part_path,
    part_rows,
    require_fingerprint,
    require_new_file,
    write_augmented,
)
from kdkit.data import read_all_word_vectors
from kdkit.errors import UsageError
from kdkit.io.files import digest
from kdkit.io.locks import locked
from kdkit.io.machine import duration
from kdkit.io.reading import numbered_lines
from kdkit.training.data_settings import AugmentedSettings, AugmentSettings
from kdkit.training.distribution import ONE_DEVICE, Distribution
from kdkit.training.tasks import open_task

_log = logging.getLogger(__name__)

MOST_VECTORS = 100_000  # as in the code of TinyBERT's authors
SECONDS_BETWEEN_LINES = 15
# As noted in the files.
READINGS = {"tinybert": "tinybert, nearest words without the word itself"}


def augment(
    settings: AugmentSettings, output, part: tuple[int, int] | None = None
) -> None:
    """Augments a task's training examples, or joins the finished parts."""
    task, loaded, stop_words, known = load_parts(settings, output)
    examples = task.load("train", settings.data_dir)
    if part is None:
        progress = join_parts(examples, output, _fingerprint(settings))
        if progress is not None:
            _say_finished(output, progress)
            return
    num_candidates = settings.augmentation.num_candidates
    as_code = settings.parity == "tinybert"
    augmenter = Augmenter(
        settings.augmentation,
        MaskedWords(
            loaded.model,
            loaded.tokenizer,
            num_candidates,
            with_original=as_code,
        ),
        PieceNeighbors(loaded.model, loaded.tokenizer, num_candidates, known),
        loaded.tokenizer,
        stop_words,
        settings.seed,
    )
    columns = ("sentence",)
    if task.num_texts == 2:
        columns = ("sentence1", "sentence2")
    progress = write_augmented(
        examples,
        augmenter,
        output,
        columns,
        _fingerprint(settings),
        in_place=as_code,
        announce=_Lines(part_rows(len(examples), part)[1]),
        part=part,
    )
    if part is not None:
        output = part_path(output, part)
    _say_finished(output, progress)


def load_parts(settings: AugmentSettings, output):
    """Loads the model and the words for augmentation; the file must be new."""
    task = open_task(settings)
    _require_text_task(task)
    require_new_file(output)
    loaded = models.load_masked_lm(settings.model)
    if not loaded.has_trained_head:
        raise UsageError(
            f"{settings.model} has no trained head for masked tokens. Train "
            "one with kdkit pretrain."
        )
    stop_words = _stop_words(settings.stop_words)
    return task, loaded, stop_words, _vector_neighbors(settings)


def prepare_augmented(settings: AugmentedSettings, examples) -> None:
    """Writes a run's augmented examples, or compares those that exist."""
    file, made_by = pathlib.Path(settings.file), settings.made_by
    if file.exists() or made_by is None:
        known = require_fingerprint(
            file, examples, _fingerprint(made_by) if made_by else {}
        )
        _log.info(
            f"{file}: made earlier"
            f"{', from the same inputs' if known and made_by else ''}.",
        )
    else:
        augment(made_by, file)


def prepare_copies(
    settings: AugmentedSettings,
    task: tasks.Task,
    data_dir,
    distribution: Distribution = ONE_DEVICE,
) -> None:
    """Writes a run's file of augmented examples, or reuses a complete one."""
    with distribution.chief_first():
        train = task.load("train", data_dir)
        file = pathlib.Path(settings.file)
        if file.exists() or settings.made_by is None:
            prepare_augmented(settings, train)
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        turn = file.with_name(f".{file.name}.turn.lock")
        waiting = f"Another process is writing {file}: waiting for it."
        with locked(turn, waiting=waiting):
            prepare_augmented(settings, train)
            turn.unlink(missing_ok=True)


def _say_finished(output, progress):
    _log.info(
        f"{output}: {progress.copies} augmented examples, from "
        f"{progress.rows} examples.",
    )


class _Lines:
    """Reports the progress at intervals."""

    def __init__(self, num_rows):
        self._num_rows = num_rows
        self._first = None
        self._last = self._start = time.monotonic()

    def __call__(self, progress):
        now = time.monotonic()
        if self._first is None:
            self._first = progress.rows  # the time for compiling is not counted
            self._start = now
        if now - self._last < SECONDS_BETWEEN_LINES:
            return
        self._last = now
        done = progress.rows - self._first
        left = ""
        if done:
            rest = self._num_rows - progress.rows
            seconds = (now - self._start) * rest / done
            left = f", {duration(seconds)} left"
        _log.info(
            f"{progress.rows} of {self._num_rows} rows, {progress.copies} "
            f"copies{left}",
        )


def _fingerprint(settings):
    """Everything that decides the augmented examples, except the examples."""
    files = models.find(settings.model).files
    return {
        "model": settings.model if files is None else digest(files),
        "word_vectors": _digest(settings.word_vectors),
        "stop_words": _digest(settings.stop_words),
        "parity": READINGS.get(settings.parity),
        "seed": settings.seed,
        **vars(settings.augmentation),
    }


def _digest(file):
    return None if file is None else digest(pathlib.Path(file))


def _require_text_task(task):
    # Without the head, whose classes may have to be read from the data.
    if task.kind.head_kind != "sequence":
        raise UsageError(
            "Augmentation is for tasks with sentences or pairs. Received: task "
            f"{task.name!r}, {task.kind.title}."
        )


def _stop_words(file):
    if file is None:
        return default_stop_words()
    lines = numbered_lines(file)
    return frozenset(word for _, line in lines for word in line.lower().split())


def _vector_neighbors(settings):
    if settings.word_vectors is None:
        return None
    words, vectors = read_all_word_vectors(settings.word_vectors, MOST_VECTORS)
    return VectorNeighbors(words, vectors, settings.augmentation.num_candidates)
