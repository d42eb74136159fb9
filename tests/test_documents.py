"""Documents name commands that exist and link to files that exist."""

import pathlib
import re
import runpy
import shlex
import sys

import pytest
from kinds import write_polyphone

from kdkit.cli.main import VERBS
from kdkit.cli.main import make_verb_parser
from kdkit.recipes import RECIPES

ROOT = pathlib.Path(__file__).parent.parent
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


COMMANDS = [
    pytest.param(verb, words, id=f"{path.name}-{verb}")
    for path in PAGES
    for verb, words in commands_in(path)
]


def test_there_are_commands_to_check():
    assert len(COMMANDS) > 15


@pytest.mark.parametrize(("verb", "words"), COMMANDS)
def test_documented_command_parses(verb, words):
    words = [word for word in words if word != "$@"]
    if words[:1] and words[0].endswith(".toml"):
        words[0] = "tinybert"  # a file of kdkit init, which is not there
    make_verb_parser(verb).parse_args(words)


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda path: path.name)
def test_named_files_exist(page):
    text = page.read_text(encoding="utf-8")
    if page.name == "CHANGELOG.md":  # older entries name files of their time
        text = text.partition("\n## 0.1")[0]
    named = re.findall(
        r"\b((?:docs|kdkit|examples|benchmarks|tests)/[\w/]+\.(?:md|py|sh))",
        text,
    )
    missing = {name for name in named if not (ROOT / name).exists()}
    assert not missing


@pytest.mark.parametrize(
    "page", [*ROOT.glob("*.md")], ids=lambda path: path.name
)
def test_links_and_pictures_of_the_root_exist(page):
    text = re.sub(r"`[^`]*`", "", page.read_text(encoding="utf-8"))
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert not [link for link in links if not (ROOT / link).exists()]


@pytest.mark.parametrize(
    ("page", "lines"), [("README.md", 150), ("ARCHITECTURE.md", 60)]
)
def test_pages_for_newcomers_are_short(page, lines):
    assert len((ROOT / page).read_text("utf-8").splitlines()) <= lines


def test_readme_names_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text


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


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_has_an_example(recipe):
    assert (ROOT / "examples" / f"{recipe}.sh").is_file()
