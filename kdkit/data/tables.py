"""Labelled examples, and the tables that they are read from.

Tables are CSV, TSV, JSON lines, Parquet, and datasets that Hugging Face
`datasets` saved.
"""

import contextlib
import csv
import dataclasses
import functools
import itertools
import json
import math
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from kdkit.errors import UsageError, unknown
from kdkit.io.reading import numbered_lines, read_json
from kdkit.late import np, parquet, pyarrow

JSON_LINES = (".json", ".jsonl", ".ndjson")
PARQUET = (".parquet", ".pq")
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
LONGEST_CELL = 1 << 24
FIRST_OBJECTS = 100  # their keys are the columns of JSON lines
BREAKS = re.compile(r"[\t\r\n]+")
NO_TEXTS = bytes, list, dict
# A cell that contains quotes, and nothing but doubled ones.
CSV_QUOTED = re.compile(r'"(?=.*"".*")([^"]|"")*"')
LARGEST = 3.4028234663852886e38  # the largest float32


class Columns:
    """Examples in columns of the same length.

    A subclass is a dataclass. Its fields are lists, arrays, tuples of several
    columns, or `None`.
    """

    def __post_init__(self):
        counts = [len(one) for one in self._columns() if one is not None]
        if len(set(counts)) != 1:
            raise UsageError(
                "The columns of examples need the same length, and as many "
                f"labels. Received: {counts} rows in the columns."
            )

    def _columns(self):
        for one in vars(self).values():
            yield from one if isinstance(one, tuple) else (one,)

    def __len__(self):
        return len(next(self._columns()))

    def take(self, rows: Iterable[int]):
        """Returns the rows with the given numbers, in the given order."""
        rows = [*rows]
        taken = {name: _take(one, rows) for name, one in vars(self).items()}
        return dataclasses.replace(self, **taken)


def _take(column, rows):
    if isinstance(column, tuple):
        return tuple(_take(one, rows) for one in column)
    if isinstance(column, list):
        return [column[row] for row in rows]
    return None if column is None else column[rows]


@dataclasses.dataclass(frozen=True, eq=False)
class Examples(Columns):
    """Texts with their labels.

    Args:
        texts: tuple of 1 or 2 lists of strings of the same length: the
            sentences, or the first and the second sentences of the pairs.
        labels: `int32` array of class numbers, `float32` array of scores, or
            `None` without labels. Shape `(num_rows,)`.

    Raises:
        UsageError: (a `ValueError`) for columns of different lengths.

    >>> examples = Examples((["a fine film", "a dull film"],), np.array([1, 0]))
    >>> len(examples)
    2
    >>> examples.take([1]).texts
    (['a dull film'],)
    """

    texts: tuple[list[str], ...]
    labels: "np.ndarray | None" = None

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The texts of each example."""
        return list(zip(*self.texts, strict=True))


def labeled(
    path, rows: Iterable, num_texts: int, words=None, separator=None
) -> Examples:
    """Returns the examples in a file's rows: a place, and texts with a label.

    Rows without labels have texts alone.
    """
    parse = label_parser(words, separator)
    texts, labels = tuple([] for _ in range(num_texts)), []
    for place, cells in rows:
        with at(path, place):
            if not any(cells[:num_texts]):
                raise UsageError("expected a text. Received: none.")
            labels += map(parse, cells[num_texts:])
        for column, text in zip(texts, cells, strict=False):
            column.append(text)
    dtype = "float32" if words is None else "int32"
    return Examples(texts, np.array(labels, dtype) if labels else None)


def label_parser(words, separator=None):
    """Returns a function from the text of a label to its number, or score.

    With a separator of several labels, it returns an array of zeros and ones.
    """
    if words is None:
        return _score
    numbers = {label_value(word): number for number, word in enumerate(words)}
    if len(numbers) < len(words):
        raise UsageError(
            f"Expected each label once. Received: {', '.join(words)}."
        )

    @functools.cache
    def number(text):
        value = label_value(text.strip())
        if value not in numbers:
            raise unknown("label", text.strip(), words)
        return numbers[value]

    def present(text):
        found = np.zeros(len(words), "int32")
        if text.strip():
            found[[number(word) for word in text.split(separator)]] = 1
        return found

    return number if separator is None else present


def label_value(word: str) -> str | float:
    """Returns the number in a label, or its word, to compare two spellings."""
    try:
        value = float(word)
    except ValueError:
        return word
    is_number = math.isfinite(value) and "_" not in word  # as in Python's 1_0
    return value if is_number else word


def _score(text):
    score = float(text)
    if not abs(score) <= LARGEST:
        raise UsageError(f"expected a finite 32-bit number. Received: {text}.")
    return score


@contextlib.contextmanager
def at(path, place: str):
    """Puts the file and the place before the error of a row."""
    try:
        yield
    except ValueError as error:  # also UsageError
        raise UsageError(f"{path}, {place}: {error}") from error


def require_width(
    path, number: int, cells: Sequence[str], num_columns: int
) -> None:
    """Requires that a line has as many columns as the others."""
    if len(cells) != num_columns:
        raise UsageError(
            f"{path}, line {number}: expected {num_columns} columns. "
            f"Received: {len(cells)}."
        )


def filled_lines(path) -> Iterator[tuple[int, str]]:
    """Yields number and text of lines, without the blank end of a file."""
    blank = []
    for line in numbered_lines(path):
        if not line[1].strip():
            blank.append(line)
            continue
        yield from blank
        yield line
        blank.clear()


def read_lines(path) -> list[str]:
    """Returns the lines of a UTF-8 file without their line ends."""
    return [line for _, line in filled_lines(path)]


@dataclasses.dataclass(frozen=True)
class Table:
    """An open table, whose rows can be read once.

    Args:
        path: `pathlib.Path` of the file or the folder.
        headings: tuple of strings.
        rule: string. How the cells are separated, in words.
        read: callable from headings to an iterator of the place and the cells
            in these columns of every row.
        class_names: dict from the heading of a column of class numbers to the
            names of the classes.
    """

    path: pathlib.Path
    headings: tuple[str, ...]
    rule: str
    read: Callable[[Sequence[str]], Iterator[tuple[str, Sequence]]]
    class_names: dict[str, tuple[str, ...]]

    def cells(self, names: Sequence[str]) -> Iterator[tuple[str, Sequence]]:
        """Yields the place and the cells in some columns of every row."""
        for name in names:
            if name not in self.headings:
                raise unknown(f"column of {self.path}", name, self.headings)
            if self.headings.count(name) > 1:
                raise UsageError(
                    f"{self.path} has several columns {name!r}. Rename them."
                )
        return self.read(names)

    def columns(
        self, names: Sequence[str]
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yields the place and the texts in some columns of every row."""
        classes = [self.class_names.get(name) for name in names]
        for place, cells in self.cells(names):
            with at(self.path, place):
                texts = tuple(map(_text, cells, classes))
            yield place, texts


