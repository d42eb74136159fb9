"""Compares two run directories, except for times of day and processes."""

import json
import zipfile

from kdkit.io.files import CHECKSUM_FIELD
from kdkit.runs.directory import LOCK
from kdkit.training.callbacks import read_points

TIMES = ("time", "seconds")
# The doctor's checks that report free memory and disk space.
OF_THE_MOMENT = ("memory", "disk", "disk of the cache")


def differences(first, second):
    """Returns the differences between two run directories, as strings."""
    files = [
        {
            str(path.relative_to(run)): path
            for path in run.rglob("*")
            if path.is_file()
            and "tfevents" not in path.name
            and path.name != LOCK  # names the process that held it last
        }
        for run in (first, second)
    ]
    found = [
        f"only in one: {name}" for name in files[0].keys() ^ files[1].keys()
    ]
    for name in sorted(files[0].keys() & files[1].keys()):
        one, other = (
            content(of_run[name], run)
            for of_run, run in zip(files, (first, second), strict=True)
        )
        if one != other:
            found.append(f"different: {name}")
    points = [
        {
            folder.relative_to(run): values(folder)
            for folder in sorted(run.rglob("tensorboard/**/"))
        }
        for run in (first, second)
    ]
    if points[0] != points[1]:
        found.append("different: points of TensorBoard")
    return found


def write_differences(first, second, file):
    """Writes the differences to a file; returns the exit status."""
    file.write_text(json.dumps(differences(first, second)))
    return 0


def content(file, run):
    """Returns a file's content without times, durations and the run's path."""
    if file.suffix == ".keras":
        with zipfile.ZipFile(file) as archive:
            return {
                name: archive.read(name)
                for name in archive.namelist()
                if name != "metadata.json"  # contains only the date
            }
    if file.suffix not in (".json", ".jsonl"):
        return file.read_bytes()
    text = file.read_text().replace(str(run), "RUN")
    lines = text.splitlines() if file.suffix == ".jsonl" else [text]
    values_of_lines = [json.loads(line) for line in lines]
    for value in values_of_lines:
        if isinstance(value, dict):
            for name in (*TIMES, "date_saved", CHECKSUM_FIELD):
                value.pop(name, None)
            value.get("provenance", {}).pop("command", None)
            for finding in value.get("findings", ()):
                if finding["check"] in OF_THE_MOMENT:
                    finding.pop("found")
    return values_of_lines


def values(folder):
    """The points in a folder by tag and step."""
    return {
        place: event.summary.value[0].simple_value
        for place, event in read_points(folder).items()
    }
