"""Models that are ready for export: kind, inputs, lengths, verification data.

`exportable` reads a Keras model and returns an `Exportable`, which every
exporter writes and verifies in the same way.
"""

import dataclasses
import math
from collections.abc import Iterable

import keras
import keras_hub
import numpy as np

from kdkit import models, taps
from kdkit.backends import as_float32
from kdkit.errors import UsageError
from kdkit.export.inputs import (
    DECODER,
    ENCODER,
    ENCODER_DECODER,
    INPUT_NAMES,
    TENSOR,
    TENSORS,
    pad,
    random_batch,
    to_float32,
    to_int32,
)
from kdkit.export.metadata import OUTPUTS
from kdkit.generation.step import DecoderStep, Seq2SeqStep
from kdkit.late import tf
from kdkit.models.families import DECODERS, family_of
from kdkit.taps.names import SENTENCE_EMBEDDING

MAX_OPTIONS = 16  # of a multiple-choice question
BATCH_SIZE = 8  # of generated batches
LENGTHS = (32, 11)  # tokens in generated batches, if any length is accepted
NUM_TEXTS = 4  # generated for a decoder or an encoder-decoder
TEXT_LENGTH, PAIR_LENGTH = 32, 16  # maximum numbers of generated tokens
MAX_PAIR_LENGTH = 128  # default length of an encoder-decoder's file
SEED = 0
SHORTEST = 1e-6  # the length by which shorter vectors are divided


@dataclasses.dataclass(frozen=True)
class Exportable:
    """A model with everything that an exporter needs."""

    model: object
    kind: str
    batches: list
    sequence_length: int | None
    vocabulary_size: int | None
    input_names: tuple[str, ...] = ()
    sizes: tuple[int | None, ...] = ()
    is_recurrent: bool = False
    rows_per_output: int = 1
    step: object = None
    examples: int | None = None
    outputs: str = OUTPUTS[0]
    extras: object = None

    @property
    def is_embedder(self) -> bool:
        """Whether the model returns sentence embeddings."""
        return self.outputs == SENTENCE_EMBEDDING

    def signature(self, batch_size=None) -> list:
        """The specs of a file's inputs, as Keras' `export` takes them."""
        dtype = "float32" if self.kind == TENSORS else "int32"
        shape = (batch_size, *(self.sizes or [self.sequence_length]))
        return [
            {
                name: tf.TensorSpec(shape, dtype, name)
                for name in self.input_names
            }
        ]

    def with_outputs(self, outputs: str | None) -> "Exportable":
        """Returns the same with a function on the model's logits."""
        if outputs in (None, self.outputs):
            return self
        shape = self.model.output.shape if self.kind == ENCODER else ()
        if outputs not in OUTPUTS[1:3] or len(shape) != 2 or self.is_embedder:
            raise UsageError(
                f"outputs={outputs!r} for a model that returns {self.outputs} "
                f"of shape {tuple(shape)}. Expected None, or 'softmax' or "
                "'sigmoid' for a classifier of whole texts."
            )
        function = getattr(keras.ops, outputs)
        model = keras.Model(
            self.model.input, function(self.model.output), name=self.model.name
        )
        return dataclasses.replace(self, model=model, outputs=outputs)

    def with_dimensions(self, dimensions: int | None) -> "Exportable":
        """Returns the same embedder with shorter vectors."""
        if dimensions is None:
            return self
        vector = self.model.output
        width = vector.shape[-1]
        if not 1 <= dimensions <= width:
            raise UsageError(
                f"dimensions={dimensions} of an embedder with {width} "
                "dimensions."
            )
        pooling = models.pooling_of(self.model)
        if dimensions == width:
            return self
        vector = vector[:, :dimensions]
        if pooling.normalize:
            # LiteRT's own normalization makes NaN of the vector 0, which a
            # static embedder returns for a text without words.
            squares = keras.ops.square(vector)
            squares = keras.ops.sum(squares, axis=-1, keepdims=True)
            length = keras.ops.maximum(keras.ops.sqrt(squares), SHORTEST)
            vector = vector / length
        model = keras.Model(self.model.input, vector, name=self.model.name)
        return dataclasses.replace(self, model=model)

    def as_float32(self) -> "Exportable":
        """Returns the same with a float32 copy of the model, if necessary."""
        model = as_float32(self.model)
        step = self.step
        if step is not None:
            step = dataclasses.replace(step, model=model)
        return dataclasses.replace(self, model=model, step=step)


def default_tokenizer(source: Exportable, tokenizer):
    """Returns a tokenizer, by default that of the model's preprocessor."""
    if tokenizer is None:
        preprocessor = getattr(source.model, "preprocessor", None)
        tokenizer = getattr(preprocessor, "tokenizer", None)
    return tokenizer


def model_kind(model) -> str:
    """Returns the kind of a model, as in `Exportable`."""
    if isinstance(model, models.MassSeq2SeqLM):
        return ENCODER_DECODER
    if (
        isinstance(model, keras_hub.models.CausalLM)
        and family_of(model.backbone) in DECODERS.values()
    ):
        return DECODER
    tensor = _only_input(model)
    if tensor is not None and not _reads_tokens(model, tensor):
        return TENSORS
    return ENCODER


