"""Reads tables row by row: CSV, TSV, JSON lines, Parquet, saved datasets."""

import csv
import dataclasses
import itertools
import math
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet

from kdkit.data.examples import (
    SEPARATORS,
    breaks_in_quotes,
    is_csv_quoted,
    without_blank_end,
)
from kdkit.errors import UsageError, shortened, suggestion
from kdkit.io.reading import (
    numbered_lines,
    parse_json,
    read_json,
)

JSON_LINES = (".json", ".jsonl", ".ndjson")
PARQUET = (".parquet", ".pq")
BINARY = ("", *JSON_LINES, *PARQUET)  # or without separators
# Formats that are not read, and what to do.
OTHERS = {
    ".xlsx": 'Save it as "CSV UTF-8"',
    ".xls": 'Save it as "CSV UTF-8"',
    ".ods": "Save it as CSV in UTF-8",
    ".gz": "Unpack it",
    ".zip": "Unpack it",
    ".bz2": "Unpack it",
    ".xz": "Unpack it",
    ".zst": "Unpack it",
}
FIRST_OBJECTS = 100  # their keys are the columns of JSON lines
MAX_CELL_BYTES = 1 << 24  # more than many books
BREAKS = re.compile(r"[\t\r\n]+")
WHAT = "a table with a header"
# Files of a Hugging Face dataset that `save_to_disk` wrote.
DATASET_INFO, DATASET_STATE = "dataset_info.json", "state.json"
DATASET_SPLITS = "dataset_dict.json"


class Row(NamedTuple):
    """A row of a table."""

    place: str
    cells: tuple[str, ...]
    problem: str | None = None


@dataclasses.dataclass(frozen=True)
class Table:
    """An open table."""

    path: pathlib.Path
    headings: tuple[str, ...]
    rule: str
    rows: Iterator[tuple[str, tuple | None, str | None]]
    class_names: dict[str, tuple[str, ...]] = dataclasses.field(
        default_factory=dict
    )

    def columns(self, names: Iterable[str]) -> Iterator[Row]:
        """Yields the texts in some columns of every row."""
        names = list(names)
        self.require(names)
        places = [self.headings.index(name) for name in names]
        numbered = [self.class_names.get(name) for name in names]
        for place, cells, problem in self.rows:
            if cells is None:
                yield Row(place, (), problem)
                continue
            try:
                texts = tuple(
                    _text(cells[index], classes)
                    for index, classes in zip(places, numbered, strict=True)
                )
            except UsageError as error:
                yield Row(place, (), f"{error}")
            else:
                yield Row(place, texts)

    def require(self, names: Iterable[str]) -> None:
        """Requires that columns exist, each once."""
        names = list(dict.fromkeys(names))
        missing = [name for name in names if name not in self.headings]
        twice = [name for name in names if self.headings.count(name) > 1]
        if missing:
            close = [suggestion(name, self.headings) for name in missing]
            raise UsageError(
                f"{self.path} ({self.rule}) has no column "
                f"{' and no column '.join(map(repr, missing))}. Expected one "
                f"of its columns {', '.join(map(shortened, self.headings))}, "
                "whose names are "
                "the first line of a CSV or TSV file."
                f"{next(filter(None, close), '')}{self._only_one()}"
            )
        if twice:
            raise UsageError(
                f"{self.path}: expected different headings. Received: "
                f"{', '.join(map(repr, twice))} more than once. Rename the "
                "columns."
            )

    def _only_one(self):
        """The fix for a table whose columns may have another separator."""
        if len(self.headings) > 1 or self.path.suffix.lower() in BINARY:
            return ""
        return (
            " Columns are separated by commas or semicolons in a .csv file, by "
            "tabs in other files."
        )


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
        wanted: iterable of headings. The columns that will be read.
        finds_quotes: bool. Whether to read the whole `.tsv` first, and to
            apply quotes if a CSV writer quoted a cell. Defaults to `False`.

    Raises:
        UsageError: for a file that is missing, empty, damaged or in another
            format. A malformed row does not raise: its `Row` has the problem.
    """
    path, wanted = pathlib.Path(path), set(wanted)
    suffix = path.suffix.lower()
    if path.is_dir():
        return _saved_dataset(path, wanted)
    if suffix in OTHERS:
        raise UsageError(
            f"{path}: expected CSV, TSV, JSON lines, Parquet or a saved "
            f"dataset. Received: a {suffix} file. {OTHERS[suffix]}."
        )
    if suffix in PARQUET:
        return _parquet(path, wanted)
    if suffix in JSON_LINES:
        return _json_lines(path)
    if suffix == ".csv":
        _, header = next(numbered_lines(path), (1, ""))
        return _delimited(path, _separator(header, wanted), True)
    return _delimited(path, "\t", finds_quotes and _has_quotes(path))


def split_folders(path) -> dict[str, pathlib.Path]:
    """The folders of a saved `DatasetDict` by the names of its splits."""
    file = pathlib.Path(path) / DATASET_SPLITS
    if not file.is_file():
        return {}
    names = read_json(file, "the splits of a saved dataset").get("splits")
    return {
        name: file.parent / name
        for name in names or ()
        if isinstance(name, str) and (file.parent / name).is_dir()
    }


def _text(value, classes=None):
    """A cell as text. Empty for missing values."""
    if classes is not None and isinstance(value, int):
        value = classes[value] if 0 <= value < len(classes) else None
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bytes | list | tuple | dict):
        raise UsageError(
            f"expected a text or a number in each cell. Received: "
            f"{shortened(value)}"
        )
    return BREAKS.sub(" ", str(value)).strip()


def _separator(header, wanted):
    """The separator in a CSV file's header: one that gives wanted headings."""

    def fit(separator):
        cells = {cell.strip() for cell in _cells_of(header, separator)}
        return len(wanted & cells), len(cells)

    return max(SEPARATORS, key=fit)


