"""Labelled examples in a user's own tables: columns, labels, dev set aside."""

import collections
import dataclasses
import functools
import hashlib
import os
import pathlib
from collections.abc import Iterable

import numpy as np

from kdkit.data.examples import Examples, at, label_parser, label_value
from kdkit.data.selection import PUNCTUATION, normalized
from kdkit.data.tables import DATASET_STATE, open_table
from kdkit.errors import UsageError, unknown

DEV_SHARE = 0.1
MOST_NUMBERS = 20  # different numbers in a label column without --regression
MOST_LABELS = 1000
NO_PUNCTUATION = str.maketrans("", "", PUNCTUATION)
TRUTHS = ("true", "false")
LEAST_ROWS = 20  # with fewer, each row may have its own label


@dataclasses.dataclass(frozen=True)
class LabeledTable:
    """The files of a task that a user describes by columns.

    Without `dev`, a tenth of `train` is set aside. It depends on the texts
    alone, so that every run on the table has the same dev examples.

    Args:
        train: string or `None`. Absolute path of the training examples: a file
            or a folder that `kdkit.data.tables.open_table` reads. `None` to
            only measure.
        text_columns: tuple of 1 or 2 headings.
        label_column: string. The heading of the labels.
        dev, test: string or `None`. Paths, as `train`. A test table may lack
            the label column.
        labels: tuple of the words in the label column, in the order of the
            class numbers; `None` for scores, and until `completed` finds them.
            Spellings of one number, such as 1 and 1.0, are one label.
        class_names: tuple of the classes' names, if they are not `labels`.
        regression: bool. Whether labels are scores.
        metrics: tuple of strings. The first one chooses models; empty for the
            defaults of the kind.

    Raises:
        UsageError: (a `ValueError`) if the label column is also a text.
    """

    train: str | None
    text_columns: tuple[str, ...]
    label_column: str
    dev: str | None = None
    test: str | None = None
    labels: tuple[str, ...] | None = None
    class_names: tuple[str, ...] | None = None
    regression: bool = False
    metrics: tuple[str, ...] = ()

    def __post_init__(self):
        if self.label_column in self.text_columns:
            raise UsageError(
                f"Column {self.label_column!r} cannot be the label and a text."
            )

    @property
    def files(self) -> dict[str, str]:
        """The paths by split, without a split that is set aside."""
        paths = {"train": self.train, "dev": self.dev, "test": self.test}
        return {split: path for split, path in paths.items() if path}

    @property
    def sets_dev_aside(self) -> bool:
        """Whether dev is a share of the training table."""
        return self.train is not None and self.dev is None

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits that can be read."""
        known = {*self.files, *(("dev",) if self.sets_dev_aside else ())}
        return tuple(one for one in ("train", "dev", "test") if one in known)

    def require(self, splits: Iterable[str]) -> None:
        """Requires that the files of splits exist."""
        for split in splits:
            os.stat(self._path(split))

    def read(self, split: str) -> Examples:
        """Reads a split.

        Args:
            split: string. One of `splits`.

        Raises:
            UsageError: with file and place, for a malformed row, an empty text,
                and a label that is empty or unknown.
        """
        state = _state_of(self._path(split))
        if split == "test" or not self.sets_dev_aside:
            return _whole_file(self, split, state)
        examples, aside = _with_dev_rows(self, state)
        if split == "dev":
            return examples.take(aside)
        return examples.take(np.setdiff1d(np.arange(len(examples)), aside))

    def completed(self, names: Iterable[str] | None = None) -> "LabeledTable":
        """Reads all files, and returns the table with its labels.

        Args:
            names: iterable of strings, the names of a teacher's classes in
                their order, or `None`. They order labels that are not listed.

        Raises:
            UsageError: as `read` does, for a column that has no labels of
                classes, and for labels that are not the teacher's classes.
        """
        table = self if self.regression else self._with_labels(names)
        for split in self.files:
            table.read_file(split)
        return table

    def description(self, split: str, count: int) -> str:
        """Returns a split's file, or how it was set aside, and its size.

        Args:
            split: string.
            count: int. The number of its examples.
        """
        path = pathlib.Path(self._path(split))
        if split == "dev" and self.sets_dev_aside:
            return f"dev: {set_aside_in_words(path)}, {count} examples"
        rule = open_table(path, (), finds_quotes=True).rule
        return f"{split}: {path.name} ({rule}), {count} examples"

    def _path(self, split):
        if split not in self.splits:
            raise unknown("split", split, self.splits)
        return self.files.get(split) or self.train

    def _rows(self, split):
        """The rows of a split's file, and whether they have labels."""
        path = self._path(split)
        columns = (*self.text_columns, self.label_column)
        return _file_rows(path, _state_of(path), columns, split == "test")

    def read_file(self, split: str) -> Examples:
        """Reads the whole file of a split, with the rows that are set aside.

        Args:
            split: string.

        Raises:
            UsageError: as `read` does.
        """
        path = self._path(split)
        rows, has_labels = self._rows(split)
        parse = label_parser(None if self.regression else self.labels or ())
        texts = tuple([] for _ in self.text_columns)
        labels = []
        for place, cells in rows:
            with at(path, place):
                if not any(cells[: len(texts)]):
                    raise UsageError("expected a text. Received: none.")
                if has_labels:
                    labels.append(parse(cells[-1]))
            for column, text in zip(texts, cells, strict=False):
                column.append(text)
        dtype = "float32" if self.regression else "int32"
        return Examples(texts, np.array(labels, dtype) if has_labels else None)

    def _with_labels(self, names):
        """The table with its labels in the order of the classes."""
        split = next(iter(self.files))
        path = self._path(split)
        known = self.labels or open_table(path).class_names.get(
            self.label_column
        )
        labels, class_names = known, None
        if known is None:
            rows, has_labels = self._rows(split)
            labels = _one_spelling(cells[-1] for _, cells in rows if has_labels)
            self._require_classes(path, labels, len(rows))
        if len(labels) < 2:
            raise UsageError(f"{path}: expected two labels or more: {labels}.")
        if names is not None:
            labels, class_names = _as_names(
                path, labels, tuple(names), self.labels is not None
            )
        return dataclasses.replace(self, labels=labels, class_names=class_names)

    def _require_classes(self, path, words, num_rows):
        """Rejects a label column with scores, numbers of rows or texts."""
        has_truths = any(word.casefold() in TRUTHS for word in words)
        has_digits = any(label_value(word) in (0, 1) for word in words)
        is_varied = num_rows >= LEAST_ROWS and len(words) > num_rows / 2
        is_score = False
        # Scores may have decimal commas.
        if numbers := _numbers(word.replace(",", ".") for word in words):
            first = int(numbers[0] == 1)
            is_numbered = numbers == list(range(first, first + len(numbers)))
            has_fractions = not all(map(float.is_integer, numbers))
            is_many = len(numbers) > MOST_NUMBERS
            is_score = not is_numbered and (has_fractions or is_many)
        if (
            not 2 <= len(words) <= MOST_LABELS
            or (has_truths and has_digits)
            or is_varied
            or is_score
        ):
            raise UsageError(
                f"{path}: column {self.label_column!r} has {len(words)} "
                f"different values in {num_rows} rows: {_listed(words[:4])}. "
                "Expected one spelling of each of a few classes; scores need "
                "--regression (Python: regression=True)."
            )


