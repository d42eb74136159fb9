"""What docs/keras_distillation.md says about keras.distillation is true."""

import keras
import numpy as np
import pytest
from helpers import cross_entropy, divergence, softmax
from keras import distillation, ops

import kdkit
from kdkit import losses
from kdkit.errors import UsageError

pytestmark = [
    pytest.mark.usefixtures("eager"),
    # Of the models that keras.distillation makes to read layers.
    pytest.mark.filterwarnings("ignore:(?s).*structure of `inputs` doesn't"),
]
GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(6, 4)).astype("float32")
Y = np.arange(6) % 3
TEACHER, STUDENT = (2 * GENERATOR.normal(size=(2, 5, 3))).astype("float32")


class Counted(keras.layers.Dense):
    """A dense layer that notes the mode of each of its calls."""

    modes = ()

    def call(self, inputs, training=None):
        self.modes = (*self.modes, training)
        return super().call(inputs, training=training)


def network(width=4, name="hidden"):
    model = keras.Sequential(
        [
            keras.Input((4,)),
            Counted(width, name=name),
            keras.layers.Dense(3, name="head"),
        ]
    )
    model.layers[0].modes = ()  # building is no call of interest
    return model


def theirs(teacher, student, loss, **arguments):
    model = distillation.Distiller(teacher, student, loss, **arguments)
    model.compile("sgd", loss=cross_entropy(), run_eagerly=True)
    return model


def ours(teacher, student, objectives, **arguments):
    model = kdkit.Distiller(teacher, student, objectives, **arguments)
    label_loss = cross_entropy() if arguments.get("hard_label_weight") else None
    model.compile("sgd", loss=label_loss)
    return model


def their_total(model, **arguments):
    """The loss of one batch; the logs of `evaluate` have the same number."""
    return float(model.compute_loss(X, Y, model.student(X), **arguments))


def our_total(model, **arguments):
    return model.evaluate(X, Y, verbose=0, return_dict=True, **arguments)[
        "loss"
    ]


def test_default_logits_loss_has_no_softmax_and_no_temperature_squared():
    found = distillation.LogitsDistillation(2.0).compute_loss(TEACHER, STUDENT)
    teacher, student = (
        np.clip(logits / 2, 1e-7, 1) for logits in (TEACHER, STUDENT)
    )
    expected = np.sum(teacher * np.log(teacher / student), axis=-1).mean()
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_divergence_as_an_object_is_ours():
    loss = distillation.LogitsDistillation(2.0, keras.losses.KLDivergence())
    expected = 4 * divergence(TEACHER / 2, STUDENT / 2).mean()
    found = loss.compute_loss(TEACHER, STUDENT)
    assert float(found) == pytest.approx(expected, rel=1e-4)
    own = losses.LogitKLDivergence(2.0)(TEACHER, STUDENT)
    assert float(own) == pytest.approx(expected, rel=1e-5)


def test_their_cross_entropy_takes_the_teachers_logits_as_probabilities():
    inner = keras.losses.CategoricalCrossentropy(from_logits=True)
    found = distillation.LogitsDistillation(2.0, inner).compute_loss(
        TEACHER, STUDENT
    )
    logs = np.log(softmax(STUDENT / 2))
    expected = -np.sum(TEACHER / 2 * logs, axis=-1).mean()
    assert float(found) == pytest.approx(expected, rel=1e-4)
    expected = -np.sum(softmax(TEACHER / 2) * logs, axis=-1).mean()
    own = losses.SoftCrossEntropy(2.0)(TEACHER, STUDENT)
    assert float(own) == pytest.approx(expected, rel=1e-5)


