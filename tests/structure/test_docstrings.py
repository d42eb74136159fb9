"""The examples in kdkit's docstrings run and give the shown results."""

import doctest
import importlib
import pkgutil

import keras
import numpy as np

import kdkit
from kdkit import steps

# Steps on another backend need that backend.
OTHERS = {*steps.MODULES.values()} - {steps.Step.__module__}
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(kdkit.__path__, "kdkit.")
    if module.name not in OTHERS
)


def test_docstring_examples_are_true():
    for name in MODULES:
        keras.utils.set_random_seed(0)
        failed, _ = doctest.testmod(
            importlib.import_module(name),
            extraglobs={"np": np, "keras": keras, "kdkit": kdkit},
            optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE,
        )
        assert failed == 0, f"{failed} examples of {name} fail, see above"
