"""Packages that are imported when one of their names is first used.

Keras and TensorFlow take seconds to import. Modules that hold settings, recipes
and losses take them from here, so that the command line reports a wrong setting
at once; modules that define layers import Keras as usual. Other packages are
needed by few users.
"""

import importlib

from kdkit.errors import UsageError


class LateModule:
    """A module that is imported when one of its names is first used."""

    def __init__(self, name: str, packages: str):
        self._name = name
        self._packages = packages

    def __getattr__(self, attribute):
        if attribute.startswith("__"):  # inspection, not kdkit, reads it
            raise AttributeError(attribute)
        try:
            module = importlib.import_module(self._name)
        except ImportError as error:
            raise UsageError(
                f"{self._name}.{attribute} is needed, but {self._name} cannot "
                f"be imported: {error}. Run pip install {self._packages}."
            ) from error
        return getattr(module, attribute)


filelock = LateModule("filelock", "filelock")
keras = LateModule("keras", "keras")
keras_hub = LateModule("keras_hub", "keras-hub")
np = LateModule("numpy", "numpy")
ops = LateModule("keras.ops", "keras")
parquet = LateModule("pyarrow.parquet", "pyarrow")
pyarrow = LateModule("pyarrow", "pyarrow")
sacrebleu = LateModule("sacrebleu.metrics", "sacrebleu")
scipy = LateModule("scipy", "scipy")
sklearn_metrics = LateModule("sklearn.metrics", "scikit-learn")
tf = LateModule("tensorflow", "tensorflow tensorflow-text")
tf_text = LateModule("tensorflow_text", "tensorflow tensorflow-text")
