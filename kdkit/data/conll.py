"""CoNLL-style files: a word and its tag on each line."""

import collections
import dataclasses
import pathlib
import re
from collections.abc import Iterable

import numpy as np

from kdkit.data.labels import read_label_words
from kdkit.data.problems import raise_missing
from kdkit.data.problems import raise_problems
from kdkit.data.problems import read_lines
from kdkit.data.tokens import TokenExamples
from kdkit.errors import shortened

TAG_SET = "tags.txt"  # one tag a line
OUTSIDE = "O"
SAME_COLUMNS = (
    "All lines of a file have the same number of columns; tabs between them "
    "allow spaces in words. Fix or remove these lines."
)
DOCUMENT = "-DOCSTART-"
SPAN_TAG = re.compile(r"O|[BIES]-\S+")


@dataclasses.dataclass(frozen=True)
class ConllLayout:
    """Files with one word a line, a blank line after each sentence.

    Tabs separate the columns of a line that has tabs, so that a word may
    contain spaces; spaces separate those of other lines. All lines of a file
    have the same number of columns. The first column holds the word, the last
    its tag: `O`, or `B-`, `I-`, `E-`, `S-` and the kind of the span. Lines of
    `-DOCSTART-` are left out. The known tags are those of `tags.txt`, one a
    line; without that file they are those of the training file.

    Args:
        folder: string. Folder of the files within the data directory.
        class_names: tuple of strings or `None`. The known tags, `None` until
            `for_data` has found them.
    """

    folder: str
    class_names: tuple[str, ...] | None = None
    files = {"train": "train.txt", "dev": "dev.txt", "test": "test.txt"}

    def for_data(self, data_dir) -> "ConllLayout":
        """Returns the layout with the tags that stand in the data.

        Raises:
            UsageError: if neither file is there or a tag is none of spans.
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
        """Checks that the files of the splits are there."""
        folder = pathlib.Path(data_dir, self.folder)
        paths = [folder / self.files[split] for split in splits]
        raise_missing(
            [path for path in paths if not path.is_file()],
            [f"DATA_DIR/{self.folder}/{name}" for name in self.files.values()],
            data_dir,
        )

    def read(self, split: str, data_dir) -> TokenExamples:
        """Reads a split; its labels are positions in `class_names`.

        Raises:
            UsageError: with file and line for every tag outside the set and
                every line that is no word and tag, or has another number of
                columns than the others.
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
    """The words and the tags of each sentence; `known` of `None` takes any."""
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
    """Number and columns of each line; no columns between sentences."""
    rows = []
    for number, line in enumerate(lines, start=1):
        columns = ()
        if line.strip():
            columns = tuple(_columns(line))
        if columns[:1] != (DOCUMENT,):
            rows.append((number, columns))
    return rows


def _columns(line):
    """The columns of a line: other white space is part of a word."""
    if "\t" in line.strip():
        line = line.rstrip("\t ")
        return [cell.strip(" ") for cell in line.split("\t")]
    return [cell for cell in line.strip().split(" ") if cell]


def _not_of_spans(tag):
    """What is wrong with a tag, as a list of texts."""
    if SPAN_TAG.fullmatch(tag):
        return []
    return [
        "expected O or a tag such as B-PER or I-PER. Received: "
        f"{shortened(tag)}"
    ]
