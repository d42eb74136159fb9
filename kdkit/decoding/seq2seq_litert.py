"""Encoder-decoders to LiteRT files: the source once, then token by token."""

import pathlib
from collections.abc import Iterable

import numpy as np

from kdkit.backends import tf
from kdkit.decoding.converting import converted
from kdkit.decoding.seq2seq_step import Seq2SeqStep
from kdkit.errors import UsageError
from kdkit.export import ExportReport
from kdkit.export import LiteRTSeq2Seq
from kdkit.export.litert_decoder import DECODE
from kdkit.export.litert_decoder import ENCODE
from kdkit.export.options import check_arguments
from kdkit.export.shared_table import share_table
from kdkit.export.untrained import warn_of_untrained_layers
from kdkit.export.verification import reference_outputs
from kdkit.export.writing import write_verified
from kdkit.policies import as_float32

GENERATED_PAIRS, GENERATED_LENGTH, SEED = 4, 16, 0
Pairs = Iterable[tuple[np.ndarray, np.ndarray]]


def seq2seq_to_litert(
    model,
    path: str | pathlib.Path,
    precision: str = "fp32",
    source_length: int = 128,
    sequence_length: int = 128,
    verification_pairs: Pairs | None = None,
    overwrite: bool = False,
) -> ExportReport:
    """Writes an encoder-decoder as one LiteRT file, checked against Keras.

    The signature `encode` takes the int32 inputs `token_ids` and
    `padding_mask`, of shape `(1, source_length)`, and returns for each block of
    the decoder `source_keys_0`, `source_values_0` and so on, of shape `(1,
    num_heads, source_length, head_dim)`. The signature `decode` takes these,
    the mask, and what `step` of a file of `kdkit.decoding.to_litert` takes, and
    returns the same. `kdkit.export.LiteRTSeq2Seq` runs such a file.

    Args:
        model: `kdkit.models.MassSeq2SeqLM`. A preprocessor is not exported.
        path: string or path. Ends in `.tflite`.
        precision: string. As in `kdkit.export.to_litert`. Defaults to
            `"fp32"`.
        source_length: int. Tokens of a source, with its padding. Defaults to
            `128`.
        sequence_length: int. Tokens of a target that there is room for.
            Defaults to `128`.
        verification_pairs: iterable of tuples of two int arrays of shape
            `(num_tokens,)`, source and target. Defaults to random tokens.
        overwrite: bool. Whether to replace a file. Defaults to `False`.

    Returns:
        An `ExportReport`; its examples are positions of targets.

    Warns:
        UserWarning: as `kdkit.export.to_litert`.

    Raises:
        UsageError: (a `ValueError`) if an argument is wrong, or the file
            exists. Nothing is written.
        RunError: (a `RuntimeError`) if logits are not finite or, in fp32,
            differ by more than 1e-4 from those of the Keras model, which reads
            the targets as a whole. No file is left.
    """
    path = pathlib.Path(path)
    check_arguments(path, precision, overwrite)
    # Its errors first: making a float32 model of another takes a while.
    Seq2SeqStep(model, source_length, sequence_length)
    step = Seq2SeqStep(as_float32(model), source_length, sequence_length)
    batches = [_batch(*pair) for pair in _pairs(verification_pairs, step)]
    warn_of_untrained_layers(model, batches[0])
    expected = reference_outputs(step.model, batches)

    def write(partial):
        partial.write_bytes(_convert(step, precision))
        if precision == "int8":
            share_table(partial)

    return write_verified(
        path,
        write,
        _whole_targets,
        step.model,
        batches,
        expected,
        precision,
        sequence_length,
        examples=sum(batch["decoder_token_ids"].shape[1] for batch in batches),
        vocabulary_size=model.output_shape[-1],
        reads_tokens=True,
        reads_sources=True,
    )


def _convert(step, precision):
    """The bytes of the file."""

    def specs(names, shape):
        return {
            name: tf.TensorSpec((1, *shape), "float32", name)
            for pair in names
            for name in pair
        }

    heads, _, width = step.cache_shape
    mask = tf.TensorSpec((1, step.source_length), "int32", "padding_mask")
    step_specs = {
        "token_ids": tf.TensorSpec((1,), "int32", "token_ids"),
        "position": tf.TensorSpec((), "int32", "position"),
        "padding_mask": mask,
        **specs(step.cache_names, step.cache_shape),
        **specs(step.source_names, (heads, step.source_length, width)),
    }
    encode_specs = {
        "token_ids": tf.TensorSpec(mask.shape, "int32", "token_ids"),
        "padding_mask": mask,
    }

    def run(inputs):
        inputs = dict(inputs)
        first = (
            inputs.pop(name) for name in ("token_ids", "position", mask.name)
        )
        return step.step(*first, inputs)

    def encode(inputs):
        return step.encode(inputs["token_ids"], inputs["padding_mask"])

    signatures = {
        DECODE: (run, step_specs),
        ENCODE: (encode, encode_specs),
    }
    return converted(step.model.backbone, signatures, precision)


def _pairs(given, step):
    """Sources and targets, checked."""
    if given is None:
        backbone = step.model.backbone
        rng = np.random.default_rng(SEED)
        longest = min(GENERATED_LENGTH, step.source_length)
        room = min(GENERATED_LENGTH, step.sequence_length)
        given = [
            (
                rng.integers(0, backbone.vocabulary_size, length),
                rng.integers(0, step.model.output_shape[-1], room),
            )
            for length in np.linspace(
                min(2, longest), longest, GENERATED_PAIRS
            ).astype(int)
        ]
    pairs = [
        tuple(np.asarray(side, "int32")[np.newaxis] for side in pair)
        for pair in given
    ]
    lengths = (step.source_length, step.sequence_length)
    wrong = [
        [side.shape[1:] for side in pair]
        for pair in pairs
        if any(
            side.ndim != 2 or not 1 <= side.shape[1] <= length
            for side, length in zip(pair, lengths, strict=True)
        )
    ]
    if not pairs or wrong:
        raise UsageError(
            "`verification_pairs` must be sources of 1 to "
            f"{step.source_length} tokens with targets of 1 to "
            f"{step.sequence_length}. Received: "
            f"{f'shapes {wrong}' if wrong else 'none'}."
        )
    return pairs


def _batch(source, target):
    """What the Keras model reads, of one pair."""
    return {
        "encoder_token_ids": source,
        "encoder_padding_mask": np.ones_like(source),
        "decoder_token_ids": target,
        "decoder_padding_mask": np.ones_like(target),
        "decoder_positions": np.arange(target.shape[1])[np.newaxis],
    }


def _whole_targets(path):
    """The file at a path as `compare` calls what was exported."""
    model = LiteRTSeq2Seq(path)
    return lambda batch: model(
        batch["encoder_token_ids"][0], batch["decoder_token_ids"][0]
    )[np.newaxis]
