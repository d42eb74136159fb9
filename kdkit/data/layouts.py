"""The files of the built-in tasks: GLUE's, RACE's, CoNLL's, polyphones."""

import collections
import dataclasses
import itertools
import json
import pathlib
import re
from collections.abc import Iterable, Mapping

import numpy as np

from kdkit.data.encoding import NO_LABEL, UNKNOWN, TokenExamples
from kdkit.data.multiple_choice import Questions
from kdkit.data.tables import (
    Examples,
    at,
    filled_lines,
    label_parser,
    labeled,
    read_lines,
    require_width,
    tab_rows,
    table_of_rows,
)
from kdkit.data.texts import parallel_rows
from kdkit.errors import UsageError

SPLITS = {"train": "train", "dev": "dev", "test": "test"}
LABEL_SET = "labels.txt"  # one label per line


class Files:
    """The files of a task in its data directory.

    A subclass has `read(split, data_dir)`, which returns the examples, and
    `paths(split, data_dir)`, which returns a list of the files of a split.
    """

    files: Mapping[str, str] = SPLITS

    def require(self, splits: Iterable[str], data_dir) -> None:
        """Requires that the files of the splits exist."""
        for split in splits:
            for path in self.paths(split, data_dir):
                path.stat()


@dataclasses.dataclass(frozen=True)
class TableLayout(Files):
    """The layout of a task's files.

    Files are tab separated, without quoting, in UTF-8. Blank lines at the end
    of a file are skipped. A column is named by its heading or, in files without
    a header, by its index from 0.

    Args:
        folder: string. Folder of the files within the data directory.
        text_columns: tuple of 1 or 2 columns.
        label_column: heading or index of the column with the label.
        label_words: tuple of the words in the label column, in the order of the
            class numbers. `None` for scores, and for words that are in
            `labels.txt` in the folder, one per line.
        label_separator: string or `None`. For multi-label tasks, the separator
            of the words in the label column.
        files: dict from split to the file's name without `.tsv`. Splits whose
            name starts with `"test"` may lack the label column.
        num_columns: int or `None`. The number of columns in files without a
            header, `None` if the first line holds the headings.
        joins_broken_rows: bool. Whether a row with too few columns continues on
            the next line, because a text contains a line feed.
        test_layout: `TableLayout` of the test files, if it differs.
    """

    folder: str
    text_columns: tuple[str | int, ...]
    label_column: str | int
    label_words: tuple[str, ...] | None = None
    label_separator: str | None = None
    files: Mapping[str, str] = dataclasses.field(default_factory=SPLITS.copy)
    num_columns: int | None = None
    joins_broken_rows: bool = False
    test_layout: "TableLayout | None" = None

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The words in the label column, if known."""
        return self.label_words

    def for_data(self, data_dir) -> "TableLayout":
        """Returns the layout with the label words from the data."""
        words = _words(pathlib.Path(data_dir, self.folder, LABEL_SET))
        return dataclasses.replace(self, label_words=words)

    def paths(self, split: str, data_dir) -> list[pathlib.Path]:
        """Returns the file of a split."""
        return [pathlib.Path(data_dir, self.folder, f"{self.files[split]}.tsv")]

    def read(self, split: str, data_dir) -> Examples:
        """Reads the file of a split."""
        (path,) = self.paths(split, data_dir)
        return read_table(path, self, is_test=split.startswith("test"))


def read_table(path, layout: TableLayout, is_test: bool = False) -> Examples:
    """Reads one file."""
    if is_test:
        layout = layout.test_layout or layout
    rows = tab_rows(filled_lines(path))
    if layout.num_columns is not None:
        headings = map(str, range(layout.num_columns))
        rows = itertools.chain([(0, [*headings])], rows)
    if layout.joins_broken_rows:
        rows = _joined(rows)
    table = table_of_rows(path, rows, "")
    columns = [*map(str, (*layout.text_columns, layout.label_column))]
    if is_test and columns[-1] not in table.headings:
        columns.pop()
    return labeled(
        path,
        table.columns(columns),
        len(layout.text_columns),
        layout.label_words,
        layout.label_separator,
    )


def _words(path):
    """The words in a file with one per line."""
    return tuple(filter(None, map(str.strip, read_lines(path))))


def _joined(rows):
    """Yields rows, after joining rows that are on several lines."""
    num_columns = 0  # the first row's
    for number, row in rows:
        whole = row
        num_columns = num_columns or len(row)
        while len(whole) < num_columns and (following := next(rows, None)):
            _, (first, *rest) = following
            whole = [*whole[:-1], f"{whole[-1]} {first}", *rest]
        yield number, whole


TAG_SET = "tags.txt"  # one tag per line
OUTSIDE = "O"
DOCUMENT = "-DOCSTART-"
SPAN_TAG = re.compile(r"O|[BIES]-\S+")


@dataclasses.dataclass(frozen=True)
class ConllLayout(Files):
    """Files with one word per line and a blank line after each sentence.

    If a line has tabs, tabs separate its columns, so that a word may contain
    spaces; otherwise spaces do. All lines of a file have the same number of
    columns. The first column is the word, and the last its tag: `O`, or `B-`,
    `I-`, `E-`, `S-` and the kind of the span. `-DOCSTART-` lines are skipped.
    The known tags are in `tags.txt`, one per line; without that file, they are
    the tags in the training file.

    Args:
        folder: string. Folder of the files in the data directory.
        class_names: tuple of strings or `None`. The known tags, `None` before
            `for_data`.
    """

    folder: str
    class_names: tuple[str, ...] | None = None

    def for_data(self, data_dir) -> "ConllLayout":
        """Returns the layout with the tags from the data.

        Raises:
            UsageError: for a tag that marks no spans.
        """
        path = pathlib.Path(data_dir, self.folder, TAG_SET)
        if path.is_file():
            tags = _words(path)
        else:
            (path,) = self.paths("train", data_dir)
            rows = itertools.chain.from_iterable(_sentences(path))
            found = {tag for _, _, tag in rows}
            tags = (OUTSIDE, *sorted(found - {OUTSIDE}))
        for tag in tags:
            if not SPAN_TAG.fullmatch(tag):
                raise UsageError(
                    f"{path}: expected O or a tag such as B-PER or I-PER. "
                    f"Received: {tag}."
                )
        return dataclasses.replace(self, class_names=tags)

    def paths(self, split: str, data_dir) -> list[pathlib.Path]:
        """Returns the file of a split."""
        return [pathlib.Path(data_dir, self.folder, f"{split}.txt")]

    def read(self, split: str, data_dir) -> TokenExamples:
        """Reads a split. Labels are indices in `class_names`.

        Raises:
            UsageError: with file and line for an unknown tag, and for another
                number of columns.
        """
        (path,) = self.paths(split, data_dir)
        parse = label_parser(self.class_names)
        words, labels = [], []
        for rows in _sentences(path):
            words.append(tuple(word for _, word, _ in rows))
            numbers = []
            for line, _, tag in rows:
                with at(path, f"line {line}"):
                    numbers.append(parse(tag))
            labels.append(np.array(numbers, "int32"))
        return TokenExamples(words, labels)


def _sentences(path):
    """Yields the rows of each sentence: line, word and tag."""
    lines = [
        (number, _columns(line))
        for number, line in filled_lines(path)
        if line.split()[:1] != [DOCUMENT]
    ]
    num_columns = max(2, len(next((row for _, row in lines if row), ())))
    for is_sentence, rows in itertools.groupby(lines, lambda one: any(one[1])):
        found = []
        for number, row in rows if is_sentence else ():
            require_width(path, number, row, num_columns)
            if not row[0] or not row[-1]:
                raise UsageError(f"{path}, line {number}: no word or no tag.")
            found.append((number, row[0], row[-1]))
        if found:
            yield found


def _columns(line):
    """The columns of a line. Other white space is part of a word."""
    if "\t" in line.strip():
        line = line.rstrip("\t ")
        return [cell.strip(" ") for cell in line.split("\t")]
    return [cell for cell in line.strip().split(" ") if cell]


MARK = "▁"  # U+2581, before and after the polyphone
FOLDER = "polyphone"
HELD_OUT = 10  # without train, every tenth example of dev stays in dev
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclasses.dataclass(frozen=True)
class PolyphoneLayout(Files):
    """The files of CPP, the data set of g2pM.

    `polyphone/{split}.sent` has one sentence per line, with its polyphone
    between two `▁`, and `{split}.lb` the pinyin with tone on the same line.
    Without `train.sent`, nine of ten examples of `dev` are the training data
    and every tenth is dev, so that nothing is chosen on test.

    Args:
        class_names: tuple of strings or `None`. All readings in the training
            data, sorted; `None` before `for_data`.
        candidates: dict or `None`. From a character to the numbers of its
            readings in the training data.
        vocabulary: tuple of strings or `None`. The special tokens of BERT and
            the characters of the training data. Polyphones come first, so that
            a head's table by their ids is small.
    """

    class_names: tuple[str, ...] | None = None
    candidates: dict[str, tuple[int, ...]] | None = None
    vocabulary: tuple[str, ...] | None = None

    def for_data(self, data_dir) -> "PolyphoneLayout":
        """Returns the layout with the readings of the training data."""
        rows = self._rows("train", data_dir)
        names = sorted({reading for _, _, reading in rows})
        numbers = {name: number for number, name in enumerate(names)}
        found = collections.defaultdict(set)
        for characters, position, reading in rows:
            found[characters[position]].add(numbers[reading])
        counts = collections.Counter(itertools.chain(*(row[0] for row in rows)))
        characters = sorted(
            counts, key=lambda one: (one not in found, -counts[one], one)
        )
        return dataclasses.replace(
            self,
            class_names=tuple(names),
            candidates={
                character: tuple(sorted(found[character]))
                for character in sorted(found)
            },
            vocabulary=(*SPECIAL_TOKENS, *characters),
        )

    def paths(self, split: str, data_dir) -> list[pathlib.Path]:
        """Returns the sentences and the readings: dev's without train's."""
        folder = pathlib.Path(data_dir, FOLDER)
        if split == "train" and not self._is_whole(data_dir):
            split = "dev"
        return [folder / f"{split}.sent", folder / f"{split}.lb"]

    def read(self, split: str, data_dir) -> TokenExamples:
        """Reads a split: characters as words, with a label at the marked one.

        A reading that the character does not have in the training data is
        `UNKNOWN`. A character that is not in the training data can have any
        known reading.

        Raises:
            UsageError: with file and line for a sentence without exactly one
                marked character or without a reading, and for files of
                different numbers of lines.
        """
        words, labels = [], []
        numbers = {name: number for number, name in enumerate(self.class_names)}
        for characters, position, reading in self._rows(split, data_dir):
            label = numbers.get(reading, UNKNOWN)
            if label not in self.candidates.get(characters[position], [label]):
                label = UNKNOWN
            row = np.full(len(characters), NO_LABEL, "int32")
            row[position] = label
            words.append(characters)
            labels.append(row)
        return TokenExamples(words, labels)

    def _is_whole(self, data_dir):
        return pathlib.Path(data_dir, FOLDER, "train.sent").is_file()

    def _rows(self, split, data_dir):
        """The characters, polyphone's position and reading of each example."""
        rows = _polyphones(self.paths(split, data_dir))
        if split == "test" or self._is_whole(data_dir):
            return rows
        return [
            row
            for number, row in enumerate(rows, start=1)
            if (number % HELD_OUT == 0) == (split == "dev")
        ]


