"""Late imports: a package's code runs when one of its names is first used.

TensorFlow and Keras take seconds to import, and a mistake in options, paths or
files is reported before that. Modules still write `import keras` at their top;
within `imports()`, Keras is loaded when one of its names is used.
"""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Iterator

# Loaded together, TensorFlow first.
TENSORFLOW = ("tensorflow", "keras", "keras.ops", "keras_hub")
LATE = (
    *TENSORFLOW,
    # kdkit's packages that define layers, losses and optimisers.
    "kdkit.generation",
    "kdkit.distillation.distiller",
    "kdkit.export",
    "kdkit.cli.mediapipe",
    "kdkit.doctor",
    "kdkit.doctor.diagnosis",
    "kdkit.runs.inputs",
    "kdkit.runs.build",
    "kdkit.runs.embedder_parts",
    "kdkit.runs.multilingual_parts",
    "kdkit.runs.ranker_parts",
    "kdkit.runs.static_start",
    "kdkit.runs.task_parts",
    "kdkit.runs.text_parts",
    "kdkit.runs.runner",
    "kdkit.training.candidate_data",
    "kdkit.training.embedding_data",
    "kdkit.training.translations",
    "kdkit.training.optimizers",
    "kdkit.training.text_data",
    "kdkit.doctor.text_examination",
    "h5py",
    "scipy",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
    "sklearn",
    "sklearn.feature_extraction",
    "sklearn.feature_extraction.text",
    "sklearn.metrics",
)


class _Late(types.ModuleType):
    """A module whose code has not run yet."""

    def __getattr__(self, name):
        # Python's inspection reads dunder names. The package may define them.
        if name.startswith("__") and name != "__version__":
            raise AttributeError(
                f"module {self.__name__!r} has no attribute {name!r} yet"
            )
        if f"{self.__name__}.{name}" in LATE:
            return importlib.import_module(f"{self.__name__}.{name}")
        self.__spec__.loader.run(self)
        return getattr(self, name)


class _Loader(importlib.abc.Loader):
    """Creates a `_Late` module, and runs its code with the original loader."""

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
        if module.__class__ is not _Late:  # loading TensorFlow ran it
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
        # From here on threads may read data, and two threads must not import at
        # the same time. kdkit's own packages still run when they are used,
        # because one may be running now.
        for module in list(self.pending):
            if not module.__name__.startswith("kdkit."):
                run(module)

    def stop(self):
        """Ends late imports: packages run when they are imported."""
        self._load_tensorflow = None


def run(module) -> None:
    """Runs the code of a late module, unless it has run."""
    if isinstance(module, _Late):
        module.__spec__.loader.run(module)


def is_loaded(name: str) -> bool:
    """Returns whether a package is imported and its code has run."""
    return name in sys.modules and not isinstance(sys.modules[name], _Late)


@contextlib.contextmanager
def imports(load_tensorflow: Callable[[], None]) -> Iterator[None]:
    """Delays the imports of the packages in `LATE` within the block."""
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
