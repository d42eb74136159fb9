"""Saves the records of runs, without weights, in one file."""

import json
import os
import pathlib
import re
from collections.abc import Sequence

from kdkit.errors import UsageError
from kdkit.io.files import with_own_digest, write_text
from kdkit.io.reading import MAX_LINE_BYTES
from kdkit.reporting.formatting import portable_command, portable_path
from kdkit.reporting.records import (
    OWN_TEACHER,
    RunRecords,
    is_run,
    read_run,
    records_in,
)

# A path outside of the run's own folder, within a sentence.
_PATH = re.compile(r"(?<=\s)(?:/|~/|\.\./)\w[^\s,;:]*[^\s,;:.]")


def keep_records(
    runs: Sequence[RunRecords], path: str | os.PathLike
) -> dict[str, str]:
    """Adds runs and their teachers' runs to a file of records.

    Replaces a record with the same name; all other records stay. References to
    other runs in a configuration, such as the run that pretrained the student,
    are replaced by their names. For other paths only the last part is written:
    the file does not contain paths on your machine.

    Args:
        runs: sequence of `RunRecords`.
        path: string or path of the file. It is created if needed.

    Returns:
        A dict from the name of each record to what happened: `"added"`,
        `"updated"` (the same run, with other events), `"replaced"` (another
        run had the name) or `"unchanged"`; and from the name of each other
        record whose teacher was replaced to a text about it.

    Raises:
        UsageError: If two of the runs have the same name, `path` is a directory
            or has lines that are not records, or a teacher's run that is not
            among `runs` would replace another run. Nothing is written then.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        raise UsageError(
            f"Records are saved in one file. Received: {path}, a directory. "
            "Name a file, e.g. runs.jsonl."
        )
    old = {}
    if os.path.lexists(path):
        old = records_in(path)
    new = _records_to_keep(runs)
    named = {run.label for run in runs}
    outcomes = {}
    for name, record in new.items():
        if name not in old:
            outcomes[name] = "added"
        elif old[name] == record:
            outcomes[name] = "unchanged"
        elif _began(old[name]["events"]) == _began(record["events"]):
            outcomes[name] = "updated"
        elif name in named or name.rpartition("/")[0] in named:
            outcomes[name] = "replaced"
        else:
            raise UsageError(
                f"{path} has another run as {name!r}, and a teacher's run "
                "would replace it. Expected the same run, or a run on the "
                f"command line. Add the directory of {name!r} to the command, "
                "or rename it."
            )
    records = {**old, **new}
    for name in sorted(old.keys() - new.keys()):
        teacher = old[name]["config"].get("teacher")
        if isinstance(teacher, str) and outcomes.get(teacher) == "replaced":
            outcomes[name] = "unchanged, but its teacher was replaced"
    lines = {
        name: json.dumps(with_own_digest(records[name]))
        for name in sorted(records)
    }
    for name, line in lines.items():
        if len(line) >= MAX_LINE_BYTES:
            raise UsageError(
                f"The record of {name!r} has {len(line)} bytes. Expected fewer "
                f"than {MAX_LINE_BYTES}. Remove events that no report needs "
                "from a copy of the run."
            )
    write_text(path, "".join(f"{line}\n" for line in lines.values()))
    return outcomes


def _portable_text(text):
    """Shortens paths, alone or in a sentence, to their last parts."""
    return _PATH.sub(
        lambda match: pathlib.PurePath(match[0]).name, portable_path(text)
    )


def _portable(value):
    if isinstance(value, str):
        return _portable_text(value)
    if isinstance(value, dict):
        return {
            key: portable_command(entry)
            if key == "command" and isinstance(entry, str)
            else _portable(entry)
            for key, entry in value.items()
        }
    if isinstance(value, list):
        return [_portable(entry) for entry in value]
    return value


def _records_to_keep(runs):
    """Returns records by name, without paths on this machine."""
    kept = {}

    def add(name, run, config):
        record = {
            "name": name,
            "config": _portable(_with_names(config)),
            "events": [_portable(event.line) for event in run.events],
        }
        # As in JSON: lists instead of tuples, strings as keys.
        record = json.loads(json.dumps(record))
        other, known = kept.setdefault(name, (run, record))
        if _began(known["events"]) != _began(record["events"]) or (
            not run.events and known != record
        ):
            raise UsageError(
                f"Two runs would be saved as {name!r}. Expected runs whose "
                "directories have different names. Received: "
                f"{str(other.run_dir)!r} and {str(run.run_dir)!r}. Rename one "
                "of them, or save it in another file."
            )

    for run in runs:
        config, teacher = dict(run.config), run.teacher_run
        if teacher is not None:
            own = isinstance(config["teacher"], dict)
            name = f"{run.label}/{OWN_TEACHER}" if own else teacher.label
            add(name, teacher, teacher.config)
            if not own:
                config["teacher"] = name
        add(run.label, run, config)
    return {name: record for name, (_, record) in kept.items()}


def _began(events):
    """Returns the start time of a run, which identifies it."""
    return events[0]["time"] if events else None


def _with_names(value):
    """Replaces the paths of runs in a configuration by their names."""
    if isinstance(value, dict):
        return {key: _with_names(entry) for key, entry in value.items()}
    is_place = isinstance(value, str) and os.path.isabs(value)
    if is_place and is_run(pathlib.Path(value)):
        return read_run(value).label
    return value
