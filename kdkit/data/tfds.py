"""Reads data sets from TensorFlow Datasets, for users without local files."""

import contextlib
import dataclasses
from collections.abc import Mapping

import numpy as np

from kdkit.data.examples import Examples
from kdkit.errors import UsageError, require_extra

ROWS_PER_STEP = 1024  # examples read together
INSTEAD = (
    "Pass --data-dir (Python: data_dir=) with the root of a local copy in the "
    "official GLUE layout."
)

_failures = {}  # from the name of a dataset to its error


@dataclasses.dataclass(frozen=True)
class TfdsLayout:
    """A task's names in TensorFlow Datasets."""

    name: str
    text_features: tuple[str, ...]
    splits: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {
            "train": "train",
            "dev": "validation",
            "test": "test",
        }
    )


def read_tfds(layout: TfdsLayout, split: str) -> Examples:
    """Reads one split, downloading the dataset the first time."""
    if split not in layout.splits:
        raise UsageError(
            f"Unknown split of {layout.name}. Expected one of "
            f"{tuple(layout.splits)}. Received: {split!r}."
        )
    dataset = _load(layout.name, layout.splits[split])
    steps = list(dataset.batch(ROWS_PER_STEP).as_numpy_iterator())
    columns = {
        name: np.concatenate([step[name] for step in steps])
        for name in (*layout.text_features, "label")
    }
    texts = tuple(
        [text.decode("utf-8").strip() for text in columns[feature]]
        for feature in layout.text_features
    )
    labels = columns["label"]
    if (labels == -1).all():  # TensorFlow Datasets' mark for hidden labels
        return Examples(texts)
    is_score = np.issubdtype(labels.dtype, np.floating)
    return Examples(texts, labels.astype("float32" if is_score else "int32"))


def require_downloader() -> None:
    """Requires the packages that download data sets."""
    require_extra("tfds", "tensorflow_datasets")


def _load(name, split):
    require_downloader()
    if name in _failures:
        raise UsageError(_failures[name])
    with _remembered_failure(name):
        import tensorflow_datasets

        return tensorflow_datasets.load(name, split=split)


@contextlib.contextmanager
def _remembered_failure(name):
    """Raises a one-line error, and remembers it: each try takes minutes."""
    try:
        yield
    # network, proxy, checksum, archive and disk raise errors of many types
    except Exception as error:
        _failures[name] = (
            f"TensorFlow Datasets could not provide {name!r}: "
            f"{type(error).__name__}: {error}\n{INSTEAD}"
        )
        raise UsageError(_failures[name]) from error
