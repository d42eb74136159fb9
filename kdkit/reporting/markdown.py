"""What runs say as Markdown in which it is text, whatever it is."""

import html
import re
from collections.abc import Iterable

# Between letters `_` stands for itself.
_SIGNS = re.compile(r"[\\`*~|\[\]]|(?<![^\W_])_|_(?![^\W_])")


def plain(text: str) -> str:
    r"""Returns a line that shows a text: no markup, no end of a table's cell.

    >>> print(plain("a_b | *c* [d](e)\n# <f>"))
    a_b \| \*c\* \[d\](e) # &lt;f&gt;
    """
    line = html.escape(" ".join(text.splitlines()), quote=False)
    return _SIGNS.sub(r"\\\g<0>", line)


def table_row(cells: Iterable[str]) -> str:
    """Returns a line of a table whose cells show texts.

    >>> table_row(["a", "b|c"])
    '| a | b\\\\|c |'
    """
    return f"| {' | '.join(map(plain, cells))} |"


def commands(lines: Iterable[str]) -> str:
    """Returns commands as a block of code, which none of them ends.

    Nor does one hold a comment, such as the marks of `replace_results`.
    """
    text = "\n".join(lines).replace("<!--", "<! --")
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}sh\n{text}\n{fence}"
