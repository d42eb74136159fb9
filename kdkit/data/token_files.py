"""Readers of files with labels for words: CoNLL and polyphones."""

import collections
import dataclasses
import pathlib
import re
from collections.abc import Iterable

import numpy as np

from kdkit.data.encoding import NO_LABEL, UNKNOWN, TokenExamples
from kdkit.data.examples import (
    raise_missing,
    raise_problems,
    read_label_words,
    read_lines,
)
from kdkit.errors import shortened

TAG_SET = "tags.txt"  # one tag per line
OUTSIDE = "O"
SAME_COLUMNS = (
    "All lines of a file have the same number of columns; tabs between them "
    "allow spaces in words. Fix or remove these lines."
)
DOCUMENT = "-DOCSTART-"
SPAN_TAG = re.compile(r"O|[BIES]-\S+")


@dataclasses.dataclass(frozen=True)
class ConllLayout:
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
    files = {"train": "train.txt", "dev": "dev.txt", "test": "test.txt"}

    def for_data(self, data_dir) -> "ConllLayout":
        """Returns the layout with the tags from the data.

        Raises:
            UsageError: if both files are missing, or a tag is not for spans.
        """
        path = pathlib.Path(data_dir, self.folder, TAG_SET)
        if path.is_file():
            tags = read_label_words(path)
            raise_problems(
                path,
                [problem for tag in tags for problem in _not_of_spans(tag)],
            )
        else:
            self.require(["train"], data_dir)
            path = pathlib.Path(data_dir, self.folder, self.files["train"])
            found = {tag for _, tags in _read(path, None) for tag in tags}
            tags = (OUTSIDE, *sorted(found - {OUTSIDE}))
        return dataclasses.replace(self, class_names=tags)

    def require(self, splits: Iterable[str], data_dir) -> None:
        """Requires that the files of the splits exist."""
        folder = pathlib.Path(data_dir, self.folder)
        paths = [folder / self.files[split] for split in splits]
        raise_missing(
            [path for path in paths if not path.is_file()],
            [f"DATA_DIR/{self.folder}/{name}" for name in self.files.values()],
            data_dir,
        )

    def read(self, split: str, data_dir) -> TokenExamples:
        """Reads a split. Labels are indices in `class_names`.

        Raises:
            UsageError: with file and line for every unknown tag, every line
                without a word and a tag, and every line with another number
                of columns.
        """
        path = pathlib.Path(data_dir, self.folder, self.files[split])
        numbers = {tag: number for number, tag in enumerate(self.class_names)}
        sentences = _read(path, self.class_names)
        return TokenExamples(
            [words for words, _ in sentences],
            [
                np.array([numbers[tag] for tag in tags], "int32")
                for _, tags in sentences
            ],
        )


def _read(path, known):
    """The words and tags of each sentence. `known=None` accepts any tag."""
    names = frozenset(known or ())
    problems, fix = [], {}
    sentences = []
    words, tags = [], []
    rows = _rows(read_lines(path, "a word and its tag on each line"))
    counts = collections.Counter(len(columns) for _, columns in rows)
    del counts[0], counts[1]
    num_columns = max(counts, key=counts.get, default=2)
    for number, columns in [*rows, (len(rows) + 1, ())]:
        if not columns:
            if words:
                sentences.append((tuple(words), tuple(tags)))
                words, tags = [], []
            continue
        if len(columns) != num_columns or not (columns[0] and columns[-1]):
            expected = "a word and its tag"
            if len(columns) > 1:
                expected = f"{num_columns} columns, {expected} among them"
                fix = {"fix": SAME_COLUMNS}
            problems.append(
                f"line {number}: expected {expected}. Received: "
                f"{len(columns)} columns, {shortened(columns)}"
            )
            continue
        tag = columns[-1]
        if known is not None and tag not in names:
            problems.append(
                f"line {number}: unknown tag. Expected one of "
                f"{shortened(known)}. Received: {shortened(tag)}"
            )
        elif known is None:
            problems += [
                f"line {number}: {text}" for text in _not_of_spans(tag)
            ]
        words.append(columns[0])
        tags.append(tag)
    raise_problems(path, problems, **fix)
    return sentences


def _rows(lines):
    """The number and the columns of each line; none between sentences."""
    rows = []
    for number, line in enumerate(lines, start=1):
        columns = ()
        if line.strip():
            columns = tuple(_columns(line))
        if columns[:1] != (DOCUMENT,):
            rows.append((number, columns))
    return rows


def _columns(line):
    """The columns of a line. Other white space is part of a word."""
    if "\t" in line.strip():
        line = line.rstrip("\t ")
        return [cell.strip(" ") for cell in line.split("\t")]
    return [cell for cell in line.strip().split(" ") if cell]


def _not_of_spans(tag):
    """The mistakes in a tag, as a list of texts."""
    if SPAN_TAG.fullmatch(tag):
        return []
    return [
        "expected O or a tag such as B-PER or I-PER. Received: "
        f"{shortened(tag)}"
    ]