def _text(value, classes):
    """A cell as text. Empty for missing values."""
    if classes is not None and isinstance(value, int):
        value = classes[value] if 0 <= value < len(classes) else ""
    if value is None or value != value:  # NaN
        return ""
    if isinstance(value, NO_TEXTS):
        raise UsageError(
            "expected a text or a number in each cell. Received: a "
            f"{type(value).__name__}."
        )
    return BREAKS.sub(" ", str(value)).strip()


def open_table(path, wanted: Iterable[str] = (), finds_quotes=False) -> Table:
    """Opens a table of any format.

    - `.csv`: cells may be in quotes, with line breaks inside. The separator is
      the comma, the semicolon or the tab, whichever the header has.
    - `.tsv`, `.txt` and other names: columns are separated by tabs, and a quote
      is part of the text, as in GLUE's files.
    - `.jsonl`, `.ndjson`, `.json`: one object per line, or one list of objects.
    - `.parquet`.
    - A folder: a dataset that `save_to_disk` of Hugging Face `datasets` wrote.

    Text is in UTF-8, with or without a byte order mark.

    Args:
        path: path of the file or the folder.
        wanted: iterable of headings, which decide the separator of a `.csv`.
        finds_quotes: bool. Whether to have all lines of a `.tsv` in memory, and
            to apply quotes if a CSV writer quoted a cell. Defaults to `False`.

    Raises:
        UsageError: with file and place, as a row is read, for another number
            of columns, a cell without text, and a line that is no JSON object.
    """
    path = pathlib.Path(path)
    suffix = path.suffix.lower()
    if path.is_dir():
        return _saved_dataset(path)
    if suffix in PARQUET:
        return _parquet(path)
    if suffix in JSON_LINES:
        return _json_lines(path)
    return _delimited(path, {*wanted}, finds_quotes)


def _delimited(path, wanted, finds_quotes):
    lines, separator = filled_lines(path), "\t"
    is_quoted = path.suffix.lower() == ".csv"
    if is_quoted:
        separator = _separator(path, wanted)
    elif finds_quotes:
        lines = list(lines)
        is_quoted = _has_quotes(lines)
    rule = f"{SEPARATORS[separator]} between columns, "
    if is_quoted:
        rows = _quoted_rows(path, lines, separator)
        return table_of_rows(path, rows, f"{rule}quotes around cells")
    return table_of_rows(path, tab_rows(lines), f"{rule}quotes are text")


def tab_rows(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list]]:
    """Yields the number and the cells of lines with tabs between columns."""
    return ((number, line.split("\t")) for number, line in lines)


