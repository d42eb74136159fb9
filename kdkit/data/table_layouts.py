"""The tab-separated files of the built-in tasks, and their strict reader."""

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping

import numpy as np

from kdkit.data.examples import (
    Examples,
    breaks_in_quotes,
    find_columns,
    fix_of_label_set,
    label_parser,
    raise_missing,
    raise_problems,
    read_label_words,
    read_lines,
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

    def __post_init__(self):
        columns = (*self.text_columns, self.label_column)
        kind = str if self.has_header else int
        if not all(isinstance(column, kind) for column in columns):
            raise UsageError(
                "Columns are headings in files with a header and indices in "
                f"files without. Received: has_header={self.has_header}, "
                f"columns={columns}."
            )
        if not self.has_header and self.num_columns is None:
            raise UsageError(
                "A layout without a header needs `num_columns`. "
                f"Received: num_columns={self.num_columns}."
            )

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The words in the label column, if known."""
        return self.label_words

    def for_data(self, data_dir) -> "TableLayout":
        """Returns the layout with the label words from the data."""
        if self.label_words is not None or not self.reads_label_set:
            return self
        path = pathlib.Path(data_dir, self.folder, LABEL_SET)
        if not path.is_file():
            expected = pathlib.Path("DATA_DIR", self.folder, LABEL_SET)
            raise UsageError(
                f"Missing data file: {path}. Expected {expected} with one "
                "label per line, in the order of the class numbers. Received: "
                f"data_dir={str(data_dir)!r}{_hint(self, data_dir)}"
            )
        words = read_label_words(
            path,
            # An example with several labels may also have one or none.
            least=2 if self.label_separator is None else 1,
        )
        return dataclasses.replace(self, label_words=words)

    def require(self, splits: Iterable[str], data_dir) -> None:
        """Requires that the files of the splits exist."""
        require_tables(self, splits, data_dir)

    def read(self, split: str, data_dir) -> Examples:
        """Reads the file of a split."""
        return read_table(self.path(split, data_dir), self)

    def path(self, split: str, data_dir) -> pathlib.Path:
        """Returns the path of a split's file."""
        if split not in self.files:
            raise UsageError(
                f"Unknown split of {self.folder}. Expected one of "
                f"{tuple(self.files)}. Received: {split!r}."
            )
        return pathlib.Path(data_dir, self.folder, f"{self.files[split]}.tsv")

    def is_test(self, stem: str) -> bool:
        """Returns whether a file of this name may have no labels."""
        return any(
            split.startswith("test") and name == stem
            for split, name in self.files.items()
        )


def require_tables(
    layout: TableLayout, splits: Iterable[str], data_dir
) -> None:
    """Requires that the files of all splits exist."""
    paths = [layout.path(split, data_dir) for split in splits]
    raise_missing(
        [path for path in paths if not path.is_file()],
        [layout.path(split, "DATA_DIR") for split in layout.files],
        data_dir,
        _hint(layout, data_dir),
    )


def read_table(path, layout: TableLayout) -> Examples:
    """Reads one file.

    Args:
        path: path of the file.
        layout: `TableLayout` of its task.

    Returns:
        `Examples`; without labels for a test file without a label column.

    Raises:
        UsageError: for a file that is missing, empty or not UTF-8, for missing
            columns, and with file and line number for malformed lines and
            unknown labels.
    """
    path = pathlib.Path(path)
    is_test = layout.is_test(path.stem)
    if is_test and layout.test_layout is not None:
        layout = layout.test_layout
    rows = _numbered_rows(path, layout)
    headings = next(rows)[1] if layout.has_header else None
    texts_at, label_at = _column_indices(path, layout, headings, is_test)
    num_columns = len(headings) if headings else layout.num_columns
    if layout.joins_broken_rows:
        rows = _joined(rows, num_columns)

    problems, fix = [], {}
    texts = tuple([] for _ in texts_at)
    labels = []
    parse_label = label_parser(layout.label_words, layout.label_separator)
    for number, row in rows:
        if len(row) != num_columns:
            problems.append(
                f"line {number}: expected {num_columns} columns separated by "
                f"tabs. Received: {len(row)} columns, {_shortened(row)}"
            )
            if breaks_in_quotes(row):
                fix = {"fix": QUOTED_BREAKS}
            continue
        sentences = [row[index].strip() for index in texts_at]
        if not any(sentences):
            problems.append(
                f"line {number}: expected text. Received: {_shortened(row)}"
            )
            continue
        for column, sentence in zip(texts, sentences, strict=True):
            column.append(sentence)
        if label_at is not None:
            try:
                labels.append(parse_label(row[label_at]))
            except UsageError as error:
                problems.append(f"line {number}: {error}")
                if own_fix := fix_of_label_set(
                    row[label_at], layout.label_words, layout.label_separator
                ):
                    fix = {"fix": own_fix}
    raise_problems(path, problems, **fix)
    if not texts[0]:
        raise UsageError(
            f"{path} has no rows. Expected at least one row of sentences."
        )
    if label_at is None:
        return Examples(texts)
    dtype = "float32" if layout.label_words is None else "int32"
    return Examples(texts, np.array(labels, dtype))


def _numbered_rows(path, layout):
    """Yields line number, from 1, and columns of every line."""
    what = "a header and rows" if layout.has_header else "rows"
    lines = read_lines(
        path, f"{what} of tab-separated columns of {layout.folder}"
    )
    for number, line in enumerate(lines, start=1):
        yield number, line.split("\t")


def _column_indices(path, layout, headings, is_test):
    if headings is None:
        return layout.text_columns, layout.label_column
    wanted = [*layout.text_columns]
    if not is_test:
        wanted.append(layout.label_column)
    texts_at = find_columns(path, headings, wanted)[: len(layout.text_columns)]
    if layout.label_column not in headings:
        return texts_at, None
    return texts_at, headings.index(layout.label_column)


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


QUOTED_BREAKS = (
    "A CSV writer quoted texts with tabs or line breaks, and a built-in task's "
    "files have no quoting. Pass the file with --train, --text-column and "
    "--label-column (Python: kdkit.tasks.from_table), which read quotes."
)


def _hint(layout, data_dir):
    folder = pathlib.Path(data_dir)
    if folder.name == layout.folder:
        return f". Did you mean {str(folder.parent)!r}?"
    for name in layout.files.values():
        if (folder / f"{name}.tsv").is_file():
            place = folder / layout.folder
            return f", which has {name}.tsv itself. Move its files to {place}."
    if not folder.is_dir():
        return ", which is not a directory."
    return "."


def _shortened(row, limit=80):
    line = "\t".join(row)
    return repr(line if len(line) <= limit else f"{line[:limit]}...")
