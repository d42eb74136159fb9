"""Text as it was before it was cut into the words of a benchmark."""

import re
from collections.abc import Callable

# Of both: what stands apart from the word before it, or from the word after.
_BEFORE = re.compile(r" ([.,;:?!%)\]])")
_AFTER = re.compile(r"([(\[$£€]) ")
_ENDINGS = re.compile(r" ('(?:s|m|d|ll|re|ve)|n't)\b", re.IGNORECASE)


def detokenize_wikitext(line: str) -> str:
    """Returns a line of WikiText as running text.

    `@-@`, `@,@` and `@.@` become what they stand for; punctuation and closing
    brackets join the word before them, opening brackets and currency signs the
    word after; quotation marks join what they enclose; endings such as `'s`
    join their word. `<unk>` and the signs of headings stay.

    >>> detokenize_wikitext('a 10 @,@ 000 @-@ year " low " ( 3 @.@ 5 % ) .')
    'a 10,000-year "low" (3.5%).'
    """
    for sign in "-,.":
        line = line.replace(f" @{sign}@ ", sign)
    return _with_its_end(line, lambda text: _join(_quotes(text)))


def detokenize_ptb(line: str) -> str:
    """Returns a line of the Penn Treebank as running text.

    Mikolov's version has no punctuation but in abbreviations, small letters,
    `N` for numbers and `<unk>`, which stay; endings such as `'s` and `n't` join
    their word, and so do currency and per cent signs.

    >>> detokenize_ptb("it did n't say what the bank 's $ N loan costs")
    "it didn't say what the bank's $N loan costs"
    """
    return _with_its_end(line, _join)


DETOKENIZERS: dict[str, Callable[[str], str]] = {
    "wikitext": detokenize_wikitext,
    "ptb": detokenize_ptb,
}


def _with_its_end(line, change):
    """Changes a line, and leaves the line break that it may end in."""
    text = line.removesuffix("\n")
    return change(text) + line[len(text) :]


def _join(line):
    line = _AFTER.sub(r"\1", _BEFORE.sub(r"\1", line))
    return _ENDINGS.sub(r"\1", line)


def _quotes(line):
    """Joins what stands between two quotation marks of a line to them."""
    parts = re.split(r'( ?" ?)', line)
    marks = [index for index, part in enumerate(parts) if part.strip() == '"']
    for number, index in enumerate(marks[: len(marks) // 2 * 2]):
        opens = number % 2 == 0
        parts[index] = ' "' if opens else '" '
    return "".join(parts).strip()
