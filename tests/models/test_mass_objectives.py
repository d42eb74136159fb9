"""Objectives on encoder-decoders, against NumPy; LightPAFF's equations."""

import keras
import numpy as np
import pytest
from kit.helpers import log_softmax, mass, to_numpy, with_random_weights

import kdkit
from kdkit import losses, taps
from kdkit.distillation import compared_layers
from kdkit.taps import ModelShape

VOCABULARY, HEADS, RELATION_HEADS = 12, 2, 4
# Of teacher and student.
DEPTHS = {"encoder": (2, 2), "decoder": (3, 2), "cross": (3, 2)}


def make_model(width, depths, seed):
    keras.utils.set_random_seed(seed)
    model = mass(VOCABULARY, *depths, HEADS, width, 12, dropout=0.0)
    return with_random_weights(model, seed=seed)


def objective_on(tap):
    """An objective that fits a tap, by the tap's name."""
    part, kind = taps.split_tap(tap)
    if kind in taps.ATTENTION_TAPS:
        loss, projection = losses.AttentionMSE(), None
    elif kind in taps.VECTOR_TAPS:
        loss, projection = losses.RelationKLDivergence(RELATION_HEADS), None
    elif part == "encoder":
        loss, projection = losses.HiddenStateMSE(), "shared"
    else:
        loss, projection = losses.HiddenStateCosine(), "per_layer"
    return kdkit.Objective(loss, tap=tap, projection=projection, name=tap)


@pytest.fixture(scope="module")
def distiller():
    made = kdkit.Distiller(
        make_model(8, (2, 3), seed=1),
        make_model(4, (2, 2), seed=2),
        [objective_on(tap) for tap in taps.SEQ2SEQ_TAPS],
    )
    made.compile()
    return made


@pytest.fixture(scope="module")
def data():
    """Inputs, labels that no objective reads, and weights of the positions."""
    rng = np.random.default_rng(0)
    source = np.arange(6) < [[6], [5], [3]]
    target = np.arange(4) < [[4], [4], [2]]
    x = {
        "encoder_token_ids": rng.integers(4, VOCABULARY, source.shape),
        "encoder_padding_mask": source.astype("int32"),
        "decoder_token_ids": rng.integers(4, VOCABULARY, target.shape),
        "decoder_padding_mask": target.astype("int32"),
        "decoder_positions": np.tile(np.arange(4), (3, 1)),
    }
    weight = np.array([[1, 2, 0.5, 1], [1, 1, 1, 0], [3, 1, 1, 1]], "float32")
    return x, np.zeros(target.shape, "int32"), weight


def cosine(first, second):
    norms = [np.linalg.norm(x, axis=-1) for x in (first, second)]
    return (first * second).sum(-1) / norms[0] / norms[1]


def relation(vectors, real):
    vectors = vectors.reshape(*vectors.shape[:2], RELATION_HEADS, -1)
    products = np.einsum("bqad,bkad->baqk", vectors, vectors)
    products /= np.sqrt(vectors.shape[-1])
    return log_softmax(np.where(real[:, None, None, :], products, -1e9))


def expected_value(tap, teacher, student, x, weight):
    """Σ weight × value / Σ weight of one pair, by the equations."""
    part, kind = taps.split_tap(tap)
    source = x["encoder_padding_mask"].astype("float64")
    # Weights per position are those of the decoder.
    target = x["decoder_padding_mask"] * weight
    positions = source if part == "encoder" else target
    if kind in taps.ATTENTION_TAPS:
        keys = (target if part == "decoder" else source) > 0
        weights = positions[:, None, :, None] * keys[:, None, None, :]
        if part == "decoder":
            weights = np.tril(weights)
        values = (teacher - student) ** 2
    elif kind in taps.VECTOR_TAPS:
        of_teacher, of_student = (
            relation(vectors, positions > 0) for vectors in (teacher, student)
        )
        values = np.exp(of_teacher) * (of_teacher - of_student)
        # Means per text, each of the weight of its heaviest position.
        of_texts = positions.max(1, keepdims=True)
        weights = of_texts * positions / positions.sum(1, keepdims=True)
        values, weights = values.sum(-1), weights[:, None]
    elif part == "encoder":
        values, weights = ((teacher - student) ** 2).mean(-1), positions
    else:
        values, weights = 1 - cosine(teacher, student), positions
    weights = np.broadcast_to(weights, values.shape)
    return (values * weights).sum() / weights.sum()


