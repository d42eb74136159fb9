"""A plugin of pytest: what `make test` may cost, by tests/budget.toml.

It counts what is expensive, and adds up seconds and lines by folder. One
training, file, process or trace more than in the budget fails a whole run of
the quick tests (lines: structure/test_tests.py). Seconds are shown: a shared
run is timed in the folder that asks for it first. `KDKIT_BUDGET=record` writes
what was measured instead.
"""

import collections
import functools
import os
import pathlib
import sys
import tomllib

TESTS = pathlib.Path(__file__).parents[1]
FILE = TESTS / "budget.toml"
BUDGET = tomllib.loads(FILE.read_text())
LISTED = 4  # seconds; shorter files need no place in the order
counts = collections.Counter()  # of this process
total = collections.Counter()  # of all
seconds = collections.Counter()  # by file
cases = collections.Counter()


def counted(name, function, counts_if=lambda *_, **__: True):
    """The same function, which counts its calls."""

    @functools.wraps(function)
    def call(*arguments, **named):
        counts[name] += bool(counts_if(*arguments, **named))
        return function(*arguments, **named)

    return call


def is_traced(model, force=False):
    return not model.run_eagerly and (force or model.train_function is None)


def audit(event, arguments):
    if event == "subprocess.Popen" and sys.executable in map(
        str, (arguments[0], *arguments[1][:1])
    ):
        counts["processes"] += 1


def pytest_collection_finish():
    """Wraps what is counted, as far as it is imported."""
    sys.addaudithook(audit)
    keras, export = map(sys.modules.get, ("keras", "kdkit.export"))
    if keras is not None:
        model = keras.Model
        model.fit = counted("trainings", model.fit)
        model.make_train_function = counted(
            "traces", model.make_train_function, is_traced
        )
    if export is not None:
        for exporter in export.Exporter.__subclasses__():
            if exporter.__module__.startswith("kdkit."):
                exporter.write = counted("exports", exporter.write)


def pytest_runtest_logreport(report):
    file = report.location[0].removeprefix("tests/")
    seconds[file] += report.duration
    cases[file] += report.when == "call"


def pytest_testnodedown(node):
    total.update(getattr(node, "workeroutput", {}).get("counts", {}))


def pytest_sessionfinish(session):
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["counts"] = dict(counts)
        return
    total.update(counts)
    option = config.option
    chosen = config.args_source.name == "ARGS" or option.keyword
    if chosen or option.run_large or option.collectonly:
        return
    found = measured()
    if os.environ.get("KDKIT_BUDGET") == "record":
        FILE.write_text(toml(found))
        return
    config.budget = [] if session.exitstatus else [*excesses(found)]
    if config.budget:
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter, config):
    if getattr(config, "budget", None) is not None and cases:
        for name, folder in measured()["folders"].items():
            terminalreporter.write_line(f"{name:16} {folder}")
    for line in getattr(config, "budget", ()):
        terminalreporter.write_line(f"budget: {line}")


def folder_of(file):
    return file.rpartition("/")[0] or "tests"


def measured():
    """What the tests cost: the contents of budget.toml."""
    folders = collections.defaultdict(collections.Counter)
    for name, count in lines().items():
        folders[name]["lines"] = count
    for file in cases:
        folders[folder_of(file)]["cases"] += cases[file]
        folders[folder_of(file)]["seconds"] += round(seconds[file])
    slow = {file: round(s) for file, s in seconds.items() if s >= LISTED}
    return {
        "operations": dict(sorted(total.items())),
        "folders": {name: dict(folders[name]) for name in sorted(folders)},
        "seconds": dict(sorted(slow.items(), key=lambda item: -item[1])),
    }


def excesses(found):
    """Yields a line for each operation that is done too often."""
    for name, number in found["operations"].items():
        allowed = BUDGET["operations"].get(name, 0)
        if number > allowed:
            yield f"{number} {name}, {allowed} allowed"


def lines():
    """Lines of Python by folder of the tests."""
    found = collections.Counter()
    for path in TESTS.rglob("*.py"):
        name = folder_of(path.relative_to(TESTS).as_posix())
        found[name] += len(path.read_text("utf-8").splitlines())
    return found


def toml(found):
    """The text of budget.toml."""
    lines = [
        "# Written by KDKIT_BUDGET=record make test, see kit/budget.py.",
        "",
    ]
    lines += ["[operations]"]
    lines += [f"{name} = {n}" for name, n in found["operations"].items()]
    lines += ["", "[folders]"]
    for name, folder in found["folders"].items():
        parts = ", ".join(f"{part} = {n}" for part, n in folder.items())
        lines.append(f'"{name}" = {{ {parts} }}')
    lines += ["", "[seconds] # of files, the longest first"]
    lines += [f'"{file}" = {n}' for file, n in found["seconds"].items()]
    return "\n".join([*lines, ""])
