"""Fuzzes every reader for some seconds, one after the other.

python fuzz/run.py --seconds 600

Prints one JSON object on its last line: by reader executions, finds and whether
it was stopped for time or memory. What broke a reader is in --finds; move it to
tests/fuzz_finds/READER/ when the reader is mended. Needs the extra `fuzz`.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
PEAK = re.compile(r"stat::peak_rss_mb:\s*(\d+)")


def names_of_readers():
    """The readers, without importing what they read with."""
    names = []
    for file in ("readers.py", "readers_of_runs.py"):
        text = (HERE / file).read_text(encoding="utf-8")
        seeds = text[text.index("SEEDS = {") :]
        names += re.findall(r"^    (\w+): \[", seeds, flags=re.MULTILINE)
    return names


def fuzz(name, seconds, finds):
    """Fuzzes a reader in a separate process; returns the outcome."""
    place = finds / name
    done = subprocess.run(
        [sys.executable, HERE / "one.py", name, str(seconds), place],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        cwd=HERE,
        env=_environment(),
    )
    executed = EXECUTED.search(done.stderr)
    peak = PEAK.search(done.stderr)
    if done.returncode or "FIND" in done.stderr:
        print(done.stderr[-6000:], file=sys.stderr)
    return {
        "executions": int(executed[1]) if executed else None,
        "peak_mb": int(peak[1]) if peak else None,
        "finds": len(list(place.glob("*"))) if place.is_dir() else 0,
        "status": done.returncode,
    }


def _environment():
    import os

    root = str(HERE.parent)
    return {**os.environ, "PYTHONPATH": root, "CUDA_VISIBLE_DEVICES": ""}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600)
    names = names_of_readers()
    parser.add_argument("--readers", nargs="+", choices=names, default=names)
    parser.add_argument(
        "--finds", type=pathlib.Path, default=HERE.parent / "fuzz_finds"
    )
    options = parser.parse_args()
    found = {}
    for name in options.readers:
        found[name] = fuzz(name, options.seconds, options.finds.resolve())
        print(f"{name}: {found[name]}", flush=True)
    print(json.dumps({"seconds": options.seconds, "readers": found}))
    bad = any(one["finds"] or one["status"] for one in found.values())
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
