"""The public names: importable, documented, and quick to import."""

import importlib
import inspect
import pathlib
import re
import subprocess
import sys

import kdkit

ROOT = pathlib.Path(__file__).parents[2]
ROOMS = sorted(
    name for name in kdkit.__all__ if inspect.ismodule(getattr(kdkit, name))
)


def public_objects():
    """(name, object) of every public function and class."""
    found = {}
    for name in sorted(set(kdkit.__all__) - set(ROOMS) - {"__version__"}):
        found[f"kdkit.{name}"] = getattr(kdkit, name)
    for room in ROOMS:
        module = getattr(kdkit, room)
        names = getattr(module, "__all__", None)
        if names is None:
            names = [
                name
                for name, value in vars(module).items()
                if not name.startswith("_")
                and getattr(value, "__module__", None) == module.__name__
            ]
        for name in names:
            found[f"kdkit.{room}.{name}"] = getattr(module, name)
    return {
        name: value
        for name, value in found.items()
        if inspect.isclass(value) or inspect.isfunction(value)
    }


OBJECTS = public_objects()


def documented_arguments(docstring):
    """The names under `Args:`, in order, or `None` if there is no such part."""
    part = re.search(r"^Args:\n((?:    .*\n|\n)+)", docstring + "\n", re.M)
    if part is None:
        return None
    names = re.findall(r"^    (\*{0,2}\w+(?:,\s+\w+)*): ", part.group(1), re.M)
    return [name.strip(" *\n") for group in names for name in group.split(",")]


def test_public_names_can_be_imported():
    assert set(kdkit.__all__) <= set(dir(kdkit))
    for room in ROOMS:
        module = importlib.import_module(f"kdkit.{room}")
        for name in getattr(module, "__all__", ()):
            assert getattr(module, name) is not None


def test_every_package_has_a_page_in_the_reference():
    """docs/hooks.py makes the pages that `nav` names."""
    nav = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert not [room for room in ROOMS if f"/kdkit.{room}.md" not in nav]


def test_documented_arguments_are_the_signatures():
    """Small functions may do with a sentence, and no list of arguments."""
    for name, public in OBJECTS.items():
        documented = documented_arguments(inspect.getdoc(public))
        parameters = list(inspect.signature(public).parameters)
        assert documented in (None, parameters), name


def test_settings_recipes_losses_and_flags_load_no_large_packages():
    program = (
        "import sys, kdkit, kdkit.losses, kdkit.recipes, kdkit.taps.names, "
        "kdkit.distillation.objective, kdkit.cli.main, kdkit.cli.flags; "
        "dir(kdkit); "
        "print([name for name in ('keras', 'numpy', 'tensorflow') "
        "if name in sys.modules])"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed.stdout.strip() == "[]"


def test_the_oldest_versions_tested_are_the_oldest_allowed():
    setup = (ROOT / "setup.py").read_text()
    lines = (ROOT / "tests" / "oldest.txt").read_text().splitlines()
    oldest = dict(line.split("==") for line in lines if line[0] != "#")
    assert {"keras", "tensorflow"} < set(oldest)
    for name, version in oldest.items():
        (allowed,) = re.findall(rf'"{name}>=([\d.]+)[";]', setup)
        assert version.removesuffix(".0") == allowed
