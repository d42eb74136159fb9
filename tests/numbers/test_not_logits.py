"""Outputs that are not logits are refused: by the graph, or the first batch."""

import keras
import numpy as np
import pytest
from keras import layers, ops
from kit.backend import native, tensorflow_only
from kit.helpers import Hidden, assert_same_weights, bert

import kdkit
from kdkit import taps

pytestmark = pytest.mark.usefixtures("eager")

ROWS, SIZE = 12, 4
X = np.random.default_rng(0).normal(size=(ROWS, 4)).astype("float32")


def model(*tail, shape=(4,)):
    """A dense layer with other functions behind it."""
    inputs = keras.Input(shape)
    outputs = layers.Dense(3)(inputs)
    for function in tail:
        outputs = function(outputs)
    return keras.Model(inputs, outputs)


def joined(join, *activations):
    """A model whose output is one unit for each activation."""
    inputs = keras.Input((4,))
    units = [layers.Dense(1, activation)(inputs) for activation in activations]
    return keras.Model(inputs, join(units))


def nested():
    """A softmax two models deep."""
    inner = model(layers.Dense(3, "softmax"))
    for _ in range(2):
        inputs = keras.Input((4,))
        inner = keras.Model(inputs, inner(layers.Dense(4)(inputs)))
    return inner


class Classifier(keras.Model):
    """A subclassed model with a softmax."""

    def __init__(self):
        super().__init__()
        self.scores = layers.Dense(3, activation="softmax")

    def call(self, inputs):
        return self.scores(inputs)


REFUSED = {
    "operation": lambda: model(ops.softmax),
    "layer": lambda: model(layers.Softmax()),
    "activation": lambda: model(layers.Dense(2, "softmax")),
    "sigmoid": lambda: model(layers.Dense(1, "sigmoid")),
    "sigmoid operation": lambda: model(ops.sigmoid),
    "tanh": lambda: model(layers.Dense(2, "tanh")),
    "nested twice": nested,
    "sequential": lambda: keras.Sequential(
        [keras.Input((4,)), layers.Dense(2), layers.Softmax()]
    ),
    "joined": lambda: joined(layers.Concatenate(), *["sigmoid"] * 3),
    "one of those joined": lambda: joined(ops.concatenate, None, "sigmoid"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_last_layer_that_returns_no_logits_is_refused(kind):
    built = REFUSED[kind]()
    with pytest.raises(ValueError, match="is not logits: layer"):
        taps.describe(built)
    assert taps.describe(built, taps=()).num_classes is None


LOGITS = {
    "dense": lambda: model(),
    "log_softmax": lambda: model(layers.Dense(2, activation="log_softmax")),
    "joined": lambda: joined(layers.Concatenate(), None, "linear"),
    "before other layers": lambda: model(ops.softmax, layers.Dense(2)),
    "keras-hub": lambda: bert(1, 8),
}


@pytest.mark.parametrize("kind", LOGITS)
def test_logits_are_taken(kind):
    built = LOGITS[kind]()
    assert taps.describe(built).num_classes == built.output_shape[-1]


def subclassed():
    built = Classifier()
    built(X)
    return built


HIDDEN = {
    "layer of others": lambda: model(Hidden(ops.softmax)),
    "lambda": lambda: model(layers.Lambda(lambda one: ops.softmax(one))),
    "subclassed model": subclassed,
    "before other layers": lambda: model(
        ops.softmax,
        layers.Dropout(0.1),
        layers.Reshape((1, 3)),
        lambda probs: ops.cast(ops.squeeze(probs, 1), "float32"),
    ),
    "nested": lambda: model(
        keras.Sequential([keras.Input((3,)), Hidden(ops.softmax)])
    ),
}


def distiller(teacher=None, student=None, cls=kdkit.Distiller):
    loss = kdkit.losses.SoftCrossEntropy()
    made = cls(teacher or model(), student or model(), kdkit.Objective(loss))
    made.compile("sgd")
    return made


@pytest.mark.parametrize("role", ["teacher", "student"])
@pytest.mark.parametrize("kind", HIDDEN)
def test_probabilities_of_any_model_are_found_before_an_update(kind, role):
    made = distiller(**{role: HIDDEN[kind]()})
    before = made.student.get_weights()
    for _ in range(2):  # also when it is tried again
        with pytest.raises(ValueError, match=f"outputs of the {role}"):
            made.fit(X, verbose=0)
    assert_same_weights(made.student.get_weights(), before)


# Whatever the data are, the batches are those that Keras would train on.


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return ROWS // SIZE

    def __getitem__(self, index):
        return (X[index * SIZE :][:SIZE],)


def dataset():
    rows = native.data.Dataset.from_tensor_slices(X)
    return rows.shuffle(ROWS, seed=3).batch(SIZE)


def filtered():
    """A dataset of unknown length, with weights but no labels."""
    data = dataset().map(lambda rows: (rows, None, rows[:, 0]))
    return data.filter(lambda *_: True)


def generator():
    rows = np.random.default_rng(2)
    while True:
        yield (X[rows.permutation(ROWS)[:SIZE]],)


DATA = {
    "arrays": lambda: X,
    "PyDataset": Batches,
    "generator": generator,
    "tf.data": pytest.param(dataset, marks=tensorflow_only),
    "unknown length": pytest.param(filtered, marks=tensorflow_only),
}
kinds = pytest.mark.parametrize("make", DATA.values(), ids=DATA)


class Noting(kdkit.Distiller):
    """Notes the rows of each step."""

    def run_student(self, x, *arguments, **training):
        self.seen.append(ops.convert_to_numpy(x))
        return super().run_student(x, *arguments, **training)


class Plain(keras.Model):
    """Notes the same, without kdkit."""

    def train_step(self, data):
        self.seen.append(keras.utils.unpack_x_y_sample_weight(data)[0])
        return {"loss": ops.zeros(())}


def seen_rows(trainer, data):
    trainer.seen = []
    keras.utils.set_random_seed(0)
    trainer.fit(
        data,
        batch_size=SIZE if data is X else None,
        epochs=3,
        steps_per_epoch=None if hasattr(data, "map") else ROWS // SIZE,
        shuffle=data is X,
        verbose=0,
    )
    return np.stack(trainer.seen)


@kinds
def test_probabilities_are_found_in_data_of_any_kind(make):
    made = distiller(HIDDEN["lambda"]())
    with pytest.raises(ValueError, match="outputs of the teacher"):
        made.fit(make(), steps_per_epoch=1, shuffle=False, verbose=0)


@tensorflow_only
@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@kinds
def test_the_first_batch_is_trained_on_in_the_order_of_the_data(make):
    plain = Plain()
    plain.compile()
    expected = seen_rows(plain, make())
    made = distiller(model(), model(), Noting)
    np.testing.assert_array_equal(seen_rows(made, make()), expected)
    assert int(made.optimizer.iterations.value) == len(expected)


@tensorflow_only
def test_probabilities_are_found_before_replicas_share_the_batch():
    strategy = native.distribute.MirroredStrategy(
        ["CPU:0", "CPU:1"], native.distribute.ReductionToOneDevice()
    )
    with strategy.scope():
        made = distiller(HIDDEN["lambda"]())
        fine = distiller()
    before = made.student.get_weights()
    for data in (X, dataset()):
        with pytest.raises(ValueError, match="outputs of the teacher"):
            made.fit(data, shuffle=data is X, verbose=0)
        fine.has_checked_data = False
        fine.fit(data, shuffle=data is X, verbose=0)
    assert_same_weights(made.student.get_weights(), before)