def set_aside_in_words(path) -> str:
    """Returns what dev is without a table of its own."""
    return f"{100 * DEV_SHARE:g} % of {pathlib.PurePath(path).name} set aside"


def _numbers(words):
    """The words as sorted numbers, `None` if one is no number."""
    try:
        numbers = sorted(map(float, words))
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _in_order(words):
    """Labels in the order of their numbers, or else of the alphabet."""
    if _numbers(words) is not None:
        return tuple(sorted(words, key=lambda word: (float(word), word)))
    return tuple(sorted(words))


def _one_spelling(words):
    """The labels in order, each number in its shortest spelling."""
    ordered = sorted({*words} - {""}, key=lambda word: (-len(word), word))
    return _in_order({label_value(word): word for word in ordered}.values())


def _listed(words):
    return ", ".join(map(repr, words[:20]))


def _as_names(path, words, names, is_listed):
    """Labels in the order of a teacher's names, and other names or `None`."""
    for same in (label_value, _plain):
        found = {same(word): word for word in words}
        theirs = {same(name): name for name in names}
        if len(found) == len(words) == len(names) and (
            found.keys() == theirs.keys()
        ):
            if not is_listed:
                words = tuple(found[same(name)] for name in names)
            names = tuple(theirs[same(word)] for word in words)
            return words, None if words == names else names
    is_numbered = _numbers(words) == list(range(len(words)))
    if len(words) == len(names) and (is_listed or is_numbered):
        return words if is_listed else _in_order(words), names
    raise UsageError(
        f"The labels in {path} are {_listed(words)}, and the teacher's classes "
        f"{_listed(names)}. Pass --labels with a label for each class, in "
        "their order."
    )


