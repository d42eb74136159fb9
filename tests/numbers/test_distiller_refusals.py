"""Mistakes after which a distiller would train on a wrong number."""

import keras
import numpy as np
import pytest
from keras import layers
from kit.encoders import encoder
from kit.helpers import TinyBackbone, bert

import kdkit
from kdkit import losses, taps
from kdkit.distillation import bind
from kdkit.errors import UsageError
from kdkit.taps import ModelShape

TEACHER = ModelShape(3, 4, 12, 2, has_pooled_output=True)
STUDENT = ModelShape(3, 2, 8, 2, has_pooled_output=True)
SOFT, ATTENTION = losses.SoftCrossEntropy(), losses.AttentionMSE()


def bound(
    *arguments, teacher=TEACHER, student=STUDENT, label_weight=0.0, **others
):
    objective = kdkit.Objective(*arguments, **others)
    return bind([objective], label_weight, teacher, student)


def hidden(**arguments):
    return bound(losses.HiddenStateMSE(), "hidden_states", **arguments)


def named(*names):
    terms = [kdkit.Objective(losses.LogitMSE(), name=name) for name in names]
    return bind(terms, 0.0, TEACHER, STUDENT)


def with_teacher_weights(*weights):
    teachers = [ModelShape(3), ModelShape(3)]
    objective = kdkit.Objective(SOFT)
    return kdkit.Distiller(
        teachers, bert(1), objective, teacher_weights=weights
    )


def in_another_order():
    backbone = TinyBackbone()
    backbone.transformer_layers = backbone.transformer_layers[::-1]
    return taps.tapped(backbone, ["hidden_states"])


def without_mask():
    backbone = encoder("distil_bert", num_classes=None)
    token_ids = keras.Input((None,), dtype="int32", name="ids")
    mask = keras.Input((None,), dtype="int32", name="mask")
    states = backbone({"token_ids": token_ids, "padding_mask": mask})
    model = keras.Model([token_ids, mask], layers.Dense(2)(states[:, 0]))
    assert taps.tapped(model, ["logits"]).taps == ("logits",)
    return taps.tapped(model, ["hidden_states"])


def of_one_name():
    functions = [lambda outputs: outputs["a"], lambda outputs: -outputs["a"]]
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, name="a")])
    return taps.tapped(model, functions)


MISTAKES = {
    "tap": (lambda: bound(SOFT, "attention_scores"), "Unknown tap.*'atten"),
    "tap of another loss": (
        lambda: bound(SOFT, "hidden_states"),
        "SoftCrossEntropy compares",
    ),
    "tap of no model": (
        lambda: bound(ATTENTION, "attention_logits", student=ModelShape(3)),
        "Unknown tap 'attention_logits'.*: logits",
    ),
    "layer map": (lambda: hidden(layer_map="odd"), "Unknown layer map 'odd'"),
    "layer map of logits": (
        lambda: bound(SOFT, layer_map="uniform"),
        "not per layer",
    ),
    "pair reduction": (
        lambda: hidden(pair_reduction="max"),
        "Unknown pair_reduction 'max'",
    ),
    "projection": (lambda: hidden(projection="linear"), "'linear'.*shared"),
    "projection of logits": (
        lambda: bound(SOFT, projection="shared"),
        "takes no projection",
    ),
    "parity in a decoder": (
        lambda: bound(
            losses.AttentionMSE("tinybert"), "cross_attention_logits"
        ),
        "would not count",
    ),
    "weight": (lambda: hidden(weight=float("nan")), "`weight`.*nan"),
    "label weight": (lambda: bound(SOFT, label_weight=-0.5), "-0.5"),
    "teacher weights": (lambda: with_teacher_weights(1.0), "one for each of 2"),
    "teacher weight below 0": (
        lambda: with_teacher_weights(2.0, -1.0),
        "at least 0",
    ),
    "names": (lambda: named("a", "b", "a"), "the name 'a'"),
    "name of another scalar": (lambda: named("loss"), "the name 'loss'"),
    "widths": (lambda: hidden(), 'sizes: 12 .* 8 .*projection="shared"'),
    "heads": (
        lambda: bound(
            ATTENTION, "attention_logits", student=ModelShape(3, 2, 8, 4)
        ),
        "sizes: 2 .* 4 in the student.$",
    ),
    "vectors": (
        lambda: bound(losses.HiddenStateMSE(), "queries"),
        r"sizes: \(2, 12\)",
    ),
    "classes": (lambda: bound(SOFT, student=ModelShape(2)), "sizes: 3 .* 2"),
    "one logit": (
        lambda: bound(SOFT, teacher=ModelShape(1), student=ModelShape(1)),
        "single logit",
    ),
    "one candidate": (
        lambda: bound(
            losses.MarginMSE(), teacher=ModelShape(1), student=ModelShape(1)
        ),
        "single logit",
    ),
    "order of blocks": (in_another_order, "TinyBackbone lists"),
    "padding mask": (without_mask, "no input for the padding mask"),
    "functions of one name": (of_one_name, "Two functions"),
}


@pytest.mark.parametrize(("call", "words"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_refused(call, words):
    with pytest.raises(UsageError, match=words):
        call()


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
    objective = kdkit.Objective(SOFT)
    with pytest.raises(UsageError, match="layers of its teacher.*shared"):
        kdkit.Distiller(teacher, student, objective)
    shared.trainable = False
    model = kdkit.Distiller(teacher, student, objective)
    model.compile(keras.optimizers.SGD(0.1))
    x = np.eye(4)
    before = [keras.ops.convert_to_numpy(one(x)) for one in (teacher, student)]
    model.fit(x, verbose=0)
    np.testing.assert_array_equal(teacher(x), before[0])
    assert np.abs(student(x) - before[1]).max() > 0
