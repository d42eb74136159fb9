"""Reads tables row by row: CSV, TSV, JSON lines, Parquet, saved datasets."""

import csv
import dataclasses
import itertools
import json
import math
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet

from kdkit.data.examples import (
    at,
    column_place,
    is_csv_quoted,
    require_width,
    without_blank_end,
)
from kdkit.errors import UsageError
from kdkit.io.reading import numbered_lines

JSON_LINES = (".json", ".jsonl", ".ndjson")
PARQUET = (".parquet", ".pq")
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
LONGEST_CELL = 1 << 24
FIRST_OBJECTS = 100  # their keys are the columns of JSON lines
BREAKS = re.compile(r"[\t\r\n]+")
# Files of a Hugging Face dataset that `save_to_disk` wrote.
DATASET_INFO, DATASET_STATE = "dataset_info.json", "state.json"
DATASET_SPLITS = "dataset_dict.json"


@dataclasses.dataclass(frozen=True)
class Table:
    """An open table.

    Args:
        path: `pathlib.Path` of the file or the folder.
        headings: tuple of strings.
        rule: string. How the cells are separated, in words.
        read: callable from the headings of the wanted columns to the place and
            all cells of every row. The cells of other columns may be `None`.
        class_names: dict from the heading of a column of class numbers to the
            names of the classes.
    """

    path: pathlib.Path
    headings: tuple[str, ...]
    rule: str
    read: Callable[[Sequence[str]], Iterator[tuple[str, Sequence]]]
    class_names: dict[str, tuple[str, ...]] = dataclasses.field(
        default_factory=dict
    )

    def cells(self, names: Sequence[str]) -> Iterator[tuple[str, list]]:
        """Yields the place and the cells in some columns of every row."""
        columns = [column_place(self.path, self.headings, one) for one in names]
        for place, cells in self.read(names):
            yield place, [cells[column] for column in columns]

    def columns(
        self, names: Sequence[str]
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yields the place and the texts in some columns of every row."""
        classes = [self.class_names.get(name) for name in names]
        for place, cells in self.cells(names):
            with at(self.path, place):
                texts = tuple(map(_text, cells, classes))
            yield place, texts


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
        finds_quotes: bool. Whether to read the whole `.tsv` first, and to
            apply quotes if a CSV writer quoted a cell. Defaults to `False`.

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
    if suffix == ".csv":
        _, header = next(numbered_lines(path), (1, ""))
        return _delimited(path, _separator(header, set(wanted)), True)
    return _delimited(path, "\t", finds_quotes and _has_quotes(path))


def split_folders(path) -> dict[str, pathlib.Path]:
    """The folders of a saved `DatasetDict` by the names of its splits."""
    file = pathlib.Path(path) / DATASET_SPLITS
    if not file.is_file():
        return {}
    return {name: file.parent / name for name in _json(file)["splits"]}


def _json(path):
    return json.loads(path.read_text("utf-8-sig"))


def _text(value, classes=None):
    """A cell as text. Empty for missing values."""
    if classes is not None and isinstance(value, int):
        value = classes[value] if 0 <= value < len(classes) else None
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bytes | list | tuple | dict):
        raise UsageError(
            "expected a text or a number in each cell. Received: a "
            f"{type(value).__name__}."
        )
    return BREAKS.sub(" ", str(value)).strip()


def _separator(header, wanted):
    """The separator in a CSV file's header: one that gives wanted headings."""

    def fit(separator):
        found = next(csv.reader([header], delimiter=separator), [])
        cells = {cell.strip() for cell in found}
        return len(wanted & cells), len(cells)

    return max(SEPARATORS, key=fit)


def _has_quotes(path):
    """Whether a CSV writer quoted cells of a tab-separated file."""
    num_columns = None
    for _, line in numbered_lines(path):
        cells = line.split("\t")
        num_columns = num_columns or len(cells)
        is_broken = len(cells) != num_columns and _breaks_in_quotes(cells)
        is_all_quoted = all(
            len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in cells
        )
        if is_broken or is_all_quoted or any(map(is_csv_quoted, cells)):
            return True
    return False


def _breaks_in_quotes(cells):
    """Whether a quoted cell contains a tab or a line break."""
    return any(
        cell.count('"') % 2 and (cell[0] == '"' or cell[-1] == '"')
        for cell in map(str.strip, cells)
    )


def _delimited(path, separator, is_quoted):
    rule = f"{SEPARATORS[separator]} between columns, "
    rule += "quotes around cells" if is_quoted else "quotes are text"
    lines = without_blank_end(numbered_lines(path))
    if is_quoted:
        rows = _quoted_rows(path, lines, separator)
    else:
        rows = ((number, line.split("\t")) for number, line in lines)
    _, headings = next(rows, (1, []))
    headings = tuple(heading.strip() for heading in headings)

    def read(names):
        for number, cells in rows:
            require_width(path, number, cells, len(headings))
            yield f"line {number}", cells

    return Table(path, headings, rule, read)


def _quoted_rows(path, lines, separator):
    """Yields the number of a row's first line, and its cells."""
    csv.field_size_limit(LONGEST_CELL)
    reader = csv.reader(
        (f"{line}\n" for _, line in lines), delimiter=separator, strict=True
    )
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise UsageError(f"{path}, line {number}: {error}.") from error
        if cells is None:
            return
        if cells:  # not a blank line
            yield number, cells


def _json_lines(path):
    rows = _objects(path)
    first = list(itertools.islice(rows, FIRST_OBJECTS))
    headings = tuple({key: None for _, one in first for key in one})

    def read(names):
        for place, one in itertools.chain(first, rows):
            yield place, tuple(map(one.get, headings))

    return Table(path, headings, "JSON lines", read)


def _objects(path):
    """Yields the place of every object, and the object."""
    lines = [*itertools.islice(_filled_lines(path), 1)]
    if lines and lines[0][1].lstrip().startswith("["):
        with at(path, "its list"):
            entries = _json(path)
        for number, one in enumerate(entries, start=1):
            with at(path, f"object {number}"):
                _require_object(one)
            yield f"object {number}", one
        return
    for number, line in _filled_lines(path):
        with at(path, f"line {number}"):
            one = json.loads(line)
            _require_object(one)
        yield f"line {number}", one


def _filled_lines(path):
    return (line for line in numbered_lines(path) if line[1].strip())


def _require_object(value):
    if not isinstance(value, dict):
        raise UsageError(f"expected a JSON object. Received: {value!r}.")


def _parquet(path):
    schema = pyarrow.parquet.read_schema(path)
    with_names = (schema.metadata or {}).get(b"huggingface", b"{}")
    info = json.loads(with_names).get("info", {})

    def read(names):
        with pyarrow.parquet.ParquetFile(path) as file:
            yield from _batch_rows(file.iter_batches(), names)

    headings, classes = tuple(schema.names), _classes(info)
    return Table(path, headings, "Parquet", read, classes)


def _saved_dataset(path):
    """A dataset that Hugging Face `datasets` saved, from its Arrow files."""
    entries = _json(path / DATASET_STATE)["_data_files"]
    files = [str(path / one["filename"]) for one in entries]
    with pa.OSFile(files[0]) as source:
        headings = tuple(pa.ipc.open_stream(source).schema.names)

    def batches():
        for file in files:
            with pa.OSFile(file) as source:
                yield from pa.ipc.open_stream(source)

    def read(names):
        return _batch_rows(batches(), names)

    info = path / DATASET_INFO
    classes = _classes(_json(info)) if info.is_file() else {}
    return Table(path, headings, "a saved dataset", read, classes)


def _classes(info):
    """The names of classes by column, as `datasets` writes them."""
    return {
        column: tuple(map(str, feature["names"]))
        for column, feature in (info.get("features") or {}).items()
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
    }


def _batch_rows(batches, names):
    """Yields the rows of Arrow batches, `None` in columns that nobody wants."""
    number = 0
    for batch in batches:
        batch.validate(full=True)
        columns = [
            column.to_pylist()
            if name in names
            else itertools.repeat(None, batch.num_rows)
            for name, column in zip(
                batch.schema.names, batch.columns, strict=True
            )
        ]
        for cells in zip(*columns, strict=True):
            number += 1
            yield f"row {number}", cells