def _only_input(model):
    """Returns the symbolic input of a model with one, otherwise `None`."""
    tensors = keras.tree.flatten(taps.symbolic_inputs(model))
    return tensors[0] if len(tensors) == 1 else None


def _reads_tokens(model, tensor):
    """Whether a model's only input is token ids."""
    if len(tensor.shape) != 2:
        return False
    if "int" in tensor.dtype or _has_input(model, INPUT_NAMES[0]):
        return True
    first = model
    while isinstance(first, keras.Model):
        layers = [
            layer
            for layer in first.layers
            if not isinstance(layer, keras.layers.InputLayer)
        ]
        first = layers[0] if layers else None
    return isinstance(first, keras.layers.Embedding)


def _has_input(model, name):
    """Whether a model's inputs are a dict with this name."""
    inputs = taps.symbolic_inputs(model)
    return isinstance(inputs, dict) and name in inputs


def _with_named_input(model):
    """Returns a model whose inputs are a dict, around one with one tensor."""
    tensor = _only_input(model)
    is_named = taps.has_graph(model) and _has_input(model, INPUT_NAMES[0])
    if tensor is None or is_named:
        return model
    structure = taps.symbolic_inputs(model)
    is_tokens = _reads_tokens(model, tensor)
    name = INPUT_NAMES[0] if is_tokens else TENSOR
    if isinstance(structure, dict) and not is_tokens:
        (name,) = structure
    given = keras.Input(
        tensor.shape[1:], dtype="int32" if is_tokens else "float32", name=name
    )
    packed = keras.tree.pack_sequence_as(structure, [given])
    return keras.Model({name: given}, model(packed), name=model.name)


def exportable(
    model,
    in_steps: bool,
    sequence_length: int | None = None,
    source_length: int | None = None,
    verification_data: Iterable | None = None,
) -> Exportable:
    """Reads a model, and checks or generates its verification data."""
    kind = model_kind(model)
    if kind == ENCODER_DECODER:
        return _pairs(model, sequence_length, source_length, verification_data)
    if kind == DECODER and in_steps:
        return _texts(model, sequence_length, verification_data)
    if kind == TENSORS:
        return _tensors(model, verification_data)
    return _sequences(model, kind, sequence_length, verification_data)


def _sequences(model, kind, sequence_length, data):
    """A model whose file reads batches of whole sequences."""
    outputs = SENTENCE_EMBEDDING if models.is_embedder(model) else OUTPUTS[0]
    if kind == ENCODER:
        model = _with_named_input(model)
    layers = list(_nested_layers(model))
    tables = sorted(_table_sizes(layers))
    read = Exportable(
        model,
        kind,
        batches=[],
        sequence_length=_export_length(model, layers, sequence_length),
        vocabulary_size=tables[-1] if tables else None,
        input_names=tuple(name for name in INPUT_NAMES if name in model.input),
        is_recurrent=any(
            isinstance(layer, keras.layers.RNN) for layer in layers
        ),
        rows_per_output=_rows_per_output(model),
        outputs=outputs,
    )
    if data is None:
        longest = min(_position_counts(layers), default=max(LENGTHS))
        num_segments = tables[0] if len(tables) > 1 else 1
        batches = _generated_batches(read, longest, num_segments)
    else:
        batches = given_batches(data, read)
    return dataclasses.replace(read, batches=batches)


def _tensors(model, data):
    """Returns a model whose file reads images or other numbers."""
    model = _with_named_input(model)
    ((name, tensor),) = model.input.items()
    sizes = tuple(tensor.shape[1:])
    if data is None:
        rng = np.random.default_rng(SEED)
        data = [rng.random((BATCH_SIZE, *sizes), "float32") for _ in range(2)]
    read = Exportable(
        model,
        TENSORS,
        batches=[],
        sequence_length=None,
        vocabulary_size=None,
        input_names=(name,),
        sizes=sizes,
        is_recurrent=any(
            isinstance(layer, keras.layers.RNN)
            for layer in _nested_layers(model)
        ),
    )
    return dataclasses.replace(read, batches=given_batches(data, read))


def _export_length(model, layers, sequence_length):
    """Returns the length to export with, which the model must have."""
    own = model.input["token_ids"].shape[1]
    if sequence_length is None or sequence_length == own:
        return own
    longest = own or min(_position_counts(layers), default=sequence_length)
    if own or not 1 <= sequence_length <= longest:
        raise UsageError(
            f"sequence_length={sequence_length} for a model with {longest} "
            "positions."
        )
    return sequence_length


def _inputs_of(batch):
    return batch[0] if isinstance(batch, tuple) else batch


