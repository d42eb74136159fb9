"""Exports Keras models to LiteRT (`.tflite`) files."""

import dataclasses
import pathlib
import tempfile

import keras
import numpy as np

from kdkit.export import metadata, quantization
from kdkit.export.exporters import Exporter, get_exporter, register_exporter
from kdkit.export.inference import fast_layers
from kdkit.export.inputs import DECODER, ENCODER, ENCODER_DECODER, TENSORS
from kdkit.export.litert_decoder import (
    LiteRTDecoder,
    LiteRTSeq2Seq,
    decoder_signatures,
    encoder_decoder_signatures,
)
from kdkit.export.litert_files import SUFFIX, LiteRTModel
from kdkit.export.litert_graphs import share_table
from kdkit.export.mediapipe import TextTask, with_text_task
from kdkit.exported import ExportReport
from kdkit.late import tf

# Written by default: they need no extra and no calibration data.
PRECISIONS = ("fp32", "fp16", "int8")


@dataclasses.dataclass(frozen=True)
class _Extras:
    """What a LiteRT file contains next to the model, and its quantisation."""

    task: TextTask | None
    calibration: list | None
    activation_ranges: dict | None


@register_exporter("litert")
class LiteRT(Exporter):
    """The LiteRT format: classifiers, and cached steps of decoders."""

    title = "LiteRT"
    suffix = SUFFIX
    precisions = (*PRECISIONS, *quantization.PRECISIONS)
    default_precisions = PRECISIONS
    kinds = (ENCODER, DECODER, ENCODER_DECODER, TENSORS)
    in_steps = True
    prefers_fixed_length = True
    options = (
        "mediapipe",
        "tokenizer",
        "labels",
        "texts",
        "calibration_data",
        "activation_ranges",
    )

    def prepare(
        self,
        source,
        precision,
        outputs,
        mediapipe=False,
        tokenizer=None,
        labels=None,
        texts=(),
        calibration_data=None,
        activation_ranges=None,
    ):
        calibration = quantization.calibration_batches(
            source, precision, calibration_data
        )
        source, task = with_text_task(
            source, mediapipe, tokenizer, labels, texts
        )
        extras = _Extras(task, calibration, activation_ranges)
        source = dataclasses.replace(source, extras=extras)
        if outputs is None and mediapipe and not source.is_embedder:
            outputs = "softmax"
        return source.with_outputs(outputs)

    def write(self, source, path, precision):
        self._write_model(source, path, precision)
        if source.step is not None and precision.startswith("int"):
            share_table(path)
        if source.extras.task is not None:
            source.extras.task.add_to(path)

    def _write_model(self, source, path, precision):
        if precision in quantization.PRECISIONS:
            self._write_model(source, path, "fp32")
            content = quantization.quantized(
                path,
                precision,
                source.extras.calibration,
                source.extras.activation_ranges,
                quantization.kernels(source.model),
            )
            path.write_bytes(content)
            return
        if source.step is not None:
            path.write_bytes(_converted_step(source, precision))
            return
        # LiteRT's own operations have no loop over a batch of unknown size.
        batch_size = 1 if source.is_recurrent else None
        with fast_layers(source.model):
            source.model.export(
                path,
                format="litert",
                verbose=False,
                input_signature=source.signature(batch_size),
                **_converter_options(precision),
            )

    def annotate(self, path, entry):
        metadata.attach(path, entry)

    def verify(self, source, partial, path):
        """Compares the ids that MediaPipe's vocabulary leads to."""
        if source.extras.task is not None:
            source.extras.task.verify(self.open(partial), path)

    def open(self, path, threads=1, delegate=None):
        known = metadata.read(path) if path.is_file() else None
        if known is None or not known.reads_tokens:
            return LiteRTModel(path, threads, delegate)
        kind = LiteRTSeq2Seq if known.reads_sources else LiteRTDecoder
        return kind(path, threads, delegate)

    def run(self, file, batch):
        if file.kind == DECODER:
            return file(batch["token_ids"][0])[np.newaxis]
        if file.kind == ENCODER_DECODER:
            sides = batch["encoder_token_ids"], batch["decoder_token_ids"]
            return file(*(ids[0] for ids in sides))[np.newaxis]
        return file(batch)


