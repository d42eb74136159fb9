"""Documents name commands that exist and link to files that exist."""

import contextlib
import pathlib
import re
import runpy
import shlex
import sys

import pytest
from kit.tasks import write_polyphone

from kdkit.cli import flags
from kdkit.cli.main import VERBS, main
from kdkit.errors import UsageError

ROOT = pathlib.Path(__file__).parents[2]
MARKDOWN = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    ROOT / "saved_models" / "README.md",
]
PAGES = [
    *MARKDOWN,
    *(ROOT / "examples").glob("*.sh"),
    *(ROOT / "kdkit" / "cli").glob("*.py"),
    *(ROOT / "kdkit" / "recipes").glob("*.py"),
]


def commands_in(path):
    """The `kdkit VERB …` commands on lines of their own, without outputs."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        text = "\n".join(
            re.findall(r"^```(?:ba)?sh\n(.*?)^```", text, re.M | re.S)
        )
    text = re.sub(r"\\+\n\s*", " ", text)
    for line in text.splitlines():
        match = re.match(r"^(?:\$ |    | {2})?kdkit ([a-z-]+)( .*)?$", line)
        if match and match[1] in VERBS:
            yield match[1], shlex.split(match[2] or "")


class Parsed(Exception):
    """A verb has read its words."""


@pytest.fixture
def parse(monkeypatch):
    """A function of a command that reads its words and runs nothing."""

    def read(asked=None, *_):
        if asked is not None and asked.mistakes:
            raise UsageError("\n".join(asked.mistakes))
        raise Parsed

    def run(verb, words):
        for name, module in sys.modules.items():
            if name.startswith("kdkit.cli") and hasattr(
                module, "load_tensorflow"
            ):
                monkeypatch.setattr(module, "load_tensorflow", read)
        return main([verb, *words])

    monkeypatch.setattr(flags.Asked, "config", read)
    for verb in VERBS:  # import all modules
        with contextlib.suppress(SystemExit):
            main([verb, "--help"])
    return run


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documented_commands_parse(page, parse, capsys):
    for verb, words in commands_in(page):
        words = [word for word in words if word != "$@"]
        if words[:1] and words[0].endswith((".toml", ".json")):
            words[0] = "tinybert"  # a file, which is not there
        try:
            status = parse(verb, words)
        except Parsed:
            continue
        told = capsys.readouterr().err
        # Reports read their runs at once.
        assert status == 0 or "No such file" in told, (verb, words, told)


def test_documents_have_commands():
    assert sum(len([*commands_in(page)]) for page in PAGES) > 15


def test_named_files_and_links_exist():
    """Not those of the changelog, which names files of their time."""
    missing = []
    for page in MARKDOWN:
        if page.name == "CHANGELOG.md":
            continue
        text = page.read_text(encoding="utf-8")
        named = re.findall(
            r"\b((?:docs|kdkit|examples|benchmarks|tests)/[\w/]+"
            r"\.(?:md|py|sh))",
            text,
        )
        if page.parent == ROOT:
            code = re.sub(r"`[^`]*`", "", text)
            named += re.findall(r"\]\(([^)#:]+)\)", code)
        missing += [
            f"{page.name}: {name}"
            for name in named
            if not (ROOT / name).exists()
        ]
    assert not missing


@pytest.mark.large
def test_example_of_polyphones_runs_small(tmp_path, monkeypatch, capsys):
    write_polyphone(tmp_path, num_rows=400)
    words = ["--output", str(tmp_path / "runs"), "--layers", "4"]
    words += ["--width", "16", "--pretraining-epochs", "1", "--epochs", "1"]
    monkeypatch.setattr(sys, "argv", ["polyphone.py", str(tmp_path), *words])
    path = ROOT / "examples" / "polyphone.py"
    runpy.run_path(str(path), run_name="__main__")
    assert "most frequent reading" in capsys.readouterr().out
    assert (tmp_path / "runs/polyphone_pkd_seed0/student").is_dir()
