"""Several teachers: weighted means, own projections, files without them."""

import json

import keras
import numpy as np
import pytest
from kit.helpers import batch, bert, labels, log_softmax, softmax

import kdkit
from kdkit import losses

pytestmark = pytest.mark.usefixtures("eager")

WEIGHTS = (3.0, 1.0)


def objectives():
    return [
        kdkit.Objective(losses.SoftCrossEntropy(temperature=2.0)),
        kdkit.Objective(
            losses.HiddenStateMSE(), tap="hidden_states", projection="shared"
        ),
    ]


@pytest.fixture(scope="module")
def teachers():
    """Of different widths and depths."""
    return [bert(num_layers=4, hidden_dim=12), bert(num_layers=2, seed=1)]


@pytest.fixture(scope="module")
def student():
    return bert(num_layers=2, hidden_dim=8, seed=2)


def evaluate(distiller):
    distiller.compile()
    logs = distiller.test_on_batch(batch(), return_dict=True)
    return {name: float(value) for name, value in logs.items()}


def test_objectives_are_weighted_means_over_the_teachers(teachers, student):
    both = kdkit.Distiller(
        teachers, student, objectives(), teacher_weights=WEIGHTS
    )
    expected = dict.fromkeys(("soft_cross_entropy", "hidden_state_mse"), 0.0)
    for number, (teacher, weight) in enumerate(
        zip(teachers, WEIGHTS, strict=True)
    ):
        alone = kdkit.Distiller(teacher, student, objectives())
        alone.projections[0].set_weights(both.projections[number].get_weights())
        logs = evaluate(alone)
        for name in expected:
            expected[name] += weight / sum(WEIGHTS) * logs[name]
    logs = evaluate(both)
    for name, value in expected.items():
        assert logs[name] == pytest.approx(value, rel=1e-5)
    assert logs["loss"] == pytest.approx(sum(expected.values()), rel=1e-5)


def test_soft_labels_are_compared_with_the_mean_distribution(teachers, student):
    """The logs have the cross-entropy, less the mean of the entropies."""
    distiller = kdkit.Distiller(teachers, student, objectives()[:1])
    x = batch()
    scaled = [np.asarray(teacher(x)) / 2 for teacher in teachers]
    mean = np.mean([softmax(logits) for logits in scaled], axis=0)
    expected = -np.sum(mean * log_softmax(np.asarray(student(x)) / 2), axis=1)
    expected += np.mean(
        [np.sum(softmax(one) * log_softmax(one), axis=1) for one in scaled],
        axis=0,
    )
    logs = evaluate(distiller)
    assert logs["soft_cross_entropy"] == pytest.approx(
        expected.mean(), rel=1e-5
    )


def test_a_step_trains_student_and_projections_and_no_teacher(teachers):
    student = bert(num_layers=2, seed=2)
    distiller = kdkit.Distiller(
        teachers, student, objectives(), hard_label_weight=0.5
    )
    distiller.compile(
        optimizer=keras.optimizers.Adam(1e-2),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    before = [teacher.get_weights() for teacher in teachers]
    projections = [layer.get_weights() for layer in distiller.projections]
    distiller.fit(batch(), labels(), verbose=0)
    for teacher, weights in zip(teachers, before, strict=True):
        for old, new in zip(weights, teacher.get_weights(), strict=True):
            np.testing.assert_array_equal(old, new)
    for layer, weights in zip(distiller.projections, projections, strict=True):
        assert not np.array_equal(weights[0], layer.get_weights()[0])


def test_config_and_files_keep_sizes_and_weights(teachers, student, tmp_path):
    distiller = kdkit.Distiller(
        teachers, student, objectives(), teacher_weights=WEIGHTS
    )
    assert distiller.teacher == tuple(teachers)
    config = json.loads(json.dumps(distiller.get_config()["teacher_weights"]))
    assert config == [0.75, 0.25]
    distiller.save(tmp_path / "distiller.keras")
    expected = evaluate(distiller)
    loaded = keras.models.load_model(tmp_path / "distiller.keras")
    assert loaded.teacher is None
    loaded.attach_teacher(teachers)
    assert evaluate(loaded) == pytest.approx(expected, rel=1e-5)
