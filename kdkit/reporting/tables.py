"""One table of texts, for a terminal, as Markdown and in the HTML page."""

import dataclasses
import html
import re
from collections.abc import Iterable

from rich import box
from rich import table as rich_table
from rich.text import Text

from kdkit.reporting.formatting import DOES_NOT_APPLY, NOT_RUN

NO_NUMBER = (NOT_RUN, DOES_NOT_APPLY)
_NONE = set(NO_NUMBER)
_WIDTH = 80  # of a terminal; wider tables have less space between columns
# Characters with a meaning in Markdown; `_` between letters has none.
_MARKUP = re.compile(r"[\\`*~|\[\]]|(?<![^\W_])_|_(?![^\W_])")


@dataclasses.dataclass(frozen=True)
class Column:
    """The heading of one column."""

    title: str
    unit: str = ""
    short: str = ""
    is_detail: bool = False
    is_text: bool = False


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of a table."""

    name: str
    cells: tuple[str, ...]
    parent: str = ""
    kind: str = ""
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of texts below headings."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: str = ""
    caption: str = ""

    @property
    def has_groups(self) -> bool:
        """Whether rows belong to others, whose names are then emphasised."""
        return any(row.parent for row in self.rows)

    def markdown(self) -> str:
        """Returns a GitHub Markdown table, in which all content is text."""
        headings = (
            f"{column.title}, {column.unit}" if column.unit else column.title
            for column in self.columns
        )
        rules = (
            " --- |" if column.is_text else " ---: |" for column in self.columns
        )
        lines = [
            f"| {' | '.join(map(plain, [self.name, *headings]))} |",
            f"| --- |{''.join(rules)}",
        ]
        for row in self.rows:
            name = plain(row.name)
            if row.parent:
                name = f"{plain(row.parent)}, {name}"
            elif self.has_groups:
                name = f"**{name}**"
            cells = map(plain, row.cells)
            lines.append(f"| {name}{plain(row.note)} | {' | '.join(cells)} |")
        return "\n".join(lines)

    def terminal(self) -> rich_table.Table:
        """Returns a table for `rich.console.Console.print`."""
        shown = [
            index
            for index, column in enumerate(self.columns)
            if not column.is_detail
            and (not index or {row.cells[index] for row in self.rows} - _NONE)
        ]
        headings = [
            self.columns[index].short or self.columns[index].title
            for index in shown
        ]
        widths = [
            max(
                map(
                    len,
                    [*title.split(), *(row.cells[index] for row in self.rows)],
                )
            )
            for title, index in zip(headings, shown, strict=True)
        ]
        longest = max(
            (len(row.name + row.note) for row in self.rows), default=0
        )
        is_narrow = longest + sum(widths) + 2 * len(widths) + 4 < _WIDTH
        table = rich_table.Table(
            box=box.SIMPLE_HEAD,
            padding=(0, 0, 0, int(is_narrow)),
            pad_edge=False,
            title=Text(self.title) if self.title else None,
            caption=Text(self.caption) if self.caption else None,
        )
        table.add_column(
            Text("" if self.has_groups else self.name), overflow="fold"
        )
        for title, width, index in zip(headings, widths, shown, strict=True):
            column = self.columns[index]
            table.add_column(
                Text(f"{title}\n{column.unit}".rstrip()),
                justify="left" if column.is_text else "right",
                min_width=None if column.is_text else width,
                overflow="fold",
            )
        for number, row in enumerate(self.rows):
            if self.has_groups and not row.parent and number:
                table.add_section()
            is_head = self.has_groups and not row.parent
            name = Text(
                f"{' ' if row.parent else ''}{row.name}",
                style="bold" if is_head else "",
            )
            name.append(row.note, style="not bold")
            cells = (row.cells[index] for index in shown)
            table.add_row(
                name,
                *(
                    Text(cell, "dim" if cell in NO_NUMBER else "")
                    for cell in cells
                ),
            )
        return table


def plain(text: str) -> str:
    """Returns Markdown that shows a text: no markup, no end of a cell."""
    line = html.escape(" ".join(text.splitlines()), quote=False)
    return _MARKUP.sub(r"\\\g<0>", line)


def code_block(lines: Iterable[str]) -> str:
    """Returns commands as a Markdown code block that none of them ends."""
    text = "\n".join(lines).replace("<!--", "<! --")
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}sh\n{text}\n{fence}"
