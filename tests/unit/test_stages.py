"""Stages and schedules as data."""

import dataclasses

import keras
import numpy as np
import pytest
from kit.tasks import write_polyphone

from kdkit.distillation import Objective
from kdkit.errors import UsageError
from kdkit.losses import (
    PatienceMSE,
    SmoothedCrossEntropy,
    SoftCrossEntropy,
)
from kdkit.recipes.stages import Stage, same_number_of_updates
from kdkit.runs.examples import require_smoothable_labels
from kdkit.tasks import TASKS
from kdkit.training.optimizers import (
    LinearWarmupDecay,
    make_label_loss,
    make_optimizer,
)

pytestmark = pytest.mark.usefixtures("quick_runs")


def test_schedule_matches_its_formula():
    schedule = LinearWarmupDecay(2.0, num_steps=100, warmup_fraction=0.1)
    steps = np.arange(101)
    expected = 2.0 * np.where(steps < 10, steps / 10, (100 - steps) / 90)
    actual = [float(schedule(step)) for step in steps]
    np.testing.assert_allclose(actual, expected, atol=1e-6)


def test_schedule_without_warmup_begins_at_the_top():
    schedule = LinearWarmupDecay(1.0, num_steps=4, warmup_fraction=0.0)
    assert [float(schedule(step)) for step in (0, 2, 4)] == [1.0, 0.5, 0.0]


def test_schedule_survives_its_config():
    schedule = LinearWarmupDecay(1.0, num_steps=4)
    copy = LinearWarmupDecay.from_config(schedule.get_config())
    assert float(copy(2)) == float(schedule(2))


@pytest.mark.parametrize("name", ["../outside", "", ".", "a.b", "a\n"])
def test_a_stage_is_no_path(name):
    with pytest.raises(UsageError, match="name must be letters"):
        Stage(name, 1, 5e-5, hard_label_weight=1.0)


def test_constant_stage_has_a_constant_rate():
    stage = Stage("s", 1, 5e-5, hard_label_weight=1.0, schedule="constant")
    assert float(make_optimizer(stage, 10).learning_rate) == pytest.approx(5e-5)


def test_weight_decay_spares_biases_and_norms():
    optimizer = make_optimizer(Stage("s", 1, 1e-3, hard_label_weight=1.0), 10)
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(2, name="dense"),
            keras.layers.LayerNormalization(name="layer_norm"),
        ]
    )
    optimizer.build(model.trainable_variables)
    before = [variable.numpy() for variable in model.trainable_variables]
    optimizer.apply(
        [np.zeros(v.shape, "float32") for v in model.trainable_variables]
    )
    optimizer.apply(
        [np.zeros(v.shape, "float32") for v in model.trainable_variables]
    )
    changed = {
        variable.path.split("/", 1)[-1]: not np.array_equal(
            old, variable.numpy()
        )
        for old, variable in zip(before, model.trainable_variables, strict=True)
    }
    decayed = {path for path, differs in changed.items() if differs}
    assert decayed == {path for path in changed if path.endswith("kernel")}


def test_soft_label_weight_divides_between_logits_and_labels():
    stage = Stage(
        "s",
        1,
        1e-3,
        soft_label_weight=0.7,
        objectives=(
            Objective(SoftCrossEntropy(), weight=2.0),
            Objective(PatienceMSE(), tap="cls_states"),
        ),
    )
    soft, patience = stage.weighted_objectives()
    assert soft.weight == pytest.approx(1.4)
    assert patience.weight == 1.0
    assert stage.label_weight == pytest.approx(0.3)


UNWEIGHTED = Objective(SoftCrossEntropy(), weight=0.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0, "learning_rate": -1.0}, "epochs.*learning_rate must be"),
        ({"soft_label_weight": 1.2}, r"must be in \[0, 1\], received 1.2"),
        ({"label_smoothing": 1.0}, r"must be in \[0, 1\), received 1.0"),
        ({"schedule": "zigzag"}, "Unknown schedule 'zigzag'"),
        ({"data": "pairs"}, "Unknown data 'pairs'"),
        ({"gradient_accumulation_steps": 5}, "does not divide batch_size=32"),
        ({"quantize": "int4", "data": "corpus"}, "for stages on the task"),
        (
            {"label_smoothing": 0.1, "soft_label_weight": 1.0},
            "label_smoothing needs labels",
        ),
        (
            {"soft_label_weight": 0.5, "hard_label_weight": 0.5},
            "replaces hard_label_weight",
        ),
        (
            {"soft_label_weight": 0.5, "objectives": ()},
            "needs an objective on logits",
        ),
        ({"objectives": ()}, "nothing is learned"),
        ({"objectives": (UNWEIGHTED,)}, "nothing is learned"),
    ],
)
def test_impossible_stages_are_refused(settings, message):
    defaults = {
        "name": "s",
        "epochs": 1,
        "learning_rate": 1e-3,
        "objectives": (Objective(SoftCrossEntropy()),),
    }
    with pytest.raises(UsageError, match=message):
        Stage(**{**defaults, **settings})


def test_an_objective_of_weight_0_is_fine_beside_what_counts():
    other = dataclasses.replace(UNWEIGHTED, name="other", weight=0.5)
    for settings in (
        {"objectives": (UNWEIGHTED, other)},
        {"objectives": (UNWEIGHTED,), "hard_label_weight": 0.5},
        {"objectives": (other,), "soft_label_weight": 0.0},
    ):
        stage = Stage("s", 1, 1e-3, **settings)
        assert len(stage.weighted_objectives()) == len(settings["objectives"])


def test_control_has_as_many_updates_at_the_last_stages_rate():
    stages = (
        Stage("a", 3, 5e-5, hard_label_weight=1.0, batch_size=8),
        Stage("b", 2, 3e-5, hard_label_weight=1.0, batch_size=8),
    )
    (control,) = same_number_of_updates(stages)
    assert (control.epochs, control.batch_size) == (5, 8)
    assert control.learning_rate == 3e-5
    assert control.hard_label_weight == 1.0
    assert not control.objectives


def smoothing_stage(label_smoothing):
    return Stage(
        "fine_tuning",
        1,
        1e-3,
        hard_label_weight=1.0,
        label_smoothing=label_smoothing,
    )


def test_label_smoothing_keeps_how_the_loss_is_reduced():
    plain = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    assert make_label_loss(smoothing_stage(0.0), plain) is plain
    smoothed = make_label_loss(smoothing_stage(0.1), plain)
    assert isinstance(smoothed, SmoothedCrossEntropy)
    assert smoothed.label_smoothing == 0.1
    assert smoothed.reduction == plain.reduction


def test_labels_that_cannot_be_smoothed_are_refused(tmp_path):
    write_polyphone(tmp_path)
    task = TASKS["polyphone"].for_data(tmp_path)
    require_smoothable_labels([smoothing_stage(0.0)], task)
    with pytest.raises(UsageError, match="few possible labels"):
        require_smoothable_labels([smoothing_stage(0.1)], task)
    require_smoothable_labels([smoothing_stage(0.1)], TASKS["sst2"])
