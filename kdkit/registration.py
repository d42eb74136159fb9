"""Registers kdkit's classes in saved files with Keras.

`import kdkit` imports neither Keras nor the modules of these classes. Keras may
be imported before or after it. A class is imported when a file contains it.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys

CLASSES = {
    "kdkit.distillation.distiller": ("Distiller",),
    "kdkit.losses.labels": ("SmoothedCrossEntropy",),
    "kdkit.models.mass": ("MassBackbone",),
    "kdkit.models.mass_lm": ("MassSeq2SeqLM", "MassSeq2SeqLMPreprocessor"),
    "kdkit.models.ruled_tokenizers": (
        "AlbertTokenizer",
        "BertTokenizer",
        "DebertaV3Tokenizer",
        "DistilBertTokenizer",
        "ElectraTokenizer",
        "GPT2Tokenizer",
        "Llama3Tokenizer",
        "RobertaTokenizer",
        "XLMRobertaTokenizer",
    ),
    "kdkit.models.variants": (
        "AlbertBackbone",
        "AlbertMaskedLM",
        "BertBackbone",
        "BertMaskedLM",
        "DistilBertBackbone",
        "DistilBertMaskedLM",
        "ElectraBackbone",
        "GPT2Backbone",
        "RobertaBackbone",
        "RobertaMaskedLM",
        "XLMRobertaBackbone",
        "XLMRobertaMaskedLM",
    ),
    "kdkit.models.vocabularies": ("MassTokenizer",),
    "kdkit.training.embedding_data": ("ContrastiveLoss",),
    "kdkit.training.optimizers": (
        "AdamW",
        "CosineWarmupDecay",
        "LinearWarmupDecay",
    ),
}


def register_with_keras() -> None:
    """Registers the classes, now or when Keras is imported."""
    if "keras" in sys.modules:
        _register(sys.modules["keras"])
    else:
        sys.meta_path.insert(0, _Finder())


def _register(keras):
    registered = keras.saving.get_custom_objects()
    for module, names in CLASSES.items():
        for name in names:
            name = f"kdkit>{name}"
            registered.setdefault(name, _stand_in(registered, name, module))


def _stand_in(registered, name, module):
    """Returns a class that imports the real one when a file contains it."""

    class StandIn:
        @classmethod
        def from_config(cls, config):
            importlib.import_module(module)  # which registers the real one
            return registered[name].from_config(config)

    return StandIn


class _Finder(importlib.abc.MetaPathFinder):
    """Registers the classes once, after Keras was imported."""

    def find_spec(self, name, path, target=None):
        if name != "keras":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                sys.meta_path.remove(self)
                execute(module)
                _register(module)

            spec.loader.exec_module = exec_module
        return spec
