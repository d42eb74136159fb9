"""Checksums of a run's inputs, to detect inputs that changed."""

import contextlib
import logging
import pathlib
from collections.abc import Iterable

from kdkit.config.data import TaskData
from kdkit.config.fields import inputs_of
from kdkit.config.runs import AnyRun
from kdkit.data.selection import rows_digest
from kdkit.errors import UsageError
from kdkit.io.files import DIGEST, change_in_words, digest
from kdkit.models.places import model_digest
from kdkit.models.tokenizer_files import byte_pair_files
from kdkit.runs.directory import CHECKPOINTS, EVENTS, Run
from kdkit.runs.events import Inputs
from kdkit.runs.steps import RESULT
from kdkit.training.checkpoints import SUFFIX
from kdkit.training.distribution import Distribution
from kdkit.training.tasks import kept_apart, open_task

_log = logging.getLogger(__name__)
KEPT_APART = "set of splits whose examples are left out"
RUN_MODELS = ("teacher", "pretrained")  # inputs of other fields
# Titles of inputs. Others are shown by the names of their fields.
WORDS = {
    "train": "training examples",
    "dev": "dev examples",
    "test": "test examples",
    "pretrained": "pretrained encoder",
    "student.checkpoint": "starting checkpoint",
    "data.files": "texts",
    "unlabeled.files": "unlabelled text",
    "augmented.file": "augmented examples",
}
FOLDER = "data_dir"  # of several tasks; the examples are compared


def files_digest(places: Iterable[str]) -> str | None:
    """Returns the checksum of the contents of files, in their order."""
    paths = list(map(pathlib.Path, places))
    if not all(path.exists() for path in paths):
        return None
    return digest(*paths)


def place_digest(place: str) -> str | None:
    """Returns the checksum of a model or a tokenizer, or a preset's name."""
    path = pathlib.Path(place)
    if path.suffix == ".txt":
        return files_digest([path])
    if path.suffix == ".json" and path.is_file():
        return files_digest(byte_pair_files(path))
    return model_digest(place)


def input_digests(config: AnyRun) -> dict[str, str | None]:
    """Returns the checksums of all inputs, by the paths of their fields.

    The results of steps are no inputs: each step compares its own.
    """
    found, places = {}, {}
    for path, mark, place in inputs_of(config):
        is_here = isinstance(place, int) or place.startswith(RESULT)
        is_here |= path.endswith("copy_from") and place in RUN_MODELS
        if not is_here and not path.endswith(FOLDER):
            places.setdefault((path, mark.is_model), []).append(place)
    for (path, is_model), some in places.items():
        for number, place in enumerate(some if is_model else (), start=1):
            name = path if number == 1 else f"{path} {number}"
            found[name] = place_digest(place)
        if not is_model:
            found[path] = files_digest(some)
    if config.kind == "text":  # also without files: generated text
        found.setdefault("corpus.files", files_digest(config.corpus.files))
    data = getattr(config, "data", None)
    if isinstance(data, TaskData):
        return found | _splits(config, ("train", data.dev_split), data)
    if data is not None and data.scored is not None:
        return found | _splits(config, (data.scored.dev_split,), data.scored)
    return found


def _splits(config, splits, data):
    """The checksums of a task's examples."""
    task, found = open_task(data), {}
    if getattr(config, "unlabeled", None) or getattr(config, "augmented", None):
        others = kept_apart(task, data)
        found[KEPT_APART] = ", ".join(others)
        splits = dict.fromkeys((*splits, *others))
    for split in splits:
        found[split] = rows_digest(task.load(split, data.data_dir))
    return found


def require_same_inputs(
    run: Run, inputs: dict[str, str | None], distribution: Distribution
) -> None:
    """Requires that a run's inputs are those that it began with."""
    distribution.require_same("data and models, by content", inputs)
    if not run.events(Inputs):
        _require_untrained(run)
        return
    present = require_unchanged(run, inputs)
    if present:
        listed = ", ".join(map(_in_words, present))
        _log.info(f"{run.path}: started earlier, same {listed}.")


def require_unchanged(run: Run, inputs: dict[str, str | None]) -> list[str]:
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
    """An input's title: `"word vectors"` for `"student.word_vectors"`."""
    if name in WORDS:
        return WORDS[name]
    words = [one for one in name.split(".") if one not in ("data", "files")]
    return " ".join(words).replace("_", " ") or name


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


def is_complete(
    run: Run, config: AnyRun, distribution: Distribution, needs_models=True
) -> bool:
    """Returns whether a run is finished, and prints that or its lost models."""
    is_done = run.is_finished or (run.has_ended and not needs_models)
    if is_done:
        inputs = {}
        with contextlib.suppress(OSError, UsageError):  # removed since
            inputs = input_digests(config)
        require_same_inputs(run, inputs, distribution)
        _log.info(f"The run in {run.path} is finished: nothing to do.")
    elif run.lost_arms:
        _log.warning(
            f"The run in {run.path} was finished, but its model "
            f"{' and '.join(run.lost_arms)} is missing: making it again.",
        )
    return is_done
