"""The tab-separated files of the built-in tasks, and their strict reader."""

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping

import numpy as np

from kdkit.data.examples import (
    Examples,
    at,
    column_place,
    label_parser,
    read_lines,
    require_width,
)
from kdkit.errors import UsageError

LABEL_SET = "labels.txt"  # one label per line


@dataclasses.dataclass(frozen=True)
class TableLayout:
    """The layout of a task's files.

    Files are tab separated, without quoting, in UTF-8. Blank lines at the end
    of a file are skipped. A column is named by its heading or, in files without
    a header, by its index from 0.

    Args:
        folder: string. Folder of the files within the data directory.
        text_columns: tuple of 1 or 2 columns.
        label_column: heading or index of the column with the label.
        label_words: tuple of the words in the label column, in the order of the
            class numbers, or `None` for scores and with `reads_label_set`.
        label_separator: string or `None`. For multi-label tasks, the separator
            of the words in the label column.
        files: dict from split to the file's name without `.tsv`. Splits whose
            name starts with `"test"` may lack the label column.
        has_header: bool. Whether the first line holds the headings.
        num_columns: int. Number of columns. Only needed without a header.
        joins_broken_rows: bool. Whether a row with too few columns continues on
            the next line, because a text contains a line feed.
        test_layout: `TableLayout` of the test files, if it differs.
        reads_label_set: bool. Whether the words are in `labels.txt` in the
            folder, one per line in the order of the class numbers.
    """

    folder: str
    text_columns: tuple[str | int, ...]
    label_column: str | int
    label_words: tuple[str, ...] | None = None
    label_separator: str | None = None
    files: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {"train": "train", "dev": "dev", "test": "test"}
    )
    has_header: bool = True
    num_columns: int | None = None
    joins_broken_rows: bool = False
    test_layout: "TableLayout | None" = None
    reads_label_set: bool = False

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The words in the label column, if known."""
        return self.label_words

    def for_data(self, data_dir) -> "TableLayout":
        """Returns the layout with the label words from the data."""
        if self.label_words is not None or not self.reads_label_set:
            return self
        path = pathlib.Path(data_dir, self.folder, LABEL_SET)
        words = tuple(line.strip() for line in read_lines(path) if line.strip())
        return dataclasses.replace(self, label_words=words)

    def require(self, splits: Iterable[str], data_dir) -> None:
        """Requires that the files of the splits exist."""
        for split in splits:
            self.path(split, data_dir).stat()

    def read(self, split: str, data_dir) -> Examples:
        """Reads the file of a split."""
        return read_table(self.path(split, data_dir), self)

    def path(self, split: str, data_dir) -> pathlib.Path:
        """Returns the path of a split's file."""
        return pathlib.Path(data_dir, self.folder, f"{self.files[split]}.tsv")

    def is_test(self, stem: str) -> bool:
        """Returns whether a file of this name may have no labels."""
        return any(
            split.startswith("test") and name == stem
            for split, name in self.files.items()
        )


def read_table(path, layout: TableLayout) -> Examples:
    """Reads one file.

    Args:
        path: path of the file.
        layout: `TableLayout` of its task.

    Returns:
        `Examples`; without labels for a test file without a label column.

    Raises:
        UsageError: for a missing column, and with file and line for another
            number of columns, a row without text and an unknown label.
    """
    path = pathlib.Path(path)
    is_test = layout.is_test(path.stem)
    if is_test and layout.test_layout is not None:
        layout = layout.test_layout
    lines = enumerate(read_lines(path), start=1)
    rows = ((number, line.split("\t")) for number, line in lines)
    texts_at, label_at = layout.text_columns, layout.label_column
    num_columns = layout.num_columns
    if layout.has_header:
        _, headings = next(rows, (1, []))
        num_columns = len(headings)
        texts_at = [column_place(path, headings, one) for one in texts_at]
        if is_test and label_at not in headings:
            label_at = None
        else:
            label_at = column_place(path, headings, label_at)
    if layout.joins_broken_rows:
        rows = _joined(rows, num_columns)

    texts = tuple([] for _ in texts_at)
    labels = []
    parse_label = label_parser(layout.label_words, layout.label_separator)
    for number, row in rows:
        require_width(path, number, row, num_columns)
        sentences = [row[index].strip() for index in texts_at]
        if not any(sentences):
            raise UsageError(f"{path}, line {number} has no text.")
        for column, sentence in zip(texts, sentences, strict=True):
            column.append(sentence)
        if label_at is not None:
            with at(path, f"line {number}"):
                labels.append(parse_label(row[label_at]))
    if label_at is None:
        return Examples(texts)
    dtype = "float32" if layout.label_words is None else "int32"
    return Examples(texts, np.array(labels, dtype))


def _joined(rows, num_columns):
    """Yields rows, after joining rows that are on several lines."""
    for number, row in rows:
        whole = row
        while len(whole) < num_columns:
            _, rest = next(rows, (None, None))
            if rest is None:
                break
            whole = [*whole[:-1], f"{whole[-1]} {rest[0]}", *rest[1:]]
        yield number, whole
