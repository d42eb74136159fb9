"""Checksums of a model's files, and recovery of damaged models."""

import functools
import json
import pathlib
import shlex
import zipfile

from kdkit.errors import UsageError
from kdkit.io.files import digest
from kdkit.io.files import staged
from kdkit.io.files import write_text
from kdkit.io.reading import read_json

DIGESTS_FILE = "digests.json"
# Dates; ZIP has sums of its own.
METADATA, HEAD_FILE, ARCHIVE = "metadata.json", "head.keras", ".keras"
CONFIG, SHARED_OBJECT = "config.json", "shared_object_id"
NO_DATE = "1980-01-01@00:00:00"  # the first that ZIP knows
# Names that are compared with the task's; what people read and add to.
LEFT_OUT = (DIGESTS_FILE, METADATA, "labels.json", "README.md")


def write_digests(directory) -> None:
    """Notes what is in the files of a saved model or tokenizer.

    Args:
        directory: path, with all files but `digests.json`, which is written.
    """
    directory = pathlib.Path(directory)
    for name in (METADATA, HEAD_FILE):
        if (directory / name).is_file():
            forget_process(directory / name)
    files = {
        file.relative_to(directory).as_posix(): file
        for file in sorted(directory.rglob("*"))
        if file.is_file()
        and file.name not in LEFT_OUT
        and file.suffix != ARCHIVE
    }
    digests = {name: digest(file) for name, file in files.items()}
    write_text(directory / DIGESTS_FILE, f"{json.dumps(digests, indent=1)}\n")


def forget_process(file: pathlib.Path) -> None:
    """Replaces what a saved model says of the process that saved it.

    That is the second in which it was saved, and the addresses in memory by
    which Keras tells objects apart that several layers share, such as the
    initializers of an LSTM. Models that are the same are then the same files,
    also for a cache, which knows its teacher by them.

    Args:
        file: `pathlib.Path` of a preset's `metadata.json` or of a `.keras`
            file, which nothing else reads yet.
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
    """The config with shared objects numbered as they first come in it."""
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


def check_digests(directory: pathlib.Path) -> None:
    """Compares the files of a directory with the digests in it, if any are.

    Args:
        directory: `pathlib.Path`.

    Raises:
        UsageError: (a `ValueError`) if a file is gone, or is not what was
            written; and if a run of kdkit wrote it and no digests are there.
    """
    noted = directory / DIGESTS_FILE
    if not noted.is_file():
        if config_of_run(directory.absolute().parent):
            raise UsageError(
                f"{noted} is not there, by which kdkit knows damage of what a "
                f"run wrote. A copy of {directory} outside of the run is taken "
                f"as it is. {way_to_restore(directory)}"
            )
        return
    digests = read_json(noted, "the digests of a model's files", _of_digests)
    for name, value in digests.items():
        file = directory / name
        if not file.is_file():
            found = "there is no such file"
        elif digest(file) != value:
            found = "its content is not what was written"
        else:
            continue
        raise UsageError(
            f"{file} is damaged: {found}, by {DIGESTS_FILE} beside it. If you "
            f"changed it yourself, take its line out of {noted}. "
            f"{way_to_restore(directory)}"
        )


def _of_digests(digests):
    """What is wrong with a list of digests."""
    for name, value in digests.items():
        parts = pathlib.PurePosixPath(name).parts
        if not parts or parts[0] == "/" or ".." in parts or "\0" in name:
            return "it names a file outside of this directory"
        if not isinstance(value, str):
            return "expected texts of hexadecimal digits"
    return None


RUN_CONFIG = "config.json"
PROVENANCE = "provenance"  # in the config of a run, and of no model
VERBS = ("distill", "pretrain", "train-teacher")
TOKENIZER = "tokenizer"  # of a run on text beside its model, which has it too
WITH_TOKENIZERS = ("student", "encoder", "decoder", "encoder_decoder")
FINAL_WEIGHTS = "checkpoints/{arm}/*/final.weights.h5"


def way_to_restore(place: pathlib.Path) -> str:
    """Returns what to do about a saved model that is damaged or gone.

    Args:
        place: `pathlib.Path` of the directory or `.keras` file of the model,
            or of the directory of its tokenizer.
    """
    run = place.absolute().parent
    verb = verb_of_run(run)
    if verb is None:
        return "Restore it from a copy, or make the model again."
    if place.name == TOKENIZER:
        if any((run / name).is_dir() for name in WITH_TOKENIZERS):
            return f"Remove {place}: the model in {run} has it, too."
        how = "made again"
    elif any(run.glob(FINAL_WEIGHTS.format(arm=place.stem))):
        how = "made again from its checkpoints"
    else:
        how = "trained again, since its checkpoints are gone,"
    return (
        f"Restore it from a copy. Or remove {place}, and it is {how} by: "
        f"{command_again(run, verb)}"
    )


def command_again(run: pathlib.Path, verb: str) -> str:
    """Returns the command that goes on with a run.

    Args:
        run: `pathlib.Path` of its directory.
        verb: what `verb_of_run` returned.
    """
    words = ["kdkit", verb, "--config", str(run / RUN_CONFIG), "--run-dir"]
    return shlex.join([*words, str(run)])


def verb_of_run(directory: pathlib.Path) -> str | None:
    """Returns the verb that goes on with the run in a directory.

    Args:
        directory: `pathlib.Path`.

    Returns:
        A string; `None` where there is no run of kdkit, or no verb for it.
    """
    config = config_of_run(directory)
    verb = config.get("verb")
    if verb not in VERBS:
        return None
    return "distill" if config.get("steps_before") else verb


def config_of_run(directory: pathlib.Path) -> dict:
    """Returns the settings of the run in a directory; empty without one.

    Args:
        directory: `pathlib.Path`.
    """
    file = directory / RUN_CONFIG
    if not file.is_file():
        return {}
    try:
        config = read_json(file, "the config of a run or a model")
    except UsageError:  # told by what needs it
        return {}
    return config if PROVENANCE in config else {}
