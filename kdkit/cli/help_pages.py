"""Help pages of verbs: the short page, all options, and one page per family.

`--help` shows the options that most runs need, each with the first sentence of
its help. `--help-all` shows all options in groups. If families of models need
other options, each family has a page: `--help gpt2`, or `--model gpt2 --help`.
"""

import inspect
import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence

from kdkit.cli.parser import HELP, PAGES, Option, Parser

WIDTH, COLUMN = 80, 26  # the largest width, and the column of the helps
USUAL = "bert"
# Families that have the options of GPT-2.
LIKE_GPT2 = {"llama3": "gpt2", "qwen3": "gpt2"}


def wanted_page(parser: Parser, words: Sequence[str]) -> str | None:
    """Returns the help page that the words request, or `None`."""
    asked = [place for place, word in enumerate(words) if word in HELP]
    if not asked:
        return None
    following = [*words[1:], ""]
    named = [following[place] for place in asked]
    pages, page = _pages(parser), None
    for word in (*words[:1], *named, *_values(words, "--model")):
        family = LIKE_GPT2.get(word, word)
        if family in pages:
            page = family
    text = help_page(parser, page, "--help-all" in words)
    for word in named:
        if word and page is None and len(pages) > 1 and word[0] != "-":
            text += f"{word!r} has no page. There are {', '.join(pages)}.\n"
    return text


def help_page(
    parser: Parser, page: str | None = None, everything: bool = False
) -> str:
    """Returns a help page."""
    width = min(shutil.get_terminal_size().columns, WIDTH)
    is_whole = everything and page is None
    shown = [
        one
        for one in parser.options.values()
        if is_whole or (page or USUAL) in one.pages
    ]
    usage = [parser.name]
    usage += [one.label for one in shown if one.positional]
    usage += ["[options]"] if len(usage) <= len(shown) else []
    if "set" in parser.options:
        usage.append("[field.path=value ...]")
    text, _, examples = parser.text.partition("example:\n")
    if not everything:
        text = text.partition("\n\n")[0]
    lines = [f"usage: {' '.join(usage)}", "", text.strip(), ""]
    groups = {}
    for one in shown:
        if everything:
            groups.setdefault(_title(one, parser.kind), []).append(one)
        elif not one.rare:
            groups.setdefault("options", []).append(one)
    for title, members in groups.items():
        lines.append(f"{title}:")
        for one in members:
            lines += _entry(one, width, everything)
        lines.append("")
    examples = [
        example
        for example in re.split(r"\n(?=  \w)", examples.rstrip())
        if is_whole or _is_on(parser, example, page or USUAL)
    ]
    if examples:
        lines += ["example:", *(examples if everything else examples[:1]), ""]
    lines += _other_pages(parser, page, everything)
    return "\n".join(lines).rstrip() + "\n"


def _pages(parser):
    """The families with their own page."""
    pages = {USUAL}
    for one in parser.options.values():
        if USUAL not in one.pages:
            pages.update(one.pages)
    return [page for page in PAGES if page in pages]


def _other_pages(parser, page, everything) -> Iterator[str]:
    lines = []
    if not everything and parser.options:
        lines.append("All options, in groups: --help-all.")
    if "set" in parser.options:
        lines.append("Fields that can be set: kdkit init RECIPE.")
    if lines:
        yield " ".join(lines)
    if not (everything and page is None):
        others = [one for one in _pages(parser) if one != (page or USUAL)]
        if others:
            names = ", ".join(f"--help {one} ({PAGES[one]})" for one in others)
            yield from textwrap.wrap(
                f"Options of other models: {names}.",
                WIDTH,
                break_on_hyphens=False,
            )


def _is_on(parser, example, page):
    """Whether an example belongs to a page and uses only its options."""
    flags = set(re.findall(r"--[a-z][a-z-]*", example))
    used = [one for one in parser.options.values() if one.label in flags]
    return all(page in one.pages for one in used) and (
        page == USUAL or any(USUAL not in one.pages for one in used)
    )


def _title(declared: Option, kind):
    if declared.group is kind:
        return "options"
    return inspect.getdoc(declared.group)


def _entry(declared, width, everything):
    """The lines of an option."""
    words = declared.help
    if not everything:
        words = re.split(r"(?<=[^.])[.;] ", words)[0]
    indent = " " * COLUMN
    lines = textwrap.wrap(
        words.rstrip("."),
        width - COLUMN,
        break_on_hyphens=False,
        break_long_words=False,
    )
    if len(declared.usage) > COLUMN - 4:
        return [f"  {declared.usage}", *(indent + line for line in lines)]
    first, *others = lines or [""]
    return [
        f"  {declared.usage:<{COLUMN - 2}}{first}",
        *(indent + line for line in others),
    ]


def _values(words, flag):
    """The values of a flag in words, in any of its forms."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == flag:
            yield following
        elif word.startswith(f"{flag}="):
            yield word.partition("=")[2]
