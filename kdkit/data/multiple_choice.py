"""Multiple choice: passages, questions and their options."""

import dataclasses
import pathlib
from collections.abc import Iterable

import numpy as np

from kdkit.data.encoding import EncodedExamples, tokenize
from kdkit.data.examples import raise_missing, raise_problems, read_lines
from kdkit.errors import UsageError, shortened
from kdkit.io.reading import parse_json
from kdkit.models.families import family_of


@dataclasses.dataclass(frozen=True, eq=False)
class Questions:
    """Questions on passages, each with the same number of options.

    Args:
        passages: list of strings, one per question.
        questions: list of strings.
        options: list of tuples of strings, all of the same length.
        labels: `int32` array of shape `(num_rows,)`, the number of the right
            option, or `None`.

    Raises:
        UsageError: if the columns differ in length, or the questions in their
            numbers of options.

    >>> rows = Questions(["It rains."], ["Is it wet?"], [("yes", "no")])
    >>> rows.num_options
    2
    """

    passages: list[str]
    questions: list[str]
    options: list[tuple[str, ...]]
    labels: np.ndarray | None = None

    def __post_init__(self):
        columns = [self.passages, self.questions, self.options]
        if self.labels is not None:
            columns.append(self.labels)
        num_rows = sorted({len(column) for column in columns})
        if len(num_rows) != 1 or num_rows == [0]:
            raise UsageError(
                "Passages, questions, options and labels must have the same "
                f"number of rows, at least one. Received: {num_rows} rows."
            )
        for number, options in enumerate(self.options):
            if len(options) != self.num_options:
                raise UsageError(
                    f"Question {number} has {len(options)} options, the first "
                    f"question {self.num_options}. Expected the same number. "
                    f"Received: {list(options)}."
                )

    def __len__(self):
        return len(self.questions)

    @property
    def num_options(self) -> int:
        """The number of options of every question."""
        return len(self.options[0])

    def take(self, rows) -> "Questions":
        """Returns the rows with the given numbers, in the given order."""
        labels = None if self.labels is None else self.labels[np.asarray(rows)]
        return Questions(
            [self.passages[row] for row in rows],
            [self.questions[row] for row in rows],
            [self.options[row] for row in rows],
            labels,
        )


def encode_questions(
    examples: Questions, tokenizer, sequence_length: int, num_options: int
) -> EncodedExamples:
    """Tokenises questions, one sequence for each option.

    The format is `[CLS] passage [SEP] question option [SEP]`, with the
    separators of the tokenizer's family. If that is too long, the passage's end
    is truncated; if no passage is left, the question's beginning is truncated,
    too.

    Args:
        examples: `Questions`.
        tokenizer: as in `encode`.
        sequence_length: int. The largest number of tokens in a sequence,
            special tokens included.
        num_options: int. The model's number of options per question.

    Returns:
        `EncodedExamples` with `num_options` sequences per example. An
        example counts as truncated if one of its sequences is.

    Raises:
        UsageError: if the questions have another number of options, or
            `sequence_length` is too small for any text.
    """
    if examples.num_options != num_options:
        raise UsageError(
            f"The questions have {examples.num_options} options. Expected "
            f"{num_options}, the task's number."
        )
    family = family_of(tokenizer)
    num_separators = family.num_separators if family else 1
    num_special = 2 + num_separators
    room = sequence_length - num_special
    if room < 1:
        raise UsageError(
            "`sequence_length` must leave room for text in addition to the "
            f"{num_special} special tokens. "
            f"Received: sequence_length={sequence_length}."
        )
    rows = [
        (passage, [f"{question} {option}" for option in options])
        for passage, question, options in zip(
            examples.passages, examples.questions, examples.options, strict=True
        )
    ]
    pieces = tokenize(
        [*examples.passages, *(tail for _, tails in rows for tail in tails)],
        tokenizer,
    )
    start, end = [tokenizer.start_token_id], [tokenizer.end_token_id]
    token_ids, lengths, first_lengths, truncated = [], [], [], set()
    separators = num_separators * end
    for row, (passage, tails) in enumerate(rows):
        for text in tails:
            head, tail = pieces[passage], pieces[text]
            if len(head) + len(tail) > room:
                truncated.add(row)
                tail = tail[-room:]
                head = head[: room - len(tail)]
            token_ids += [start, head, separators, tail, end]
            first_lengths.append(len(head) + 1 + num_separators)
            lengths.append(len(head) + len(tail) + num_special)
    positions = np.concatenate([np.arange(length) for length in lengths])
    return EncodedExamples(
        token_ids=np.concatenate(token_ids).astype("int32"),
        segment_ids=(positions >= np.repeat(first_lengths, lengths)).astype(
            "int32"
        ),
        lengths=np.array(lengths, "int32"),
        labels=examples.labels,
        sequence_length=sequence_length,
        num_truncated=len(truncated),
        pad_token_id=tokenizer.pad_token_id,
        sequences_per_row=num_options,
    )


NUM_OPTIONS = 4
LETTERS = "ABCD"
FIELDS = ("article", "questions", "options", "answers")


@dataclasses.dataclass(frozen=True)
class RaceLayout:
    """Reads the files of RACE.

    A level of a split is read from one of two places: JSON files with one
    passage each, `RACE/{split}/{level}/*.txt`, as in the original data set; or
    a file with one JSON object per line, `race_{level}/{split}_{level}.jsonl`.

    Args:
        levels: tuple of strings. `"middle"`, `"high"` or both.
    """

    levels: tuple[str, ...]
    class_names = tuple(LETTERS)
    files = {"train": "train", "dev": "dev", "test": "test"}

    def for_data(self, data_dir) -> "RaceLayout":
        """Returns the layout itself, because RACE always has four options."""
        del data_dir
        return self

    def places(self, split: str, level: str, data_dir):
        """Returns the folder and the file that may contain a level."""
        root = pathlib.Path(data_dir)
        return (
            root / "RACE" / split / level,
            root / f"race_{level}" / f"{split}_{level}.jsonl",
        )

    def require(self, splits: Iterable[str], data_dir) -> None:
        """Requires that the files of all levels and splits exist.

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
            UsageError: with file, line and question for every mistake, such as
                a question with fewer than four options.
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
            problems.append(f"{name} is not a text with a list of options")
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
