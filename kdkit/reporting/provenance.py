"""Where numbers come from: commands, commits, seeds, time, machine."""

import dataclasses
import pathlib
import re
import shlex
from collections.abc import Sequence

from kdkit.quantities import duration
from kdkit.reporting.curves import run_seconds
from kdkit.reporting.records import RunRecords

# From elsewhere, within a sentence.
_PATH = re.compile(r"(?<=\s)(?:/|~/|\.\./)\w[^\s,;:]*[^\s,;:.]")


@dataclasses.dataclass(frozen=True)
class Provenance:
    """Facts about how runs were made, as text, without repetition.

    Args:
        commands: tuple of strings, to be typed in this order: those of the
            teachers before those of the runs.
        facts: tuple of (label, text).
    """

    commands: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]


def provenance(runs: Sequence[RunRecords]) -> Provenance:
    """Returns how runs, and the runs of their teachers, were made.

    Args:
        runs: sequence of `RunRecords`, such as those of several seeds.

    Returns:
        A `Provenance`; what the records do not say is left out.
    """
    teachers = _distinct(run.teacher_run for run in runs if run.teacher_run)
    everything = [*teachers, *runs]
    seeds = [str(run.config["seed"]) for run in runs if "seed" in run.config]
    count = f"{len(runs)} run" + ("" if len(runs) == 1 else "s")
    facts = [
        ("Seeds" if len(seeds) > 1 else "Seed", f"{', '.join(seeds)} ({count})")
        if seeds
        else ("Runs", count),
        ("Training time", _times(runs)),
        ("Teacher's training time", _times(teachers)),
        ("Commit", _join(_said(run, "commit") for run in everything)),
        ("Machine", _join(_said(run, "machine") for run in everything)),
        ("Versions", _join(_versions(run) for run in everything)),
    ]
    commands = [portable_command(_said(run, "command")) for run in everything]
    return Provenance(
        commands=tuple(dict.fromkeys(filter(None, commands))),
        facts=tuple((label, text) for label, text in facts if text),
    )


def portable_path(text: str) -> str:
    """Returns only the last part of a path from elsewhere; else the text.

    >>> portable_path("/mnt/my data/glue"), portable_path("runs/pkd")
    ('glue', 'runs/pkd')
    """
    is_elsewhere = text.startswith(("/", "~", "../"))
    return pathlib.PurePath(text).name if is_elsewhere else text


def portable_text(text: str) -> str:
    """Returns a path, or a sentence with paths, with only their last parts.

    >>> portable_text("2.5 GB are free in /home/me/runs/pkd.")
    '2.5 GB are free in pkd.'
    """
    return _PATH.sub(
        lambda match: pathlib.PurePath(match[0]).name, portable_path(text)
    )


def portable_command(text: str) -> str:
    """Returns a command with only the last part of paths from elsewhere.

    Where data lay on the machine of a run is nothing to type again.

    >>> portable_command("kdkit show pkd --set data.data_dir=/mnt/data/glue")
    'kdkit show pkd --set data.data_dir=glue'
    """
    try:
        words = shlex.split(text)
    except ValueError:  # an open quotation mark
        words = text.split(" ")
    return shlex.join(
        "=".join(map(portable_path, word.split("="))) for word in words
    )


def _said(run, key):
    return str((run.config.get("provenance") or {}).get(key) or "")


def _versions(run):
    versions = (run.config.get("provenance") or {}).get("versions") or {}
    return ", ".join(f"{name} {versions[name]}" for name in versions)


def _times(runs):
    spans = [run_seconds(run) for run in runs]
    return ", ".join(
        "not finished" if seconds is None else duration(seconds)
        for seconds in spans
    )


def _join(texts):
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _distinct(runs):
    return list({run.run_dir.resolve(): run for run in runs}.values())
