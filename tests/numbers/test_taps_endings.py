"""Whether a model's graph shows logits or probabilities as its output."""

import keras
import pytest
from keras import layers, ops
from kit.backend import BACKEND, native
from kit.helpers import bert

from kdkit import taps


class Softmax(layers.Layer):
    """A layer of others, which the graph does not show."""

    def call(self, inputs):
        return ops.softmax(inputs)


def joined(join, *activations):
    """A model whose output is one unit for each activation."""
    inputs = keras.Input((4,))
    units = [layers.Dense(1, activation)(inputs) for activation in activations]
    return keras.Model(inputs, join(units))


class Classifier(keras.Model):
    """A subclassed model with a softmax."""

    def __init__(self):
        super().__init__()
        self.scores = layers.Dense(3, activation="softmax")

    def call(self, inputs):
        return self.scores(inputs)


def model(*tail, shape=(4,)):
    """A dense layer with other functions behind it."""
    inputs = keras.Input(shape)
    outputs = layers.Dense(3)(inputs)
    for function in tail:
        outputs = function(outputs)
    return keras.Model(inputs, outputs)


def native_softmax(inputs):
    if BACKEND == "torch":
        return native.softmax(inputs, dim=-1)
    return native.nn.softmax(inputs)


def nested(depth):
    """A softmax so many models deep."""
    inner = model(ops.softmax)
    for _ in range(depth):
        inputs = keras.Input((4,))
        inner = keras.Model(inputs, inner(layers.Dense(4)(inputs)))
    return inner


ENDS = {
    "softmax": {
        "operation": lambda: model(ops.softmax),
        "activation function": lambda: model(keras.activations.softmax),
        "layer": lambda: model(layers.Softmax()),
        "axis by its number": lambda: model(layers.Softmax(axis=1)),
        "activation layer": lambda: model(layers.Activation("softmax")),
        "activation of a layer": lambda: model(layers.Dense(2, "softmax")),
        "activation of a backend": lambda: model(
            layers.Dense(2, native_softmax)
        ),
        "lambda": lambda: model(
            layers.Lambda(lambda logits: ops.softmax(logits))
        ),
        "lambda of a backend": lambda: model(layers.Lambda(native_softmax)),
        "nested": lambda: nested(1),
        "nested twice": lambda: nested(2),
        "sequential": lambda: keras.Sequential(
            [keras.Input((4,)), layers.Dense(2), layers.Softmax()]
        ),
        "before dropout, identity, reshape and cast": lambda: model(
            ops.softmax,
            layers.Dropout(0.1),
            layers.Identity(),
            layers.Activation("linear"),
            layers.Reshape((1, 3)),
            lambda probs: ops.cast(ops.squeeze(probs, 1), "float32"),
        ),
        "of each position": lambda: model(
            layers.TimeDistributed(layers.Dense(2, "softmax")), shape=(5, 4)
        ),
        "of one position": lambda: model(
            layers.Softmax(), lambda probs: probs[:, 0], shape=(5, 4)
        ),
        "keras.applications": lambda: keras.applications.MobileNetV2(
            (32, 32, 3), alpha=0.35, weights=None, classes=3
        ),
    },
    "sigmoid": {
        "operation": lambda: model(ops.sigmoid),
        "activation of a layer": lambda: model(layers.Dense(1, "sigmoid")),
        "lambda": lambda: model(
            layers.Lambda(lambda logits: ops.sigmoid(logits))
        ),
        "joined units": lambda: joined(layers.Concatenate(), *["sigmoid"] * 3),
        "joined by an operation": lambda: joined(
            ops.concatenate, None, "relu", "sigmoid"
        ),
    },
    "linear": {
        "dense": lambda: model(),
        "dropout": lambda: model(layers.Dropout(0.1)),
        "log_softmax": lambda: model(layers.Dense(2, activation="log_softmax")),
        "log_softmax layer": lambda: model(layers.Activation("log_softmax")),
        "joined units": lambda: joined(layers.Concatenate(), None, "linear"),
        "before other layers": lambda: model(ops.softmax, layers.Dense(2)),
        "keras-hub": lambda: bert(1, 8),
    },
    None: {
        "layer of others": lambda: model(Softmax()),
        "joined with a relu": lambda: joined(
            layers.Concatenate(), None, "relu"
        ),
        "subclassed model": lambda: model(Classifier()),
        "another lambda": lambda: model(
            layers.Lambda(lambda logits: logits * 2)
        ),
        "over other axes": lambda: model(layers.Softmax(axis=1), shape=(5, 4)),
        "log of a softmax": lambda: model(ops.softmax, ops.log),
        "of a relu": lambda: model(layers.Dense(3, "relu"), lambda x: x * -1.0),
    },
}


@pytest.mark.parametrize(
    ("function", "kind"),
    [(function, kind) for function, ends in ENDS.items() for kind in ends],
)
def test_the_end_of_a_graph_is_found_and_probabilities_are_refused(
    function, kind
):
    built = ENDS[function][kind]()
    found = taps.ending(built)
    assert found.function == function
    if function in ("softmax", "sigmoid"):
        with pytest.raises(ValueError, match=f"{found.layer!r}.*{function}"):
            taps.describe(built)
    else:
        assert taps.describe(built).num_classes == built.output_shape[-1]


def test_another_activation_at_the_end_is_refused():
    with pytest.raises(ValueError, match="tanh"):
        taps.describe(model(layers.Dense(2, "tanh")))


def test_a_layer_that_is_called_twice_is_followed_from_its_last_call():
    inputs = keras.Input((3,))
    shared = layers.Softmax()
    scores = layers.Dense(3)(shared(inputs))
    assert taps.ending(keras.Model(inputs, scores)).function == "linear"
    again = keras.Model(inputs, shared(scores))
    assert taps.ending(again).function == "softmax"
