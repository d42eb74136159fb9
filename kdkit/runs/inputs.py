"""Checksums of a run's inputs, to detect inputs that changed."""

import dataclasses
import hashlib
import logging
import pathlib
from collections.abc import Callable, Iterable

import numpy as np

from kdkit.errors import UsageError
from kdkit.io.files import DIGEST, change_in_words, digest
from kdkit.models.places import model_digest
from kdkit.models.tokenizer_files import byte_pair_files
from kdkit.runs.directory import CHECKPOINTS, EVENTS, RunDirectory
from kdkit.runs.events import Inputs
from kdkit.runs.log import reports_finished
from kdkit.runs.settings import DistillSettings, PretrainSettings
from kdkit.tasks import Task
from kdkit.training.checkpoints import SUFFIX
from kdkit.training.data_settings import DataSettings
from kdkit.training.distribution import Distribution
from kdkit.training.tasks import kept_apart

_log = logging.getLogger(__name__)
KEPT_APART = "set of splits whose examples are left out"
# Titles of inputs. Other inputs are shown by their names.
WORDS = {
    "train": "training examples",
    "dev": "dev examples",
    "test": "test examples",
    "pretrained": "pretrained encoder",
    "student": "starting checkpoint of the student",
    "model": "starting checkpoint",
    "unlabeled": "unlabelled text",
    "augmented": "augmented examples",
}


def rows_digest(rows) -> str:
    """Returns the checksum of all values in a split's examples."""
    total = hashlib.sha256()
    _add(rows, total)
    return total.hexdigest()[:16]


def _add(value, total):
    """Adds the numbers and texts in dataclasses, lists and tuples."""
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
    """Returns the checksum of the contents of files, in their order."""
    paths = list(map(pathlib.Path, places))
    if not all(path.exists() for path in paths):
        return None
    return digest(*paths)


def distillation_inputs(
    settings: DistillSettings, task: Task
) -> dict[str, str | None]:
    """Returns the checksums of a distillation's inputs."""
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
        "word_vectors": student.bilstm
        and student.bilstm.word_vectors
        and (student.bilstm.word_vectors,),
    }
    for name, places in files.items():
        if places:
            inputs[name] = files_digest(places)
    return inputs


def data_inputs(task: Task, settings: DataSettings) -> dict[str, str]:
    """Returns the checksums of the examples to train on and to choose on."""
    return {
        split: rows_digest(task.load(split, settings.data_dir))
        for split in ("train", settings.dev_split)
    }


def text_inputs(settings: PretrainSettings) -> dict[str, str | None]:
    """Returns the checksums of the inputs of a run on text."""
    inputs = {"corpus": files_digest(settings.corpus.all_files)}
    model = settings.model
    for name, place in (
        ("model", model.checkpoint or model.copy_from),
        ("teacher", settings.teacher),
    ):
        if place is not None:
            inputs[name] = model_digest(place)
    if settings.tokenizer is not None:
        inputs["tokenizer"] = tokenizer_digest(settings.tokenizer)
    return inputs


def tokenizer_digest(place: str) -> str | None:
    """Returns the checksum of a tokenizer's files, or the name of a preset."""
    path = pathlib.Path(place)
    if path.suffix == ".txt":
        return files_digest([path])
    if path.suffix == ".json" and path.is_file():
        return files_digest(byte_pair_files(path))
    return model_digest(place)


def require_same_inputs(
    run: RunDirectory,
    inputs: dict[str, str | None],
    distribution: Distribution,
) -> None:
    """Requires that a run's inputs are those that it began with."""
    distribution.require_same("data and models, by content", inputs)
    noted = run.events(Inputs)
    if not noted:
        _require_untrained(run)
        return
    present = require_unchanged(run, inputs)
    if present:
        listed = ", ".join(map(_in_words, present))
        _log.info(f"{run.path}: started earlier, same {listed}.")


def require_unchanged(
    run: RunDirectory, inputs: dict[str, str | None]
) -> list[str]:
    """Requires that inputs are those that a run has logged."""
    before = next((event.digests for event in run.events(Inputs)), {})
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
            f"{'; '.join(different)}."
        )
    return [*present]


def _in_words(name):
    """An input's title: `"word vectors"` for `"word_vectors"`."""
    return WORDS.get(name, name.replace("_", " "))


def _is_gone(before, now):
    """Whether an input with a checksum has become a mere preset's name."""
    return bool(
        before and DIGEST.fullmatch(before) and not DIGEST.fullmatch(now)
    )


def _require_untrained(run):
    """Rejects a run that has checkpoints, but no inputs in its log."""
    places = sorted((run.path / CHECKPOINTS).rglob(f"*{SUFFIX}"))
    if places and not run.is_finished:
        raise UsageError(
            f"{run.path / EVENTS} has lost the event 'inputs', so the run's "
            "inputs cannot be compared. Choose another --run-dir."
        )


def is_finished_with(
    run: RunDirectory,
    find_inputs: Callable[[], dict[str, str | None]],
    distribution: Distribution,
    needs_models: bool = True,
) -> bool:
    """Returns whether a run is finished, and prints that or its lost models."""
    if not run.is_finished and (needs_models or not run.has_ended):
        return reports_finished(run)
    try:
        inputs = find_inputs()
    except (OSError, UsageError):  # removed since
        inputs = {}
    require_same_inputs(run, inputs, distribution)
    return reports_finished(run, needs_models)


def log_inputs(run: RunDirectory, inputs: dict[str, str | None]) -> None:
    """Logs the run's inputs, once."""
    if not run.events(Inputs):
        run.log(Inputs(digests=inputs))
