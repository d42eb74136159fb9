"""Tab-separated files of sentences and labels, read strictly."""

import dataclasses
import math
import pathlib
from collections.abc import Iterable
from collections.abc import Mapping

import numpy as np

from kdkit.data.examples import Examples
from kdkit.errors import UsageError

MAX_PROBLEMS = 10  # of one file that are spelled out; the rest are counted


@dataclasses.dataclass(frozen=True)
class TableLayout:
    """How the files of a task look, split by split.

    Files are tab separated, without quoting, in UTF-8. A column is named by
    its heading or, in files without a header, by its index from 0.

    Args:
        folder: string. Folder of the files within the data directory.
        text_columns: tuple of 1 or 2 columns.
        label_column: heading or index of the column with the label.
        label_words: tuple of the words in the label column, in the order of
            the class numbers, or `None` where the column holds a score.
        files: dict from split to the file's name without `.tsv`. Splits whose
            name starts with `"test"` may lack the label column.
        has_header: bool. Whether the first line holds the headings.
        num_columns: int. Number of columns; needed without a header only.
        joins_broken_rows: bool. Whether a row with too few columns goes on in
            the next line, because a text contains a line feed.
        test_layout: `TableLayout` of the test files where these differ.
    """

    folder: str
    text_columns: tuple[str | int, ...]
    label_column: str | int
    label_words: tuple[str, ...] | None
    files: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {"train": "train", "dev": "dev", "test": "test"}
    )
    has_header: bool = True
    num_columns: int | None = None
    joins_broken_rows: bool = False
    test_layout: "TableLayout | None" = None

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

    def path(self, split: str, data_dir) -> pathlib.Path:
        """Returns where the file of a split is looked for."""
        if split not in self.files:
            raise UsageError(
                f"Unknown split of {self.folder}. Expected one of "
                f"{tuple(self.files)}. Received: {split!r}."
            )
        return pathlib.Path(data_dir, self.folder, f"{self.files[split]}.tsv")

    def is_test(self, stem: str) -> bool:
        """Returns whether the file of this name may lack the labels."""
        return any(
            split.startswith("test") and name == stem
            for split, name in self.files.items()
        )


def require_tables(
    layout: TableLayout, splits: Iterable[str], data_dir
) -> None:
    """Checks that the files of all the splits are there.

    Raises:
        UsageError: with every missing file and the layout looked for.
    """
    missing = [
        path
        for path in (layout.path(split, data_dir) for split in splits)
        if not path.is_file()
    ]
    if not missing:
        return
    lines = [
        "Missing data file:" if len(missing) == 1 else "Missing data files:",
        *(f"  {path}" for path in missing),
        "The data directory must be the root of the official GLUE layout:",
        *(f"  {layout.path(split, 'DATA_DIR')}" for split in layout.files),
        f"Received: data_dir={str(data_dir)!r}{_hint(layout, data_dir)}",
    ]
    raise UsageError("\n".join(lines))


def read_table(path, layout: TableLayout) -> Examples:
    """Reads one file.

    Args:
        path: path of the file.
        layout: `TableLayout` of its task.

    Returns:
        `Examples`; without labels for a test file without a label column.

    Raises:
        UsageError: for a file that is missing, empty or not UTF-8, for missing
            columns, and with file and line number for malformed rows and
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

    problems = []
    texts = tuple([] for _ in texts_at)
    labels = []
    parse_label = _label_parser(layout)
    for number, row in rows:
        if len(row) != num_columns:
            problems.append(
                f"line {number}: expected {num_columns} columns separated by "
                f"tabs. Received: {len(row)} columns, {_shortened(row)}"
            )
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
    _raise_problems(path, problems)
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
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"Cannot read {path}: {error.strerror}. Expected a file of tab-"
            f"separated columns of {layout.folder}."
        ) from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1
        byte = error.object[error.start]
        raise UsageError(
            f"{path}, line {number}: expected UTF-8. Received: byte "
            f"0x{byte:02x}. Convert the file, for example with iconv."
        ) from error
    if not text.strip():
        raise UsageError(
            f"{path} is empty. Expected "
            + ("a header and rows." if layout.has_header else "rows.")
        )
    # not splitlines: it also breaks at U+0085 and U+2028 within sentences
    lines = text.removesuffix("\n").split("\n")
    for number, line in enumerate(lines, start=1):
        yield number, line.removesuffix("\r").split("\t")


def _column_indices(path, layout, headings, is_test):
    if headings is None:
        return layout.text_columns, layout.label_column
    wanted = [*layout.text_columns]
    if not is_test:
        wanted.append(layout.label_column)
    missing = [heading for heading in wanted if heading not in headings]
    if missing:
        raise UsageError(
            f"{path}, line 1: expected a header with "
            f"{', '.join(map(repr, wanted))}. Missing: "
            f"{', '.join(map(repr, missing))}. Received: {headings}."
        )
    texts_at = tuple(headings.index(column) for column in layout.text_columns)
    if layout.label_column not in headings:
        return texts_at, None
    return texts_at, headings.index(layout.label_column)


def _joined(rows, num_columns):
    """Yields rows with those of several lines put together."""
    for number, row in rows:
        whole = row
        while len(whole) < num_columns:
            _, rest = next(rows, (None, None))
            if rest is None:
                break
            whole = [*whole[:-1], f"{whole[-1]} {rest[0]}", *rest[1:]]
        yield number, whole


def _label_parser(layout):
    if layout.label_words is None:
        return _parse_score
    numbers = {word: number for number, word in enumerate(layout.label_words)}

    def parse_word(word):
        try:
            return numbers[word.strip()]
        except KeyError:
            raise UsageError(
                f"unknown label. Expected one of {layout.label_words}. "
                f"Received: {word!r}"
            ) from None

    return parse_word


def _parse_score(text):
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise UsageError(f"expected a number as label. Received: {text!r}")
    return score


def _raise_problems(path, problems):
    if not problems:
        return
    lines = [f"{path}, {problem}" for problem in problems[:MAX_PROBLEMS]]
    if len(problems) > MAX_PROBLEMS:
        lines.append(f"and {len(problems) - MAX_PROBLEMS} more lines.")
    lines.append("Mend or remove these lines, or fetch the file again.")
    raise UsageError("\n".join(lines))


def _hint(layout, data_dir):
    folder = pathlib.Path(data_dir)
    if folder.name == layout.folder:
        return f". Did you mean {str(folder.parent)!r}?"
    if not folder.is_dir():
        return ", which is not a directory."
    return "."


def _shortened(row, limit=80):
    line = "\t".join(row)
    return repr(line if len(line) <= limit else f"{line[:limit]}...")
