"""Chooses what XLA compiles, for runs whose user did not choose it."""

import dataclasses
import math
import pathlib
import sys

from kdkit.cli.loading import load_tensorflow
from kdkit.cli.updates import count_rows
from kdkit.late import tf
from kdkit.runs.directory import CONFIG, read_config
from kdkit.training.model_settings import UPDATE

SETTING = "jit_compile"
# Devices of NVIDIA's and AMD's drivers on Linux. Without them there is no need
# to import TensorFlow, which takes seconds, to look for GPUs.
DRIVERS = (pathlib.Path("/dev/nvidiactl"), pathlib.Path("/dev/kfd"))
# With fewer updates per stage, compiling the step on a CPU takes more time than
# it saves. For TinyBERT's student of 4×312, a teacher of 6×384 and batches of
# 32 examples, XLA takes 16 to 20 s of CPU for the first step of each length,
# and 9 to 10 s for the update alone; later steps take 0.9 s (32 tokens) and 1.4
# s (48) in both cases.
SHORT = 2000


def with_quick_compilation(settings, run_dir):
    """Returns settings that compile the update alone, if the run is short."""
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
    load_tensorflow()
    return bool(tf.config.list_physical_devices("GPU"))


def _is_short(settings):
    if getattr(settings, "augmented", None) or getattr(
        settings, "unlabeled", None
    ):
        return False
    num_rows = count_rows(settings.data)
    if num_rows is None:
        return False
    updates = [
        stage.epochs * math.ceil(num_rows / stage.batch_size)
        for stage in settings.stages
        if stage.data != "corpus"
    ]
    return sum(updates) < SHORT * len(updates)
