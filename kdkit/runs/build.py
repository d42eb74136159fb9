"""Makes a run's kind, and resolves what its config left open."""

import dataclasses
import math
import pathlib

from kdkit.late import tf
from kdkit.runs.classifiers import TaskKind
from kdkit.runs.embedders import EmbedderKind, MultilingualKind, RetrieverKind
from kdkit.runs.kinds import Kind
from kdkit.runs.language_models import TextKind
from kdkit.training.distribution import ONE_DEVICE

# By the config's kind; those of sentence encoders by the kind of their data.
KINDS = {
    "task": TaskKind,
    "text": TextKind,
    "texts": EmbedderKind,
    "translations": MultilingualKind,
    "candidates": RetrieverKind,
}
MOST_EPOCHS = 50
# With fewer updates per stage, compiling the step on a CPU takes more time than
# it saves. For TinyBERT's student of 4×312, a teacher of 6×384 and batches of
# 32 examples, XLA takes 16 to 20 s of CPU for the first step of each length,
# and 9 to 10 s for the update alone; later steps take 0.9 s (32 tokens) and 1.4
# s (48) in both cases.
SHORT = 2000


def build(config, folder: pathlib.Path, devices=ONE_DEVICE) -> Kind:
    """Loads a run's teachers, makes its student, and resolves its config.

    Args:
        config: the run's config, with the places of its steps.
        folder: path of the run directory.
        devices: `Distribution`. Defaults to one device.

    Returns:
        The `Kind`, whose `config` has nothing left open.
    """
    name = config.kind if config.kind != "embedder" else config.data.kind
    kind = KINDS[name](config, folder, devices)
    stages = with_enough_updates(kind.config, kind.num_rows)
    kind.config = kind.config.replace(stages=stages)
    compiles = compiled(kind.config, kind.num_rows)
    training = kind.config.training.replace(jit_compile=compiles)
    kind.config = kind.config.replace(training=training)
    return kind


def with_enough_updates(config, num_rows: int | None) -> tuple:
    """Returns the stages, with more epochs for a small table."""

    def raised(stage):
        updates = math.ceil(num_rows / stage.batch_size)
        enough = min(math.ceil(stage.least_updates / updates), MOST_EPOCHS)
        return dataclasses.replace(stage, epochs=max(stage.epochs, enough))

    if num_rows is None or _has_more_rows(config):
        return config.stages
    return tuple(
        raised(stage) if stage.least_updates else stage
        for stage in config.stages
    )


def compiled(config, num_rows: int | None) -> bool | str:
    """Returns what XLA compiles, for a config that says `"auto"`."""
    training = config.training
    if training.jit_compile != "auto":
        return training.jit_compile
    if training.strategy is not None:
        return False
    if config.kind == "text":  # batches of sentences have many shapes
        return True if config.corpus.kind == "corpus" else "update"
    if num_rows is None or _has_more_rows(config):
        return True
    updates = [
        stage.epochs * math.ceil(num_rows / stage.batch_size)
        for stage in config.stages
        if stage.data != "corpus"
    ]
    is_short = sum(updates) < SHORT * len(updates)
    has_gpu = is_short and tf.config.list_physical_devices("GPU")
    return "update" if is_short and not has_gpu else True


def _has_more_rows(config):
    """Whether a task's table is only a part of the rows."""
    return any(
        getattr(config, name, None) for name in ("augmented", "unlabeled")
    )


def resolved(before, after) -> dict:
    """Returns the values that differ between two configs, by dotted path.

    Args:
        before: a config.
        after: the same config with nothing left open.

    Returns:
        Dict from path to the values before and after, as in JSON.
    """

    def different(one, other, path):
        if one == other:
            return
        both = isinstance(one, dict) and isinstance(other, dict)
        if not both or one.keys() != other.keys():
            yield path, (one, other)
            return
        for name in one:
            yield from different(
                one[name], other[name], f"{path}.{name}".strip(".")
            )

    trees = [one.model_dump(mode="json") for one in (before, after)]
    return dict(different(*trees, ""))
