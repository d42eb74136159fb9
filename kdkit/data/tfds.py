"""Data sets from TensorFlow Datasets, for those without a local copy."""

import dataclasses
from collections.abc import Iterator
from collections.abc import Mapping

import numpy as np

from kdkit.data.examples import Examples
from kdkit.errors import UsageError

ROWS_PER_STEP = 1024  # handed over together
PREFIX = "tfds:"  # of a place that is not a file


@dataclasses.dataclass(frozen=True)
class TfdsLayout:
    """What a task is called in TensorFlow Datasets.

    Args:
        name: string. Name of the dataset, such as `"glue/sst2"`.
        text_features: tuple of the names of 1 or 2 features.
        splits: dict from split to its name there.
    """

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
    """Reads one split, downloading the dataset the first time.

    Args:
        layout: `TfdsLayout` of the task.
        split: string. A key of `layout.splits`.

    Returns:
        `Examples`; without labels where the dataset hides them.

    Raises:
        UsageError: if the split is unknown or the dataset cannot be had.
    """
    if split not in layout.splits:
        raise UsageError(
            f"Unknown split of {layout.name}. Expected one of "
            f"{tuple(layout.splits)}. Received: {split!r}."
        )
    dataset = _load(
        layout.name,
        layout.splits[split],
        "Pass --data-dir (Python: data_dir=) with the root of a local copy in "
        "the official GLUE layout.",
    )
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


def tfds_pairs(place: str, columns: tuple[str, str]) -> Iterator[list[str]]:
    """Yields source and target of a parallel data set.

    It is downloaded the first time.

    Args:
        place: string. Name and split, such as
            `"tfds:ted_hrlr_translate/pt_to_en:train"`.
        columns: tuple of two strings. The features of source and target, such
            as `("pt", "en")`.

    Raises:
        UsageError: if the place names no split, the data set cannot be had, or
            it has no such features.
    """
    _, name, split = place.split(":") if place.count(":") == 2 else ("", "", "")
    if not (name and split):
        raise UsageError(
            "A data set of TensorFlow Datasets is named with its split. "
            f"Expected {PREFIX}NAME:SPLIT. Received: {place!r}."
        )
    dataset = _load(name, split, "Pass files in its place.")
    missing = [one for one in columns if one not in dataset.element_spec]
    if missing:
        raise UsageError(
            f"{place} has no features {missing}. Expected two of "
            f"{sorted(dataset.element_spec)}. Name them as columns."
        )
    for row in dataset.as_numpy_iterator():
        yield [row[name].decode("utf-8").strip() for name in columns]


def _load(name, split, instead):
    try:
        import tensorflow_datasets

        return tensorflow_datasets.load(name, split=split)
    # network, proxy, checksum, archive and disk each fail with their own type
    except Exception as error:
        raise UsageError(
            f"TensorFlow Datasets could not provide {name!r}: "
            f"{type(error).__name__}: {error}\n{instead}"
        ) from error