def given_batches(data, read: Exportable) -> list:
    """Returns a user's batches, checked and padded to the file's length."""
    if read.kind == TENSORS:
        (name,) = read.input_names
        return [
            to_float32(_inputs_of(batch), name, read.sizes) for batch in data
        ]
    batches = []
    for batch in data:
        batch = _inputs_of(batch)
        if read.kind == DECODER and isinstance(batch, np.ndarray):  # one text
            ids = np.atleast_2d(batch)
            batch = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
        batches.append(
            pad(to_int32(batch, read.input_names), read.sequence_length)
        )
    return batches


def _generated_batches(read, longest, num_segments):
    """Returns random batches, which are always the same."""
    if read.vocabulary_size is None:
        raise UsageError(
            "The vocabulary of a model without an embedding layer is unknown. "
            "Pass verification_data."
        )
    lengths = [min(length, longest) for length in LENGTHS]
    if read.sequence_length:
        lengths = [read.sequence_length] * len(LENGTHS)
    rng = np.random.default_rng(SEED)
    return [
        random_batch(
            BATCH_SIZE * read.rows_per_output,
            length,
            read.input_names,
            read.vocabulary_size,
            num_segments,
            rng,
        )
        for length in lengths
    ]


def _texts(model, sequence_length, data):
    """Returns a decoder whose file reads one token at a time."""
    if sequence_length is None:
        sequence_length = models.num_positions(model)
    step = DecoderStep(model, sequence_length)
    vocabulary_size = model.backbone.vocabulary_size
    if data is None:
        length = min(TEXT_LENGTH, sequence_length)
        data = np.random.default_rng(SEED).integers(
            0, vocabulary_size, (NUM_TEXTS, length)
        )
    texts = [np.asarray(text, "int32")[np.newaxis] for text in data]
    return Exportable(
        model,
        DECODER,
        # One text per batch, because texts may have different lengths.
        [
            {"token_ids": text, "padding_mask": np.ones_like(text)}
            for text in texts
        ],
        sequence_length,
        vocabulary_size,
        step=step,
        examples=sum(text.shape[1] for text in texts),
    )


def _pairs(model, sequence_length, source_length, data):
    """Returns an encoder-decoder; its file reads a source, writes tokens."""
    longest = min(MAX_PAIR_LENGTH, model.backbone.max_sequence_length)
    if sequence_length is None:
        sequence_length = longest
    if source_length is None:
        source_length = sequence_length
    step = Seq2SeqStep(model, source_length, sequence_length)
    if data is None:
        data = _random_pairs(step)
    pairs = [
        tuple(np.asarray(side, "int32")[np.newaxis] for side in pair)
        for pair in data
    ]
    return Exportable(
        model,
        ENCODER_DECODER,
        [
            {
                "encoder_token_ids": source,
                "encoder_padding_mask": np.ones_like(source),
                "decoder_token_ids": target,
                "decoder_padding_mask": np.ones_like(target),
                "decoder_positions": np.arange(target.shape[1])[np.newaxis],
            }
            for source, target in pairs
        ],
        sequence_length,
        model.output_shape[-1],
        step=step,
        examples=sum(target.shape[1] for _, target in pairs),
    )


def _random_pairs(step):
    """Returns sources with different lengths, each with a target."""
    rng = np.random.default_rng(SEED)
    sizes = step.model.backbone.vocabulary_size, step.model.output_shape[-1]
    longest = min(PAIR_LENGTH, step.source_length)
    target = min(PAIR_LENGTH, step.sequence_length)
    lengths = np.linspace(min(2, longest), longest, NUM_TEXTS).astype(int)
    return [
        (rng.integers(0, sizes[0], length), rng.integers(0, sizes[1], target))
        for length in lengths
    ]


def _rows_per_output(model):
    """Returns the rows per output, from a batch size that fits any number."""
    num_rows = math.lcm(*range(1, MAX_OPTIONS + 1))
    shapes = {
        name: (num_rows, tensor.shape[1] or 1)
        for name, tensor in model.input.items()
    }
    return num_rows // model.compute_output_shape(shapes)[0]


def _nested_layers(layer):
    """Yields a layer and the layers that it contains publicly."""
    yield layer
    children = ()
    if isinstance(layer, keras.Model):
        children = layer.layers
    elif isinstance(layer, keras.layers.Bidirectional):
        children = (layer.forward_layer, layer.backward_layer)
    elif isinstance(layer, keras.layers.Wrapper):
        children = (layer.layer,)
    for child in children:
        yield from _nested_layers(child)


def _table_sizes(layers):
    """Yields the number of rows of each embedding table."""
    for layer in layers:
        if isinstance(layer, keras.layers.Embedding):
            yield layer.input_dim
        elif isinstance(layer, keras_hub.layers.TokenAndPositionEmbedding):
            yield layer.vocabulary_size


def _position_counts(layers):
    """Yields the number of positions of layers that limit it."""
    for layer in layers:
        if isinstance(
            layer,
            (
                keras_hub.layers.PositionEmbedding,
                keras_hub.layers.TokenAndPositionEmbedding,
            ),
        ):
            yield layer.sequence_length
        elif getattr(layer, "max_sequence_length", None) is not None:
            yield layer.max_sequence_length  # a backbone's
