"""The rules of ARCHITECTURE.md that code can check, as `file:line` lists."""

import ast
import functools
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).parents[2] / "kdkit"
# A package may import those of lower rows. Within a row, files may import each
# other as long as no circle arises.
FLOORS = (
    ("__main__",),
    ("cli", "registration"),
    ("doctor", "reporting", "runs"),
    ("augmentation", "export", "generation", "teacher_cache", "training"),
    ("config",),
    ("distillation", "quantization", "recipes", "steps", "tasks"),
    ("data", "losses", "models", "taps"),
    (
        "backends",
        "errors",
        "exported",
        "io",
        "late",
        "late_names",
        "settings",
        "version",
        "weights",
    ),
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
# These import in functions: to answer quickly, and to need no TFDS.
MAY_IMPORT_LATE = ("kdkit/cli/", "kdkit/data/tfds.py")
MAY_TOUCH_PRIVATE_NAMES = "kdkit/taps/private.py"
MAY_IMPORT_PRIVATE_MODULES = ("kdkit/taps/naming.py", "kdkit/taps/layers.py")
MAY_PRINT = "kdkit/cli/"


def where(path):
    return path.relative_to(PACKAGE.parent).as_posix()


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@functools.cache
def trees():
    """Every file of the package but its own front door, with its tree."""
    return {
        path: ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != PACKAGE / "__init__.py"
    }


def imported_names(node):
    """The modules that an import statement names, in full."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        if node.module == "kdkit":
            return [f"kdkit.{alias.name}" for alias in node.names]
        return [node.module]
    return []


def functions(tree):
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return (node for node in ast.walk(tree) if isinstance(node, kinds))


def wrong_imports(path, tree):
    """Upwards, relative, late, or of a private module of Keras."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield node, "imports relatively"
        for name in imported_names(node):
            target = (*name.split("."), None)[1]
            is_ours = name.partition(".")[0] == "kdkit"
            room = room_of(path)
            if is_ours and target != room:
                if FLOOR_OF.get(target, -1) < FLOOR_OF[room]:
                    yield node, f"imports {name}: pass it in, or move it down"
            elif (
                name.startswith(("keras.src", "keras_hub.src"))
                and where(path) not in MAY_IMPORT_PRIVATE_MODULES
            ):
                yield node, f"imports {name}"
    if not where(path).startswith(MAY_IMPORT_LATE):
        for function in functions(tree):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    yield node, "imports in a function"


def prints(path, tree):
    """Only the command line prints."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and getattr(node.func, "id", "") == "print"
            and not where(path).startswith(MAY_PRINT)
        ):
            yield node, "prints: use logging.getLogger(__name__)"


def foreign_private_names(path, tree):
    """`x._name` is fine if the module itself defines `_name`."""
    if where(path) == MAY_TOUCH_PRIVATE_NAMES:
        return
    own = set(own_names(tree))
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Attribute) and node.attr not in own:
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.startswith("_") and not name.endswith("__"):
                yield node, f"touches the private name {name}"


def own_names(tree):
    """Names that a module defines or sets on its own objects."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif not isinstance(getattr(node, "ctx", None), ast.Store):
            continue
        elif isinstance(node, ast.Name):
            yield node.id
        elif getattr(getattr(node, "value", None), "id", "") in ("self", "cls"):
            yield node.attr


@pytest.mark.parametrize("rule", [wrong_imports, prints, foreign_private_names])
def test_no_file_breaks_a_rule(rule):
    offences = [
        f"{where(path)}:{node.lineno} {offence}"
        for path, tree in trees().items()
        for node, offence in rule(path, tree)
    ]
    assert not offences, "\n".join(offences)


def test_every_room_has_a_floor():
    assert {room_of(path) for path in trees()} == set(FLOOR_OF)


@functools.cache
def lazy_names(package):
    """The modules that define what a package imports when it is used."""
    for node in trees().get(package, ast.parse("")).body:
        if isinstance(node, ast.Assign) and (
            getattr(node.targets[0], "id", None) == "_DEFINED_IN"
        ):
            return ast.literal_eval(node.value)
    return {}


@functools.cache
def imported_files(path):
    """The files whose names a module imports at its top, without itself.

    A package that is imported whole, as by `from kdkit import models`, is not
    among them: its names are read later.
    """
    found = set()
    for node in trees()[path].body:
        for name in imported_names(node):
            target = PACKAGE.parent / name.replace(".", "/")
            if target.with_suffix(".py").is_file():
                found.add(target.with_suffix(".py"))
            elif name.startswith("kdkit.") and node.module == name:
                lazy = lazy_names(target / "__init__.py")
                for alias in node.names:
                    module = lazy.get(alias.name, alias.name)
                    file = target / f"{module}.py"
                    found.add(
                        file if file.is_file() else target / "__init__.py"
                    )
    return found - {path, PACKAGE / "__init__.py"}


def test_no_files_import_each_other_in_a_circle():
    done, path = set(), []

    def visit(file):
        if file in path:
            circle = [*path[path.index(file) :], file]
            pytest.fail(" imports ".join(map(where, circle)))
        if file not in done:
            path.append(file)
            for other in sorted(imported_files(file)):
                visit(other)
            done.add(path.pop())

    for file in trees():
        visit(file)


def test_distillation_needs_no_data_no_runs_and_no_files():
    reached, reach = set(), list((PACKAGE / "distillation").glob("*.py"))
    while reach:
        file = reach.pop()
        if file not in reached:
            reached.add(file)
            reach.extend(imported_files(file))
    others = {room_of(file) for file in reached}
    assert not others & {"cli", "data", "doctor", "runs", "training"}
    files = {where(file) for file in reached if room_of(file) == "io"}
    assert files <= {"kdkit/io/machine.py"}