def to_litert(
    model,
    path: str | pathlib.Path,
    precision: str = "fp32",
    sequence_length: int | None = None,
    verification_data=None,
    overwrite: bool = False,
    source_length: int | None = None,
    outputs: str | None = None,
    mediapipe: bool = False,
    tokenizer=None,
    labels=None,
    texts=(),
    calibration_data=None,
    activation_ranges: dict | None = None,
    dimensions: int | None = None,
) -> ExportReport:
    """Writes a model as a LiteRT file, checked against the Keras model.

    The file of an embedder contains the pooling and the normalization, and
    returns one vector for each text. Its vectors are compared with the Keras
    model's by their cosines (`smallest_cosine`).

    An encoder's file takes the int32 inputs `token_ids`, `segment_ids` and
    `padding_mask` (those that the model has) of shape `(batch_size,
    sequence_length)` and returns the logits. It accepts any batch size, but
    only 1 if the model has recurrent layers: LiteRT's own operations have no
    loop over a batch of unknown size. Without a resize the batch size is 1. A
    fixed sequence length is a little faster (about a tenth for a TinyBERT of
    four layers) than a dynamic one; DeBERTa-v3 needs one.
    `kdkit.export.LiteRTModel` runs such a file.

    A model with one input, also a sequential or subclassed one, has a file with
    one input: int32 `token_ids`, if the input is integers of shape
    `(batch_size, sequence_length)` or goes into an `Embedding`; otherwise
    float32 `inputs` of the model's shape, such as images.

    A decoder's file reads one token at a time. Its signature `step` takes
    the int32 inputs `token_ids`, of shape `(1,)`, and `position`, of shape
    `()`, and for each layer the cached float32 inputs `keys_0`, `values_0` and
    so on, of shape `(1, num_key_value_heads, sequence_length, head_dim)`. It
    returns `logits`, of shape `(1, vocabulary_size)`, and `new_keys` and
    `new_values`, of shape `(num_layers, 1, num_key_value_heads, head_dim)`,
    to be stored at `position`. No step copies the cache.
    `kdkit.export.LiteRTDecoder` runs such a file.

    An encoder-decoder's file has two signatures. `encode` takes the int32
    inputs `token_ids` and `padding_mask`, of shape `(1, source_length)`, and
    returns for each decoder layer `source_keys_0`, `source_values_0` and so
    on, of shape `(1, num_heads, source_length, head_dim)`. `decode` takes these
    outputs, the mask, and the inputs of `step`, and returns the outputs of
    `step`. `kdkit.export.LiteRTSeq2Seq` runs such a file.

    Models in mixed or half precision are exported and compared as float32
    models with the same weights.

    Args:
        model: a functional Keras model with a dict of inputs and one output,
            such as `keras_hub.models.BertTextClassifier`; any built Keras model
            with one input and one output; a decoder,
            `keras_hub.models.GPT2CausalLM`; or an encoder-decoder,
            `kdkit.models.MassSeq2SeqLM`. A preprocessor is not exported.
        path: string or path. Ends in `.tflite`.
        precision: string. `"fp32"`; `"fp16"`, weights stored in 16 bits;
            `"int8"`, dynamic range quantization: weights stored in 8 bits,
            activations quantized at run time; `"static_int8"`, weights and
            activations in 8 bits, for accelerators; `"int16x8"`, the same with
            activations in 16 bits; or `"int4"`, weights in 4 bits and
            embeddings in 8. The last three need
            `pip install '.[quantization]'` in a clone of kdkit. Defaults to
            `"fp32"`.
        sequence_length: int or `None`. The only length that the file accepts,
            in tokens; for a decoder or an encoder-decoder the capacity of the
            cache in tokens. Defaults to `None`: any length for an encoder, the
            model's positions for a decoder, and at most 128 of them for an
            encoder-decoder.
        verification_data: iterable. For an encoder batches, dicts of integer
            arrays or tuples that start with one; for a decoder int arrays of
            shape `(num_tokens,)`; for an encoder-decoder tuples of two such
            arrays, source and target; for images batches, arrays or tuples that
            start with one. Defaults to generated data.
        overwrite: bool. Whether to replace a file. Defaults to `False`.
        source_length: int or `None`. For an encoder-decoder, the length of a
            source in tokens, including padding. Defaults to
            `sequence_length`.
        outputs: string or `None`. `"logits"`; or for a classifier of whole
            texts `"softmax"`, or `"sigmoid"` for one with several labels, to
            return probabilities. The file's metadata contains the value.
            Defaults to `None`: `"softmax"` with `mediapipe`, otherwise
            `"logits"`.
        mediapipe: bool. Whether to add the metadata, vocabulary and labels
            that MediaPipe's `TextClassifier` needs, or for an embedder its
            `TextEmbedder`. For a model of single texts on uncased BERT word
            pieces with a fixed length. Tensors and signature do not change.
            Defaults to `False`.
        tokenizer: a tokenizer, for `mediapipe`. Defaults to the
            tokenizer of the model's preprocessor.
        labels: sequence of strings, for `mediapipe`: the names of the classes
            in the order of the model's outputs.
        texts: iterable of strings, for `mediapipe`, such as training texts.
            MediaPipe strips no accents; words with accents in these texts are
            added to `vocab.txt`. Defaults to `()`.
        calibration_data: iterable of batches, as `verification_data`, with at
            least 16 rows: training examples, whose activations give the ranges
            of `"static_int8"` and `"int16x8"`. Required for these two, ignored
            for others. Defaults to `None`.
        activation_ranges: dict or `None`. For these two precisions, ranges
            that replace calibrated ones: from a dense layer's `path` to a tuple
            of its inputs' and its outputs' `(low, high)`, or `None` for either.
            Defaults to `None`.
        dimensions: int or `None`. For an embedder, the width of the vectors in
            the file: the first numbers of the model's vectors, as a Matryoshka
            embedder is used. Vectors of length 1 get length 1 again. Defaults
            to `None`, the model's width.

    Returns:
        An `ExportReport` with the differences from the Keras model.

    Warns:
        UserWarning: if a `kdkit.Distiller` trained the model but never trained
            layers that the output needs, such as a head with random weights.

    Raises:
        UsageError: (a `ValueError`) if the file exists, or cannot have the
            precision, length, outputs or dimensions. Nothing is written.
        RunError: (a `RuntimeError`) if the outputs of the model or the file
            are not finite, or if the file's outputs have another shape or, in
            fp32, differ by more than 1e-4 (probabilities: 5e-5; an embedder's
            vectors with numbers above 1: relative to the largest). For an
            embedder also if a vector's cosine to the Keras model's is below
            0.99999, in fp16 0.999, in other precisions 0.8. No file remains.

    Example:

    ```python
    report = kdkit.export.to_litert(
        student, "student-int8.tflite", precision="int8", sequence_length=128
    )
    report.same_top_class
    ```
    """
    return get_exporter("litert").export(
        model,
        path,
        precision,
        sequence_length,
        source_length,
        verification_data,
        overwrite,
        outputs,
        dimensions,
        mediapipe=mediapipe,
        tokenizer=tokenizer,
        labels=labels,
        texts=texts,
        calibration_data=calibration_data,
        activation_ranges=activation_ranges,
    )


