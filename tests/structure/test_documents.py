"""Documents name commands that exist and link to files that exist."""

import pathlib
import re
import runpy
import shlex
import sys

import pytest
from kit.tasks import write_polyphone

from kdkit.cli.main import VERBS, make_verb_parser

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


def test_documented_commands_parse():
    commands = [one for path in PAGES for one in commands_in(path)]
    assert len(commands) > 15
    for verb, words in commands:
        words = [word for word in words if word != "$@"]
        if words[:1] and words[0].endswith(".toml"):
            words[0] = "tinybert"  # a file of kdkit init, which is not there
        make_verb_parser(verb).parse_args(words)


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