def _cells_of(line, separator):
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return []


def _has_quotes(path):
    """Whether a CSV writer quoted cells of a tab-separated file."""
    num_columns = None
    for _, line in numbered_lines(path):
        cells = line.split("\t")
        num_columns = num_columns or len(cells)
        is_broken = len(cells) != num_columns and breaks_in_quotes(cells)
        is_all_quoted = all(
            len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in cells
        )
        if is_broken or is_all_quoted or any(map(is_csv_quoted, cells)):
            return True
    return False


def _delimited(path, separator, is_quoted):
    words = SEPARATORS[separator]
    rule = f"{words} between columns, "
    rule += "quotes around cells" if is_quoted else "quotes are text"
    lines = without_blank_end(numbered_lines(path))
    if is_quoted:
        rows = _quoted_rows(path, lines, separator)
    else:
        rows = ((number, line.split("\t")) for number, line in lines)
    _, headings = next(rows, (1, []))
    headings = tuple(heading.strip() for heading in headings)
    if not any(headings):
        raise UsageError(f"{path} is empty. Expected {WHAT}.")

    def checked():
        for number, cells in rows:
            place = f"line {number}"
            if len(cells) == len(headings):
                yield place, tuple(cells), None
                continue
            problem = (
                f"expected {len(headings)} columns separated by {words}. "
                f"Received: {len(cells)} columns, "
                f"{shortened(separator.join(cells), 80)}"
            )
            yield place, None, problem

    return Table(path, headings, rule, checked())


def _quoted_rows(path, lines, separator):
    """Yields the number of a row's first line, and its cells."""
    csv.field_size_limit(MAX_CELL_BYTES)
    reader = csv.reader(
        (f"{line}\n" for _, line in lines), delimiter=separator, strict=True
    )
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise UsageError(
                f"{path}, line {number}: expected a CSV row. Received: a row "
                f"that ends at line {reader.line_num} with an error ({error}). "
                "A quote within a quoted cell must be doubled, and each quoted "
                "cell needs its closing quote."
            ) from error
        if cells is None:
            return
        if cells:  # not a blank line
            yield number, cells


def _json_lines(path):
    with_objects = _listed(path) or _objects(path)
    first, rows = [], iter(with_objects)
    for row in rows:
        first.append(row)
        if len(first) == FIRST_OBJECTS:
            break
    found = {key: None for _, one, _ in first if one for key in one}
    headings = tuple(found)
    if not headings:
        problems = [problem for _, _, problem in first if problem]
        raise UsageError(
            f"{path}: expected one JSON object per line. Received: "
            f"{problems[0] if problems else 'none'}. pandas writes such a file "
            "with to_json(FILE, orient='records', lines=True)."
        )

    def cells():
        for part in (first, rows):
            for place, one, problem in part:
                if one is None:
                    yield place, None, problem
                else:
                    yield place, tuple(map(one.get, headings)), None

    return Table(path, headings, "JSON lines", cells())


