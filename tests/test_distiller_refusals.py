"""Arguments that the Distiller's constructor refuses, and its messages."""

import keras
import numpy as np
import pytest
from helpers import batch, bert, objectives
from keras import layers

import kdkit
from kdkit import losses


@pytest.fixture(scope="module")
def teacher():
    return bert(2, 12)


@pytest.fixture(scope="module")
def student():
    return bert(1, 8)


def hidden(**arguments):
    return kdkit.Objective(
        losses.HiddenStateMSE(), tap="hidden_states", **arguments
    )


LOGITS = kdkit.Objective(losses.SoftCrossEntropy())
ATTENTION = kdkit.Objective(losses.AttentionMSE(), tap="attention_logits")


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ([hidden()], "without a projection.*hidden_dim=12.*hidden_dim=8"),
        ([hidden(projection="shared", layer_map={1: 3})], "out of range"),
        ([hidden(projection="shared", layer_map={2: 1})], "out of range"),
        ([hidden(projection="shared", layer_map="skip")], "at least 2 student"),
        ([hidden(projection="shared", layer_map="odd")], "Unknown layer map"),
        ([LOGITS, LOGITS], r"\['soft_cross_entropy'\]. Pass name"),
        (
            [kdkit.Objective(losses.LogitMSE(), name="hard_label_loss")],
            r"\['hard_label_loss'\]",
        ),
        ([], "at least one objective"),
        ([losses.LogitMSE()], "Received in it: LogitMSE. Wrap a loss"),
    ],
)
def test_distiller_refuses_objectives_that_do_not_fit(
    teacher, student, terms, message
):
    with pytest.raises(ValueError, match=message):
        kdkit.Distiller(teacher, student, terms)


@pytest.mark.parametrize(
    ("build", "terms", "message"),
    [
        (lambda: bert(1, 8, num_classes=2), [LOGITS], "different class counts"),
        (
            lambda: bert(1, 8, num_heads=4),
            [ATTENTION],
            "of heads differ",
        ),
        (lambda: bert(3, 8), [ATTENTION], "no deeper than its teacher"),
        (lambda: bert(1, 8, num_classes=None), [LOGITS], "logits need a head"),
        (
            lambda: keras.Sequential(
                [keras.Input((4,)), keras.layers.Dense(3)]
            ),
            [ATTENTION],
            "'attention_logits' is not available for the student",
        ),
        (lambda: "tinybert_4_layer_en_uncased", [LOGITS], "keras.Model"),
    ],
)
def test_distiller_refuses_students_that_do_not_fit(
    teacher, build, terms, message
):
    with pytest.raises(ValueError, match=message):
        kdkit.Distiller(teacher, build(), terms)


@pytest.mark.parametrize("weight", [-0.5, float("nan"), float("inf")])
def test_distiller_refuses_impossible_label_weights(teacher, student, weight):
    with pytest.raises(ValueError, match=f"hard_label_weight={weight}"):
        kdkit.Distiller(teacher, student, [LOGITS], hard_label_weight=weight)


def test_distiller_refuses_label_weights_without_a_head(teacher):
    with pytest.raises(ValueError, match="needs a student with a head"):
        kdkit.Distiller(
            teacher,
            bert(1, 8, num_classes=None),
            objectives(include_logits=False),
            hard_label_weight=1.0,
        )


def test_distiller_refuses_a_model_as_its_own_teacher(teacher):
    for student in (teacher, teacher.backbone):
        with pytest.raises(ValueError, match="trains layers of its teacher"):
            kdkit.Distiller(teacher, student, [ATTENTION])


class Wrapped(keras.Model):
    """A subclassed model around a layer, which others may contain, too."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.head = layers.Dense(3)

    def call(self, inputs):
        return self.head(self.layer(inputs))


def on_one_layer(kind):
    """A teacher, a student on its first layer, and that layer."""
    shared = layers.Dense(4, name="shared")
    if kind == "subclassed":
        models = Wrapped(shared), Wrapped(shared)
        for model in models:
            model(np.zeros((1, 4)))
        return *models, shared
    inputs = keras.Input((4,))
    first = shared
    if kind == "nested":
        first = keras.Sequential([keras.Input((4,)), shared])
    teacher = keras.Sequential([inputs, first, layers.Dense(3)])
    if kind == "sequential":
        rest = [*teacher.layers[:1], layers.Dense(3)]
        return teacher, keras.Sequential([inputs, *rest]), shared
    source = teacher.inputs[0] if kind == "graph" else inputs
    hidden = teacher.layers[0].output if kind == "graph" else first(inputs)
    return teacher, keras.Model(source, layers.Dense(3)(hidden)), shared


@pytest.mark.parametrize(
    "kind", ["graph", "sequential", "nested", "subclassed"]
)
def test_a_student_does_not_train_its_teachers_layers(kind):
    teacher, student, shared = on_one_layer(kind)
    with pytest.raises(ValueError, match=r"layers \['.*shared'\].*clone_model"):
        kdkit.Distiller(teacher, student, LOGITS)
    shared.trainable = False
    model = kdkit.Distiller(teacher, student, LOGITS)
    model.compile(keras.optimizers.SGD(0.1))
    x = np.eye(4)
    before = [keras.ops.convert_to_numpy(one(x)) for one in (teacher, student)]
    model.fit(x, verbose=0)
    np.testing.assert_array_equal(teacher(x), before[0])
    assert np.abs(student(x) - before[1]).max() > 0


def test_distiller_tells_all_problems_at_once(teacher):
    with pytest.raises(ValueError, match="without a projection") as caught:
        kdkit.Distiller(
            teacher,
            bert(1, 8, num_heads=4, num_classes=2),
            [hidden(), ATTENTION, LOGITS],
            hard_label_weight=-1.0,
        )
    assert len(str(caught.value).splitlines()) == 4


def test_refusal_leaves_the_models_usable(teacher, student):
    with pytest.raises(ValueError, match="without a projection"):
        kdkit.Distiller(teacher, student, [hidden()])
    model = kdkit.Distiller(teacher, student, [hidden(projection="shared")])
    model.compile(run_eagerly=True)
    model.evaluate(batch(2), verbose=0)