MARK = "▁"  # U+2581, before and after the polyphone
FOLDER = "polyphone"
HELD_OUT = 10  # without train, every tenth example of dev stays in dev
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclasses.dataclass(frozen=True)
class PolyphoneLayout:
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
            the characters of the training data, see `character_vocabulary`.
    """

    class_names: tuple[str, ...] | None = None
    candidates: dict[str, tuple[int, ...]] | None = None
    vocabulary: tuple[str, ...] | None = None
    files = {"train": "train", "dev": "dev", "test": "test"}

    def for_data(self, data_dir) -> "PolyphoneLayout":
        """Returns the layout with the readings of the training data."""
        self.require(["train"], data_dir)
        rows = self._rows("train", data_dir)
        names = tuple(sorted({reading for _, _, reading in rows}))
        numbers = {name: number for number, name in enumerate(names)}
        found = collections.defaultdict(set)
        for characters, position, reading in rows:
            found[characters[position]].add(numbers[reading])
        layout = dataclasses.replace(
            self,
            class_names=names,
            candidates={
                character: tuple(sorted(numbers))
                for character, numbers in sorted(found.items())
            },
        )
        vocabulary = character_vocabulary(layout.read("train", data_dir))
        return dataclasses.replace(layout, vocabulary=tuple(vocabulary))

    def require(self, splits: Iterable[str], data_dir) -> None:
        """Requires that the files of the splits exist."""
        paths = [
            path
            for split in splits
            for path in self._paths(self._stem(split, data_dir), data_dir)
        ]
        raise_missing(
            [path for path in dict.fromkeys(paths) if not path.is_file()],
            [
                str(path)
                for split in self.files
                for path in self._paths(split, "DATA_DIR")
            ],
            data_dir,
        )

    def read(self, split: str, data_dir) -> TokenExamples:
        """Reads a split: characters as words, with a label at the marked one.

        A reading that the character does not have in the training data is
        `UNKNOWN`. A character that is not in the training data can have any
        known reading.

        Raises:
            UsageError: with file and line for sentences without exactly one
                marked character, and for lines without a reading.
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

    def _stem(self, split, data_dir):
        """The file of a split: dev's for train without its own file."""
        if split == "train" and not self._is_whole(data_dir):
            return "dev"
        return split

    def _is_whole(self, data_dir):
        return self._paths("train", data_dir)[0].is_file()

    def _paths(self, stem, data_dir):
        folder = pathlib.Path(data_dir, FOLDER)
        return folder / f"{stem}.sent", folder / f"{stem}.lb"

    def _rows(self, split, data_dir):
        """The characters, polyphone's position and reading of each example."""
        rows = read_polyphones(
            *self._paths(self._stem(split, data_dir), data_dir)
        )
        if split == "test" or self._is_whole(data_dir):
            return rows
        return [
            row
            for number, row in enumerate(rows, start=1)
            if (number % HELD_OUT == 0) == (split == "dev")
        ]


def read_polyphones(sentences, readings) -> list[tuple]:
    """Reads two files that belong together, line by line."""
    lines = read_lines(sentences, "a sentence with a marked character per line")
    labels = read_lines(readings, "a reading per line")
    problems = []
    if len(lines) != len(labels):
        problems.append(
            f"line {min(len(lines), len(labels)) + 1}: expected the same "
            "number "
            f"as in {readings}. Received: {len(lines)} and {len(labels)}"
        )
    rows = []
    for number, (line, label) in enumerate(
        zip(lines, labels, strict=False), start=1
    ):
        before, *rest = (_characters(part) for part in line.split(MARK))
        if len(rest) != 2 or len(rest[0]) != 1:
            problems.append(
                f"line {number}: expected one character between two {MARK}. "
                f"Received: {shortened(line)}"
            )
        elif not label.strip():
            problems.append(
                f"line {number}: expected its reading in {readings}. "
                "Received: an empty line"
            )
        else:
            characters = (*before, *rest[0], *rest[1])
            rows.append((characters, len(before), label.strip()))
    raise_problems(sentences, problems)
    return rows


def character_vocabulary(examples: TokenExamples) -> list[str]:
    """Returns a BERT vocabulary of the single characters in examples.

    Characters with a label come first, so that a head's table by their ids is
    small.

    Args:
        examples: `TokenExamples` whose words are characters.

    Returns:
        List of strings: BERT's five special tokens, then characters.
    """
    counts = collections.Counter(
        character for words in examples.words for character in words
    )
    labelled = {
        words[position]
        for words, labels in zip(examples.words, examples.labels, strict=True)
        for position in np.flatnonzero(labels != NO_LABEL)
    }
    order = sorted(
        counts, key=lambda piece: (piece not in labelled, -counts[piece], piece)
    )
    return [*SPECIAL_TOKENS, *order]


def _characters(text):
    return [character for character in text if not character.isspace()]
