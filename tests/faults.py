"""Applies one-line faults to kdkit and records which tests find them.

    python tests/faults.py --map                which tests execute which line
    python tests/faults.py                      all faults of tests/faults.toml
    python tests/faults.py --random 40 --seed 1     40 changes drawn from code

Each command continues where it was interrupted. CONTRIBUTING.md says when to
run them.
"""

import argparse
import ast
import collections
import concurrent.futures
import contextlib
import json
import math
import os
import pathlib
import queue
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from importlib.util import cache_from_source

from coverage.numbits import numbits_to_nums
from drawn_changes import drawn
from executed_lines import IMPORT_FAILED

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = pathlib.Path.home() / ".cache" / "kdkit" / "faults"
FILES = 10  # test files in a process of the map
FIRST = 30  # tests of the first process; most faults need no second one
# A test hangs if it takes a minute and this many times its usual time.
SLOW = 20
NO_IMPORT = "the changed module cannot be imported"
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_running = set()  # processes
_interrupted = threading.Event()


def read_faults():
    """Returns the faults by number, and errors about them as strings."""
    faults, errors = {}, []
    text = (ROOT / "tests" / "faults.toml").read_text("utf-8")
    for fault in tomllib.loads(text)["fault"]:
        number, old = fault["number"], fault["old"]
        source = (ROOT / fault["file"]).read_text("utf-8")
        if source.count(old) != 1:
            errors.append(
                f"Fault {number}: expected its text once in {fault['file']}. "
                f"Received: {source.count(old)} times. Move the fault to the "
                "line that now does the same."
            )
        elif number in faults or old == fault["new"]:
            errors.append(f"Fault {number} is there twice or changes nothing.")
        else:
            compile(source.replace(old, fault["new"]), fault["file"], "exec")
            faults[number] = fault
    return faults, errors


