"""Running text, one document a line or a row, read as it is needed."""

import dataclasses
import pathlib
from collections.abc import Iterator

from kdkit.data.lines_of_text import refuse_table_file
from kdkit.data.problems import as_csv_has_them
from kdkit.data.problems import refuse_csv_file
from kdkit.data.problems import without_blank_end
from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.reading import has_text
from kdkit.reading import numbered_lines

NAME_A_COLUMN = "Name its column of texts with --column (Python: column=)"


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Files of text without labels.

    Args:
        files: tuple of strings or paths. UTF-8 files with one text a line, or
            tab-separated tables with a header. Empty lines are passed over.
        column: string or `None`. The heading of the column that holds the
            texts of tables; `None` where the whole line is the text. Defaults
            to `None`.
        one_document: bool. Whether the lines of a file are one text, as those
            of WikiText are. Defaults to `False`: each is a text of its own.

    Raises:
        UsageError: if there are no files.
    """

    files: tuple[str, ...]
    column: str | None = None
    one_document: bool = False

    def __post_init__(self):
        if not self.files:
            raise UsageError(
                "A corpus needs at least one file. Received: none."
            )
        if self.one_document and self.column is not None:
            raise UsageError(
                "The rows of a table are texts of their own, not the lines of "
                f"one document. Received: column={self.column!r}."
            )

    def check(self) -> None:
        """Checks that the files are there, and tables have the column.

        Without a column, that they are no tables.

        Raises:
            UsageError: with everything that is missing.
        """
        problems = []
        for file in dict.fromkeys(self.files):
            path = pathlib.Path(file)
            if not path.is_file():
                problems.append(f"No such file of text: {path}.")
                continue
            try:
                if self.column is None:
                    refuse_table_file(path, NAME_A_COLUMN)
                else:
                    _, header = next(numbered_lines(path), (1, ""))
                    self._column_index(path, header)
            except UsageError as error:
                problems.append(str(error))
        if problems:
            raise UsageError("\n".join(problems))

    def texts(self) -> Iterator[str]:
        """Yields the texts in order, holding one line at a time.

        Of a file that is one document the lines, each with its end, and an
        empty string behind the last.

        Raises:
            UsageError: with file and line number where a row lacks the column
                or a line is not UTF-8, and for a table without a column.
        """
        for file in self.files:
            for text in self._texts_of(pathlib.Path(file)):
                yield f"{text}\n" if self.one_document else text
            if self.one_document:
                yield ""

    def num_words(self) -> int:
        """Counts words as perplexities of words do.

        What white space separates, and one for the end of every text, which
        is what `texts` yields. With `one_document` these are all lines, empty
        ones too: 82,430 words in Penn Treebank's test part, 245,569 in that of
        WikiText-2.
        """
        # The empty string behind the last line of a document is no line.
        return sum(1 + len(text.split()) for text in self.texts() if text)

    def _texts_of(self, path):
        index = None
        if self.column is None:
            refuse_table_file(path, NAME_A_COLUMN)
        lines = numbered_lines(path)
        if self.column is not None:
            lines = without_blank_end(lines)
        for number, line in lines:
            if self.column is not None:
                if number == 1:
                    index = self._column_index(path, line)
                    continue
                cells = line.split("\t")
                if len(cells) <= index:
                    raise UsageError(
                        f"{path}, line {number}: expected a column "
                        f"{self.column!r} at position {index + 1}. Received: "
                        f"{len(cells)} columns. Fix or remove the line."
                    )
                line = cells[index]
            text = line.strip()
            if self.one_document or has_text(text):
                yield text

    def _column_index(self, path, header):
        headings = header.split("\t")
        refuse_csv_file(path, headings)
        if self.column not in headings:
            raise UsageError(
                f"{path}, line 1: expected a header with {self.column!r}. "
                f"Received: {shortened(headings)}."
                f"{as_csv_has_them(path, headings, (self.column,))} Name "
                "another column, or none for a file of one text a line."
            )
        return headings.index(self.column)
