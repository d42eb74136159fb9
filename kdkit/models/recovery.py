"""Checksums of a model's files, and recovery of damaged models."""

import functools
import json
import pathlib
import shlex
import zipfile

from kdkit.errors import UsageError
from kdkit.io.files import digest, staged, write_text
from kdkit.io.reading import read_json

DIGESTS_FILE = "digests.json"
# Their dates are reset. ZIP archives have their own checksums.
METADATA, HEAD_FILE, ARCHIVE = "metadata.json", "head.keras", ".keras"
POOLING_FILE = "sentence_embedding.keras"
CONFIG, SHARED_OBJECT = "config.json", "shared_object_id"
NO_DATE = "1980-01-01@00:00:00"  # the earliest date in ZIP
# Without checksums: names that are compared with the task's, and files that
# users read and edit.
WITHOUT_CHECKSUM = (DIGESTS_FILE, METADATA, "labels.json", "README.md")


def write_digests(directory) -> None:
    """Writes the checksums of a saved model's or tokenizer's files."""
    directory = pathlib.Path(directory)
    for name in (METADATA, HEAD_FILE, POOLING_FILE):
        if (directory / name).is_file():
            forget_process(directory / name)
    files = {
        file.relative_to(directory).as_posix(): file
        for file in sorted(directory.rglob("*"))
        if file.is_file()
        and file.name not in WITHOUT_CHECKSUM
        and file.suffix != ARCHIVE
    }
    digests = {name: digest(file) for name, file in files.items()}
    write_text(directory / DIGESTS_FILE, f"{json.dumps(digests, indent=1)}\n")


def forget_process(file: pathlib.Path) -> None:
    """Removes the traces of the saving process from a saved model.

    These are the time of saving, and the memory addresses by which Keras
    identifies objects that several layers share, such as the initializers of an
    LSTM. Equal models are then equal files, also for the teacher cache, which
    identifies its teacher by them.

    Args:
        file: `pathlib.Path` of a preset's `metadata.json` or of a `.keras`
            file that no other process reads yet.
    """
    if file.suffix != ARCHIVE:
        values = _without_date(json.loads(file.read_text("utf-8")))
        write_text(file, json.dumps(values, indent=4))
        return
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    for name, changed in (
        (METADATA, _without_date),
        (CONFIG, functools.partial(_without_addresses, numbers={})),
    ):
        values = changed(json.loads(contents[name]))
        contents[name] = json.dumps(values).encode("utf-8")
    with staged(file) as partial, zipfile.ZipFile(partial, "w") as archive:
        for name, content in contents.items():
            member = zipfile.ZipInfo(name)
            member.external_attr = 0o600 << 16
            archive.writestr(member, content)


def _without_date(metadata):
    if "date_saved" in metadata:
        return {**metadata, "date_saved": NO_DATE}
    return metadata


def _without_addresses(config, numbers):
    """Returns the config with shared objects numbered by first occurrence."""
    if isinstance(config, list):
        return [_without_addresses(value, numbers) for value in config]
    if not isinstance(config, dict):
        return config
    return {
        key: numbers.setdefault(value, len(numbers))
        if key == SHARED_OBJECT
        else _without_addresses(value, numbers)
        for key, value in config.items()
    }


def require_intact_files(directory: pathlib.Path) -> None:
    """Compares a directory's files with its checksums, if it has any."""
    noted = directory / DIGESTS_FILE
    if not noted.is_file():
        if run_config(directory.absolute().parent):
            raise UsageError(
                f"{noted} is missing, so kdkit cannot check the run's files. "
                f"Expected the file next to them. A copy of {directory} "
                "outside of the run is not checked. "
                f"{way_to_restore(directory)}"
            )
        return
    digests = read_json(noted, "the checksums of a model", _checksums_error)
    for name, value in digests.items():
        file = directory / name
        if not file.is_file():
            found = "the file is missing"
        elif digest(file) != value:
            found = "its content has changed"
        else:
            continue
        raise UsageError(
            f"{file} is damaged: {found}, according to {DIGESTS_FILE}. If you "
            f"changed it yourself, remove its line from {noted}. "
            f"{way_to_restore(directory)}"
        )


def _checksums_error(digests):
    """Returns the error in a file of checksums, or `None`."""
    for name, value in digests.items():
        parts = pathlib.PurePosixPath(name).parts
        if not parts or parts[0] == "/" or ".." in parts or "\0" in name:
            return "it names a file outside of this directory"
        if not isinstance(value, str):
            return "expected strings of hexadecimal digits"
    return None


RUN_CONFIG = "config.json"
PROVENANCE = "provenance"  # in a run's config, but not in a model's
VERBS = ("distill", "pretrain", "train-teacher")
TOKENIZER = "tokenizer"  # in a run on text; its model contains it too
WITH_TOKENIZERS = ("student", "encoder", "decoder", "encoder_decoder")
FINAL_WEIGHTS = "checkpoints/{arm}/*/final.weights.h5"


def way_to_restore(place: pathlib.Path) -> str:
    """Returns the advice for a saved model that is damaged or missing."""
    run = place.absolute().parent
    verb = run_verb(run)
    if verb is None:
        return "Restore it from a copy, or make the model again."
    if place.name == TOKENIZER:
        if any((run / name).is_dir() for name in WITH_TOKENIZERS):
            return f"Remove {place}: the model in {run} contains it too."
        how = "rebuilt"
    elif any(run.glob(FINAL_WEIGHTS.format(arm=place.stem))):
        how = "rebuilt from its checkpoints"
    else:
        how = "trained again, because its checkpoints are missing,"
    return (
        f"Restore it from a copy. Or remove {place}; it is then {how} by: "
        f"{command_again(run, verb)}"
    )


def command_again(run: pathlib.Path, verb: str) -> str:
    """Returns the command that resumes a run."""
    words = ["kdkit", verb, "--config", str(run / RUN_CONFIG), "--run-dir"]
    return shlex.join([*words, str(run)])


def run_verb(directory: pathlib.Path) -> str | None:
    """Returns the verb that resumes the run in a directory."""
    config = run_config(directory)
    verb = config.get("verb")
    if verb not in VERBS:
        return None
    return "distill" if config.get("steps_before") else verb


def run_config(directory: pathlib.Path) -> dict:
    """Returns the config of the run in a directory; empty without a run."""
    file = directory / RUN_CONFIG
    if not file.is_file():
        return {}
    try:
        config = read_json(file, "the config of a run or a model")
    except UsageError:  # raised again where the config is needed
        return {}
    return config if PROVENANCE in config else {}