def _plain(name):
    return name.casefold().replace("-", "_").replace(" ", "_")


def _state_of(path):
    """What changes when a file or a saved dataset changes."""
    files = [pathlib.Path(path)]
    if files[0].is_dir():
        files = [files[0] / DATASET_STATE, *sorted(files[0].glob("*.arrow"))]
    try:
        states = [os.stat(file) for file in files]
    except OSError:
        return None
    return tuple((one.st_mtime_ns, one.st_size) for one in states)


@functools.lru_cache(maxsize=3)
def _file_rows(path, state, columns, may_lack_label):
    """The places and texts of a file's rows, and whether they have labels."""
    table = open_table(path, columns, finds_quotes=True)
    has_labels = not may_lack_label or columns[-1] in table.headings
    if not has_labels:
        columns = columns[:-1]
    return list(table.columns(columns)), has_labels


@functools.lru_cache(maxsize=3)
def _whole_file(table, split, state):
    return table.read_file(split)


@functools.lru_cache(maxsize=1)
def _with_dev_rows(table, state):
    examples = table.read_file("train")
    return examples, dev_rows(examples)


def release_rows() -> None:
    """Frees the rows of the files that were read last, before training."""
    for cached in (_file_rows, _whole_file, _with_dev_rows):
        cached.cache_clear()


def dev_rows(examples: Examples) -> np.ndarray:
    """Returns the rows to set aside for dev: about a tenth of each label."""
    groups = collections.defaultdict(list)
    for number, row in enumerate(zip(*examples.texts, strict=True)):
        groups[_without_punctuation(row)].append(number)
    labels = examples.labels
    found = sorted(
        (
            min(labels[number] for number in numbers),
            hashlib.sha256("\0".join(key).encode()).digest(),
            numbers,
        )
        for key, numbers in groups.items()
    )
    if np.issubdtype(labels.dtype, np.floating):
        size = round(1 / DEV_SHARE)
        tens = [found[at : at + size] for at in range(0, len(found), size)]
        chosen = [
            min(ten, key=lambda group: group[1])
            for ten in tens
            if len(ten) > size / 2 or (len(tens) == 1 and len(ten) > 1)
        ]
        return _joined(chosen)
    by_label = collections.defaultdict(list)
    for group in found:
        by_label[group[0]].append(group)
    chosen = []
    for same in by_label.values():
        wanted = max(1, round(DEV_SHARE * sum(len(one[2]) for one in same)))
        for group in same[:-1]:  # at least one group to train on
            if wanted <= 0:
                break
            chosen.append(group)
            wanted -= len(group[2])
    return _joined(chosen)


def _joined(groups):
    return np.array(sorted(number for one in groups for number in one[2]), int)


def _without_punctuation(row):
    texts = normalized(text.translate(NO_PUNCTUATION) for text in row)
    return tuple(sorted(texts)) if any(texts) else tuple(sorted(row))