def _objects(path):
    for number, line in numbered_lines(path):
        if line.strip():
            try:
                yield f"line {number}", parse_json(line), None
            except UsageError as error:
                yield f"line {number}", None, str(error)


def _listed(path):
    """The objects of a file with one list, `None` for another file."""
    lines = (line for _, line in numbered_lines(path))
    first = next(filter(str.strip, lines), "")
    if not first.lstrip().startswith("["):
        return None
    try:
        entries = parse_json(
            path.read_bytes().removeprefix(b"\xef\xbb\xbf"), list
        )
    except UsageError as error:
        raise UsageError(
            f"{path}: {error}. Write one object per line."
        ) from error
    return (
        (f"object {number}", one, None)
        if isinstance(one, dict)
        else (
            f"object {number}",
            None,
            f"expected a JSON object. Received: {shortened(one)}",
        )
        for number, one in enumerate(entries, start=1)
    )


def _parquet(path, wanted):
    try:
        file = pyarrow.parquet.ParquetFile(path)
        schema = file.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(path, "a Parquet file", error) from error

    def batches():
        with file:
            yield from file.iter_batches()

    rows = _batch_rows(path, "a Parquet file", batches(), wanted)
    names = tuple(schema.names)
    return Table(path, names, "Parquet", rows, _names_in(schema))


def _saved_dataset(path, wanted):
    """A dataset that Hugging Face `datasets` saved, from its Arrow files."""
    what = "a dataset saved by Hugging Face datasets"
    if splits := split_folders(path):
        raise UsageError(
            f"{path}: expected the folder of one split. Received: a folder of "
            f"{len(splits)} splits. Name one of "
            f"{', '.join(str(folder) for folder in splits.values())}."
        )
    if not (path / DATASET_STATE).is_file():
        raise UsageError(
            f"{path}: expected {what}, with {DATASET_STATE} and "
            f"{DATASET_INFO}. Received: another folder. Name a file, or save "
            "the dataset with dataset.save_to_disk(FOLDER)."
        )
    state = read_json(path / DATASET_STATE, what)
    entries = state.get("_data_files")
    names = [
        one.get("filename")
        for one in (entries if isinstance(entries, list) else ())
        if isinstance(one, dict)
    ]
    files = [
        path / name
        for name in names
        if isinstance(name, str) and pathlib.PurePath(name).name == name
    ]
    if not files or len(files) != len(names):
        raise UsageError(
            f"{path / DATASET_STATE}: expected the names of Arrow files. "
            f"Received: {shortened(entries)}. Save the dataset again."
        )

    def batches():
        for file in files:
            with pa.OSFile(str(file)) as source:
                yield from pa.ipc.open_stream(source)

    try:
        with pa.OSFile(str(files[0])) as source:
            headings = tuple(pa.ipc.open_stream(source).schema.names)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(files[0], what, error) from error
    rows = _batch_rows(path, what, batches(), wanted)
    return Table(path, headings, "a saved dataset", rows, _class_names(path))


def _class_names(path):
    """The names of classes by column, as `dataset_info.json` has them."""
    if not (path / DATASET_INFO).is_file():
        return {}
    what = "the features of a saved dataset"
    return _named(read_json(path / DATASET_INFO, what).get("features"))


def _names_in(schema):
    """The names of classes by column, as `datasets` writes them to Parquet."""
    try:
        found = parse_json((schema.metadata or {}).get(b"huggingface", b""))
    except UsageError:
        return {}
    info = found.get("info")
    return _named(info.get("features") if isinstance(info, dict) else None)


def _named(features):
    return {
        column: tuple(map(str, feature["names"]))
        for column, feature in (
            features.items() if isinstance(features, dict) else ()
        )
        if isinstance(feature, dict)
        and feature.get("_type") == "ClassLabel"
        and isinstance(feature.get("names"), list)
    }


def _batch_rows(path, what, batches, wanted):
    """Yields the rows of Arrow batches, `None` in columns that nobody wants."""
    number = 0
    try:
        for batch in batches:
            batch.validate(full=True)
            columns = [
                column.to_pylist()
                if name in wanted
                else itertools.repeat(None, batch.num_rows)
                for name, column in zip(
                    batch.schema.names, batch.columns, strict=True
                )
            ]
            for cells in zip(*columns, strict=True):
                number += 1
                yield f"row {number}", cells, None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(path, what, error) from error


def _unreadable(path, what, error):
    return UsageError(
        f"{path}: expected {what}. Received: {shortened(str(error))}. Write "
        "the file again."
    )