def test_each_tap_has_an_objective_with_the_mask_of_its_own(distiller, data):
    x, y, weight = data
    logs = distiller.evaluate(
        x, y, sample_weight=weight, verbose=0, return_dict=True
    )
    teacher, student = (
        to_numpy(taps.tapped(model, taps.SEQ2SEQ_TAPS)(x))
        for model in (distiller.teacher, distiller.student)
    )
    projections = {layer.name: layer for layer in distiller.projections}
    for tap in taps.SEQ2SEQ_TAPS:
        part, kind = taps.split_tap(tap)
        pairs = [(0, 0)]
        if kind in taps.PER_LAYER_TAPS:
            blocks = kdkit.layer_map("uniform", *DEPTHS[part]).items()
            pairs = [*pairs, *blocks] if kind == "hidden_states" else blocks
        value = 0
        for block, of_teacher in pairs:
            both = [teacher[tap], student[tap]]
            for index, layer in enumerate((of_teacher, block)):
                if kind == "hidden_states":
                    both[index] = both[index][layer]
                elif kind in taps.PER_LAYER_TAPS:
                    both[index] = both[index][layer - 1]
            for name in (f"{tap}_projection", f"{tap}_projection_{block}"):
                if name in projections:
                    both[1] = to_numpy(projections[name](both[1]))
            value += expected_value(tap, *both, x, weight)
        assert logs[tap] == pytest.approx(value, rel=1e-4), tap
    total = sum(logs[tap] for tap in taps.SEQ2SEQ_TAPS)
    assert logs["loss"] == pytest.approx(total, rel=1e-5)


def test_what_is_padding_does_not_count(distiller, data):
    """Neither as a query nor as a key, nor what a token may not look at."""
    x, y, weight = data
    changed = dict(x)
    for half in ("encoder", "decoder"):
        ids, mask = x[f"{half}_token_ids"], x[f"{half}_padding_mask"]
        changed[f"{half}_token_ids"] = np.where(mask == 1, ids, 3)
    first, second = (
        distiller.evaluate(
            inputs, y, sample_weight=weight, verbose=0, return_dict=True
        )
        for inputs in (x, changed)
    )
    assert first == pytest.approx(second, rel=1e-5)


@pytest.mark.parametrize("spec", ["uniform", "top", "bottom", "skip", "last"])
def test_layer_maps_are_of_the_half_that_a_tap_is_of(spec):
    teacher, student = (
        ModelShape(
            9,
            hidden_dim=8,
            num_heads=2,
            encoder_num_layers=6,
            decoder_num_layers=depth,
        )
        for depth in (6, 4)
    )
    for tap, depth in (
        ("encoder_attention_logits", 6),
        ("decoder_attention_logits", 4),
        ("cross_attention_logits", 4),
    ):
        objective = kdkit.Objective(losses.AttentionMSE(), tap, spec)
        pairs = compared_layers(objective, teacher, student)
        assert dict(pairs) == kdkit.layer_map(spec, 6, depth)
    deeper = kdkit.Objective(
        losses.AttentionMSE(), "cross_attention_logits", {5: 6}
    )
    with pytest.raises(ValueError, match="4 student layers"):
        compared_layers(deeper, teacher, student)


@pytest.mark.parametrize("share", [0.0, 0.7, 1.0])
def test_loss_is_lightpaffs_over_the_tokens_that_count(share):
    """Equation 4: spans of three and of two tokens, at their own places.

    The targets of fine-tuning (equation 7) differ in their places alone.
    """
    x = {
        "encoder_token_ids": np.array([[5, 6, 4, 4, 4, 3], [5, 4, 4, 7, 3, 0]]),
        "encoder_padding_mask": np.array([[1] * 6, [1] * 5 + [0]]),
        "decoder_token_ids": np.array([[5, 8, 9], [5, 10, 0]]),
        "decoder_padding_mask": np.array([[1, 1, 1], [1, 1, 0]]),
        "decoder_positions": np.array([[1, 2, 3], [0, 1, 0]]),
    }
    y = np.array([[8, 9, 6], [10, 11, 0]])
    weight = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]], "float32")
    teacher, student = make_model(8, (1, 1), 1), make_model(4, (1, 1), 2)
    of_teacher, of_student = (
        log_softmax(np.array(model(x), "float64"))
        for model in (teacher, student)
    )
    counted = weight > 0
    likelihood = -np.take_along_axis(of_student, y[..., None], -1)[counted]
    divergence = np.exp(of_teacher) * (of_teacher - of_student)
    divergence = divergence.sum(-1)[counted]
    expected = (1 - share) * likelihood.mean() + share * divergence.mean()
    distiller = kdkit.Distiller(
        teacher,
        student,
        [kdkit.Objective(losses.LogitKLDivergence(), weight=share)],
        hard_label_weight=1 - share,
    )
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    distiller.compile(loss=loss if share < 1 else None)
    logs = distiller.evaluate(
        x, y, sample_weight=weight, return_dict=True, verbose=0
    )
    assert logs["loss"] == pytest.approx(expected, rel=1e-5)