class Lines:
    """Which tests execute which lines: a database for each process."""

    def __init__(self, folder):
        self.tree, self._folder = folder / "tree", folder / "lines"

    def make(self, paths, workers):
        """Runs test files that are in no database, in a copy of the tree."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if not self.tree.exists():
            copy_tree(ROOT, self.tree)
        files = {
            file.relative_to(ROOT).as_posix(): file.read_text("utf-8")
            for path in paths
            for file in ([path] if path.is_file() else path.rglob("test_*.py"))
        }
        for record in self._folder.glob("*.json"):
            for file in read_json(record)["files"]:
                files.pop(file, None)
        print(f"{len(files)} test files left", flush=True)
        # A process imports TensorFlow once for several files. Files that share
        # runs have one each: only the test that makes a run executes its lines.
        alone = sorted(file for file in files if "workspace" in files[file])
        others = sorted({*files} - {*alone})
        count = math.ceil(len(others) / FILES)
        groups = [others[number::count] for number in range(count)]
        groups += [[file] for file in alone]
        for line in in_threads(self._run, groups, workers):
            print(line, flush=True)

    def _run(self, files):
        began, name = time.time(), files[0].replace("/", "__")
        data = self._folder / f"{name}.lines"
        data.unlink(missing_ok=True)
        reports = run_tests(self.tree, files, 7200, False, lines=str(data))[1]
        started, passed = {}, {}
        for test, outcome, when in reports:
            started.setdefault(test, when)
            if outcome == "passed":
                passed[test] = when - started[test]
        counts = collections.Counter()
        for context, numbers in contexts_in(data):
            counts[context] += len(numbers)
        record = {"files": files, "passed": passed, "lines": counts}
        write_json(self._folder / f"{name}.json", record)
        found = f"{len(passed)} of {len(started)} tests passed"
        return f"{' '.join(files)}: {found}, {time.time() - began:.0f} s"

    def tests(self, file, wanted):
        """Returns tests that execute a line, fewest lines first, with seconds.

        A line that a fixture of several tests executes counts for all tests of
        the file.
        """
        found = []
        for path in self._folder.glob("*.json"):
            hits = {
                context
                for context, numbers in contexts_in(
                    path.with_suffix(".lines"), file
                )
                if context and not wanted.isdisjoint(numbers)
            }
            if not hits:
                continue
            record = read_json(path)
            for test, seconds in record["passed"].items():
                contexts = {test, test.partition("::")[0]}
                if not hits.isdisjoint(contexts):
                    cost = sum(record["lines"].get(c, 0) for c in contexts)
                    found.append((cost, seconds, test))
        return {test: seconds for _, seconds, test in sorted(found)}


def contexts_in(data, file="*"):
    """Yields the contexts in a database of coverage, with executed lines."""
    with contextlib.closing(sqlite3.connect(data)) as connection:
        for context, bits in connection.execute(
            "select context.context, line_bits.numbits from line_bits "
            "join file on file.id = line_bits.file_id "
            "join context on context.id = line_bits.context_id "
            "where file.path glob ?",
            (file,),
        ):
            yield context, numbits_to_nums(bits)


def lines_around(source, line):
    """Returns the lines of a line's statement, and those of all functions.

    Of a function's head these are the lines of its body. What Python executes
    at import belongs to no test, so of other such lines there are none.
    """
    tree = ast.parse(source)
    nodes = [one for one in ast.walk(tree) if isinstance(one, ast.stmt)]
    bodies = set()
    for node in nodes:
        if isinstance(node, FUNCTIONS):
            bodies |= {*range(node.body[0].lineno, node.end_lineno + 1)}
    inner = max(
        (one for one in nodes if one.lineno <= line <= one.end_lineno),
        key=lambda node: node.lineno,
    )
    begin, end = inner.lineno, inner.end_lineno + 1
    if isinstance(inner, FUNCTIONS):
        return {*range(inner.body[0].lineno, end)}, bodies
    if getattr(inner, "body", None):
        end = inner.body[0].lineno
    return ({*range(begin, end)} if line in bodies else set()), bodies


def run_tests(tree, tests, limit, stops=True, **plan):
    """Runs tests in a process; returns its status and `[test, outcome, time]`s.

    The status is `None` for a process that was ended after `limit` seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        report, words, file = (
            pathlib.Path(folder, name) for name in ("report", "tests", "plan")
        )
        report.touch()
        words.write_text("\n".join(tests))
        plan |= {"report": str(report), "tests": tests}
        file.write_text(json.dumps(plan))
        environment = {
            "KDKIT_DATA": str(ROOT.parent / "shared" / "data"),
            "TF_CPP_MIN_LOG_LEVEL": "2",
            **os.environ,
            "KERAS_BACKEND": "tensorflow",
            "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'tests'}",
            "KDKIT_FAULTS": str(file),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-n0"]
        command += ["-p", "no:cacheprovider", "-p", "executed_lines"]
        command += [f"--basetemp={folder}/made", *["-x"] * stops, f"@{words}"]
        with open(tree / "log", "w") as log:
            process = subprocess.Popen(
                command,
                cwd=tree,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        _running.add(process)
        try:
            status = process.wait(max(limit, 1))
        except subprocess.TimeoutExpired:
            status = None
        end(process)
        if _interrupted.is_set():
            raise KeyboardInterrupt
        reports = [*map(json.loads, report.read_text().splitlines())]
    return status, reports


def end(process):
    """Ends a process and those that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _running.discard(process)


class Judge:
    """Finds out in a copy of the tree whether a test notices a change."""

    def __init__(self, lines, source, tree, minutes, clean):
        self._lines, self._limit, self._clean = lines, 60 * minutes, clean
        self._tree = copy_tree(source, tree)

    def verdict(self, change):
        """Returns `found`, a test or `None`, and `why`.

        Args:
            change: dict with a file, the texts `old` and `new`, and for drawn
                changes `at`, the place of `old`.
        """
        path = self._tree / change["file"]
        source = path.read_text("utf-8")
        at = change.get("at", source.find(change["old"]))
        rest = source[at + len(change["old"]) :]
        tests = self._tests(change)
        if not tests:
            return {"found": None, "why": "no test executes it"}
        try:
            return self._judge(
                path, source, source[:at] + change["new"] + rest, tests
            )
        finally:
            write_module(path, source)

    def _tests(self, change):
        """The tests of the changed line, or of its module.

        A drawn line in a function that no test executes has none.
        """
        source = (self._lines.tree / change["file"]).read_text("utf-8")
        at = change.get("at", source.find(change["old"]))
        same = len(os.path.commonprefix([change["old"], change["new"]]))
        line = source.count("\n", 0, max(at + same, 0)) + 1
        lines, bodies = lines_around(source, line)
        if at < 0:  # the line has changed since the map
            lines = set()
        tests = self._lines.tests(change["file"], lines)
        if tests or ("at" in change and lines):
            return tests
        return self._lines.tests(change["file"], bodies)

    def _judge(self, path, source, changed, tests):
        file = path.relative_to(self._tree).with_suffix("").as_posix()
        module = file.removesuffix("/__init__").replace("/", ".")
        write_module(path, changed)
        until = time.time() + self._limit
        for batch in batches(tests):
            while batch:
                status, reports = run_tests(
                    self._tree, batch, until - time.time(), module=module
                )
                if status == IMPORT_FAILED:
                    return {"found": None, "why": NO_IMPORT}
                outcomes = {test: outcome for test, outcome, _ in reports}
                failed = [t for t, how in outcomes.items() if how == "failed"]
                last, how, began = reports[-1] if reports else ("", "", 0)
                if status is None:
                    seconds = time.time() - began
                    usual = tests.get(last, math.inf)
                    if how == "started" and seconds > 60 + SLOW * usual:
                        return {"found": last, "why": "hangs"}
                    why = f"not found in {self._limit / 60:g} min"
                    return {"found": None, "why": why}
                if how == "started":
                    failed = [last]  # the process has crashed
                if status and not failed:
                    sys.exit(f"pytest: status {status}, see {self._tree}/log")
                began = time.time()
                for test in failed:
                    if self._fails(test, batch[0], path, source, changed):
                        return {"found": test, "why": "fails"}
                until += time.time() - began
                batch = [test for test in batch if test not in outcomes]
        return {"found": None, "why": f"{len(tests)} tests pass"}

    def _fails(self, test, first, path, source, changed):
        """Whether a test also fails alone, and passes without the change."""
        if "::" not in test:  # the collection of a file
            return True
        if test != first and run_tests(self._tree, [test], 600)[0] == 0:
            return False
        if test not in self._clean:
            write_module(path, source)
            self._clean[test] = run_tests(self._tree, [test], 600)[0] == 0
            write_module(path, changed)
        return self._clean[test]


def batches(tests):
    """Yields the tests of one process after the other, each file by file."""
    tests = [*tests]
    for some in (tests[:FIRST], tests[FIRST:]):
        files = [*dict.fromkeys(test.partition("::")[0] for test in some)]
        yield sorted(some, key=lambda test: files.index(test.split("::")[0]))


def in_threads(function, values, workers):
    """Yields the results for some values, in the order of their ends."""
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        tasks = [pool.submit(function, value) for value in values]
        try:
            for task in concurrent.futures.as_completed(tasks):
                yield task.result()
        except BaseException:
            _interrupted.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(_running):
                end(process)
            raise


def copy_tree(source, folder):
    """Copies the files of the project. Returns the copy."""
    if not (source / ".git").exists():
        return shutil.copytree(source, folder)
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.check_output(command, cwd=source, text=True)
    for name in filter(None, listed.split("\0")):
        if (source / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, folder / name)
    return folder


def write_module(path, source):
    """Writes a module so that Python does not use the compiled one."""
    path.write_text(source, "utf-8")
    pathlib.Path(cache_from_source(path)).unlink(missing_ok=True)


def read_json(path):
    """Returns a file's content; an empty dict without a file."""
    return json.loads(path.read_text()) if path.exists() else {}


def write_json(path, content):
    """Replaces a file at once."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(content, indent=1))
    new.replace(path)


def verdicts_on(faults, judges, path):
    """Returns the verdicts on faults by number; a file keeps each of them."""
    verdicts = read_json(path)
    left = [
        number
        for number, fault in faults.items()
        if verdicts.get(str(number), {}).get("fault") != fault
    ]
    print(f"{len(left)} of {len(faults)} left for {path}", flush=True)

    def judged(number):
        began, judge = time.time(), judges.get()
        try:
            verdict = judge.verdict(faults[number])
        finally:
            judges.put(judge)
        seconds = round(time.time() - began)
        return number, {**verdict, "seconds": seconds, "fault": faults[number]}

    for number, verdict in in_threads(judged, left, judges.qsize()):
        verdicts[str(number)] = verdict
        write_json(path, verdicts)
        shown = (verdict[name] for name in ("why", "found", "seconds"))
        print(number, *shown, flush=True)
    return {number: verdicts[str(number)] for number in faults}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", type=int, nargs="*", help="only these")
    parser.add_argument("--map", nargs="*", type=pathlib.Path, metavar="PATH")
    parser.add_argument("--random", type=int, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER)
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    faults, errors = read_faults()
    if errors:
        sys.exit("\n".join(errors))
    lines = Lines(folder)
    if arguments.map is not None:
        paths = arguments.map or [ROOT / "tests"]
        lines.make([path.resolve() for path in paths], arguments.workers)
        return
    if not lines.tree.exists():
        parser.error(f"{folder} has no map: use --map first")
    source, path = ROOT, folder / "faults.json"
    if arguments.random:
        source, path = lines.tree, folder / f"random-{arguments.seed}.json"
        faults = drawn(source, arguments.random, arguments.seed)
    elif arguments.numbers:
        faults = {number: faults[number] for number in arguments.numbers}
    with tempfile.TemporaryDirectory() as trees:
        judges, clean = queue.SimpleQueue(), {}
        for number in range(arguments.workers):
            tree = pathlib.Path(trees, str(number))
            judges.put(Judge(lines, source, tree, arguments.minutes, clean))
        verdicts = verdicts_on(faults, judges, path)
    valid = {n: one for n, one in verdicts.items() if one["why"] != NO_IMPORT}
    lost = [number for number, one in valid.items() if one["found"] is None]
    share = 1 - len(lost) / len(valid)
    error = math.sqrt(share * (1 - share) / len(valid))
    print(f"Found: {share:.1%} ± {error:.1%} of {len(valid)}. Not:", *lost)


if __name__ == "__main__":
    main()
