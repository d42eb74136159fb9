"""Chooses what XLA compiles, for runs whose user did not choose it."""

import dataclasses
import math
import pathlib
import sys

from kdkit import data
from kdkit.backends import tf
from kdkit.runs.directory import CONFIG
from kdkit.runs.directory import read_config
from kdkit.tasks import get_task
from kdkit.training.candidate_settings import CandidatesSettings
from kdkit.training.embedding_settings import TextsSettings
from kdkit.training.model_settings import UPDATE
from kdkit.training.translation_settings import TranslationsSettings

SETTING = "jit_compile"
# Devices of NVIDIA's and AMD's drivers on Linux. Without them there is no need
# to import TensorFlow, which takes seconds, to look for GPUs.
DRIVERS = (pathlib.Path("/dev/nvidiactl"), pathlib.Path("/dev/kfd"))
# With fewer updates per stage, compiling the step on a CPU takes more time than
# it saves. For TinyBERT's student of 4×312, a teacher of 6×384 and batches of
# 32 examples, XLA takes 16 to 20 s of CPU for the first step of each length,
# and 9 to 10 s for the update alone; later steps take 0.9 s (32 tokens) and 1.4
# s (48) in both cases.
SHORT = 1000


def with_quick_compilation(settings, run_dir):
    """Returns settings that compile the update alone, if the run is short.

    A run is short if its stages on the task have fewer than 1,000 updates each,
    on average. XLA compiles the whole step once for each batch length in every
    stage. Settings do not change for runs with GPUs, a strategy, augmented or
    unlabelled examples, and for runs whose examples cannot be counted quickly
    by the lines of a table. A run that has begun continues with its own
    settings.

    Args:
        settings: `TeacherSettings`, `DistillSettings` or `EmbedderSettings`.
        run_dir: string, path or `None`. The run's directory.
    """
    if settings.jit_compile is not True or settings.strategy is not None:
        return settings
    begun = _begun_with(run_dir)
    if begun is not None:
        return dataclasses.replace(settings, jit_compile=begun)
    if not _is_short(settings) or _has_gpu():
        return settings
    return dataclasses.replace(settings, jit_compile=UPDATE)


def _begun_with(run_dir):
    """The `jit_compile` that a run began with, `None` for a new run."""
    if run_dir is None or not pathlib.Path(run_dir, CONFIG).is_file():
        return None
    return read_config(run_dir).get(SETTING)


def _has_gpu():
    if sys.platform == "linux" and not any(map(pathlib.Path.exists, DRIVERS)):
        return False
    return bool(tf.config.list_physical_devices("GPU"))


def _is_short(settings):
    if getattr(settings, "augmented", None) or getattr(
        settings, "unlabeled", None
    ):
        return False
    num_rows = _count_rows(settings.data)
    if num_rows is None:
        return False
    updates = [
        stage.epochs * math.ceil(num_rows / stage.batch_size)
        for stage in settings.stages
        if stage.data != "corpus"
    ]
    return sum(updates) < SHORT * len(updates)


def _count_rows(settings):
    """The approximate number of training examples, `None` if unknown."""
    if isinstance(
        settings, TextsSettings | TranslationsSettings | CandidatesSettings
    ):
        return _count_lines(settings.files)
    if settings.table is not None:
        count = len(settings.table.read("train"))
        return min(count, settings.max_train_rows or count)
    task = get_task(settings.task)
    if settings.data_dir is None or not isinstance(
        task.layout, data.TableLayout
    ):
        return settings.max_train_rows
    count = _count_lines([task.layout.path("train", settings.data_dir)])
    if count is None:
        return None
    count -= task.layout.has_header
    return min(count, settings.max_train_rows or count)


def _count_lines(paths):
    """The line ends in files, `None` if one is missing."""
    count = 0
    try:
        for path in paths:
            with open(path, "rb") as file:
                blocks = iter(lambda file=file: file.read(1 << 20), b"")
                count += sum(block.count(b"\n") for block in blocks)
    except OSError:  # a missing file is reported when it is read
        return None
    return count
