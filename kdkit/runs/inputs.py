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
from kdkit.runs.log import says_finished
from kdkit.runs.settings import DistillSettings
from kdkit.runs.settings import PretrainSettings
from kdkit.tasks import Task
from kdkit.training.checkpoints import STATE
from kdkit.training.data_settings import DataSettings
from kdkit.training.distribution import Distribution
from kdkit.training.task_data import kept_apart

_log = logging.getLogger(__name__)
KEPT_APART = "set of splits that rows are kept apart from"
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


def inputs_of(settings: DistillSettings, task: Task) -> dict[str, str | None]:
    """Returns what a distillation is made from, by content.

    What is made within the run directory is not among it. The splits that are
    not trained on are where they decide which rows are: of texts without labels
    and of copies, those that stand there are left out.
    """
    inputs = data_inputs(task, settings.data)
    if settings.unlabeled is not None or settings.augmented is not None:
        splits = kept_apart(task, settings.data)
        inputs[KEPT_APART] = ", ".join(splits)
        for split in splits:
            if split not in inputs:
                rows = task.load(split, settings.data.data_dir)
                inputs[split] = rows_digest(rows)
    teachers = [settings.teacher, *settings.more_teachers]
    student = settings.student
    models = {
        **{
            "teacher" if number == 1 else f"teacher_{number}": place
            for number, place in enumerate(teachers, start=1)
        },
        "pretrained": settings.pretrained,
        "student": student.checkpoint,
    }
    if student.copy_from not in (None, "teacher", "pretrained"):
        models["student"] = student.copy_from
    for name, place in models.items():
        if isinstance(place, str):
            inputs[name] = model_digest(place)
    files = {
        "corpus": settings.corpus and settings.corpus.all_files,
        "unlabeled": settings.unlabeled and settings.unlabeled.files,
        "augmented": settings.augmented and (settings.augmented.file,),
        "teacher_file": settings.cache
        and settings.cache.teacher_file
        and (settings.cache.teacher_file,),
        "word_vectors": student.bilstm
        and student.bilstm.word_vectors
        and (student.bilstm.word_vectors,),
    }
    for name, places in files.items():
        if places:
            inputs[name] = files_digest(places)
    return inputs


def data_inputs(task: Task, settings: DataSettings) -> dict[str, str]:
    """Returns the digests of the rows to train and to choose on."""
    return {
        split: rows_digest(task.load(split, settings.data_dir))
        for split in ("train", settings.dev_split)
    }


def text_inputs(settings: PretrainSettings) -> dict[str, str | None]:
    """Returns what a run on text is made from, by content."""
    inputs = {"corpus": files_digest(settings.corpus.all_files)}
    model = settings.model
    for name, place in (
        ("model", model.checkpoint or model.copy_from),
        ("teacher", settings.teacher),
    ):
        if place is not None:
            inputs[name] = model_digest(place)
    if settings.tokenizer is not None:
        place = pathlib.Path(settings.tokenizer)
        if place.suffix == ".txt":
            inputs["tokenizer"] = files_digest([place])
        elif place.suffix == ".json" and place.is_file():
            inputs["tokenizer"] = files_digest(models.byte_pair_files(place))
        else:
            inputs["tokenizer"] = model_digest(settings.tokenizer)
    return inputs


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
    if not run.is_finished and (needs_models or not run.has_ended):
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
