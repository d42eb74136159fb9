"""Stages as data: what they refuse, and how they weigh their losses."""

import dataclasses

import pytest
from kit.adapter import command, resolved
from kit.runs import TAUGHT
from kit.tasks import write_polyphone

from kdkit import Objective
from kdkit.config.runs import ADAPTER
from kdkit.losses import PatienceMSE, SoftCrossEntropy
from kdkit.recipes import Stage

SOFT = Objective(SoftCrossEntropy())
UNWEIGHTED = Objective(SoftCrossEntropy(), weight=0.0)


def stage(**fields):
    return Stage(**{"name": "s", "epochs": 1, "learning_rate": 1e-3, **fields})


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        *(
            ({"name": name}, "name")
            for name in ("../outside", "", ".", "a.b", "a\n")
        ),
        ({"epochs": 0, "learning_rate": -1.0}, "(?s)epochs.*learning_rate"),
        ({"gradient_accumulation_steps": 5}, "batch_size=32"),
        ({"quantize": "int4", "data": "corpus"}, "task"),
        ({"label_smoothing": 0.1, "soft_label_weight": 1.0}, "labels"),
        (
            {"soft_label_weight": 0.5, "hard_label_weight": 0.5},
            "hard_label_weight",
        ),
        ({"soft_label_weight": 0.5, "objectives": ()}, "logits"),
        ({"objectives": ()}, "nothing"),
        ({"objectives": (UNWEIGHTED,)}, "nothing"),
    ],
)
def test_impossible_stages_are_refused(fields, named):
    with pytest.raises(ValueError, match=named):
        stage(**{"objectives": (SOFT,), **fields})


def test_an_objective_of_weight_0_is_fine_beside_what_counts():
    other = dataclasses.replace(UNWEIGHTED, name="other", weight=0.5)
    for fields in (
        {"objectives": (UNWEIGHTED, other)},
        {"objectives": (UNWEIGHTED,), "hard_label_weight": 0.5},
        {"objectives": (other,), "soft_label_weight": 0.0},
    ):
        found = stage(**fields).weighted_objectives()
        assert len(found) == len(fields["objectives"])


def test_soft_label_weight_divides_between_logits_and_labels():
    objectives = (
        Objective(SoftCrossEntropy(), weight=2.0),
        Objective(PatienceMSE(), tap="cls_states"),
    )
    found = stage(soft_label_weight=0.7, objectives=objectives)
    soft, patience = found.weighted_objectives()
    assert soft.weight == pytest.approx(1.4)
    assert patience.weight == 1.0
    assert found.label_weight == pytest.approx(0.3)


def test_control_has_as_many_updates_at_the_last_stages_rate(workspace):
    words = (
        *("distill", "tinybert", *TAUGHT, "--control", "--run-dir", "no_run"),
        *("--set", "stages.intermediate_layer.epochs=3"),
        *("--set", "stages.prediction_layer.epochs=2"),
        *("--set", "stages.intermediate_layer.learning_rate=5e-5"),
        *("--set", "stages.prediction_layer.learning_rate=3e-5"),
    )
    found = ADAPTER.validate_python(resolved(workspace.words(words)))
    (control,) = found.arms["control"]
    assert (control.epochs, control.learning_rate) == (5, 3e-5)
    assert control.batch_size == found.stages[-1].batch_size
    assert control.hard_label_weight == 1.0
    assert not control.objectives


def test_labels_that_cannot_be_smoothed_are_refused(tmp_path, workspace):
    """Or impossible classes would get a share."""
    write_polyphone(tmp_path)
    words = [
        *("train-teacher", "--task", "polyphone", "--data-dir", tmp_path),
        *("--run-dir", tmp_path / "run", "--max-length", "16"),
        *("--model", "@encoder"),
        *("--set", "stages.fine_tuning.label_smoothing=0.1"),
    ]
    answer = command(workspace.words(words))
    assert answer.status == 2
    assert "label_smoothing=0" in answer.err