def table_of_rows(path, rows: Iterator[tuple[int, list]], rule: str) -> Table:
    """Returns the table of numbered rows, of which the first has headings."""
    _, headings = next(rows, (1, []))
    headings = tuple(heading.strip() for heading in headings)

    def read(names):
        places = [headings.index(name) for name in names]
        for number, cells in rows:
            require_width(path, number, cells, len(headings))
            yield f"line {number}", [cells[place] for place in places]

    return Table(path, headings, rule, read, class_names={})


def _quoted_rows(path, lines, separator):
    """Yields the number of a row's first line, and its cells."""
    csv.field_size_limit(LONGEST_CELL)
    ended = (f"{line}\n" for _, line in lines)
    reader = csv.reader(ended, delimiter=separator, strict=True)
    number = 1
    try:
        for cells in reader:
            if cells:  # not a blank line
                yield number, cells
            number = reader.line_num + 1
    except csv.Error as error:
        raise UsageError(f"{path}, line {number}: {error}.") from error


def _separator(path, wanted):
    """The separator in a CSV file's header: one that gives wanted headings."""
    _, header = next(numbered_lines(path), (1, ""))

    def fit(separator):
        (found,) = csv.reader([header], delimiter=separator)
        cells = {cell.strip() for cell in found}
        return len(wanted & cells), len(cells)

    return max(SEPARATORS, key=fit)


def _has_quotes(lines):
    """Whether a CSV writer quoted cells of lines with tabs."""
    width = None
    for _, line in lines:
        cells = line.split("\t")
        width = width or len(cells)
        if '"' in line and (
            any(map(is_csv_quoted, cells))
            or all(re.fullmatch('".*"', cell) for cell in cells)
            or (len(cells) != width and any(map(_is_half, cells)))
        ):
            return True
    return False


def _is_half(cell):
    """Whether a cell with a tab or a line break in quotes begins or ends."""
    return cell.count('"') % 2 and '"' in (cell[0], cell[-1])


def is_csv_quoted(cell: str) -> bool:
    """Returns whether a CSV writer quoted a cell because it contains quotes."""
    return CSV_QUOTED.fullmatch(cell) is not None


def _json_lines(path):
    objects = _objects(path)
    first = list(itertools.islice(objects, FIRST_OBJECTS))
    headings = dict.fromkeys(key for _, one in first for key in one)

    def read(names):
        for place, one in itertools.chain(first, objects):
            yield place, [one.get(name) for name in names]

    return Table(path, tuple(headings), "JSON lines", read, class_names={})


def _objects(path):
    """Yields the place of every object, and the object."""
    lines = (line for line in numbered_lines(path) if line[1].strip())
    for number, line in lines:
        if line.lstrip().startswith("["):  # a list of all objects
            line = "\n".join([line, *(rest for _, rest in lines)])
        with at(path, f"line {number}"):
            found = json.loads(line)
        objects = found if isinstance(found, list) else [found]
        for count, one in enumerate(objects, start=1):
            place = f"line {number}, object {count}"
            if not isinstance(one, dict):
                raise UsageError(f"{path}, {place}: expected a JSON object.")
            yield place, one


def _parquet(path):
    file = parquet.ParquetFile(path)
    schema = file.schema_arrow
    info = (schema.metadata or {}).get(b"huggingface", b"{}")
    return Table(
        path,
        tuple(schema.names),
        "Parquet",
        lambda names: _arrow_rows(file.iter_batches(columns=[*names]), names),
        _class_names(json.loads(info).get("info", {})),
    )


SAVED = "a dataset of Hugging Face that `save_to_disk` wrote"


def _saved_dataset(path):
    state = read_json(path / "state.json", SAVED)
    info = read_json(path / "dataset_info.json", SAVED)
    parts = [
        pyarrow.ipc.open_stream(pyarrow.OSFile(str(path / one["filename"])))
        for one in state["_data_files"]
    ]
    return Table(
        path,
        tuple(parts[0].schema.names),
        "a saved dataset",
        lambda names: _arrow_rows(itertools.chain(*parts), names),
        _class_names(info),
    )


def _arrow_rows(batches, names):
    """Yields the place and the cells of the rows of Arrow batches."""
    number = itertools.count(1)
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in names]
        for cells in zip(*columns, strict=True):
            yield f"row {next(number)}", cells


def _class_names(info):
    """The names of classes by column, as `datasets` writes them."""
    return {
        column: tuple(map(str, feature["names"]))
        for column, feature in (info.get("features") or {}).items()
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
    }


def split_folders(path) -> dict[str, pathlib.Path]:
    """Returns the folders of a saved `DatasetDict` by the names of splits."""
    file = pathlib.Path(path) / "dataset_dict.json"
    if not file.is_file():
        return {}
    splits = read_json(file, SAVED)["splits"]
    return {name: file.parent / name for name in splits}
