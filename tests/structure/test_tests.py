"""What keeps the tests cheap, and kdkit's modules free to move."""

import ast
import pathlib

from kit import budget

TESTS = pathlib.Path(__file__).parents[1]
PACKAGE = TESTS.parent / "kdkit"
# Of all files but helpers: each imports a module that it goes with.
MAY_IMPORT_MODULES = 60


def internal_modules(path):
    """The modules that a file imports from inside of kdkit's packages."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            first, *parts = name.split(".")
            if first == "kdkit" and is_internal(parts):
                yield name


def is_internal(parts):
    """Whether a dotted name is of a module, or of a name in one.

    `kdkit.models.load_encoder` is public: `kdkit/models` is a package, and no
    file of it has the name.
    """
    path = PACKAGE
    for depth, part in enumerate(parts):
        path = path / part
        if path.with_suffix(".py").is_file():
            return True
        if not path.is_dir():
            return depth > 1
    return len(parts) > 1


def test_few_files_import_modules():
    files = {
        path.relative_to(TESTS).as_posix(): sorted({*internal_modules(path)})
        for path in sorted(TESTS.rglob("test_*.py"))
    }
    files = {name: modules for name, modules in files.items() if modules}
    assert len(files) <= MAY_IMPORT_MODULES, "\n".join(
        f"{name}: {', '.join(modules)}" for name, modules in files.items()
    )


def test_folders_have_no_more_lines_than_their_budget():
    allowed = budget.BUDGET["folders"]
    assert {
        name: count
        for name, count in budget.lines().items()
        if count > allowed.get(name, {}).get("lines", 0)
    } == {}
