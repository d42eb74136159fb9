"""Several teachers: weighted means, own projections, files without them."""

import keras
import numpy as np
import pytest
from kit.helpers import (
    assert_same_weights,
    batch,
    batch_logs,
    bert,
    cross_entropy,
    labels,
    log_softmax,
    softmax,
)

import kdkit
from kdkit import losses

pytestmark = pytest.mark.usefixtures("eager")

WEIGHTS = (3.0, 1.0)
SOFT = kdkit.Objective(losses.SoftCrossEntropy(temperature=2.0))
HIDDEN = kdkit.Objective(
    losses.HiddenStateMSE(), tap="hidden_states", projection="shared"
)


@pytest.fixture(scope="module")
def teachers():
    """Of different widths and depths."""
    return [bert(num_layers=4, hidden_dim=12), bert(num_layers=2, seed=1)]


@pytest.fixture(scope="module")
def student():
    return bert(num_layers=2, hidden_dim=8, seed=2)


def evaluate(distiller):
    distiller.compile()
    return batch_logs(distiller, batch())


def test_objectives_are_weighted_means_over_the_teachers(
    teachers, student, tmp_path
):
    both = kdkit.Distiller(
        teachers, student, [SOFT, HIDDEN], teacher_weights=WEIGHTS
    )
    assert both.teacher == tuple(teachers)
    both.save(tmp_path / "distiller.keras")
    logs = evaluate(both)
    expected = dict.fromkeys(("soft_cross_entropy", "hidden_state_mse"), 0.0)
    for number, weight in enumerate(WEIGHTS):
        alone = kdkit.Distiller(teachers[number], student, [SOFT, HIDDEN])
        alone.projections[0].set_weights(both.projections[number].get_weights())
        values = evaluate(alone)
        for name in expected:
            expected[name] += weight / sum(WEIGHTS) * values[name]
    expected["loss"] = sum(expected.values())
    assert logs == pytest.approx(expected, rel=1e-5)
    loaded = keras.models.load_model(tmp_path / "distiller.keras")
    assert loaded.teacher is None
    loaded.attach_teacher(teachers)
    assert evaluate(loaded) == pytest.approx(logs, rel=1e-5)


def test_soft_labels_are_compared_with_the_mean_distribution(teachers, student):
    """The logs have the cross-entropy, less the mean of the entropies."""
    x = batch()
    scaled = [np.asarray(teacher(x)) / 2 for teacher in teachers]
    mean = np.mean([softmax(logits) for logits in scaled], axis=0)
    expected = -np.sum(mean * log_softmax(np.asarray(student(x)) / 2), axis=1)
    expected += np.mean(
        [np.sum(softmax(one) * log_softmax(one), axis=1) for one in scaled],
        axis=0,
    )
    logs = evaluate(kdkit.Distiller(teachers, student, SOFT))
    assert logs["soft_cross_entropy"] == pytest.approx(
        expected.mean(), rel=1e-5
    )


def test_a_step_trains_student_and_projections_and_no_teacher(teachers):
    student = bert(num_layers=2, seed=2)
    distiller = kdkit.Distiller(
        teachers, student, [SOFT, HIDDEN], hard_label_weight=0.5
    )
    distiller.compile(keras.optimizers.Adam(1e-2), cross_entropy())
    before = [teacher.get_weights() for teacher in teachers]
    trained = [student, *distiller.projections]
    start = [layer.get_weights()[0] for layer in trained]
    distiller.fit(batch(), labels(), verbose=0)
    for teacher, weights in zip(teachers, before, strict=True):
        assert_same_weights(teacher.get_weights(), weights)
    for layer, weight in zip(trained, start, strict=True):
        assert not np.array_equal(weight, layer.get_weights()[0])
