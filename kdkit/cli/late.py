"""Packages that the command line imports when a name of them is first used.

TensorFlow and Keras take seconds to import. A mistake in the options, in a
path or in a file is reported before that: modules import `keras` at their top
as ever, and the package itself is loaded when a name of it is used.
"""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable
from collections.abc import Iterator

# Loaded together, TensorFlow first.
TENSORFLOW = ("tensorflow", "keras", "keras.ops", "keras_hub")
LATE = (
    *TENSORFLOW,
    # Of kdkit, what defines layers, losses and optimisers.
    "kdkit.generation",
    "kdkit.distillation.distiller",
    "kdkit.export",
    "kdkit.doctor",
    "kdkit.doctor.diagnosis",
    "kdkit.runs.inputs",
    "kdkit.runs.build",
    "kdkit.runs.task_parts",
    "kdkit.runs.text_parts",
    "kdkit.runs.runner",
    "kdkit.training.optimizers",
    "kdkit.training.text_data",
    "kdkit.doctor.text_examination",
    "h5py",
    "seqeval",
    "seqeval.metrics",
    "scipy",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
    "sklearn",
    "sklearn.feature_extraction",
    "sklearn.feature_extraction.text",
    "sklearn.metrics",
    "tensorboard",
    "tensorboard.plugins",
    "tensorboard.plugins.hparams",
    "tensorboard.plugins.hparams.api",
)


class _Late(types.ModuleType):
    """A module whose code has not run yet."""

    def __getattr__(self, name):
        # Dunder names are read by inspection. The code defines one of them.
        if name.startswith("__") and name != "__version__":
            raise AttributeError(
                f"module {self.__name__!r} has no attribute {name!r} yet"
            )
        if f"{self.__name__}.{name}" in LATE:
            return importlib.import_module(f"{self.__name__}.{name}")
        self.__spec__.loader.run(self)
        return getattr(self, name)


class _Loader(importlib.abc.Loader):
    """Makes a `_Late` module, and runs its code with the loader it has."""

    def __init__(self, loader, imports):
        self._loader = loader
        self._imports = imports

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__class__ = _Late
        self._imports.pending.append(module)

    def run(self, module):
        self._imports.before(module.__name__)
        if module.__class__ is not _Late:  # the step before ran it
            return
        self._imports.pending.remove(module)
        module.__class__ = types.ModuleType
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)


class _Imports(importlib.abc.MetaPathFinder):
    """Finds the packages in `LATE` and lists those whose code has not run."""

    def __init__(self, load_tensorflow):
        self.pending = []
        self._load_tensorflow = load_tensorflow

    def find_spec(self, name, path, target=None):
        if name in LATE:
            if self._load_tensorflow is None:
                return None
            spec = importlib.machinery.PathFinder.find_spec(name, path)
            if spec is not None:
                spec.loader = _Loader(spec.loader, self)
            return spec
        # A module inside a package needs the package itself.
        package = name.rpartition(".")[0]
        while package:
            run(sys.modules.get(package))
            package = package.rpartition(".")[0]
        return None

    def before(self, name):
        """Loads TensorFlow before the code of a module that needs it."""
        if name not in TENSORFLOW or self._load_tensorflow is None:
            return
        load, self._load_tensorflow = self._load_tensorflow, None
        load()
        # Threads may read data from here on, and two may not import together.
        # The packages of kdkit run when they are used: one may run just now.
        for module in list(self.pending):
            if not module.__name__.startswith("kdkit."):
                run(module)

    def stop(self):
        """Imports at once from here on."""
        self._load_tensorflow = None


def run(module) -> None:
    """Runs the code of a module if it has not run yet."""
    if isinstance(module, _Late):
        module.__spec__.loader.run(module)


def is_loaded(name: str) -> bool:
    """Whether a package is imported and its code has run."""
    return name in sys.modules and not isinstance(sys.modules[name], _Late)


@contextlib.contextmanager
def imports(load_tensorflow: Callable[[], None]) -> Iterator[None]:
    """Imports the packages in `LATE` late, in the block.

    Args:
        load_tensorflow: callable. Imports TensorFlow. Called once, before the
            first name of TensorFlow, Keras or keras-hub is used; never where
            Keras is loaded already.
    """
    if is_loaded("keras"):
        yield
        return
    finder = _Imports(load_tensorflow)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        finder.stop()
        if not finder.pending:
            sys.meta_path.remove(finder)
