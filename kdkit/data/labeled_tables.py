"""Labelled examples in a user's own tables: columns, labels, dev set aside."""

import collections
import dataclasses
import functools
import hashlib
import os
import pathlib
import re
from collections.abc import Iterable

import numpy as np

from kdkit.data.examples import (
    Examples,
    label_parser,
    label_value,
    raise_problems,
)
from kdkit.data.tables import DATASET_STATE, Row, open_table
from kdkit.data.unlabeled import PUNCTUATION, normalized
from kdkit.errors import UsageError, all_mistakes, shortened

DEV_SHARE = 0.1
MOST_NUMBERS = 20  # different numbers in a label column without --regression
MOST_LABELS = 1000
NO_PUNCTUATION = str.maketrans("", "", PUNCTUATION)
TRUTHS = ("true", "false")
LEAST_ROWS = 20  # with fewer, each row may have its own label
REGRESSION = (
    "Pass --regression for scores (Python: regression=True), list the classes "
    "with --labels, or name another --label-column."
)
DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)?")


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
        UsageError: (a `ValueError`) for columns and labels that do not fit.
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
        problems = []
        columns = self.text_columns
        if len(columns) not in (1, 2) or len(set(columns)) != len(columns):
            problems.append(
                "A table needs one text column, or two different ones for "
                f"pairs. Received: {list(columns)}."
            )
        if self.label_column in columns:
            problems.append(
                f"Column {self.label_column!r} cannot be the label and a text. "
                "Name another --label-column."
            )
        if not self.files:
            problems.append("A table needs a file. Received: none.")
        if self.regression and self.labels is not None:
            problems.append(
                "Scores have no list of labels. Received: labels="
                f"{list(self.labels)} and regression=true. Remove one of them."
            )
        if self.labels is not None and (
            len(set(map(label_value, self.labels))) < max(2, len(self.labels))
        ):
            problems.append(
                "Expected at least two different labels. Received: labels="
                f"{list(self.labels)}."
            )
        if problems:
            raise UsageError("\n".join(problems))

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
        """Requires that the files of splits exist.

        Raises:
            UsageError: with every missing file.
        """
        paths = dict.fromkeys(self._path(split) for split in splits)
        missing = [path for path in paths if not pathlib.Path(path).exists()]
        if missing:
            raise UsageError(
                f"Missing: {', '.join(missing)}. Expected the table that the "
                "run was made on. Restore it, or pass another with --train, "
                "--dev or --test."
            )

    def read(self, split: str) -> Examples:
        """Reads a split.

        Args:
            split: string. One of `splits`.

        Raises:
            UsageError: with file and place of malformed rows, empty texts, and
                labels that are empty or unknown.
        """
        state = _state_of(self._path(split))
        if split == "test" or not self.sets_dev_aside:
            return _whole_file(self, split, state)
        examples, aside = _with_dev_rows(self, state)
        if not len(aside):
            raise UsageError(
                f"{self.train} has too few examples to set some aside for dev. "
                "Expected two different texts with the same label. Pass --dev."
            )
        if split == "dev":
            return examples.take(aside)
        return examples.take(np.setdiff1d(np.arange(len(examples)), aside))

    def completed(self, names: Iterable[str] | None = None) -> "LabeledTable":
        """Reads all files, and returns the table with its labels.

        Args:
            names: iterable of strings, the names of a teacher's classes in
                their order, or `None`. They order labels that are not listed.

        Raises:
            UsageError: with all mistakes in all files.
        """
        table, files = self, self.files
        with all_mistakes() as check:
            if self.regression:
                files = {}
                with check():
                    self._require_numbers()
                    files = self.files
            else:
                table = dataclasses.replace(self, labels=None)
                with check():
                    table = self._with_labels(names)
            for split in files:
                with check():
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
            raise UsageError(
                f"The table has no split {split!r}. Expected one of "
                f"{', '.join(self.splits)}. Pass --{split} FILE."
            )
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
        reads_labels = has_labels and (self.regression or self.labels)
        parse = label_parser(None if self.regression else self.labels or ())
        texts = tuple([] for _ in self.text_columns)
        labels, problems, fix = [], [], {}
        for row in rows:
            problem = row.problem or self._problem(row, has_labels)
            if problem is None and reads_labels:
                try:
                    labels.append(parse(row.cells[-1]))
                except UsageError as error:
                    problem = str(error)
                    fix["fix"] = self._fix_of_label(split)
            if problem is not None:
                problems.append(f"{row.place}: {problem}")
                continue
            for column, text in zip(texts, row.cells, strict=False):
                column.append(text)
        raise_problems(path, problems, **fix)
        dtype = "float32" if self.regression else "int32"
        return Examples(
            texts, np.array(labels, dtype) if reads_labels else None
        )

    def _problem(self, row, has_labels):
        texts = row.cells[: len(self.text_columns)]
        if not any(texts):
            names = " and ".join(map(repr, self.text_columns))
            return f"expected text in {names}. Received: an empty cell"
        if has_labels and not row.cells[-1]:
            return (
                f"expected a label in {self.label_column!r}. Received: an "
                "empty cell"
            )
        return None

    def _fix_of_label(self, split):
        if self.regression:
            return (
                "Scores are numbers with a decimal point. Fix or remove these "
                "rows."
            )
        if split == "train" or self.train is None:
            return "Fix or remove these rows, or add their label to the labels."
        return (
            f"The known labels are those of {pathlib.Path(self.train).name}. "
            "Fix or remove these rows, or add examples of a new label there."
        )

    def _require_numbers(self):
        """Rejects a column of words as scores, with one error for all rows."""
        split = next(iter(self.files))
        rows, _ = self._rows(split)
        words = [row.cells[-1] for row in rows if row.cells]
        wrong = [word for word in words if word and _numbers([word]) is None]
        if len(wrong) > len(words) / 2:
            raise UsageError(
                f"{self._path(split)}: column {self.label_column!r} has words, "
                f"such as {shortened(wrong[0])}. Expected numbers, because "
                "labels are scores with --regression. Remove --regression, or "
                "name another --label-column."
            )

    def _with_labels(self, names):
        """The table with its labels in the order of the classes."""
        split = next(iter(self.files))
        path = self._path(split)
        rows, has_labels = self._rows(split)
        words = _one_spelling(
            row.cells[-1] for row in rows if has_labels and row.cells
        )
        known, is_listed = self.labels, self.labels is not None
        if is_listed:
            _require_listed(path, words, known)
        else:
            known = open_table(path).class_names.get(self.label_column)
        if known is None:
            if len(words) < 2 and any(row.problem for row in rows):
                return self  # `completed` reports the rows
            self._require_classes(path, words, len(rows))
        labels, class_names = known or words, None
        if names is not None:
            labels, class_names = _as_names(
                path, labels, tuple(names), is_listed
            )
        return dataclasses.replace(self, labels=labels, class_names=class_names)

    def _require_classes(self, path, words, num_rows):
        """Rejects a label column with scores, numbers of rows or texts."""
        where = f"{path}: column {self.label_column!r}"
        if len(words) < 2:
            raise UsageError(
                f"{where} has {'no label' if not words else 'one label'}"
                f"{''.join(f' alone, {word!r}' for word in words)}. Expected "
                "at least two different labels. Name another --label-column."
            )
        truths = [word for word in words if word.casefold() in TRUTHS]
        digits = [word for word in words if label_value(word) in (0, 1)]
        if truths and digits:
            raise UsageError(
                f"{where} has {_listed(truths)} and {_listed(digits)}. "
                "Expected one spelling for each label. Write true and false, "
                "or 1 and 0, in all rows."
            )
        numbers = _numbers(words)
        advice = REGRESSION
        if numbers is None and all(map(DECIMAL_COMMA.fullmatch, words)):
            numbers = _numbers([word.replace(",", ".") for word in words])
            advice = f"Write a decimal point for the decimal comma. {advice}"
        is_mostly_different = (
            num_rows >= LEAST_ROWS and len(words) > num_rows / 2
        )
        if numbers is not None:
            first = int(numbers[0] == 1)
            is_numbered = numbers == list(range(first, first + len(numbers)))
            has_fractions = not all(map(float.is_integer, numbers))
            if not is_numbered and (
                is_mostly_different
                or len(words) > MOST_NUMBERS
                or has_fractions
            ):
                raise UsageError(
                    f"{where} has {len(words)} different numbers in {num_rows} "
                    f"rows, from {numbers[0]:g} to {numbers[-1]:g}. Expected "
                    f"whole numbers of few classes. {advice}"
                )
        if is_mostly_different or len(words) > MOST_LABELS:
            raise UsageError(
                f"{where} has {len(words)} different values in {num_rows} "
                "rows. Expected labels of few classes. Received: "
                f"{', '.join(map(shortened, sorted(words)[:3]))} and others. "
                "Name another --label-column."
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


def _require_listed(path, words, listed):
    """Rejects labels in a file that the user has not listed."""
    if not set(map(label_value, words)) <= set(map(label_value, listed)):
        raise UsageError(
            f"The labels in {path} are not the listed ones. Expected "
            f"{_listed(listed)}. Received: {_listed(words)}. Pass --labels "
            "with each of them, in the order of the teacher's classes."
        )


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
        f"The labels in {path} are not the teacher's classes. Expected "
        f"{', '.join(map(repr, names))}. Received: {_listed(words)}. Pass "
        "--labels with a label for each of these classes, in their order, or "
        "use a teacher of these labels."
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
def _file_rows(path, state, columns, may_lack_label) -> tuple[list[Row], bool]:
    """The rows of a file, and whether they have labels."""
    table = open_table(path, columns, finds_quotes=True)
    has_labels = not may_lack_label or columns[-1] in table.headings
    if not has_labels:
        columns = columns[:-1]
    rows = list(table.columns(columns))
    if not rows:
        raise UsageError(
            f"{path} has no rows. Expected at least one below the header."
        )
    return rows, has_labels


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
