"""The reference describes every public name, option and setting (make docs)."""

import dataclasses
import pathlib
import re
import sys

import pytest
from test_public_api import OBJECTS

import kdkit
from kdkit.cli.main import VERBS, make_verb_parser
from kdkit.recipes import RECIPES

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture(scope="module")
def reference():
    """docs_site/reference.py."""
    sys.path.insert(0, str(ROOT / "docs_site"))
    import reference

    yield reference
    sys.path.remove(str(ROOT / "docs_site"))


@pytest.fixture(scope="module")
def pages(reference):
    return reference.pages()


def test_every_public_object_has_an_address(reference):
    addresses = reference.addresses()
    assert not {name for name in OBJECTS if name not in addresses}


def test_every_entry_is_a_public_name(reference):
    for package, (entries, elsewhere, constants) in reference.api().items():
        module = kdkit
        for part in package.split(".")[1:]:
            module = getattr(__import__(f"kdkit.{part}"), part)
        for name in [*entries, *elsewhere, *constants]:
            assert getattr(module, name) is not None, f"{package}.{name}"


def test_entries_are_in_the_sources_of_the_pages(reference, pages):
    for name in ("Distiller", "Objective", "layer_map", "losses.LogitMSE"):
        package = f"kdkit.{name}".rpartition(".")[0]
        page = pages[f"reference/{package}.md"]
        assert f"\n::: kdkit.{name}\n" in page


@pytest.mark.parametrize("verb", VERBS)
def test_page_of_a_verb_has_its_options(pages, verb):
    page = pages[f"reference/kdkit_{verb}.md"]
    labels = set(re.findall(r"^\| <code>([\w.&#;-]+)", page, re.M))
    for option in make_verb_parser(verb).options.values():
        assert option.label.replace("|", "&#124;") in labels


def test_page_of_settings_explains_every_field(reference, pages):
    rows = re.findall(
        r"^\| `(\w+)` \| (.+?) \| (.*) \|$",
        pages["reference/settings.md"],
        re.M,
    )
    assert len(rows) > 100
    assert not [name for name, default, words in rows if not words.strip()]


def test_arguments_described_together_have_an_entry_each(reference):
    docstring = "Sizes.\n\nArgs:\n    rows, width,\n        depth: as in `f`.\n"
    assert reference.documented_arguments(docstring) == {
        "rows": "as in `f`.",
        "width": "as in `f`.",
        "depth": "as in `f`.",
    }


def test_late_names_are_read_without_an_import(reference):
    source = (ROOT / "kdkit" / "models" / "__init__.py").read_text()
    assert set(reference.late_names(source)) == set(kdkit.models.__all__)


def test_fields_are_those_of_the_dataclass(reference):
    @dataclasses.dataclass
    class Sizes:
        """Sizes.

        Args:
            width: int. The width | the size.
            name: string.
        """

        width: int
        name: str = "a|b"

    table = reference._settings_table(Sizes, {})
    assert "| `width` | required | int. The width \\| the size. |" in table
    assert "<code>&quot;a&#124;b&quot;</code>" in table


@pytest.mark.parametrize("recipe", RECIPES)
def test_page_of_a_recipe_has_its_stages(reference, recipe):
    text = (ROOT / "docs" / "recipes" / f"{recipe}.md").read_text("utf-8")
    assert f"<!-- kdkit:stages {recipe} -->" in text
    table = reference.stages_table(recipe)
    for stage in RECIPES[recipe].stages:
        assert f"| `{stage.name}` |" in table
