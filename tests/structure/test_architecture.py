"""The rules of ARCHITECTURE.md that code can check, as `file:line` lists."""

import ast
import functools
import pathlib

import pytest

PACKAGE = pathlib.Path(__file__).parents[2] / "kdkit"
FILES = sorted(PACKAGE.rglob("*.py"))

# A package may import those of lower rows. Within a row, files may import each
# other as long as no circle arises.
FLOORS = (
    ("__main__",),
    ("cli", "registration"),
    ("doctor", "reporting", "runs", "training"),
    ("recipes",),
    (
        "augmentation",
        "distillation",
        "export",
        "generation",
        "steps",
        "tasks",
        "teacher_cache",
    ),
    ("data", "losses", "quantization"),
    ("models", "taps"),
    (
        "backends",
        "errors",
        "io",
        "late",
        "late_names",
        "precisions",
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
# The second is a process that answers on its standard output.
MAY_PRINT = ("kdkit/cli/",)


def where(path, node=None):
    place = path.relative_to(PACKAGE.parent).as_posix()
    return place if node is None else f"{place}:{node.lineno}"


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@functools.cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def trees():
    """Every file of the package but its own front door, with its tree."""
    for path in FILES:
        if path != PACKAGE / "__init__.py":
            yield path, tree_of(path)


def imported_names(node):
    """The modules that an import statement names, in full."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        if node.module == "kdkit":
            return [f"kdkit.{alias.name}" for alias in node.names]
        return [node.module]
    return []


def test_every_room_has_a_floor():
    rooms = {room_of(path) for path in FILES} - {"__init__"}
    assert rooms <= set(FLOOR_OF), (
        f"{sorted(rooms - set(FLOOR_OF))} of kdkit/ have no place in FLOORS. "
        "Say in ARCHITECTURE.md and here what they may "
        "import."
    )


def test_imports_point_down():
    offences = []
    for path, tree in trees():
        room = room_of(path)
        for node in ast.walk(tree):
            for name in imported_names(node):
                parts = name.split(".")
                if parts[0] != "kdkit":
                    continue
                target = parts[1] if len(parts) > 1 else None
                if target == room:
                    continue
                if target not in FLOOR_OF or FLOOR_OF[target] < FLOOR_OF[room]:
                    offences.append(
                        f"{where(path, node)} imports {name}: {room} may not. "
                        "Move the shared code down, or pass it in."
                    )
    assert not offences, "\n".join(offences)


@functools.cache
def lazy_names(package):
    """The modules that define what a package imports when it is used."""
    tree = ast.parse(package.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and (
            getattr(node.targets[0], "id", None) == "_DEFINED_IN"
        ):
            return ast.literal_eval(node.value)
    return {}


def imported_files(tree):
    """The files whose names a module imports at its top.

    A package that is imported whole, as by `from kdkit import models`, is not
    among them: its names are read later.
    """
    for node in tree.body:
        for name in imported_names(node):
            path = PACKAGE.parent / name.replace(".", "/")
            if path.with_suffix(".py").is_file():
                yield path.with_suffix(".py")
            elif name.startswith("kdkit.") and node.module == name:
                lazy = lazy_names(path / "__init__.py")
                for alias in node.names:
                    module = lazy.get(alias.name, alias.name)
                    file = path / f"{module}.py"
                    yield file if file.is_file() else path / "__init__.py"


def test_no_files_import_each_other_in_a_circle():
    imports = {
        path: sorted(set(imported_files(tree)) - {path})
        for path, tree in trees()
    }
    done, path = set(), []

    def visit(file):
        if file in path:
            circle = [*path[path.index(file) :], file]
            pytest.fail(" imports ".join(map(where, circle)))
        if file in done:
            return
        path.append(file)
        for other in imports.get(file, ()):
            visit(other)
        path.pop()
        done.add(file)

    for file in imports:
        visit(file)


def test_distillation_needs_no_data_no_runs_and_no_files():
    imports = {path: set(imported_files(tree)) for path, tree in trees()}
    reached = set()
    reach = sorted((PACKAGE / "distillation").glob("*.py"))
    while reach:
        file = reach.pop()
        if file not in reached:
            reached.add(file)
            reach.extend(imports[file])
    others = {room_of(file) for file in reached}
    assert not others & {"cli", "data", "doctor", "runs", "training"}
    files = {where(file) for file in reached if room_of(file) == "io"}
    assert files <= {"kdkit/io/machine.py"}


def test_imports_are_absolute():
    offences = [
        f"{where(path, node)} imports relatively: write `from kdkit...`"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    assert not offences, "\n".join(offences)


def test_imports_stand_at_the_top():
    offences = [
        f"{where(path, node)} imports in a function"
        for path, tree in trees()
        if not where(path).startswith(MAY_IMPORT_LATE)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert not offences, "\n".join(offences)


def is_private(name):
    return name.startswith("_") and not name.endswith("__")


def own_names(tree):
    """Private names that a module defines or sets on its own objects."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif not isinstance(getattr(node, "ctx", None), ast.Store):
            continue
        elif isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and is_self(node.value):
            names.add(node.attr)
    return names


def is_self(node):
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def test_only_the_command_line_prints():
    offences = [
        f"{where(path, node)} prints. Use logging.getLogger(__name__)."
        for path, tree in trees()
        if not where(path).startswith(MAY_PRINT)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "print"
    ]
    assert not offences, "\n".join(offences)


def test_private_names_of_others_are_touched_by_one_file_alone():
    """`x._name` is fine if the module itself defines `_name`."""
    offences = []
    for path, tree in trees():
        if where(path).startswith(MAY_TOUCH_PRIVATE_NAMES):
            continue
        own = own_names(tree)
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and is_private(node.attr)
                and node.attr not in own
            ):
                offences.append(
                    f"{where(path, node)} touches the private name "
                    f"{node.attr}, which it does not define"
                )
            if isinstance(node, ast.ImportFrom):
                offences += [
                    f"{where(path, node)} imports the private name {alias.name}"
                    for alias in node.names
                    if is_private(alias.name)
                ]
    assert not offences, "\n".join(offences)


def test_modules_of_kerases_own_are_imported_by_two_files_alone():
    offences = [
        f"{where(path, node)} imports {name}"
        for path, tree in trees()
        if where(path) not in MAY_IMPORT_PRIVATE_MODULES
        for node in ast.walk(tree)
        for name in imported_names(node)
        if name.startswith(("keras.src", "keras_hub.src"))
    ]
    assert not offences, "\n".join(offences)
