"""Reads cached teacher outputs as features of padded batches."""

import math

import numpy as np

from kdkit.late import tf
from kdkit.taps import LENGTH, SENTENCE_EMBEDDING, TEACHER_OUTPUTS, sizes
from kdkit.teacher_cache.shards import row_bytes, unpack

ALIGNMENT = 64  # bytes; TensorFlow copies arrays with another alignment


class CachedOutputs:
    """Reads a teacher's outputs for the examples of a batch."""

    def __init__(self, shapes, places, shards, precision, encoded):
        self._shapes = shapes
        self._encoded = encoded
        self._kept = {
            entry: _EntryReader(
                entry,
                shape,
                places[entry],
                shards,
                encoded.row_lengths
                if entry.is_per_example
                else encoded.lengths,
                precision,
            )
            for entry, shape in shapes.items()
        }

    @property
    def signature(self) -> dict:
        """The specs of the result of `__call__`, for `tf.data`."""
        return {
            entry.name: tf.TensorSpec(
                (None, *(None if size == LENGTH else size for size in shape)),
                "float32",
            )
            for entry, shape in self._shapes.items()
        }

    def row_bytes(self, padded_length: int) -> int:
        """Returns the bytes of one example's tensors."""
        return row_bytes(
            self._shapes, padded_length, self._encoded.sequences_per_row
        )

    def __call__(self, rows: np.ndarray, padded_length: int) -> dict:
        """Returns the tensors of a batch by name; padding is 0."""
        sequences = self._encoded.sequences_of(rows)
        return {
            entry.name: kept(
                rows if entry.is_per_example else sequences, padded_length
            )
            for entry, kept in self._kept.items()
        }


class _EntryReader:
    """Reads one entry."""

    def __init__(self, entry, shape, places, shards, lengths, precision):
        self._shape = shape
        self._places = places
        self._columns = {
            number: shards[number].column(entry.name)
            for number in np.unique(places[:, 0]).tolist()
        }
        self._lengths = lengths
        self._precision = precision
        self._exact = entry.num_exact(shape)
        self._long_axes = [
            axis for axis, size in enumerate(shape) if size == LENGTH
        ]

    def __call__(self, numbers, padded_length):
        """Returns the tensor of a batch."""
        places = self._places[numbers].tolist()
        lengths = self._lengths[numbers].tolist()
        batch = _aligned((len(numbers), *sizes(self._shape, padded_length)))
        for one, (shard, row), length in zip(
            batch, places, lengths, strict=True
        ):
            real = tuple(map(slice, sizes(self._shape, length)))
            unpack(
                self._columns[shard](row),
                self._precision,
                one[real],
                self._exact,
            )
            if length < padded_length:
                for axis in self._long_axes:
                    one[(*real[:axis], slice(length, None))] = 0
        return batch


def _aligned(shape):
    """Returns an uninitialized float32 array that TensorFlow need not copy."""
    size = 4 * math.prod(shape)
    memory = np.empty(size + ALIGNMENT, "uint8")
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view("float32").reshape(shape)


class ReducedVectors:
    """Cached sentence embeddings in fewer dimensions; others unchanged."""

    def __init__(self, outputs, components: np.ndarray, normalize: bool):
        self._outputs = outputs
        self._components = np.asarray(components, "float32")
        self._normalize = normalize
        self.row_bytes = outputs.row_bytes

    @property
    def signature(self) -> dict:
        """The specs of the result of `__call__`, for `tf.data`."""
        shape = (None, self._components.shape[1])
        reduced = {SENTENCE_EMBEDDING: tf.TensorSpec(shape, "float32")}
        return {**self._outputs.signature, **reduced}

    def __call__(self, rows: np.ndarray, padded_length: int) -> dict:
        """Returns the tensors of a batch, as `CachedOutputs` does."""
        outputs = self._outputs(rows, padded_length)
        vectors = outputs[SENTENCE_EMBEDDING] @ self._components
        if self._normalize:
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors /= np.maximum(lengths, np.finfo("float32").tiny)
        return {**outputs, SENTENCE_EMBEDDING: vectors}


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

    @property
    def signature(self) -> dict:
        """The specs of the result of `__call__`, for `tf.data`."""
        return {TEACHER_OUTPUTS: tuple(one.signature for one in self._outputs)}

    def row_bytes(self, padded_length: int) -> int:
        """Returns the bytes of all teachers' outputs for one example."""
        return sum(one.row_bytes(padded_length) for one in self._outputs)

    def __call__(self, rows: np.ndarray, padded_length: int) -> dict:
        """Returns the feature with the results of all `CachedOutputs`."""
        return {
            TEACHER_OUTPUTS: tuple(
                one(rows, padded_length) for one in self._outputs
            )
        }
