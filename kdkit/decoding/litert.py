"""Decoders to LiteRT files that read one token at a time."""

import pathlib
from collections.abc import Iterable

import numpy as np

from kdkit.backends import tf
from kdkit.decoding.converting import converted
from kdkit.decoding.step import DecoderStep
from kdkit.decoding.step import num_positions
from kdkit.errors import UsageError
from kdkit.export import ExportReport
from kdkit.export import LiteRTDecoder
from kdkit.export.litert_decoder import SIGNATURE
from kdkit.export.options import check_arguments
from kdkit.export.shared_table import share_table
from kdkit.export.untrained import warn_of_untrained_layers
from kdkit.export.verification import reference_outputs
from kdkit.export.writing import write_verified
from kdkit.policies import as_float32

GENERATED_TEXTS, GENERATED_LENGTH, SEED = 4, 32, 0


def to_litert(
    model,
    path: str | pathlib.Path,
    precision: str = "fp32",
    sequence_length: int | None = None,
    verification_texts: Iterable | None = None,
    overwrite: bool = False,
) -> ExportReport:
    """Writes a decoder as a LiteRT file of one step, checked against Keras.

    The file's signature `step` takes the int32 inputs `token_ids`, of shape
    `(1,)`, and `position`, of shape `()`, and for each block the float32
    inputs `keys_0`, `values_0` and so on, of shape `(1, num_key_value_heads,
    sequence_length, head_dim)`: the keys and values of earlier positions. It
    returns `logits`, of shape `(1, vocabulary_size)`, and `new_keys` and
    `new_values`, of shape `(num_layers, 1, num_key_value_heads, head_dim)`,
    which belong at `position`. So a token costs one step, and no step copies
    the cache. `kdkit.export.LiteRTDecoder` runs such a file.

    Args:
        model: `keras_hub.models.CausalLM` of a known family, such as
            `keras_hub.models.GPT2CausalLM`. A preprocessor is not exported.
        path: string or path. Ends in `.tflite`.
        precision: string. As in `kdkit.export.to_litert`. Defaults to
            `"fp32"`.
        sequence_length: int or `None`. The context length of the file. `None`
            for the model's positions; required for a model without position
            embeddings. Defaults to `None`.
        verification_texts: iterable of int arrays of shape `(num_tokens,)`.
            Defaults to random tokens.
        overwrite: bool. Whether to replace a file. Defaults to `False`.

    Returns:
        An `ExportReport`; its examples are positions of texts.

    Warns:
        UserWarning: as `kdkit.export.to_litert`.

    Raises:
        UsageError: (a `ValueError`) if an argument is wrong, or the file
            exists. Nothing is written.
        RunError: (a `RuntimeError`) if logits are not finite or, in fp32,
            differ by more than 1e-4 from those of the Keras model, which reads
            the texts as a whole. No file is left.

    Example:

    ```python
    report = kdkit.decoding.to_litert(student, "student-int8.tflite", "int8")
    ```
    """
    path = pathlib.Path(path)
    check_arguments(path, precision, overwrite)
    positions = num_positions(model)
    if sequence_length is None:
        sequence_length = positions
    if sequence_length is None:
        raise UsageError(
            f"A {type(model).__name__} reads texts of any length, and a file's "
            "cache has one. Expected sequence_length=N. Received: None."
        )
    step = DecoderStep(as_float32(model), sequence_length)
    texts = _texts(verification_texts, step)
    # Row by row, since texts may have different lengths.
    batches = [
        {"token_ids": text, "padding_mask": np.ones_like(text)}
        for text in texts
    ]
    warn_of_untrained_layers(model, batches[0])
    expected = reference_outputs(step.model, batches)

    def write(partial):
        partial.write_bytes(_convert(step, precision))
        if precision == "int8":
            share_table(partial)

    return write_verified(
        path,
        write,
        _whole_texts,
        step.model,
        batches,
        expected,
        precision,
        sequence_length,
        examples=sum(text.shape[1] for text in texts),
        vocabulary_size=model.backbone.vocabulary_size,
        reads_tokens=True,
    )


def _convert(step, precision):
    """The bytes of the file."""
    cache = (1, *step.cache_shape)
    signature = {
        "token_ids": tf.TensorSpec((1,), "int32", "token_ids"),
        "position": tf.TensorSpec((), "int32", "position"),
        **{
            name: tf.TensorSpec(cache, "float32", name)
            for names in step.cache_names
            for name in names
        },
    }

    def run(inputs):
        inputs = dict(inputs)
        token_ids, position = inputs.pop("token_ids"), inputs.pop("position")
        return step(token_ids, position, inputs)

    # Its backbone, not a tokenizer that it came with.
    signatures = {SIGNATURE: (run, signature)}
    return converted(step.model.backbone, signatures, precision)


def _texts(given, step):
    """Rows of one text each, checked."""
    vocabulary_size = step.model.backbone.vocabulary_size
    if given is None:
        length = min(GENERATED_LENGTH, step.sequence_length)
        given = np.random.default_rng(SEED).integers(
            0, vocabulary_size, (GENERATED_TEXTS, length)
        )
    texts = [np.asarray(text, "int32")[np.newaxis] for text in given]
    wrong = [
        text.shape[1:]
        for text in texts
        if text.ndim != 2 or not 1 <= text.shape[1] <= step.sequence_length
    ]
    if not texts or wrong:
        raise UsageError(
            "`verification_texts` must be arrays of 1 to "
            f"{step.sequence_length} tokens. Received: "
            f"{f'shapes {wrong}' if wrong else 'none'}."
        )
    return texts


def _whole_texts(path):
    """The file at a path as `compare` calls what was exported."""
    decoder = LiteRTDecoder(path)
    return lambda batch: decoder(batch["token_ids"][0])[np.newaxis]
