"""Heads of every kind: logits, candidates, distillation through them."""

import keras
import keras_hub
import numpy as np
import pytest
from kit.helpers import (
    LENGTH,
    batch,
    bert,
    divergence,
    log_softmax,
    spread_weights,
)

import kdkit
from kdkit import losses
from kdkit.models import (
    HEADS,
    Head,
    add_head,
    backbone_of,
    in_policy,
    initialize_from_teacher,
)

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmno"]


def model(kind, num_layers=2, hidden_dim=8, num_classes=2, seed=0, **head):
    tokens = keras_hub.tokenizers.BertTokenizer(PIECES, lowercase=False)
    backbone = bert(num_layers, hidden_dim, num_classes=None, seed=seed)
    result = add_head(backbone, Head(kind, num_classes, **head), tokens)
    spread_weights(result if kind == "sequence" else result.get_layer(kind))
    return result


def dense(of_model):
    """The kernel and the bias that give the logits."""
    return of_model.layers[-1].get_layer("logits").get_weights()


def test_multiple_choice_puts_the_logits_of_a_question_in_a_row():
    choices, x = model("multiple_choice"), batch(6)
    pooled = np.asarray(backbone_of(choices)(x)["pooled_output"])
    kernel, bias = dense(choices)
    scores = (pooled @ kernel + bias).reshape(3, 2)
    np.testing.assert_allclose(choices(x), scores, atol=1e-5)
    # An option has its logit whatever the other questions are.
    first = {name: array[:2] for name, array in x.items()}
    np.testing.assert_allclose(choices(first), scores[:1], atol=1e-5)


def test_token_heads_give_logits_for_each_position():
    tagger, x = model("tokens", num_classes=3), batch(4, length=4)
    states = np.asarray(backbone_of(tagger)(x)["sequence_output"])
    kernel, bias = dense(tagger)
    np.testing.assert_allclose(tagger(x), states @ kernel + bias, atol=1e-5)
    assert not backbone_of(tagger).pooled_dense.trainable_weights
    padded = {
        name: np.pad(array, [(0, 0), (0, 2)]) for name, array in x.items()
    }
    np.testing.assert_allclose(tagger(padded)[:, :4], tagger(x), atol=1e-5)


def test_only_candidates_of_a_token_have_a_logit_of_their_own():
    free = model("tokens", num_classes=3)
    candidates = {"b": (0, 2), "a": (1,), "長": (0,)}
    bound = model("tokens", num_classes=3, candidates=candidates)
    trainable = [weight.path for weight in bound.trainable_weights]
    for weight, value in zip(
        bound.trainable_weights, free.trainable_weights, strict=True
    ):
        weight.assign(value)
    x = batch(4)
    expected = np.array(free(x))
    excluded = np.zeros(expected.shape, bool)
    excluded[x["token_ids"] == PIECES.index("b")] = [False, True, False]
    excluded[x["token_ids"] == PIECES.index("a")] = [True, False, True]
    assert excluded.any()
    expected[excluded] = -1e4
    np.testing.assert_allclose(bound(x), expected, atol=1e-5)
    assert not any("candidates" in path for path in trainable)


@pytest.mark.parametrize("kind", HEADS)
def test_a_student_starts_from_a_teacher_below_any_head(kind):
    teacher, student = model(kind), model(kind, num_layers=1, seed=1)
    initialize_from_teacher(student, teacher, [2])
    ours, theirs = (
        backbone_of(one).token_embedding.get_weights()[0]
        for one in (student, teacher)
    )
    np.testing.assert_array_equal(ours, theirs)


def test_soft_and_true_labels_of_tokens_count_at_labelled_positions():
    weights = np.zeros((4, LENGTH), "float32")
    weights[[0, 0, 1], [1, 3, 1]] = 1
    x = batch(4)
    labels = np.random.default_rng(0).integers(3, size=(4, LENGTH))
    teacher, student = model("tokens", 2, 12, 3), model("tokens", 1, 8, 3)
    distiller = kdkit.Distiller(
        teacher,
        student,
        [
            kdkit.Objective(losses.SoftCrossEntropy()),
            kdkit.Objective(
                losses.HiddenStateMSE(),
                tap="hidden_states",
                projection="shared",
                use_sample_weight=False,
            ),
        ],
        hard_label_weight=1.0,
    )
    distiller.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )
    )
    of_teacher, of_student = np.asarray(teacher(x)), np.asarray(student(x))
    soft = divergence(of_teacher, of_student)
    hard = -np.take_along_axis(log_softmax(of_student), labels[..., None], -1)
    logs, everywhere = (
        distiller.evaluate(
            x, labels, sample_weight=one, verbose=0, return_dict=True
        )
        for one in (weights, np.ones_like(weights))
    )
    counted = weights == 1
    for name, values in (
        ("soft_cross_entropy", soft),
        ("hard_label_loss", hard[..., 0]),
    ):
        np.testing.assert_allclose(logs[name], values[counted].mean(), 1e-5)
    assert logs["hidden_state_mse"] == everywhere["hidden_state_mse"]


def test_options_of_a_question_are_one_distribution_with_one_weight():
    teacher = model("multiple_choice")
    student = model("multiple_choice", 1, seed=1)
    terms = {
        "soft_cross_entropy": (losses.SoftCrossEntropy(), None),
        "hidden_state_mse": (losses.HiddenStateMSE(), "hidden_states"),
        "patience_mse": (losses.PatienceMSE(), "cls_states"),
    }
    distiller = kdkit.Distiller(
        teacher,
        student,
        [
            kdkit.Objective(loss, **({"tap": tap} if tap else {}))
            for loss, tap in terms.values()
        ],
    )
    distiller.compile(optimizer="adam")
    x = batch(6)
    logs = distiller.evaluate(x, verbose=0, return_dict=True)
    soft = divergence(np.asarray(teacher(x)), np.asarray(student(x)))
    assert soft.shape == (3,)
    np.testing.assert_allclose(logs["soft_cross_entropy"], soft.mean(), 1e-5)
    assert logs["patience_mse"] > 0
    one = {name: array[2:4] for name, array in x.items()}
    labels = np.array([0, 1, 1])
    weighted = distiller.test_on_batch(
        x, labels, np.array([0.0, 2.0, 0.0]), return_dict=True
    )
    alone = distiller.test_on_batch(one, labels[1:2], return_dict=True)
    for name in terms:
        np.testing.assert_allclose(weighted[name], alone[name], 1e-5)


def test_losses_of_a_head_are_scaled_in_float16():
    scaled = in_policy(model("multiple_choice"), "mixed_float16")
    scaled.compile("adamw", loss="mse")
    assert isinstance(scaled.optimizer, keras.optimizers.LossScaleOptimizer)
    assert in_policy(scaled, "float32").dtype_policy.name == "float32"
