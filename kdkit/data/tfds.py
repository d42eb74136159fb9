"""Reads data sets from TensorFlow Datasets, for users without local files."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from kdkit.data.tables import Examples

SPLITS = {"train": "train", "dev": "validation", "test": "test"}


@dataclasses.dataclass(frozen=True)
class TfdsLayout:
    """A task's names in TensorFlow Datasets."""

    name: str
    text_features: tuple[str, ...]
    splits: Mapping[str, str] = dataclasses.field(default_factory=SPLITS.copy)


def read_tfds(layout: TfdsLayout, split: str) -> Examples:
    """Reads one split, downloading the dataset the first time."""
    import tensorflow_datasets as tfds

    whole = tfds.load(layout.name, split=layout.splits[split], batch_size=-1)
    columns = tfds.as_numpy(whole)
    texts = tuple(
        [text.decode("utf-8").strip() for text in columns[feature]]
        for feature in layout.text_features
    )
    labels = columns["label"]
    if (labels == -1).all():  # TensorFlow Datasets' mark for hidden labels
        return Examples(texts)
    is_score = np.issubdtype(labels.dtype, np.floating)
    return Examples(texts, labels.astype("float32" if is_score else "int32"))
