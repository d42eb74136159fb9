"""What runs recorded, kept without their weights, so that it can be shared."""

import json
import os
import pathlib
from collections.abc import Sequence

from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.files import remove_left_over
from kdkit.files import write_text
from kdkit.own_digest import with_own_digest
from kdkit.reporting.comparison import run_label
from kdkit.reporting.provenance import portable_command
from kdkit.reporting.provenance import portable_text
from kdkit.reporting.records import CONFIG_FILE
from kdkit.reporting.records import EVENTS_FILE
from kdkit.reporting.records import OWN_TEACHER
from kdkit.reporting.records import RunRecords
from kdkit.reporting.records import is_run
from kdkit.reporting.records import read_run

# What is in a directory of records; the page is of `kdkit report` on them.
OF_RECORDS = (CONFIG_FILE, EVENTS_FILE, OWN_TEACHER, "report.html")


def keep_records(
    runs: Sequence[RunRecords], folder: str | os.PathLike
) -> list[pathlib.Path]:
    """Writes the configuration and the events of runs and of their teachers.

    What is written can be read like a run directory, and reports of it are
    the same. Other runs that a configuration names, such as the one that the
    student was pretrained in, are called as they would be kept. Of other paths
    only the last part is kept, so that nothing says where they lay on a
    machine.

    Args:
        runs: sequence of `RunRecords`.
        folder: string or path. Each run gets a directory in it that is
            called as the run's own, its teacher's run one beside it. What was
            kept of the same run before is replaced.

    Returns:
        The list of directories, one for each run.

    Raises:
        UsageError: (a `ValueError`) if another run is kept under a name,
            `folder` is a file, or records would be written into one of the
            runs or beside files that are not of records. Nothing was written
            then.
    """
    folder = pathlib.Path(folder)
    if folder.exists() and not folder.is_dir():
        raise UsageError(
            f"Records are kept in a folder. Received: {folder}, a file. Name "
            "another place."
        )
    kept = {}
    for run in runs:
        config = dict(run.config)
        name = run_label(run)
        teacher = run.teacher_run
        if teacher is not None:
            own = isinstance(config["teacher"], dict)
            place = f"{name}/{OWN_TEACHER}" if own else run_label(teacher)
            _add(kept, folder / place, teacher, teacher.config)
            if not own:
                config["teacher"] = place
        _add(kept, folder / name, run, config)
    kept = {
        place: (run, _portable(_with_names(config)))
        for place, (run, config) in kept.items()
    }
    directories = {run.run_dir for run, _ in kept.values()}
    for place, (run, config) in kept.items():
        _check_no_run(place, directories)
        _check_only_records(place)
        _check_same_run(place, run, config)
    for place, (run, config) in kept.items():
        remove_left_over(place)
        text = json.dumps(config, indent=2)
        write_text(place / CONFIG_FILE, text + "\n")
        lines = (
            json.dumps(with_own_digest(_portable(event)))
            for event in run.events
        )
        write_text(place / EVENTS_FILE, "\n".join(lines) + "\n")
    return [folder / run_label(run) for run in runs]


def _add(kept, place, run, config):
    other, _ = kept.setdefault(place, (run, config))
    if _began(other) != _began(run):
        raise _taken(place, other, run)


def _check_no_run(place, directories):
    """Refuses a place that is a run itself or lies within one."""
    place = place.resolve()
    there = [path for path in (place, *place.parents) if path.exists()]
    for directory in directories:
        if any(path.samefile(directory) for path in there):
            raise UsageError(
                f"Records would be kept as {str(place)!r}. Expected a place "
                f"outside of the runs. Received: {str(directory)!r}, a run "
                "itself, or a place within it. Name another folder."
            )


def _check_only_records(place):
    """Refuses a place with files that keeping does not write."""
    found = ["a file"]
    if place.is_dir():
        expected = set(OF_RECORDS)
        if not (place / CONFIG_FILE).exists():
            expected.remove(EVENTS_FILE)  # it would be of an unknown run
        found = [
            item.name
            for item in sorted(place.iterdir())
            if item.name not in expected and not item.name.startswith(".")
        ]
    if found and os.path.lexists(place):
        raise UsageError(
            f"Records would be kept as {str(place)!r}. Expected nothing there, "
            f"or records that were kept before. Received: "
            f"{shortened(', '.join(found))}. Name another folder."
        )


def _check_same_run(place, run, config):
    if (place / CONFIG_FILE).is_file():
        other = read_run(place)
        same = _began(other) == _began(run)
        if not other.events:  # keeping may have been stopped before them
            same = other.config == config
        if not same:
            raise _taken(place, other, run)


def _taken(place, other, run):
    return UsageError(
        f"Two runs would be kept as {str(place)!r}. Expected runs whose "
        f"directories have different names. Received: {str(other.run_dir)!r} "
        f"and {str(run.run_dir)!r}. Rename one of them, or keep it in another "
        "folder."
    )


def _began(run):
    """A run's first moment, which no other run shares."""
    return run.events[0]["time"] if run.events else None


def _with_names(value):
    """A configuration with the names of the runs whose places it has."""
    if isinstance(value, dict):
        return {key: _with_names(entry) for key, entry in value.items()}
    is_place = isinstance(value, str) and os.path.isabs(value)
    if is_place and is_run(pathlib.Path(value)):
        return run_label(read_run(value))
    return value


def _portable(value):
    if isinstance(value, str):
        return portable_text(value)
    if isinstance(value, dict):
        return {
            key: portable_command(entry)
            if key == "command"
            else _portable(entry)
            for key, entry in value.items()
        }
    if isinstance(value, list):
        return [_portable(entry) for entry in value]
    return value
