"""Reads cached teacher outputs as features of padded batches."""

import numpy as np

from kdkit.taps import TEACHER_OUTPUTS
from kdkit.teacher_cache.files import StoredTensors


class CachedOutputs:
    """Reads a teacher's outputs for the examples of a batch."""

    def __init__(self, stored: list[StoredTensors]):
        self._stored = stored

    def __call__(self, rows: np.ndarray, padded_length: int) -> dict:
        """Returns the tensors of a batch by name; padding is 0."""
        return {
            one.entry.name: one(rows, padded_length) for one in self._stored
        }


class OutputsOfTeachers:
    """The outputs of all teachers, as the feature that a `Distiller` reads.

    Args:
        outputs: sequence of `CachedOutputs`, one per teacher, in their order.

    Example:

    ```python
    outputs = OutputsOfTeachers(
        [cache.outputs(rows, entries)]
    )
    stream = kdkit.data.BatchStream(
        rows, kdkit.data.Buckets(32), seed=0, features=outputs
    )
    distiller.fit(stream.training(), steps_per_epoch=stream.steps_per_epoch)
    ```
    """

    def __init__(self, outputs):
        self._outputs = tuple(outputs)

    def __call__(self, rows: np.ndarray, padded_length: int) -> dict:
        """Returns the feature with the results of all `CachedOutputs`."""
        return {
            TEACHER_OUTPUTS: tuple(
                one(rows, padded_length) for one in self._outputs
            )
        }
