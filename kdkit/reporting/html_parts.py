"""The small pieces that an HTML report is made of."""

import html

from kdkit.reporting.formatting import DOES_NOT_APPLY
from kdkit.reporting.formatting import NOT_RUN


def section(title: str, content: str) -> str:
    """Returns a section with its heading."""
    return f"<section>\n<h2>{title}</h2>\n{content}\n</section>"


def text(plain: str) -> str:
    """Returns text escaped, a number on the line of its unit."""
    return html.escape(plain).replace(" %", "&nbsp;%")


def cell(plain: str) -> str:
    """Returns a cell of a table, muted where it holds no number."""
    empty = ' class="empty"' if plain in (NOT_RUN, DOES_NOT_APPLY) else ""
    return f"<td{empty}>{text(plain)}</td>"


def missing(what: str) -> str:
    """Returns a line in the place of what was not run."""
    return f'<p class="note">{what}: {NOT_RUN}.</p>'
