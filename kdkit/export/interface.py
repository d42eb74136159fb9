"""What a Keras model takes, read from its layers."""

import dataclasses
import math

import keras
import keras_hub

from kdkit.errors import UsageError
from kdkit.export.inputs import INPUT_NAMES
from kdkit.models.families import Family
from kdkit.models.families import family_of

MOST_OPTIONS = 16  # of a multiple choice


@dataclasses.dataclass(frozen=True)
class Interface:
    """What must be known of a model before it can be exported.

    Args:
        input_names: tuple of strings, in the order of `INPUT_NAMES`.
        sequence_length: int or `None`. The only length that the model takes,
            `None` where it takes any.
        max_sequence_length: int or `None`. The number of its position
            embeddings, or what its backbone says where positions are
            relative; `None` where there is neither.
        vocabulary_size: int or `None`. The size of its largest embedding
            table, `None` where it has none.
        num_segments: int. The size of its smallest embedding table; 1 where
            there is no second table.
        recurrent: bool. Whether it has recurrent layers.
        family: `kdkit.models.Family` of its encoder, or `None`.
        rows_per_output: int. How many rows of the inputs make a row of the
            logits: 1, or the options of a question.
    """

    input_names: tuple[str, ...]
    sequence_length: int | None
    max_sequence_length: int | None
    vocabulary_size: int | None
    num_segments: int
    recurrent: bool
    rows_per_output: int
    family: Family | None = None

    def export_length(self, sequence_length: int | None) -> int | None:
        """Returns the length to export with, given the wanted one.

        Raises:
            UsageError: (a `ValueError`) if the model cannot take it.
        """
        if sequence_length is None:
            return self.sequence_length
        largest = self.sequence_length or self.max_sequence_length
        if (
            sequence_length < 1
            or (largest and sequence_length > largest)
            or (self.sequence_length and sequence_length < largest)
        ):
            raise UsageError(
                "Invalid value for argument `sequence_length`. Expected "
                f"{self._lengths()} or None. "
                f"Received: sequence_length={sequence_length}."
            )
        return sequence_length

    def _lengths(self):
        if self.sequence_length:
            return f"{self.sequence_length}, the length of the model's inputs,"
        if self.max_sequence_length:
            return f"1 to {self.max_sequence_length}, the model's positions,"
        return "a length of at least 1"


def interface(model) -> Interface:
    """Reads what a model takes.

    Args:
        model: a functional Keras model, such as
            `keras_hub.models.BertTextClassifier`, with a dict of the inputs
            `token_ids`, `segment_ids` and `padding_mask`, or some of them,
            and one output.

    Raises:
        UsageError: (a `ValueError`) if the model is something else.
    """
    if isinstance(getattr(model, "student", None), keras.Model):
        raise UsageError(
            f"A {type(model).__name__} cannot be exported. Expected the model "
            "that it trained. Pass distiller.student."
        )
    inputs = getattr(model, "input", None)
    if not isinstance(model, keras.Model) or not isinstance(inputs, dict):
        raise UsageError(
            "Only functional Keras models with a dict of inputs can be "
            f"exported. Expected the inputs {list(INPUT_NAMES)} or some of "
            f"them. Received: {type(model).__name__} with inputs {inputs!r}."
        )
    unknown = sorted(set(inputs) - set(INPUT_NAMES))
    if unknown or "token_ids" not in inputs:
        raise UsageError(
            f"The model's inputs cannot be exported. Expected 'token_ids' and "
            f"any of {list(INPUT_NAMES[1:])}. Received: {sorted(inputs)}."
        )
    if not isinstance(model.output, keras.KerasTensor):
        raise UsageError(
            "Only models with one output, the logits, can be exported. "
            f"Received: outputs {model.output!r}. Put a head on an encoder, "
            "for example keras_hub.models.BertTextClassifier."
        )
    layers = list(_nested_layers(model))
    tables = sorted(_table_sizes(layers))
    return Interface(
        input_names=tuple(name for name in INPUT_NAMES if name in inputs),
        sequence_length=inputs["token_ids"].shape[1],
        max_sequence_length=min(_position_counts(layers), default=None),
        vocabulary_size=tables[-1] if tables else None,
        num_segments=tables[0] if len(tables) > 1 else 1,
        recurrent=any(isinstance(layer, keras.layers.RNN) for layer in layers),
        family=next(filter(None, map(family_of, layers)), None),
        rows_per_output=_rows_per_output(model),
    )


def _rows_per_output(model):
    """How many rows make one, counted on a batch that any number divides."""
    num_rows = math.lcm(*range(1, MOST_OPTIONS + 1))
    shapes = {
        name: (num_rows, tensor.shape[1] or 1)
        for name, tensor in model.input.items()
    }
    return num_rows // model.compute_output_shape(shapes)[0]


def _nested_layers(layer):
    """Yields a layer and the layers that it publicly holds."""
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
    for layer in layers:
        if isinstance(layer, keras.layers.Embedding):
            yield layer.input_dim
        elif isinstance(layer, keras_hub.layers.TokenAndPositionEmbedding):
            yield layer.vocabulary_size


POSITION_LAYERS = (
    keras_hub.layers.PositionEmbedding,
    keras_hub.layers.TokenAndPositionEmbedding,
)


def _position_counts(layers):
    for layer in layers:
        if isinstance(layer, POSITION_LAYERS):
            yield layer.sequence_length
        elif getattr(layer, "max_sequence_length", None) is not None:
            yield layer.max_sequence_length  # of a backbone
