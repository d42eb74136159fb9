"""kdkit: distil transformers with Keras, measure the cost, ship the result.

The names below are imported when they are first used, so that the command line
answers without loading TensorFlow.
"""

import importlib

from kdkit.version import __version__

_DEFINED_IN = {
    "Distillation": "kdkit.runs.calls",
    "Distiller": "kdkit.registration",
    "EmbedderConfig": "kdkit.config.runs",
    "Objective": "kdkit.distillation",
    "Run": "kdkit.runs.directory",
    "StudentCheckpoint": "kdkit.training.student_checkpoint",
    "TaskConfig": "kdkit.config.runs",
    "TextConfig": "kdkit.config.runs",
    "distill": "kdkit.runs.calls",
    "keep_freed_memory": "kdkit.io.machine",
    "layer_map": "kdkit.distillation.layer_maps",
    "run": "kdkit.runs.run",
}
_PACKAGES = (
    "data",
    "distillation",
    "export",
    "generation",
    "losses",
    "models",
    "quantization",
    "recipes",
    "reporting",
    "taps",
    "tasks",
    "training",
)
__all__ = ["__version__", *_DEFINED_IN, *_PACKAGES]


def __getattr__(name):
    if name in _DEFINED_IN:
        return getattr(importlib.import_module(_DEFINED_IN[name]), name)
    if name in _PACKAGES:
        return importlib.import_module(f"kdkit.{name}")
    raise AttributeError(f"module 'kdkit' has no attribute {name!r}")


def __dir__():
    return __all__
