"""RACE: reading comprehension with four options for each question."""

import dataclasses
import pathlib
from collections.abc import Iterable

import numpy as np

from kdkit.data.choices import Questions
from kdkit.data.problems import raise_missing
from kdkit.data.problems import raise_problems
from kdkit.data.problems import read_lines
from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.reading import parse_json

NUM_OPTIONS = 4
LETTERS = "ABCD"
FIELDS = ("article", "questions", "options", "answers")


@dataclasses.dataclass(frozen=True)
class RaceLayout:
    """Where the passages of RACE are.

    A level of a split is looked for in two places: as one JSON file a passage
    in `RACE/{split}/{level}/*.txt`, as the data set comes, and as one JSON
    line a passage in `race_{level}/{split}_{level}.jsonl`.

    Args:
        levels: tuple of strings. `"middle"`, `"high"` or both.
    """

    levels: tuple[str, ...]
    class_names = tuple(LETTERS)
    files = {"train": "train", "dev": "dev", "test": "test"}

    def for_data(self, data_dir) -> "RaceLayout":
        """Returns the layout: all of RACE has the same four options."""
        del data_dir
        return self

    def places(self, split: str, level: str, data_dir):
        """Returns the folder and the file where a level is looked for."""
        root = pathlib.Path(data_dir)
        return (
            root / "RACE" / split / level,
            root / f"race_{level}" / f"{split}_{level}.jsonl",
        )

    def require(self, splits: Iterable[str], data_dir) -> None:
        """Checks that all levels of the splits are there.

        Raises:
            UsageError: with every missing place.
        """
        raise_missing(
            [
                f"{folder}/*.txt or {file}"
                for split in splits
                for level in self.levels
                for folder, file in [self.places(split, level, data_dir)]
                if not folder.is_dir() and not file.is_file()
            ],
            [
                f"{folder}/*.txt or {file}"
                for split in self.files
                for level in self.levels
                for folder, file in [self.places(split, level, "DATA_DIR")]
            ],
            data_dir,
        )

    def read(self, split: str, data_dir) -> Questions:
        """Reads a split.

        Raises:
            UsageError: with file, line and question for everything that is
                not as it should be, a question with fewer than four options
                above all.
        """
        self.require([split], data_dir)
        columns = ([], [], [], [])
        for level in self.levels:
            folder, file = self.places(split, level, data_dir)
            files = sorted(folder.glob("*.txt")) if folder.is_dir() else [file]
            if not files:
                raise UsageError(f"{folder} has no passages. Expected *.txt.")
            for path in files:
                _read_file(path, path is not file, columns)
        passages, questions, options, labels = columns
        return Questions(
            passages, questions, options, np.array(labels, "int32")
        )


def _read_file(path, is_one_passage, columns):
    """Adds the questions of a file to the columns."""
    lines = read_lines(path, "JSON with the fields " + ", ".join(FIELDS))
    if is_one_passage:
        lines = ["\n".join(lines)]
    problems = []
    for number, line in enumerate(lines, start=1):
        try:
            rows = list(_questions(line))
        except UsageError as error:
            problems.append(f"line {number}: {error}")
            continue
        for row in rows:
            for column, value in zip(columns, row, strict=True):
                column.append(value)
    raise_problems(path, problems)


def _questions(line):
    """Yields passage, question, options and label from a JSON text."""
    try:
        passage = parse_json(line)
        article, questions, all_options, answers = (
            passage[field] for field in FIELDS
        )
    except (UsageError, KeyError) as error:
        raise UsageError(
            f"expected a JSON object with {', '.join(FIELDS)}. Received: "
            f"{line[:60]!r} ({type(error).__name__}: {error})"
        ) from error
    if not all(
        isinstance(part, list) for part in (questions, all_options, answers)
    ) or not isinstance(article, str):
        raise UsageError(
            "expected a text and lists of questions, options and answers. "
            f"Received: {line[:60]!r}"
        )
    if not len(questions) == len(all_options) == len(answers):
        raise UsageError(
            f"expected options and an answer for each question. Received: "
            f"{len(questions)} questions, {len(all_options)} lists of options, "
            f"{len(answers)} answers"
        )
    problems = []
    rows = zip(questions, all_options, answers, strict=True)
    for number, (question, options, answer) in enumerate(rows, start=1):
        called = shortened(passage.get("id", "the passage"))
        name = f"question {number} of {called}"
        if not isinstance(question, str) or not _are_texts(options):
            problems.append(f"{name} is no text with a list of options")
            continue
        if len(options) != NUM_OPTIONS:
            problems.append(
                f"{name} has {len(options)} options, expected {NUM_OPTIONS}"
            )
        if answer not in tuple(LETTERS):
            problems.append(
                f"{name} has the answer {shortened(answer)}, expected one of "
                f"{', '.join(LETTERS)}"
            )
        if not problems:
            yield article, question, tuple(options), LETTERS.index(answer)
    if problems:
        raise UsageError("; ".join(problems))


def _are_texts(options):
    return isinstance(options, list) and all(
        isinstance(option, str) for option in options
    )
