"""Makes a run's file of augmented examples, or compares one that exists."""

import logging
import pathlib

from kdkit import models
from kdkit.augmentation.augmenter import Augmentation, Augmenter
from kdkit.augmentation.candidates import (
    MaskedWords,
    PieceNeighbors,
    VectorNeighbors,
)
from kdkit.augmentation.files import require_new_file, write_augmented
from kdkit.config import data as config
from kdkit.data.augmented import require_made_from
from kdkit.data.word_vectors import read_all_word_vectors
from kdkit.errors import UsageError
from kdkit.io.files import digest
from kdkit.io.locks import locked
from kdkit.io.reading import numbered_lines
from kdkit.training.tasks import open_task

_log = logging.getLogger(__name__)

MOST_VECTORS = 100_000  # as in the code of TinyBERT's authors
# As noted in the files.
READINGS = {"tinybert": "tinybert, nearest words without the word itself"}


def augment(
    settings: config.Augmentation,
    output,
    part: tuple[int, int] | None = None,
) -> None:
    """Augments a task's training examples.

    Args:
        settings: `kdkit.config.data.Augmentation`.
        output, part: as in `write_augmented`.
    """
    task = open_task(settings.data)
    # Without the head, whose classes may have to be read from the data.
    if task.kind.head_kind != "sequence":
        raise UsageError(
            "Augmentation is for tasks with sentences or pairs. Received: task "
            f"{task.name!r}, {task.kind.title}."
        )
    require_new_file(output)
    augmenter = _augmenter(settings)
    examples = task.load("train", settings.data.data_dir)
    columns = ("sentence",)
    if task.num_texts == 2:
        columns = ("sentence1", "sentence2")
    copies = write_augmented(
        examples,
        augmenter,
        output,
        columns,
        _made_from(settings),
        in_place=settings.parity == "tinybert",
        part=part,
    )
    if copies is None:
        _log.info(f"{output}: a part of its steps is complete.")
    else:
        _log.info(
            f"{output}: {copies} augmented examples, from {len(examples)} "
            "examples.",
        )


def prepare_copies(settings: config.Augmentation, file) -> None:
    """Makes a run's file of augmented examples, or compares an earlier one.

    Args:
        settings: `kdkit.config.data.Augmentation`.
        file: path of the file.
    """
    file = pathlib.Path(file)
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        turn = file.with_name(f".{file.name}.turn.lock")
        waiting = f"Another process is writing {file}: waiting for it."
        with locked(turn, waiting=waiting):
            is_missing = not file.exists()
            if is_missing:
                augment(settings, file)
            turn.unlink(missing_ok=True)
        if is_missing:
            return
    examples = open_task(settings.data).load("train", settings.data.data_dir)
    require_made_from(file, examples, _made_from(settings))
    _log.info(f"{file}: made earlier, from the same inputs.")


def _augmenter(settings):
    """Loads the model and the words."""
    loaded = models.load_masked_lm(settings.model)
    if not loaded.has_trained_head:
        raise UsageError(
            f"{settings.model} has no trained head for masked tokens. Train "
            "one with kdkit pretrain."
        )
    num_candidates = settings.num_candidates
    known = stop_words = None
    if settings.word_vectors is not None:
        words, vectors = read_all_word_vectors(
            settings.word_vectors, MOST_VECTORS
        )
        known = VectorNeighbors(words, vectors, num_candidates)
    if settings.stop_words is not None:
        lines = numbered_lines(settings.stop_words)
        stop_words = {
            word for _, line in lines for word in line.lower().split()
        }
    masked_words = MaskedWords(
        loaded.model,
        loaded.tokenizer,
        num_candidates,
        with_original=settings.parity == "tinybert",
    )
    neighbors = PieceNeighbors(
        loaded.model, loaded.tokenizer, num_candidates, known
    )
    return Augmenter(
        _replaced(settings),
        masked_words,
        neighbors,
        loaded.tokenizer,
        stop_words,
        settings.seed,
    )


def _made_from(settings):
    """Everything that decides the augmented examples, except the examples."""
    files = models.find(settings.model).files
    return {
        "model": settings.model if files is None else digest(files),
        "word_vectors": _digest(settings.word_vectors),
        "stop_words": _digest(settings.stop_words),
        "parity": READINGS.get(settings.parity),
        "seed": settings.seed,
        **vars(_replaced(settings)),
    }


def _replaced(settings):
    """How words are replaced."""
    return Augmentation(
        settings.num_copies,
        settings.probability,
        settings.num_candidates,
        settings.sequential,
    )


def _digest(file):
    return None if file is None else digest(pathlib.Path(file))