def test_weights_map_as_the_table_says():
    teacher, student = network(), network()
    loss = distillation.LogitsDistillation(2.0, keras.losses.KLDivergence())
    features = distillation.FeatureDistillation("mse", "hidden", "hidden")
    model = theirs(
        teacher,
        student,
        [loss, features],
        distillation_loss_weights=[1.0, 0.5],
        student_loss_weight=0.3,
    )
    objectives = [
        kdkit.Objective(losses.LogitKLDivergence(2.0), weight=0.7),
        kdkit.Objective(
            losses.HiddenStateMSE(), tap="layer:hidden", weight=0.7 * 0.5
        ),
    ]
    own = ours(teacher, student, objectives, hard_label_weight=0.3)
    expected = their_total(model)
    assert our_total(own) == pytest.approx(expected, rel=1e-4)
    adapted = [
        kdkit.Objective(loss, weight=0.7),
        kdkit.Objective(features, weight=0.35),
    ]
    again = ours(teacher, student, adapted, hard_label_weight=0.3)
    assert our_total(again) == pytest.approx(expected, rel=1e-4)


def test_named_layers_run_their_student_twice_and_in_training_mode():
    teacher, student = network(), network()
    loss = distillation.FeatureDistillation("mse", "hidden", "hidden")
    model = theirs(teacher, student, loss)
    student.layers[0].modes = ()
    model.test_on_batch(X, Y)
    assert len(student.layers[0].modes) == 2
    assert True in student.layers[0].modes
    own = ours(teacher, student, kdkit.Objective(loss))
    student.layers[0].modes = ()
    own.test_on_batch(X, Y)
    assert len(student.layers[0].modes) == 1
    assert True not in student.layers[0].modes


def test_sample_weights_count_in_ours_only():
    teacher, student = network(), network()
    loss = distillation.LogitsDistillation(2.0, keras.losses.KLDivergence())
    model = theirs(teacher, student, loss)
    weights = np.arange(6.0)
    assert their_total(model) == their_total(model, sample_weight=weights)
    own = ours(teacher, student, kdkit.Objective(loss))
    outputs = (ops.convert_to_numpy(one(X)) for one in (teacher, student))
    values = 4 * divergence(*(logits / 2 for logits in outputs))
    expected = np.sum(weights * values) / weights.sum()
    found = our_total(own, sample_weight=weights)
    assert found == pytest.approx(expected, rel=1e-4)


def test_teacher_is_a_part_of_theirs_and_is_frozen():
    teacher, student = network(), network()
    objective = kdkit.Objective(losses.LogitMSE())
    own = ours(teacher, student, objective)
    assert teacher.trainable
    assert {id(one) for one in own.variables} >= {
        id(one) for one in student.variables
    }
    their_variables = {
        id(one)
        for one in theirs(
            teacher, student, distillation.LogitsDistillation()
        ).variables
    }
    for variable in teacher.variables:
        assert id(variable) in their_variables
        assert all(variable is not one for one in own.variables)
    assert not teacher.trainable


def test_different_widths_need_our_projection():
    teacher, student = network(5), network(2)
    loss = distillation.FeatureDistillation("mse", "hidden", "hidden")
    with pytest.raises(Exception, match="(?i)shape|incompatible|size"):
        their_total(theirs(teacher, student, loss))
    with pytest.raises(UsageError, match='projection="shared"'):
        ours(teacher, student, kdkit.Objective(loss))
    own = ours(teacher, student, kdkit.Objective(loss, projection="shared"))
    assert np.isfinite(our_total(own))


def test_loss_on_labels_is_needed_by_theirs():
    with pytest.raises(ValueError, match="cannot be `None`"):
        distillation.Distiller(
            network(), network(), distillation.LogitsDistillation()
        ).compile("sgd")


def test_layers_inside_other_models_are_out_of_their_reach():
    inner = network()
    inputs = keras.Input((4,))
    outer = keras.Model(inputs, inner(inputs))
    loss = distillation.FeatureDistillation("mse", "hidden", "hidden")
    with pytest.raises(ValueError, match="No such layer"):
        theirs(outer, network(), loss)
    assert ours(outer, network(), kdkit.Objective(loss))
