"""Pairs of texts, such as sentences and their translations."""

import contextlib
import dataclasses
import itertools
import pathlib
from collections.abc import Iterator

from kdkit.data.lines_of_text import refuse_table_file
from kdkit.data.problems import as_csv_has_them
from kdkit.data.problems import refuse_csv_file
from kdkit.data.problems import without_blank_end
from kdkit.data.tfds import PREFIX
from kdkit.data.tfds import tfds_pairs
from kdkit.errors import UsageError
from kdkit.errors import all_mistakes
from kdkit.errors import shortened
from kdkit.reading import has_text
from kdkit.reading import numbered_lines

NAME_COLUMNS = (
    "Name its columns of source and target with --pair-columns (Python: "
    "columns=)"
)


@dataclasses.dataclass(frozen=True)
class ParallelText:
    """Sources and what is to be written of them.

    Args:
        files: tuple of strings or paths. Two UTF-8 files with one text a line,
            the source's first, whose lines belong together; or with `columns`
            one or more tab-separated tables with a header, or data sets of
            TensorFlow Datasets with their splits, such as
            `"tfds:ted_hrlr_translate/pt_to_en:train"`.
        columns: tuple of two strings, or `None`. The headings of the columns
            of source and target, or their features. Defaults to `None`.

    Raises:
        UsageError: if files and columns do not make pairs.
    """

    files: tuple[str, ...]
    columns: tuple[str, str] | None = None

    def __post_init__(self):
        if self.columns is None and len(self.files) != 2:
            raise UsageError(
                "Parallel text is two files, of the source and of the target, "
                "or tables with a column of each. Received: "
                f"{len(self.files)} files and no columns."
            )
        if self.columns is not None and (
            not self.files or len(set(self.columns)) != 2
        ):
            raise UsageError(
                "Tables of parallel text have a column for the source and "
                f"another for the target. Received: columns={self.columns}, "
                f"{len(self.files)} files."
            )

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yields source and target, holding one line of each file at a time.

        Raises:
            UsageError: with file and line number for a side that is empty, a
                column that is missing or a line that is not UTF-8; with both
                counts if the files have not as many lines; for a table without
                columns.
        """
        if self.columns is None:
            yield from self._lines_of_both()
        else:
            for file in self.files:
                if str(file).startswith(PREFIX):
                    yield from self._of_data_set(file)
                else:
                    yield from self._rows(pathlib.Path(file))

    def check(self) -> int:
        """Reads all of it, and returns how many pairs there are.

        Raises:
            UsageError: as `pairs` does.
        """
        return sum(1 for _ in self.pairs())

    def _lines_of_both(self):
        source, target = map(pathlib.Path, self.files)
        with all_mistakes() as check:
            for path in (source, target):
                with check():
                    refuse_table_file(path, NAME_COLUMNS)
        with contextlib.ExitStack() as stack:
            lines = [
                without_blank_end(
                    stack.enter_context(
                        contextlib.closing(numbered_lines(path))
                    )
                )
                for path in (source, target)
            ]
            for first, second in itertools.zip_longest(*lines):
                if first is None or second is None:
                    raise _different_counts(source, target)
                number = first[0]
                yield (
                    _not_empty(source, number, first[1]),
                    _not_empty(target, number, second[1]),
                )

    def _of_data_set(self, place):
        pairs = tfds_pairs(place, self.columns)
        for number, pair in enumerate(pairs, start=1):
            source, target = (_not_empty(place, number, text) for text in pair)
            yield source, target

    def _rows(self, path):
        places = None
        for number, line in without_blank_end(numbered_lines(path)):
            cells = line.split("\t")
            if places is None:
                refuse_csv_file(path, cells)
                missing = [name for name in self.columns if name not in cells]
                if missing:
                    raise UsageError(
                        f"{path}, line 1: expected a header with "
                        f"{missing}. Received: {shortened(cells)}."
                        f"{as_csv_has_them(path, cells, missing)} Name other "
                        "columns."
                    )
                places = [cells.index(name) for name in self.columns]
                continue
            if len(cells) <= max(places):
                raise UsageError(
                    f"{path}, line {number}: expected at least "
                    f"{max(places) + 1} columns. Received: {len(cells)}. Fix "
                    "or remove the line."
                )
            source, target = (
                _not_empty(path, number, cells[place]) for place in places
            )
            yield source, target
        if places is None:
            raise UsageError(
                f"{path}: expected a header with {list(self.columns)}. "
                "Received: an empty file."
            )


def _not_empty(path, number, text):
    text = text.strip()
    if not has_text(text):
        raise UsageError(
            f"{path}, line {number}: expected a text on each side. Received: "
            "an empty one. Remove the pair from both sides."
        )
    return text


def _different_counts(*paths):
    counts = [
        sum(1 for _ in without_blank_end(numbered_lines(path)))
        for path in paths
    ]
    return UsageError(
        "The lines of parallel files belong together. Expected as many in "
        "both. Received: "
        + ", ".join(
            f"{count} in {path}"
            for path, count in zip(paths, counts, strict=True)
        )
        + "."
    )
