"""What mkdocs.yml needs of Python: pages, public names and formulas."""

import html
import importlib
import re

import griffe
import nbconvert
from latex2mathml.converter import convert
from mkdocs.structure.files import File

FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\s*\\([(\[])(.*?)\\[)\]]\s*</\1>', re.S
)


def on_files(files, config):
    """Adds the packages in `nav` and the executed notebooks as pages."""
    pages = {
        f"reference/{package}.md": f"::: {package}\n"
        for package in re.findall(r"(kdkit[\w.]*)\.md", str(config.nav))
    }
    for name in re.findall(r"guides/(\w+)\.md", str(config.nav)):
        page, resources = nbconvert.MarkdownExporter().from_filename(
            f"{config.docs_dir}/guides/{name}.ipynb", {"unique_key": name}
        )
        pages[f"guides/{name}.md"] = page
        for picture, content in resources["outputs"].items():
            pages[f"guides/{picture}"] = content
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))


def on_page_content(content, **kwargs):
    """Replaces formulas by MathML, which needs no script."""
    return FORMULA.sub(_mathml, content)


def _mathml(match):
    display = "block" if match[2] == "[" else "inline"
    return convert(html.unescape(match[3]).strip(), display=display)


class PublicNames(griffe.Extension):
    """Adds what packages import late, and adapts docstrings to griffe."""

    def on_module_members(self, *, mod, **kwargs):
        """Reads `__all__` and `_DEFINED_IN` of a package."""
        if mod.is_init_module:
            package = importlib.import_module(mod.path)
            mod.exports = list(getattr(package, "__all__", []))
            for name, place in getattr(package, "_DEFINED_IN", {}).items():
                place = place if "." in place else f"{mod.path}.{place}"
                mod.set_member(name, griffe.Alias(name, f"{place}.{name}"))

    def on_object(self, *, obj, **kwargs):
        """Makes doctests code, and a list of the arguments of calls."""
        if obj.docstring is not None:
            text = obj.docstring.value.replace("\nCall arg", "\nArgs: Call arg")
            obj.docstring.value = re.sub(
                r"(?m)^>>> .*(?:\n.+)*", r"```pycon\n\g<0>\n```", text
            )
        elif obj.is_attribute and obj.parent.is_module:
            obj.docstring = griffe.Docstring("A constant.", parent=obj)
