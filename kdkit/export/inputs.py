"""Batches for exported files, and files that run them."""

import numpy as np
import scipy.special

from kdkit.errors import UsageError
from kdkit.taps.names import SENTENCE_EMBEDDING

# Kinds of models. A model whose only input is numbers other than token ids is
# one of tensors. All others that are no decoders count as encoders.
ENCODER, DECODER = "encoder", "decoder"
ENCODER_DECODER, TENSORS = "encoder_decoder", "tensors"
INPUT_NAMES = ("token_ids", "segment_ids", "padding_mask")
TENSOR = "inputs"  # the input of a model on images or other numbers
MACHINE_STEP = 2.0**-24  # below 1, between float32 numbers
PADDING = 0  # token id, segment and mask of a padded position


class BatchFile:
    """Base class of exported files that read whole sequences.

    Subclasses set the attributes and define `set_inputs`, `invoke` and
    `output`.

    Attributes:
        path: `pathlib.Path`.
        kind: string. `"encoder"` for a file that reads tokens, `"tensors"` for
            one that reads images or other numbers.
        input_names: tuple of strings. The inputs that the file has.
        sizes: tuple of ints or `None`s. The shape of an example in a file that
            reads numbers. Empty for tokens.
        batch_size: int or `None`. The only batch size that the file accepts;
            larger batches run row by row.
        sequence_length: int or `None`. The only length that the file accepts;
            shorter batches are padded.
        metadata: `kdkit.export.metadata.Metadata`, or `None` if kdkit did not
            write the file.

    Call arguments:
        batch: dict of integer arrays of shape `(batch_size,
            sequence_length)`. Inputs that the file does not have are ignored.
            For a file that reads numbers an array of shape `(batch_size,
            *sizes)`, alone or in a dict.

    Returns of a call:
        A NumPy array: the logits, or the probabilities in a file whose
        `metadata.outputs` is `"softmax"` or `"sigmoid"`, for which the method
        `logits` returns logits. If it is `"sentence_embedding"`, a vector for
        each text.
    """

    input_names: tuple[str, ...] = ()
    sizes: tuple[int | None, ...] = ()
    batch_size: int | None = None
    sequence_length: int | None = None
    metadata = None

    @property
    def kind(self) -> str:
        return TENSORS if self.sizes else ENCODER

    def __call__(self, batch):
        if self.sizes:
            batch = to_float32(batch, *self.input_names, self.sizes)
        else:
            batch = pad(to_int32(batch, self.input_names), self.sequence_length)
        if self.batch_size is None:
            return self._run(batch)
        rows = range(batch_shape(batch)[0])
        return np.concatenate(
            [
                self._run({name: a[row : row + 1] for name, a in batch.items()})
                for row in rows
            ]
        )

    @property
    def outputs(self) -> str:
        """What a call returns, from `kdkit.export.metadata.OUTPUTS`."""
        return getattr(self.metadata, "outputs", "logits")

    def logits(self, batch):
        """Returns the logits of a batch, also from a file of probabilities.

        Args:
            batch: as for a call.

        Returns:
            A NumPy array. From probabilities it contains their logarithms
            (softmax) or log odds (sigmoid): the model's logits up to one
            constant per row, and up to rounding.

        Raises:
            UsageError: (a `ValueError`) if it is the file of an embedder.
        """
        if self.outputs == SENTENCE_EMBEDDING:
            raise UsageError(
                f"{self.path} returns sentence embeddings, no logits."
            )
        outputs = self(batch)
        if self.outputs == "logits":
            return outputs
        least = np.finfo("float32").tiny
        if self.outputs == "softmax":
            return np.log(np.maximum(outputs, least))
        return scipy.special.logit(np.clip(outputs, least, 1 - MACHINE_STEP))

    def read_sizes(self, names, shape, is_numbers):
        """Sets the inputs, by their names and the shape of one."""
        self.batch_size, *sizes = shape
        if is_numbers:
            self.input_names, self.sizes = tuple(names), tuple(sizes)
            return
        self.input_names = tuple(name for name in INPUT_NAMES if name in names)
        (self.sequence_length,) = sizes

    def set_inputs(self, batch) -> None:
        """Sets the inputs of `invoke`.

        Args:
            batch: dict of int32 arrays of shape `(batch_size,
                sequence_length)`, or of one float32 array, with the file's
                sizes if these are fixed.
        """

    def invoke(self) -> None:
        """Runs the file on the current inputs: the part to time."""

    def output(self):
        """Returns the outputs of the last `invoke`."""

    def _run(self, batch):
        self.set_inputs(batch)
        self.invoke()
        return self.output()


def file_logits(file):
    """Returns a callable from batches to logits, for any opened file.

    Args:
        file: the result of `kdkit.export.open_file`.
    """
    return file.logits if isinstance(file, BatchFile) else file


def to_int32(batch, input_names):
    """Selects a file's inputs from a batch of integers, of one shape."""
    arrays = {
        name: np.asarray(batch[name]).astype("int32", casting="same_kind")
        for name in input_names
    }
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) > 1:
        raise UsageError(f"The inputs of a batch have shapes {shapes}.")
    return arrays


def to_float32(batch, name, sizes):
    """Returns a batch of numbers, such as images, of a file's sizes."""
    given = batch[name] if isinstance(batch, dict) else batch
    array = np.asarray(given).astype("float32")
    if array.ndim != 1 + len(sizes) or any(
        expected not in (None, size)
        for size, expected in zip(array.shape[1:], sizes, strict=True)
    ):
        raise UsageError(
            f"A batch of shape {array.shape} for a file that reads "
            f"{('batch_size', *sizes)}."
        )
    return {name: array}


def batch_shape(batch):
    """Returns the shape of a checked batch's arrays, which all have it."""
    return next(iter(batch.values())).shape


def pad(batch, sequence_length):
    """Pads a checked batch on the right; `None` returns it unchanged."""
    length = batch_shape(batch)[1]
    if sequence_length is None or length == sequence_length:
        return batch
    missing = ((0, 0), (0, sequence_length - length))
    return {
        name: np.pad(array, missing, constant_values=PADDING)
        for name, array in batch.items()
    }


def random_batch(
    batch_size, sequence_length, input_names, vocabulary_size, num_segments, rng
):
    """Returns random tokens in rows of unequal lengths, the first one full."""
    lengths = rng.integers(1, sequence_length + 1, size=(batch_size, 1))
    lengths[0] = sequence_length
    positions = np.arange(sequence_length)
    real = positions < lengths
    tokens = rng.integers(PADDING + 1, vocabulary_size, size=real.shape)
    segments = (positions >= lengths // 2) & (num_segments > 1)
    batch = {
        "token_ids": np.where(real, tokens, PADDING),
        "segment_ids": np.where(real, segments, PADDING),
        "padding_mask": real,
    }
    return {name: batch[name].astype("int32") for name in input_names}
