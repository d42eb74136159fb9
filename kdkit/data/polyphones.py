"""Chinese polyphones: sentences with one marked character and its reading."""

import collections
import dataclasses
import pathlib
from collections.abc import Iterable

import numpy as np

from kdkit.data.problems import raise_missing
from kdkit.data.problems import raise_problems
from kdkit.data.problems import read_lines
from kdkit.data.tokens import NO_LABEL
from kdkit.data.tokens import UNKNOWN
from kdkit.data.tokens import TokenExamples
from kdkit.errors import shortened

MARK = "▁"  # U+2581, before and after the polyphone
FOLDER = "polyphone"
HELD_OUT = 10  # of dev's rows, every tenth is dev where train has the others
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclasses.dataclass(frozen=True)
class PolyphoneLayout:
    """The files of CPP, the data set of g2pM.

    `polyphone/{split}.sent` has a sentence a line with its polyphone between
    two `▁`, `{split}.lb` the pinyin with tone on the same line. Where there is
    no `train.sent`, nine of ten rows of `dev` are the training data and every
    tenth is dev, so that test stays what nothing was chosen on.

    Args:
        class_names: tuple of strings or `None`. All readings in the training
            data, sorted; `None` until `for_data` has found them.
        candidates: dict or `None`. From a character to the numbers of the
            readings that it has in the training data.
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
        """Checks that the files of the splits are there."""
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
        """Reads a split: characters as words, a label at the marked one.

        A reading that its character does not have in the training data is
        `UNKNOWN`. Characters that are not in the training data can have any
        reading that is.

        Raises:
            UsageError: with file and line for sentences without a mark, with
                several, or around more or less than one character, and for
                lines without a reading.
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
        """The file of a split: dev's where train has none of its own."""
        if split == "train" and not self._is_whole(data_dir):
            return "dev"
        return split

    def _is_whole(self, data_dir):
        return self._paths("train", data_dir)[0].is_file()

    def _paths(self, stem, data_dir):
        folder = pathlib.Path(data_dir, FOLDER)
        return folder / f"{stem}.sent", folder / f"{stem}.lb"

    def _rows(self, split, data_dir):
        """Characters, position of the polyphone and reading of each row."""
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
    """Reads two files that belong together, line by line.

    Args:
        sentences: `pathlib.Path` of a `.sent` file.
        readings: `pathlib.Path` of its `.lb` file.

    Returns:
        List of the characters of a sentence, the position of the polyphone
        and its reading. Blanks and marks are left out of the characters.

    Raises:
        UsageError: as in `PolyphoneLayout.read`.
    """
    lines = read_lines(sentences, "a sentence with a marked character a line")
    labels = read_lines(readings, "a reading a line")
    problems = []
    if len(lines) != len(labels):
        problems.append(
            f"line {min(len(lines), len(labels)) + 1}: expected as many lines "
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

    Characters with a label come first, so that what a head knows of them by
    their ids is a small table.

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