def reads_sources(path: str | pathlib.Path) -> bool:
    """Whether a `.tflite` file from kdkit contains an encoder-decoder.

    Args:
        path: string or path. A file that need not exist.
    """
    path = pathlib.Path(path)
    known = metadata.read(path) if path.is_file() else None
    return known is not None and known.reads_sources


def _converted_step(source, precision):
    """Returns the bytes of a file that reads one token at a time."""
    make = (
        encoder_decoder_signatures
        if source.kind == ENCODER_DECODER
        else decoder_signatures
    )
    signatures = make(source.step)
    archive = keras.export.ExportArchive()
    archive.track(source.model.backbone)  # without a tokenizer
    for name, (run, specs) in signatures.items():
        archive.add_endpoint(name, run, input_signature=[specs])
    with tempfile.TemporaryDirectory() as folder:
        archive.write_out(folder, verbose=False)
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=[*signatures]
        )
        options = _converter_options(precision)
        for name, value in options.pop("target_spec").items():
            setattr(converter.target_spec, name, value)
        for name, value in options.items():
            setattr(converter, name, value)
        return converter.convert()


def _converter_options(precision):
    """Returns the converter's settings as arguments of Keras' `export`."""
    # Without them, Keras would use TensorFlow's operations, which are not in
    # the interpreter of the ai-edge-litert package.
    target_spec = {"supported_ops": [tf.lite.OpsSet.TFLITE_BUILTINS]}
    if precision == "fp16":
        target_spec["supported_types"] = [tf.float16]
    options = {"target_spec": target_spec}
    if precision != "fp32":
        options["optimizations"] = [tf.lite.Optimize.DEFAULT]
    return options
