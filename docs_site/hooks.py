"""What MkDocs calls while it builds the site (mkdocs.yml).

- The reference is generated (reference.py), and files of the repository's root
  become pages of the design part.
- Mentions of `docs/NAME.md`, of public names and of verbs in pages and
  docstrings become links. A mention of a page that does not exist is a warning,
  so `make docs` fails.
- Tables of a recipe's stages come from the recipe.
- Formulas become MathML, so that no page needs a script from another host. A
  page that loads anything from another host is a warning.
"""

import html
import logging
import pathlib
import re
import sys

import reference
from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # this version of kdkit, not an installed one
from kdkit.cli import late  # noqa: E402

LOG = logging.getLogger("mkdocs.hooks.kdkit")
# Pages that are files of the repository's root.
AT_ROOT = {
    "ARCHITECTURE.md": "design/architecture.md",
    "CONTRIBUTING.md": "design/contributing.md",
    "SECURITY.md": "design/security.md",
    "CHANGELOG.md": "design/changelog.md",
}
GUIDES = (
    "tinybert_on_your_csv",
    "patient_kd",
    "language_model",
    "translator",
    "from_run_to_app",
)
FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\s*\\([(\[])(.*?)\\[)\]]\s*</\1>', re.S
)
# Parts of a page in which nothing is replaced: tags, code, links, headings.
LITERAL = re.compile(
    r"(<pre.*?</pre>|<code.*?</code>|<a\b.*?</a>|<h\d.*?</h\d>|<[^>]*>)", re.S
)
MENTION = re.compile(
    rf"\b(?:docs/([\w/]+\.md)|({'|'.join(map(re.escape, AT_ROOT))}))\b"
)
NAME = re.compile(r"<code>(kdkit(?:\.[\w.]+| [a-z-]+)?)(?:\(\))?</code>")
ADDRESSES = reference.addresses()
# What a browser would load from another host.
OUTSIDE = re.compile(
    r'<(?:script|img|iframe|source)\b[^>]*\bsrc="(?:https?:)?//[^"]*"'
    r'|<link\b[^>]*rel="(?:stylesheet|preconnect)"[^>]*href="(?:https?:)?//'
)


def on_config(config):
    """Adds the guides and the reference to the navigation."""
    guides = sorted((ROOT / "docs" / "guides").glob("*.md"), key=_place)
    for part in config.nav:
        if "Guides" in part:
            part["Guides"] = [f"guides/{page.name}" for page in guides]
        if "Reference" in part:
            part["Reference"] = reference.nav()
    config.nav = [part for part in config.nav if part != {"Guides": []}]
    return config


def _place(guide):
    """The place of a guide in the navigation; new ones come last."""
    name = guide.stem
    return (GUIDES.index(name) if name in GUIDES else len(GUIDES), name)


def on_files(files, config):
    """Adds the generated pages."""
    with late.imports(lambda: None):  # the parsers need no TensorFlow
        generated = reference.pages()
    for name, place in AT_ROOT.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        # Links of the root to pages and pictures.
        generated[place] = re.sub(
            r"\]\(docs/", "](../", re.sub(r'src="docs/', 'src="../', text)
        )
    for place, text in generated.items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown, **kwargs):
    """Replaces `<!-- kdkit:stages RECIPE FAMILY -->` by a table."""
    return re.sub(
        r"<!-- kdkit:stages ([\w ]+) -->",
        lambda match: reference.stages_table(*match[1].split()),
        markdown,
    )


def on_page_content(content, page, config, files):
    """Replaces formulas by MathML, and mentions of pages and names by links."""
    parts = LITERAL.split(FORMULA.sub(_formula, content))
    for place, part in enumerate(parts):
        if place % 2 == 0:
            parts[place] = MENTION.sub(
                lambda match: _page_link(match, page, files), part
            )
        elif match := NAME.fullmatch(part):
            parts[place] = _name_link(match, page, files)
    return "".join(parts)


def on_post_page(output, page, config):
    """Checks that a page loads nothing from another host."""
    for tag in OUTSIDE.findall(output):
        LOG.warning("%s loads %s.", page.file.src_uri, tag)
    return output


def _formula(match):
    display = "block" if match[2] == "[" else "inline"
    return convert(html.unescape(match[3]).strip(), display=display)


def _page_link(match, page, files):
    """A link whose text is the title of the mentioned page."""
    path = AT_ROOT[match[2]] if match[2] else match[1]
    file = files.get_file_from_path(path)
    if file is None:
        # The changelog names pages of earlier versions.
        if page.file.src_uri != AT_ROOT["CHANGELOG.md"]:
            LOG.warning("%s: no page docs/%s.", page.file.src_uri, path)
        return match[0]
    title = re.search(r"^# (.*)", file.content_string, re.M)
    if title is None or file.src_uri == page.file.src_uri:
        return match[0]
    url = file.url_relative_to(page.file)
    return f'<a href="{url}">{html.escape(title[1])}</a>'


def _name_link(match, page, files):
    """A link to a public name or a verb in the reference."""
    path, _, anchor = ADDRESSES.get(match[1], "").partition("#")
    if not path or (path == page.file.src_uri and not anchor):
        return match[0]
    url = files.get_file_from_path(path).url_relative_to(page.file)
    return f'<a href="{url}{anchor and f"#{anchor}"}">{match[0]}</a>'
