"""Runs benchmarks and writes what they print into docs/measured/performance.md.

    python benchmarks/run_all.py
    python benchmarks/run_all.py decoding.py latency.py
    python benchmarks/run_all.py "padding.py --data-dir glue --teacher TEACHER"

Each benchmark is a script in this folder that prints one JSON object on its
last line. If names are given, with or without arguments, only these scripts
run, and the page's other sections stay. Text written by hand below the numbers
of a section stays when it is measured again. The exit status is 1 if a goal is
missed. A script that lacks packages of the `benchmarks` extra ends with exit
status 2; its section stays.
"""

import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys

from pages import machine, write

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "measured" / "performance.md"
SCRIPTS = (
    "first_word.py",
    "distill_step.py",
    "profile_step.py",
    "latency.py",
    "depth.py",
    "augmentation.py",
    "cached_step.py",
    "cached_text.py",
    "cached_embedding.py",
    "cached_memory.py",
    "allocation.py",
    "padding.py",
    "keras_distillation.py",
    "pytorch.py",
    "runtimes.py",
    "growth.py",
    "lm_memory.py",
    "decoding.py",
    "gpu.py",
)
PACKAGES_MISSING = 2  # exit status
HEADER = """# Performance

Written by `python benchmarks/run_all.py`. Times differ from machine to machine
and hour to hour; the ratios within one run are what counts.
"""


# The command of a section, and the text below its numbers.
COMMAND = re.compile(r"`python benchmarks/([^`]+)`")
NUMBERS_END = "\n```\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "commands",
        nargs="*",
        metavar="SCRIPT",
        help=f"of {', '.join(SCRIPTS)}, with arguments in one word",
    )
    wanted = parser.parse_args().commands or SCRIPTS
    unknown = sorted({script_of(command) for command in wanted} - set(SCRIPTS))
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}")
    sections, failed, not_run = kept_sections(), [], []
    for command in wanted:
        print(f"$ python benchmarks/{command}", flush=True)
        script, *arguments = shlex.split(command)
        result = subprocess.run(
            [sys.executable, str(HERE / script), *arguments],
            stdout=subprocess.PIPE,
            text=True,
        )
        print(result.stdout, flush=True)
        if result.returncode == PACKAGES_MISSING:
            not_run.append(command)
            continue
        if result.returncode:
            failed.append(command)
        try:
            found = section(command, result.stdout)
        except ValueError:  # no JSON object at the end: it crashed
            continue
        sections[command] = found + notes(sections.get(command, ""))
        write_page(sections)
    print(f"Written: {PAGE.relative_to(HERE.parent)}")
    if not_run:
        print(f"Not run, packages missing: {', '.join(not_run)}")
    if failed:
        print(f"Goals missed, or crashed: {', '.join(failed)}")
    return 1 if failed else 0


def script_of(command):
    return command.split(" ")[0]


def kept_sections():
    """Returns the page's section for each command."""
    if not PAGE.is_file():
        return {}
    parts = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    return {
        COMMAND.search(part).group(1): f"## {part.rstrip()}\n" for part in parts
    }


def notes(text):
    """Returns the text written by hand below a section's numbers."""
    return text.rpartition(NUMBERS_END)[2]


def write_page(sections):
    ordered = [
        sections[command]
        for command in sorted(
            sections, key=lambda one: (SCRIPTS.index(script_of(one)), one)
        )
    ]
    write(PAGE, "\n".join([HEADER, *ordered]))


def section(command, output):
    """Returns a section: title, output and JSON object of a script."""
    docstring = (HERE / script_of(command)).read_text().split('"""')[1]
    *table, last = output.rstrip().splitlines()
    numbers = json.dumps(json.loads(last), indent=2)
    printed = "\n".join(line.rstrip() for line in table)
    return (
        f"## {docstring.splitlines()[0].rstrip('.')}\n\n"
        f"`python benchmarks/{command}` ({machine()})\n\n"
        f"```\n{printed}\n```\n\n"
        f"```json\n{numbers}\n```\n"
    )


if __name__ == "__main__":
    sys.exit(main())
