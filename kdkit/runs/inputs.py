"""What a run is made from, by content: the same or not the same."""

import dataclasses
import hashlib
import logging
import pathlib
from collections.abc import Callable
from collections.abc import Iterable

import numpy as np

from kdkit import models
from kdkit.errors import UsageError
from kdkit.io.files import DIGEST
from kdkit.io.files import change_in_words
from kdkit.io.files import digest
from kdkit.runs.directory import CHECKPOINTS
from kdkit.runs.directory import EVENTS
from kdkit.runs.directory import RunDirectory
from kdkit.runs.events import Inputs
from kdkit.runs.events import RunFinished
from kdkit.runs.log import says_finished
from kdkit.training.checkpoints import STATE
from kdkit.training.distribution import Distribution

_log = logging.getLogger(__name__)

# What people call the inputs. Others have a name that reads as it is.
WORDS = {
    "train": "training examples",
    "dev": "dev examples",
    "test": "test examples",
    "pretrained": "pretrained encoder",
    "student": "starting checkpoint of the student",
    "model": "starting checkpoint",
    "unlabeled": "unlabelled text",
    "augmented": "augmented examples",
    "teacher_file": "exported teacher",
}


def model_digest(place: str) -> str | None:
    """Returns the digest of a model's files, or the name of a preset.

    `None` for a path where no model is any more; loading it tells that.
    """
    try:
        files = models.model_files(place)
    except UsageError:
        return None
    if files is not None:
        return digest(files)
    return None if pathlib.Path(place).is_absolute() else str(place)


def rows_digest(rows) -> str:
    """Returns the digest of all that is in the rows of a split.

    Args:
        rows: `kdkit.data.Examples`, or rows of another kind of task.
    """
    total = hashlib.sha256()
    _add(rows, total)
    return total.hexdigest()[:16]


def _add(value, total):
    """Adds numbers and texts within dataclasses, lists and tuples."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            _add(getattr(value, field.name), total)
    elif isinstance(value, list | tuple):
        total.update(f"[{len(value)}]".encode())
        for entry in value:
            _add(entry, total)
    elif isinstance(value, np.ndarray):
        total.update(value.tobytes())
    else:
        total.update(f"{value}\0".encode())


def files_digest(places: Iterable[str]) -> str | None:
    """Returns the digest of the contents of some files, in their order.

    A folder counts with all that is in it. `None` if one is not there.
    """
    paths = list(map(pathlib.Path, places))
    if not all(path.exists() for path in paths):
        return None
    return digest(*paths)


def check_inputs(
    run: RunDirectory,
    inputs: dict[str, str | None],
    distribution: Distribution,
) -> None:
    """Compares what a run is made from with what was noted, if it was.

    And with what the other processes of the run have. What the version that
    began the run did not note is not compared.

    Args:
        run: `RunDirectory`.
        inputs: dict from what it is, such as `"teacher"`, to its digest;
            `None` for what is gone, which is not compared with what was noted.
        distribution: `Distribution` of the run.

    Raises:
        UsageError: (a `ValueError`) if something is not what the run was begun
            with, or what another process has, or if it trained already and
            what it was begun with is not noted any more.
    """
    distribution.check_same("data and models, by content", inputs)
    noted = run.events(Inputs)
    if not noted:
        _check_not_trained(run)
        return
    before = noted[0].digests
    present = {
        name: value
        for name, value in inputs.items()
        if value and not _is_gone(before.get(name), value)
    }
    different = [
        change_in_words(_in_words(name), before[name], value)
        for name, value in present.items()
        if before.get(name, value) != value
    ]
    if different:
        raise UsageError(
            f"The run in {run.path} was started with other inputs: "
            f"{'; '.join(different)}. Restore the inputs that the run was "
            "started with, or choose another --run-dir."
        )
    if present:
        listed = ", ".join(map(_in_words, present))
        _log.info(f"{run.path}: started earlier, same {listed}.")


def _in_words(name):
    """What people call an input: `"word vectors"` for `"word_vectors"`."""
    return WORDS.get(name, name.replace("_", " "))


def _is_gone(before, now):
    """Whether what had content is a bare name, as of a preset, by now."""
    return bool(
        before and DIGEST.fullmatch(before) and not DIGEST.fullmatch(now)
    )


def _check_not_trained(run):
    """Refuses a run with checkpoints whose log has lost its inputs."""
    places = sorted((run.path / CHECKPOINTS).rglob(STATE))
    if places and not run.is_finished:
        raise UsageError(
            f"{run.path / EVENTS} does not say what the run was begun with, "
            f"but it was: there is {places[0]}. The line of the event 'inputs' "
            "is gone. Restore the file from a copy, or choose another "
            "--run-dir."
        )


def is_finished_with(
    run: RunDirectory,
    find_inputs: Callable[[], dict[str, str | None]],
    distribution: Distribution,
    needs_models: bool = True,
) -> bool:
    """Whether a run is finished; says so if it is, or what of it is gone.

    Args:
        run: `RunDirectory`.
        find_inputs: callable without arguments. What the run is made from, as
            for `check_inputs`. What cannot be read any more is not compared: a
            finished run does not need it.
        distribution: `Distribution` of the run.
        needs_models: bool, as in `says_finished`. Defaults to `True`.

    Raises:
        UsageError: (a `ValueError`) if it was made from something else.
    """
    if not run.is_finished and (needs_models or not run.events(RunFinished)):
        return says_finished(run)
    try:
        inputs = find_inputs()
    except UsageError:
        inputs = {}
    check_inputs(run, inputs, distribution)
    return says_finished(run, needs_models)


def log_inputs(run: RunDirectory, inputs: dict[str, str | None]) -> None:
    """Notes what a run is made from, once."""
    if not run.events(Inputs):
        run.log(Inputs(digests=inputs))
