"""Files of augmented examples: makes one, or compares one that exists."""

import hashlib
import json
import logging
import pathlib
import shutil
import time

from kdkit import models
from kdkit.augmentation.augmenter import Augmenter
from kdkit.augmentation.candidates import (
    MaskedWords,
    PieceNeighbors,
    VectorNeighbors,
)
from kdkit.config import data as config
from kdkit.data import Examples
from kdkit.data.augmented import NOTE, SOURCE_ROW, require_made_from
from kdkit.data.selection import rows_digest
from kdkit.data.word_vectors import read_all_word_vectors
from kdkit.errors import UsageError
from kdkit.io.files import (
    content_digest,
    digest,
    digest_of_text,
    staged,
    write_text,
)
from kdkit.io.locks import alone_with, locked
from kdkit.io.machine import duration
from kdkit.io.reading import numbered_lines
from kdkit.training.tasks import open_task

_log = logging.getLogger(__name__)

MOST_VECTORS = 100_000  # as in the code of TinyBERT's authors
ROWS_PER_STEP = 1024  # examples augmented together
SECONDS_BETWEEN_LINES = 15
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
        masked_words,
        neighbors,
        loaded.tokenizer,
        settings.num_copies,
        settings.probability,
        settings.sequential,
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
        "num_copies": settings.num_copies,
        "probability": settings.probability,
        "num_candidates": settings.num_candidates,
        "sequential": settings.sequential,
    }


def _digest(file):
    return None if file is None else digest(pathlib.Path(file))


def write_augmented(
    examples: Examples,
    augmenter,
    output,
    columns: tuple[str, ...],
    settings: dict,
    in_place: bool = False,
    part: tuple[int, int] | None = None,
) -> int | None:
    """Writes the copies of all examples into a tab-separated file.

    The first line is `# {...}`: what the copies were made from, and a checksum
    of the other lines. Then follow headings: `source_row`, counted from 0;
    `column`, which text of the example was changed; `copy`, counted from 1; and
    the texts. Steps of 1,024 examples are written to a folder next to the file,
    whose name depends on everything that decides the copies. The same call
    continues an interrupted one.

    Args:
        examples: `Examples`, sentences or pairs.
        augmenter: `Augmenter`.
        output: path of the file.
        columns: tuple of strings. The headings of the texts.
        settings: dict of everything that the copies depend on, except the
            texts.
        in_place: bool. Whether the second text of a pair is written next to the
            last copy of the first text, as in the TinyBERT authors' code,
            instead of the first text itself. Defaults to `False`.
        part: tuple of ints i, n or `None`. Process i, from 0, of n processes
            that share the steps. The call without a part makes missing steps
            and joins all of them. Defaults to `None`.

    Returns:
        The number of copies; `None` for a part.

    Raises:
        UsageError: (a `ValueError`) if the file exists, or if another process
            writes it.
    """
    output = pathlib.Path(output)
    require_new_file(output)
    made_from = {**settings, "texts": rows_digest(examples.texts)}
    key = digest_of_text(json.dumps(made_from, sort_keys=True))
    folder = output.with_name(f".{output.name}.steps-{key}")
    steps = [
        folder / f"{number:05}.tsv"
        for number in range(-(-len(examples) // ROWS_PER_STEP))
    ]
    which, count = part or (0, 1)
    folder.mkdir(parents=True, exist_ok=True)
    with alone_with(folder / f"{which + 1}_of_{count}"):
        for number in _announced(range(which, len(steps), count)):
            if not steps[number].exists():
                lines = _step(examples, augmenter, number, in_place)
                write_text(steps[number], "".join(lines))
        if part is not None:
            return None
        require_new_file(output)  # another process may have made it
        try:
            return _join(steps, output, columns, made_from)
        finally:
            if output.exists():
                shutil.rmtree(folder, ignore_errors=True)


def require_new_file(output) -> None:
    """Raises an error if a file already exists.

    Raises:
        UsageError: if the file exists.
    """
    if pathlib.Path(output).exists():
        raise UsageError(
            f"{output} already exists. Expected the name of a new file."
        )


def _step(examples, augmenter, number, in_place):
    """Yields the lines with the copies of a step's examples."""
    first = number * ROWS_PER_STEP
    texts = [column[first : first + ROWS_PER_STEP] for column in examples.texts]
    copies = [
        augmenter(column, first_row=first, column=place)
        for place, column in enumerate(texts)
    ]
    for row in range(len(texts[0])):
        cells = [column[row] for column in texts]
        for place, column_copies in enumerate(copies):
            for count, copy in enumerate(column_copies[row], start=1):
                changed = [*cells[:place], copy, *cells[place + 1 :]]
                yield _line(first + row, place, count, *changed)
            if in_place and column_copies[row]:
                cells[place] = column_copies[row][-1]


def _line(*cells):
    """Returns a line of the file; tabs and line feeds become blanks."""
    texts = (" ".join(str(cell).split("\t")) for cell in cells)
    return "\t".join(" ".join(text.splitlines()) for text in texts) + "\n"


def _join(steps, output, columns, made_from):
    """Writes the file from its steps, and returns the number of copies."""
    headings = _line(SOURCE_ROW, "column", "copy", *columns).encode()
    content, copies = hashlib.sha256(headings), 0
    for step in steps:
        lines = step.read_bytes()
        content.update(lines)
        copies += lines.count(b"\n")
    note = {**made_from, "copies": content_digest(content)}
    with staged(output) as partial, open(partial, "wb") as file:
        file.write(f"{NOTE}{json.dumps(note)}\n".encode())
        file.write(headings)
        for step in steps:
            file.write(step.read_bytes())
    return copies


def _announced(steps):
    """Yields the steps, and logs at intervals how long the others take."""
    last = start = time.monotonic()
    for done, step in enumerate(steps):
        now = time.monotonic()
        if done == 1:
            start = now  # the time for compiling is not counted
        elif now - last > SECONDS_BETWEEN_LINES:
            last = now
            left = (now - start) / (done - 1) * (len(steps) - done)
            _log.info(
                f"{done} of {len(steps)} steps of {ROWS_PER_STEP} examples, "
                f"{duration(left)} left",
            )
        yield step