def _polyphones(files):
    """Reads two files that belong together, line by line."""
    rows = []
    for place, (line, label) in parallel_rows(files):
        parts = ["".join(part.split()) for part in line.split(MARK)]
        if len(parts) != 3 or len(parts[1]) != 1 or not label:
            raise UsageError(
                f"{place}: expected one character between two {MARK}, and its "
                f"reading. Received: {line}, {label}."
            )
        rows.append((tuple("".join(parts)), len(parts[0]), label))
    return rows


LETTERS = ("A", "B", "C", "D")


@dataclasses.dataclass(frozen=True)
class RaceLayout(Files):
    """Reads the files of RACE.

    A level of a split is read from one of two places: files with one passage
    each, `RACE/{split}/{level}/*.txt`, as in the original data set; or one
    file, `race_{level}/{split}_{level}.jsonl`. A passage is a JSON object in a
    line.

    Args:
        levels: tuple of strings. `"middle"`, `"high"` or both.
    """

    levels: tuple[str, ...]
    class_names = LETTERS

    def paths(self, split: str, data_dir) -> list[pathlib.Path]:
        """Returns the files of all levels."""
        root = pathlib.Path(data_dir)
        found = []
        for level in self.levels:
            files = sorted((root / "RACE" / split / level).glob("*.txt"))
            file = root / f"race_{level}" / f"{split}_{level}.jsonl"
            found += files or [file]
        return found

    def read(self, split: str, data_dir) -> Questions:
        """Reads a split.

        Raises:
            UsageError: with file and line for a passage whose fields do not
                fit, and for a question with another number of options.
        """
        rows = []
        for path in self.paths(split, data_dir):
            for number, line in enumerate(read_lines(path), start=1):
                with at(path, f"line {number}"):
                    rows += _questions(json.loads(line))
        passages, questions, options, labels = map(
            list, zip(*rows, strict=True)
        )
        return Questions(
            passages, questions, options, np.array(labels, "int32")
        )


def _questions(passage):
    """Yields passage, question, options and label of a passage's questions."""
    columns = (passage[name] for name in ("questions", "options", "answers"))
    for question, options, answer in zip(*columns, strict=True):
        label = LETTERS.index(answer)
        yield passage["article"], question, tuple(options), label
