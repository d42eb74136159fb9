"""Registers kdkit's classes in saved files with Keras.

`import kdkit` imports neither Keras nor the modules of these classes. Keras may
be imported before or after it. A class is imported when a file contains it.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys

_DEFINED_IN = {
    "AdamW": "kdkit.training.optimizers",
    "ContrastiveLoss": "kdkit.training.embedding_data",
    "CosineWarmupDecay": "kdkit.training.optimizers",
    "Distiller": "kdkit.distillation.distiller",
    "LinearWarmupDecay": "kdkit.training.optimizers",
    "MassBackbone": "kdkit.models.mass",
    "MassSeq2SeqLM": "kdkit.models.mass_lm",
    "MassSeq2SeqLMPreprocessor": "kdkit.models.mass_lm",
    "MassTokenizer": "kdkit.models.vocabularies",
    "SmoothedCrossEntropy": "kdkit.losses.labels",
}


def register_with_keras() -> None:
    """Registers the classes, now or when Keras is imported."""
    if "keras" in sys.modules:
        _register(sys.modules["keras"])
    else:
        sys.meta_path.insert(0, _Finder())


def _register(keras):
    registered = keras.saving.get_custom_objects()
    for name, module in _DEFINED_IN.items():
        registered.setdefault(f"kdkit>{name}", _stand_in(module, name))


def _stand_in(module, name):
    """Returns a class that imports another when Keras deserializes it."""

    class StandIn:
        @classmethod
        def from_config(cls, config):
            found = getattr(importlib.import_module(module), name)
            return found.from_config(config)

    return StandIn


class _Finder(importlib.abc.MetaPathFinder):
    """Registers the classes once, after Keras was imported."""

    def find_spec(self, name, path, target=None):
        if name != "keras":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                _register(module)

            spec.loader.exec_module = exec_module
        return spec
