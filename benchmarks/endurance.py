"""Runs the hours-long checks and writes docs/measured/reliability.md.

    python benchmarks/endurance.py
    python benchmarks/endurance.py "fuzz/run.py --readers table conll"

The commands, with or without their arguments, are benchmarks/kill.py,
benchmarks/soak.py and fuzz/run.py. docs/measured/reliability.json contains
their JSON objects, one for each fuzzed reader, so that they can run on
different days. The page's tables are made from that file. The exit status is 1
if one of them failed.
"""

import argparse
import json
import pathlib
import runpy
import shlex
import subprocess
import sys

from pages import commit
from pages import write

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "measured" / "reliability.md"
KEPT = ROOT / "docs" / "measured" / "reliability.json"
FINDS = ROOT / "tests" / "fuzz_finds"
START, END = "<!-- measured -->\n", "<!-- end of measured -->\n"
KILL, SOAK, FUZZ = "benchmarks/kill.py", "benchmarks/soak.py", "fuzz/run.py"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "commands", nargs="*", metavar="SCRIPT", default=(KILL, SOAK, FUZZ)
    )
    commands = parser.parse_args().commands
    unknown = {line.split(" ")[0] for line in commands} - {KILL, SOAK, FUZZ}
    if unknown:
        parser.error(f"no such script: {', '.join(sorted(unknown))}")
    failed = []
    for command in commands:
        print(f"$ python {command}", flush=True)
        status, last = run(command)
        if status:
            failed.append(command)
        try:
            found = json.loads(last)
        except ValueError:  # it crashed
            continue
        kept = json.loads(KEPT.read_text("utf-8"))  # others write it too
        note(kept, command, found)
        write(KEPT, json.dumps(kept, indent=2, sort_keys=True) + "\n")
        write(PAGE, with_tables(PAGE.read_text("utf-8"), tables(kept)))
    if failed:
        print(f"Failed: {', '.join(failed)}")
    return 1 if failed else 0


def run(command):
    """Runs a script and prints its output; returns status and last line."""
    last = ""
    with subprocess.Popen(
        [sys.executable, "-u", *shlex.split(command)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line
    return process.returncode, last


def note(kept, command, found):
    """Adds a command's result to the saved results."""
    script, noted = command.split(" ")[0], {"commit": commit()}
    if script == SOAK:
        kept[SOAK] = {**found, **noted}
        return
    if script == FUZZ:
        noted["seconds"] = found["seconds"]
    of_each = found["readers" if script == FUZZ else "runs"]
    if script == FUZZ:  # without fields of what did not run
        of_each = {
            name: figures
            for name, figures in of_each.items()
            if figures["executions"] is not None
        }
    kept.setdefault(script, {}).update(
        {name: {**figures, **noted} for name, figures in of_each.items()}
    )


def tables(kept):
    """Returns the saved results as Markdown."""
    killed = [
        f"| {name} | {found['kills']} | {found['identical']} |"
        for name, found in sorted(kept.get(KILL, {}).items())
    ]
    soak = kept.get(SOAK, {"stages": {}})
    soaked = [
        f"| {name} | {stage['epochs'] * soak['steps_per_epoch']:,} | "
        f"{between(stage['megabytes'])} | {between(stage['files'])} | "
        f"{stage['traced_again']} |"
        for name, stage in soak["stages"].items()
    ]
    fuzzed = [
        fuzzed_row(name, kept.get(FUZZ, {}).get(name, {}))
        for name in sorted(readers())
    ]
    return "\n".join(
        [
            *table(f"run that `{KILL}` kills | kills | identical", killed),
            *table(
                f"stage of `{SOAK}` | steps | memory, MB | open files | "
                "steps traced again",
                soaked,
            ),
            *table(
                f"reader that `{FUZZ}` fuzzes | seconds | executions | "
                "finds that are open | finds kept as tests | peak memory, MB",
                fuzzed,
            ),
        ]
    )


def readers():
    """Returns the names of the readers in fuzz/run.py."""
    return runpy.run_path(str(ROOT / FUZZ))["names_of_readers"]()


def fuzzed_row(name, found):
    """Returns a reader's row; dashes for missing numbers."""
    open_finds, tests = found.get("finds"), len(list((FINDS / name).glob("*")))
    numbers = [found.get("seconds"), found.get("executions"), open_finds]
    words = [
        "–" if number is None else f"{number:,}"
        for number in (*numbers, tests, found.get("peak_mb"))
    ]
    return f"| {name} | {' | '.join(words)} |"


def table(header, rows):
    """The lines of a table of a name and of numbers; none without rows."""
    if not rows:
        return []
    numbers = " ---: |" * header.count("|")
    return [f"| {header} |", f"| --- |{numbers}", *rows, ""]


def between(numbers):
    """Returns the numbers of a stage's first and last fifth, in words."""
    return " to ".join(f"{number:,g}" for number in numbers)


def with_tables(page, text):
    """Replaces the tables between the page's markers."""
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise SystemExit(f"{PAGE} lacks {START.strip()} or {END.strip()}.")
    return f"{before}{start}\n{text}\n{end}{after}"


if __name__ == "__main__":
    sys.exit(main())
