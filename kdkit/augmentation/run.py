"""Makes a run's file of augmented examples, or compares one that exists."""

import logging
import pathlib

from kdkit import models
from kdkit.augmentation.augmenter import Augmenter
from kdkit.augmentation.candidates import (
    MaskedWords,
    PieceNeighbors,
    VectorNeighbors,
)
from kdkit.augmentation.files import require_new_file, write_augmented
from kdkit.data import read_all_word_vectors
from kdkit.data.augmented import require_made_from
from kdkit.errors import UsageError
from kdkit.io.files import digest
from kdkit.io.locks import locked
from kdkit.io.reading import numbered_lines
from kdkit.tasks import Task

_log = logging.getLogger(__name__)

MOST_VECTORS = 100_000  # as in the code of TinyBERT's authors
# As noted in the files.
READINGS = {"tinybert": "tinybert, nearest words without the word itself"}


def augment(
    settings, task: Task, output, part: tuple[int, int] | None = None
) -> None:
    """Augments a task's training examples.

    Args:
        settings: `kdkit.training.data_settings.AugmentSettings`.
        task: `Task` of the settings.
        output, part: as in `write_augmented`.
    """
    # Without the head, whose classes may have to be read from the data.
    if task.kind.head_kind != "sequence":
        raise UsageError(
            "Augmentation is for tasks with sentences or pairs. Received: task "
            f"{task.name!r}, {task.kind.title}."
        )
    require_new_file(output)
    augmenter = _augmenter(settings)
    examples = task.load("train", settings.data_dir)
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


def prepare_copies(settings, task: Task, data_dir) -> None:
    """Makes a run's file of augmented examples, or compares an earlier one.

    Args:
        settings: `kdkit.training.data_settings.AugmentedSettings`.
        task: `Task` of the run.
        data_dir: string or `None`. The folder with the task's files.
    """
    file, made_by = pathlib.Path(settings.file), settings.made_by
    if made_by is not None and not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        turn = file.with_name(f".{file.name}.turn.lock")
        waiting = f"Another process is writing {file}: waiting for it."
        with locked(turn, waiting=waiting):
            is_missing = not file.exists()
            if is_missing:
                augment(made_by, task, file)
            turn.unlink(missing_ok=True)
        if is_missing:
            return
    expected = made_by and _made_from(made_by)
    require_made_from(file, task.load("train", data_dir), expected)
    same = ", from the same inputs" if made_by else ""
    _log.info(f"{file}: made earlier{same}.")


def _augmenter(settings):
    """Loads the model and the words."""
    loaded = models.load_masked_lm(settings.model)
    if not loaded.has_trained_head:
        raise UsageError(
            f"{settings.model} has no trained head for masked tokens. Train "
            "one with kdkit pretrain."
        )
    num_candidates = settings.augmentation.num_candidates
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
        settings.augmentation,
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
        **vars(settings.augmentation),
    }


def _digest(file):
    return None if file is None else digest(pathlib.Path(file))
