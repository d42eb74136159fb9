"""Renders guides/*.py to notebooks and to pages of the site, with outputs.

    python guides/render.py [NAME ...]

A guide is a Python file in the form of keras.io's: a docstring with its title
and author, then texts in triple quotes between cells of code. Each guide is
executed in a new kernel and an empty directory, and written to
docs/guides/NAME.ipynb and docs/guides/NAME.md. Needs `pip install
'.[guides]'`.
"""

import argparse
import ast
import base64
import json
import pathlib
import re
import tempfile

ROOT = pathlib.Path(__file__).parent.parent
GUIDES = sorted(set(ROOT.glob("guides/*.py")) - {pathlib.Path(__file__)})
PAGES = ROOT / "docs" / "guides"
TITLE_BLOCK = ("Title", "Author", "Date created", "Last modified")
TITLE_BLOCK += ("Description", "Accelerator")
TIMEOUT = 1800  # seconds for one cell
# Not shown: times in the progress of `fit`, which are those of the machine, and
# messages of TensorFlow.
HIDDEN = re.compile(
    r" - \d+s - \d+m?s/step|, done in [\d.]+ (?:s|min)|^INFO:tensorflow:.*\n",
    re.M,
)

STYLES = re.compile(r"\x1b\[[\d;]*m")  # bold and colours of a terminal


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [guide.stem for guide in GUIDES]
    parser.add_argument("names", nargs="*", default=names, metavar="NAME")
    parser.add_argument(
        "--texts",
        action="store_true",
        help="replace the texts only, of guides whose code has not changed",
    )
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(names))
    if unknown:
        parser.error(
            f"There is no guide {', '.join(unknown)}. Expected some of "
            f"{', '.join(names)}."
        )
    for name in options.names:
        cells = read_guide(ROOT / "guides" / f"{name}.py")
        notebook = with_texts(name, cells) if options.texts else execute(cells)
        for path, content in rendered_files(name, notebook).items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        print(PAGES / f"{name}.md")


def with_texts(name, cells):
    """Returns a guide's notebook with new texts and its present outputs.

    Raises:
        SystemExit: if the guide's code has changed.
    """
    page = (PAGES / f"{name}.ipynb").read_text(encoding="utf-8")
    notebook = json.loads(page)
    old = notebook["cells"]
    kinds = [cell["cell_type"] for cell in old]
    if kinds != [kind for kind, _ in cells] or any(
        kind == "code" and "".join(cell["source"]) != text
        for cell, (kind, text) in zip(old, cells, strict=True)
    ):
        raise SystemExit(f"{name}: its code has changed. Omit --texts.")
    for cell, (_, text) in zip(old, cells, strict=True):
        cell["source"] = text.splitlines(keepends=True)
    return notebook


def read_guide(path):
    """Returns a guide as cells, pairs of `"markdown"` or `"code"` and a text.

    The first cell is the title block.
    """
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    cells, end = [], 0
    for node in ast.parse(source).body:
        is_text = isinstance(node, ast.Expr) and isinstance(
            getattr(node.value, "value", None), str
        )
        if is_text:
            _add_code(cells, lines[end : node.lineno - 1])
            cells.append(("markdown", node.value.value.strip()))
            end = node.end_lineno
    _add_code(cells, lines[end:])
    cells[0] = ("markdown", _title(cells[0][1]))
    return cells


def _add_code(cells, lines):
    code = "\n".join(lines).strip()
    if code:
        cells.append(("code", code))


def title_block(text):
    """Returns the fields of a title block as a dict."""
    return dict(line.split(": ", 1) for line in text.splitlines())


def _title(text):
    block = title_block(text)
    return (
        f"# {block['Title']}\n\n{block['Description']}\n\n"
        f"*{block['Author']} · created {block['Date created']} · last modified "
        f"{block['Last modified']} · accelerator: {block['Accelerator']}*"
    )


def execute(cells):
    """Returns a notebook, a dict as nbformat writes it, with its outputs.

    Raises:
        SystemExit: if a cell warns, or an output contains a directory's path.
    """
    # Imported here, so that tests read guides without these packages.
    import nbclient
    import nbformat

    make = {
        "markdown": nbformat.v4.new_markdown_cell,
        "code": nbformat.v4.new_code_cell,
    }
    notebook = nbformat.v4.new_notebook(
        cells=[
            make[kind](text, id=f"cell-{number}")
            for number, (kind, text) in enumerate(cells)
        ],
        metadata={
            "kernelspec": {
                "name": "python3",
                "display_name": "Python 3",
                "language": "python",
            }
        },
    )
    with tempfile.TemporaryDirectory() as folder:
        nbclient.NotebookClient(
            notebook,
            timeout=TIMEOUT,
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
        ).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [*filter(_is_shown, cell.outputs)]
            cell.metadata = {}
    return json.loads(nbformat.writes(notebook))


def _is_shown(output):
    """Whether an output is one for readers. Removes what is not from its text.

    Raises:
        SystemExit: if it is a warning, or contains a path of the machine.
    """
    if output.output_type != "stream":
        return True
    if output.name == "stderr":
        if re.search(r"\b(?!Tqdm)\w*Warning\b", output.text):
            raise SystemExit(f"A cell warns:\n{output.text}")
        return False  # messages of TensorFlow's
    output.text = HIDDEN.sub("", output.text)
    for path in tempfile.gettempdir(), ROOT.parent, pathlib.Path.home():
        if str(path) in output.text:
            raise SystemExit(f"An output contains {path}:\n{output.text}")
    return bool(output.text)


def rendered_files(name, notebook):
    """Returns the files of a notebook: a dict from paths to bytes."""
    page, pictures = markdown(name, notebook)
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    return {
        PAGES / f"{name}.ipynb": text.encode(),
        PAGES / f"{name}.md": page.encode(),
        **{PAGES / place: content for place, content in pictures.items()},
    }


def markdown(name, notebook):
    """Returns a notebook as a page, and its pictures.

    Args:
        name: string. The guide's name.
        notebook: dict, as nbformat writes it.

    Returns:
        Tuple of the text and a dict from the pictures' paths, relative to the
        page, to bytes.
    """
    parts, pictures, heading = [], {}, name
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            heading = [heading, *re.findall(r"^#+ (.*)", source, re.M)][-1]
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {"text/plain": output.get("text")})
            if "image/png" in data:
                place = f"images/{name}_{len(pictures) + 1}.png"
                pictures[place] = base64.b64decode(data["image/png"])
                parts.append(f"![{heading}]({place})")
            else:
                text = STYLES.sub("", "".join(data["text/plain"])).strip("\n")
                parts.append(f"```text\n{text}\n```")
    parts.insert(1, f"[This page as a notebook]({name}.ipynb)")
    return "\n\n".join(parts) + "\n", pictures


if __name__ == "__main__":
    main()
