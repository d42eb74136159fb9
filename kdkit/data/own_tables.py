"""Labelled examples in a user's own tables: labels found, dev set aside."""

import collections
import dataclasses
import functools
import hashlib
import itertools
import os
import pathlib
from collections.abc import Iterable

from kdkit.data.selection import PUNCTUATION, normalized
from kdkit.data.tables import Examples, label_value, labeled, open_table
from kdkit.errors import UsageError
from kdkit.late import np

DEV_SHARE = 0.1
MOST_NUMBERS = 20  # different numbers in a label column without --regression
NO_PUNCTUATION = str.maketrans("", "", PUNCTUATION)
TRUTHS = {"true", "false"}
HIDDEN = {"", "-1", "-1.0"}  # labels of a test split that its authors keep
LEAST_ROWS = 20  # with fewer, each row may have its own label


@dataclasses.dataclass(frozen=True)
class LabeledTable:
    """The files of a task that a user describes by columns.

    Without `dev`, a tenth of `train` is set aside. It depends on the texts
    alone, so that every run on the table has the same dev examples. The
    examples of the last table stay in memory, so that its files are read once.

    Args:
        train: string or `None`. Absolute path of the training examples: a file
            or a folder that `kdkit.data.open_table` reads. `None` to only
            measure.
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
        """The paths by split. Dev may be a share of the training table."""
        dev = self.dev or self.train
        paths = {"train": self.train, "dev": dev, "test": self.test}
        return {split: path for split, path in paths.items() if path}

    @property
    def sets_dev_aside(self) -> bool:
        """Whether dev is a share of the training table."""
        return self.train is not None and self.dev is None

    def require(self, splits: Iterable[str]) -> None:
        """Requires that the files of splits exist."""
        for split in splits:
            os.stat(self.files[split])

    def read(self, split: str) -> Examples:
        """Returns the examples of a split, from the file or from memory.

        Args:
            split: string. A key of `files`.

        Raises:
            UsageError: with file and place, for a malformed row, an empty text,
                and a label that is empty or unknown.
        """
        return self._known(split)[0]

    def description(self, split: str) -> str:
        """Returns a split's file, or how it was set aside, and its size.

        Args:
            split: string.
        """
        examples, how = self._known(split)
        return f"{split}: {how}, {len(examples)} examples"

    def completed(self, names: Iterable[str] | None = None) -> "LabeledTable":
        """Reads all files, and returns the table with its labels.

        Args:
            names: iterable of strings, the names of a teacher's classes in
                their order, or `None`. They order labels that are not listed.

        Raises:
            UsageError: as `read` does, for a column that has no labels of
                classes, and for labels that are not the teacher's classes.
        """
        files = (one for one in self.files if getattr(self, one))
        opened = {split: self._opened(split) for split in files}
        table = self
        if not self.regression:
            table = self._with_labels(*next(iter(opened.values())), names)
        for split, contents in opened.items():
            table._known(split, contents)
        return table

    def _opened(self, split):
        """The table of a file, and the places and texts of its rows."""
        columns = [*self.text_columns, self.label_column]
        table = open_table(self.files[split], columns, finds_quotes=True)
        if split == "test" and self.label_column not in table.headings:
            columns.pop()
        rows = list(table.columns(columns))
        hidden = HIDDEN - {*(self.labels or ())}
        if split == "test" and {cells[-1] for _, cells in rows} <= hidden:
            rows = [(place, cells[:-1]) for place, cells in rows]
        return table, rows

    def _known(self, split, contents=None):
        """The examples of a split, and how they were read."""
        file = "train" if getattr(self, split) is None else split
        splits = _last_read(self, file, _state_of(self.files[file]))
        if not splits:
            table, rows = contents or self._opened(file)
            words = None if self.regression else self.labels or ()
            examples = labeled(table.path, rows, len(self.text_columns), words)
            if file == "train" and self.sets_dev_aside:
                aside = dev_rows(examples)
                how = set_aside_in_words(table.path)
                splits["dev"] = examples.take(aside), how
                rest = np.setdiff1d(np.arange(len(examples)), aside)
                examples = examples.take(rest)
            splits[file] = examples, f"{table.path.name} ({table.rule})"
        return splits[split]

    def _with_labels(self, table, rows, names):
        """The table with its labels in the order of the classes."""
        known = self.labels or table.class_names.get(self.label_column)
        labels = known or _different(cells[-1] for _, cells in rows)
        if len(labels) < 2 or not (known or _are_classes(labels, len(rows))):
            raise UsageError(
                f"{table.path}: column {self.label_column!r} has {len(labels)} "
                f"different labels in {len(rows)} rows: {_listed(labels[:4])}. "
                "Expected one spelling of each of a few classes; scores need "
                "--regression (Python: regression=True)."
            )
        class_names = None
        if names is not None:
            labels, class_names = _of_teacher(
                table.path, labels, tuple(names), self.labels is not None
            )
        return dataclasses.replace(self, labels=labels, class_names=class_names)


@functools.lru_cache(maxsize=3)  # the files of one table
def _last_read(table, file, state):
    """The memory for the splits in a file, shared by equal tables."""
    return {}


def _state_of(path):
    """What changes when a file or a saved dataset changes."""
    path = pathlib.Path(path)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return tuple((one.stat().st_mtime_ns, one.stat().st_size) for one in files)


def set_aside_in_words(path) -> str:
    """Returns what dev is without a table of its own."""
    return f"{100 * DEV_SHARE:g} % of {pathlib.PurePath(path).name} set aside"


def _are_classes(words, num_rows):
    """Whether the different values of a column are no scores, ids or texts."""
    # Scores may have decimal commas.
    values = [label_value(word.replace(",", ".")) for word in words]
    numbers = sorted(one for one in values if isinstance(one, float))
    are_scores = len(numbers) == len(words) and not _may_be_classes(numbers)
    has_truths = not TRUTHS.isdisjoint(map(str.casefold, words))
    is_mixed = has_truths and not {0, 1}.isdisjoint(numbers)
    is_varied = num_rows >= LEAST_ROWS and len(words) > num_rows / 2
    return not (are_scores or is_mixed or is_varied)


def _may_be_classes(numbers):
    """Whether numbers are few and whole, or count from 0 or 1."""
    count = len(numbers)
    are_few = count <= MOST_NUMBERS and all(map(float.is_integer, numbers))
    return are_few or numbers in ([*range(count)], [*range(1, count + 1)])


def _different(words):
    """The labels in order, each number in its shortest spelling."""
    ordered = sorted({*words} - {""}, key=lambda word: (-len(word), word))
    spellings = {label_value(word): word for word in ordered}
    if all(isinstance(value, float) for value in spellings):
        return tuple(spellings[value] for value in sorted(spellings))
    return tuple(sorted(spellings.values()))


def _of_teacher(path, words, names, is_listed):
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
    numbers = {label_value(word): word for word in words}
    if len(words) == len(names):
        if is_listed:
            return words, names
        if numbers.keys() == {*range(len(words))}:
            return tuple(numbers[one] for one in range(len(words))), names
    raise UsageError(
        f"The labels in {path} are {_listed(words)}, and the teacher's classes "
        f"{_listed(names)}. Pass --labels with a label for each class, in "
        "their order."
    )


def _listed(words):
    return ", ".join(map(repr, words[:20]))


def _plain(name):
    return name.casefold().replace("-", "_").replace(" ", "_")


def dev_rows(examples: Examples) -> "np.ndarray":
    """Returns the rows to set aside for dev: about a tenth of each label."""
    groups = collections.defaultdict(list)
    for number, row in enumerate(zip(*examples.texts, strict=True)):
        groups[_without_punctuation(row)].append(number)
    labels = examples.labels.tolist()
    found = sorted(
        (
            min(labels[number] for number in numbers),
            hashlib.sha256("\0".join(key).encode()).digest(),
            numbers,
        )
        for key, numbers in groups.items()
    )
    is_score = np.issubdtype(examples.labels.dtype, np.floating)
    chosen = _of_neighbours(found) if is_score else _of_each_label(found)
    return np.array(sorted(itertools.chain(*chosen)), int)


def _of_neighbours(groups):
    """The rows of one group of each ten, in the order of their scores."""
    size = round(1 / DEV_SHARE)
    tens = [
        groups[start : start + size] for start in range(0, len(groups), size)
    ]
    for ten in tens:
        if len(ten) > size / 2 or (len(tens) == 1 and len(ten) > 1):
            # A text that is repeated often would be most of dev.
            chosen = min(ten, key=lambda one: (len(one[2]) > size, one[1]))
            yield chosen[2]


def _of_each_label(groups):
    """The rows of the first groups of each label."""
    for _, same in itertools.groupby(groups, lambda group: group[0]):
        rows = [numbers for *_, numbers in same]
        wanted = max(1, round(DEV_SHARE * sum(map(len, rows))))
        # A text that is repeated more often would be most of dev.
        rows.sort(key=lambda numbers: len(numbers) > wanted)
        left = wanted
        for numbers in rows[:-1]:  # at least one group to train on
            if left <= 0 or (left < wanted < len(numbers)):
                break
            yield numbers
            left -= len(numbers)


def _without_punctuation(row):
    texts = normalized(text.translate(NO_PUNCTUATION) for text in row)
    return tuple(sorted(texts)) if any(texts) else tuple(sorted(row))
