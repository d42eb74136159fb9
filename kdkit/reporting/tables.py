"""One table of texts, for a terminal, as Markdown and in the HTML page."""

import dataclasses
import html
import re

from rich import box
from rich import table as rich_table
from rich.text import Text

from kdkit.reporting.formatting import NONE

# Characters with a meaning in Markdown; `_` between letters has none.
_MARKUP = re.compile(r"[\\`*~|\[\]]|(?<![^\W_])_|_(?![^\W_])")


@dataclasses.dataclass(frozen=True)
class Column:
    """The heading of one column; a terminal has no room for details."""

    title: str
    unit: str = ""
    is_text: bool = False
    is_detail: bool = False


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of a table. Its kind, such as `"teacher"`, has a colour."""

    name: str
    cells: tuple[str, ...]
    kind: str = ""


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of texts below headings."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: str = ""
    caption: str = ""

    def markdown(self) -> str:
        """Returns a GitHub Markdown table, in which all content is text."""
        headings = [self.name]
        headings += [
            ", ".join(filter(None, (one.title, one.unit)))
            for one in self.columns
        ]
        rules = ["---" if one.is_text else "---:" for one in self.columns]
        lines = [map(plain, headings), ["---", *rules]]
        lines += [map(plain, (row.name, *row.cells)) for row in self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def terminal(self) -> rich_table.Table:
        """Returns a table for `rich.console.Console.print`."""
        table = rich_table.Table(
            box=box.SIMPLE_HEAD,
            padding=0,
            pad_edge=False,
            title=Text(self.title) if self.title else None,
            caption=Text(self.caption) if self.caption else None,
        )
        table.add_column(Text(self.name), overflow="fold")
        shown = []
        for index, column in enumerate(self.columns):
            cells = {row.cells[index] for row in self.rows}
            if column.is_detail or cells == {NONE}:
                continue
            shown.append(index)
            title = column.title.replace(" ", "\n")
            table.add_column(
                Text(f"{title}\n{column.unit}".rstrip()),
                justify="left" if column.is_text else "right",
                no_wrap=not column.is_text,
                overflow="fold",
            )
        for row in self.rows:
            cells = (row.name, *(row.cells[index] for index in shown))
            table.add_row(*map(Text, cells))
        return table


def plain(text: str) -> str:
    """Returns Markdown that shows a text: no markup, no end of a cell."""
    line = html.escape(" ".join(text.splitlines()), quote=False)
    return _MARKUP.sub(r"\\\g<0>", line)
