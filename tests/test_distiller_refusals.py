"""What the Distiller's constructor refuses, and how it says so."""

import keras
import pytest
from helpers import batch
from helpers import bert
from helpers import objectives

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
        with pytest.raises(ValueError, match="share their layers"):
            kdkit.Distiller(teacher, student, [ATTENTION])


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
