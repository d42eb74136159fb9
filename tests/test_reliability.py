"""The pages on reliability and the doctor match the tests and the code."""

import ast
import functools
import itertools
import pathlib
import re

from kdkit import doctor

ROOT = pathlib.Path(__file__).parent.parent
CONSTANTS = {
    getattr(doctor, name): name for name in ("RUINS", "WARNING", "NOTE")
}


def rows_of(page, header):
    """The cells of each row of the tables that begin with a header."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    for place, line in enumerate(lines):
        if line.startswith(header):
            rows = itertools.takewhile(
                lambda row: row.startswith("|"), lines[place + 2 :]
            )
            yield from ([cell.strip() for cell in row.split("|")[1:-1]]
                        for row in rows)  # fmt: skip


@functools.cache
def all_tests():
    """The functions of all tests."""
    return {
        node.name: node
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def documented_checks():
    """The names in the table of docs/doctor.md, and the one below it."""
    rows = rows_of("docs/doctor.md", "| check |")
    return {"texts kept apart"}.union(*(row[0].split(", ") for row in rows))


def test_tests_that_are_named_are_there():
    text = (ROOT / "docs/measured/reliability.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", text))
    assert len(named) > 80
    assert named <= set(all_tests())


def test_what_the_doctor_caught_is_what_its_tests_compare():
    tests = all_tests()
    rows = list(rows_of("docs/measured/reliability.md", "| check |"))
    for _, _, said, name in rows:
        nodes = list(ast.walk(tests[name.strip("`")]))
        texts = [node.value for node in nodes if isinstance(node, ast.Constant)]
        for quote in re.findall(r'"([^"]+)"', said):
            assert any(quote in str(text) for text in texts), quote
        outcome = said.partition(":")[0].partition(",")[0]
        names = {getattr(node, "id", None) for node in nodes}
        names |= {getattr(node, "attr", None) for node in nodes}
        if outcome in CONSTANTS:
            assert CONSTANTS[outcome] in names, name
    caught = {check for row in rows for check in row[0].split(", ")}
    assert caught == documented_checks()


def names_of_checks():
    """What the code calls its checks, but for numbers of teachers."""
    for room in ("doctor", "training"):
        for path in (ROOT / "kdkit" / room).glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.arguments):
                    found = [
                        default
                        for argument, default in zip(
                            node.args[::-1], node.defaults[::-1], strict=False
                        )
                        if argument.arg == "check"
                    ]
                elif isinstance(node, ast.Call) and (
                    getattr(node.func, "id", None) == "Finding"
                    or getattr(node.func, "attr", None) == "attempt"
                ):
                    found = node.args[:1]
                else:
                    continue
                for one in found:
                    parts = getattr(one, "values", [one])
                    if isinstance(parts[0], ast.Constant):
                        yield "".join(
                            part.value
                            for part in parts
                            if isinstance(part, ast.Constant)
                        )


def test_every_check_of_the_doctor_is_documented():
    names = set(names_of_checks())
    assert len(names) > 12
    unknown = {
        name
        for name in names
        # What is behind a name, such as "rows in ", may differ.
        if not any(known.startswith(name) for known in documented_checks())
    }
    assert not unknown


def test_oldest_versions_are_those_that_are_tested():
    """And those that setup.py allows."""
    lines = (ROOT / "tests" / "oldest.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    rows = rows_of("docs/measured/reliability.md", "| package |")
    noted = {row[0].split(",")[0]: row[1] for row in rows}
    assert noted == pinned
    setup = (ROOT / "setup.py").read_text()
    for name, version in pinned.items():
        (allowed,) = re.findall(rf'"{name}>=([\d.]+)[";]', setup)
        assert f"{version}.".startswith(f"{allowed}.")
