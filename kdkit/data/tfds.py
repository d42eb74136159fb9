"""GLUE from TensorFlow Datasets, for those without a local copy."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import tensorflow_datasets

from kdkit.data.examples import Examples
from kdkit.errors import UsageError

ROWS_PER_STEP = 1024  # handed over together


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
    try:
        dataset = tensorflow_datasets.load(
            layout.name, split=layout.splits[split]
        )
    # network, proxy, checksum, archive and disk each fail with their own type
    except Exception as error:
        raise UsageError(
            f"TensorFlow Datasets could not provide {layout.name!r}: "
            f"{type(error).__name__}: {error}\n"
            "Pass --data-dir (Python: data_dir=) with the root of a local "
            "copy in the official GLUE layout."
        ) from error
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
