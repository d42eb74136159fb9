"""Readers of files with labels for words: CoNLL and polyphones."""

import collections
import dataclasses
import pathlib
import re
from collections.abc import Iterable

import numpy as np

from kdkit.data.encoding import NO_LABEL, UNKNOWN, TokenExamples
from kdkit.data.examples import read_lines, require_width
from kdkit.errors import UsageError, unknown

TAG_SET = "tags.txt"  # one tag per line
OUTSIDE = "O"
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
            UsageError: for a tag that marks no spans.
        """
        folder = pathlib.Path(data_dir, self.folder)
        path = folder / TAG_SET
        if path.is_file():
            tags = tuple(filter(None, map(str.strip, read_lines(path))))
        else:
            path = folder / self.files["train"]
            found = {tag for _, tags in _read(path) for tag in tags}
            tags = (OUTSIDE, *sorted(found - {OUTSIDE}))
        for tag in tags:
            if not SPAN_TAG.fullmatch(tag):
                raise UsageError(
                    f"{path}: expected O or a tag such as B-PER or I-PER. "
                    f"Received: {tag}."
                )
        return dataclasses.replace(self, class_names=tags)

    def require(self, splits: Iterable[str], data_dir) -> None:
        """Requires that the files of the splits exist."""
        for split in splits:
            pathlib.Path(data_dir, self.folder, self.files[split]).stat()

    def read(self, split: str, data_dir) -> TokenExamples:
        """Reads a split. Labels are indices in `class_names`.

        Raises:
            UsageError: with file and line for an unknown tag, and for another
                number of columns.
        """
        path = pathlib.Path(data_dir, self.folder, self.files[split])
        numbers = {tag: number for number, tag in enumerate(self.class_names)}
        sentences = _read(path, numbers)
        return TokenExamples(
            [words for words, _ in sentences],
            [
                np.array([numbers[tag] for tag in tags], "int32")
                for _, tags in sentences
            ],
        )


def _read(path, known=None):
    """The words and tags of each sentence. `known=None` accepts any tag."""
    sentences = []
    words, tags = [], []
    num_columns = None
    for number, columns in _rows(read_lines(path)):
        if not columns:
            if words:
                sentences.append((tuple(words), tuple(tags)))
                words, tags = [], []
            continue
        num_columns = num_columns or max(len(columns), 2)
        require_width(path, number, columns, num_columns)
        word, *_, tag = columns
        if not word or not tag:
            raise UsageError(f"{path}, line {number}: no word or no tag.")
        if known is not None and tag not in known:
            raise unknown(f"tag in {path}, line {number}:", tag, known)
        words.append(word)
        tags.append(tag)
    return sentences


def _rows(lines):
    """Yields number and columns of each line; none between sentences."""
    for number, line in enumerate([*lines, ""], start=1):
        columns = ()
        if line.strip():
            columns = tuple(_columns(line))
        if columns[:1] != (DOCUMENT,):
            yield number, columns


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
        for split in splits:
            for path in self._paths(self._stem(split, data_dir), data_dir):
                path.stat()

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
    lines, labels = read_lines(sentences), read_lines(readings)
    if len(lines) != len(labels):
        raise UsageError(
            f"{sentences} and {readings} have different numbers of lines: "
            f"{len(lines)} and {len(labels)}."
        )
    rows = []
    both = zip(lines, map(str.strip, labels), strict=True)
    for number, (line, label) in enumerate(both, start=1):
        before, *rest = (_characters(part) for part in line.split(MARK))
        if len(rest) != 2 or len(rest[0]) != 1 or not label:
            raise UsageError(
                f"{sentences}, line {number}: expected one character between "
                f"two {MARK}, and its reading. Received: {line}, {label}."
            )
        characters = (*before, *rest[0], *rest[1])
        rows.append((characters, len(before), label))
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
