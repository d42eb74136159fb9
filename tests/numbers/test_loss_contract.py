"""What every loss promises, checked for every member of kdkit.losses."""

import json

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.backend import compiled, native, tensorflow_only
from kit.backend import gradient as gradient_at
from kit.helpers import log_softmax, softmax
from kit.loss_cases import BATCH, CASES, LENGTH, draw

from kdkit import losses


def parametrize(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.id)


every_loss = parametrize(CASES)
every_loss_with_minimum = parametrize(
    [case for case in CASES if case.has_minimum]
)
every_loss_with_positions = parametrize(
    [case for case in CASES if case.positions]
)
seeds = st.integers(0, 2**32 - 1)
scales = st.sampled_from([0.01, 1.0, 30.0])
# Some of the weights are 0, and the others far apart.
example_weights = st.lists(
    st.one_of(st.just(0.0), st.floats(0.1, 10.0)),
    min_size=BATCH,
    max_size=BATCH,
).map(lambda drawn: np.array(drawn, "float32"))


def gradient(loss, teacher, student, sample_weight=None):
    return gradient_at(
        lambda student: loss(teacher, student, sample_weight), student
    )


def pad(case, tensor, value):
    """Lengthens the position axes by two."""
    axes = [
        axis
        for axis, size in enumerate(case.shape)
        if size == LENGTH and axis > 0
    ][: case.positions]
    widths = [(0, 2 * (axis in axes)) for axis in range(tensor.ndim)]
    return np.pad(tensor, widths, constant_values=value)


def test_every_loss_has_a_case():
    tested = {type(case.loss).__name__ for case in CASES}
    # No teacher; and tests/numbers/test_foreign_losses.py.
    others = {"SmoothedCrossEntropy", "KerasLoss"}
    classes = {
        name
        for name in losses.__all__
        if isinstance(getattr(losses, name), type)
    }
    assert tested == classes - {"DistillationLoss"} - others


@every_loss_with_minimum
def test_loss_of_equal_tensors_is_its_minimum(case):
    teacher, student = draw(case)
    minimum = 0.0
    if isinstance(case.loss, losses.SoftCrossEntropy):
        tempered = teacher / case.loss.temperature
        entropies = -np.sum(softmax(tempered) * log_softmax(tempered), -1)
        if case.loss.parity == "tinybert":
            entropies = entropies / teacher.shape[-1]
        minimum = entropies.mean()
    if isinstance(case.loss, losses.SoftBinaryCrossEntropy):
        present = 1 / (1 + np.exp(-teacher / case.loss.temperature))
        minimum = -np.mean(
            present * np.log(present) + (1 - present) * np.log(1 - present)
        )
    np.testing.assert_allclose(case.loss(teacher, teacher), minimum, atol=1e-6)
    assert float(case.loss(teacher, student)) > minimum + 1e-3


@every_loss_with_minimum
@pytest.mark.parametrize("weighted", [False, True])
def test_excess_is_the_loss_less_that_of_equal_tensors(case, weighted):
    teacher, student = draw(case)
    weights = np.linspace(0, 1, BATCH) if weighted else None

    def excess(teacher, student):
        top, bottom = case.loss.sums(
            teacher, student, weights, subtract_entropy=True
        )
        return top / bottom

    expected = case.loss(teacher, student, weights) - case.loss(
        teacher, teacher, weights
    )
    np.testing.assert_allclose(excess(teacher, student), expected, atol=1e-6)
    np.testing.assert_allclose(excess(teacher, teacher), 0, atol=1e-6)
    np.testing.assert_array_equal(
        gradient_at(lambda student: excess(teacher, student), student),
        gradient(case.loss, teacher, student, weights),
    )


@every_loss_with_minimum
def test_loss_has_a_zero_gradient_at_equal_tensors(case):
    teacher, _ = draw(case)
    np.testing.assert_allclose(
        gradient(case.loss, teacher, teacher), 0.0, atol=1e-6
    )


@every_loss
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_loss_and_gradient_are_finite_and_the_loss_not_negative(case, scale):
    teacher, student = draw(case, scale=scale)
    assert -1e-6 < float(case.loss(teacher, student)) < np.inf  # rounding
    assert np.isfinite(gradient(case.loss, teacher, student)).all()


@every_loss
def test_loss_and_gradient_of_zeros_are_finite_in_xla_too(case):
    zeros = np.zeros(case.shape, "float32")
    other, _ = draw(case)
    run = compiled(
        lambda *tensors: (case.loss(*tensors), gradient(case.loss, *tensors))
    )
    for teacher, student in ((zeros, zeros), (zeros, other), (other, zeros)):
        value, slope = run(
            *map(keras.ops.convert_to_tensor, (teacher, student))
        )
        assert np.isfinite(value)
        assert np.abs(slope).max() < 100.0


@every_loss
def test_loss_is_a_scalar_and_weights_of_one_change_nothing(case):
    teacher, student = draw(case)
    value = case.loss(teacher, student)
    assert value.shape == ()
    for weights in (
        np.ones(BATCH),
        np.ones((BATCH, 1)),
        np.ones(BATCH, bool),
        np.ones(BATCH, "int32"),
    ):
        np.testing.assert_allclose(
            case.loss(teacher, student, weights), value, rtol=1e-5
        )


@every_loss
def test_loss_counts_examples_by_their_weight(case):
    teacher, student = draw(case)
    without_last = case.loss(teacher[:-1], student[:-1])
    np.testing.assert_allclose(
        case.loss(teacher, student, [1, 1, 1, 0]), without_last, rtol=1e-5
    )
    if case.compares_examples:
        return  # equal examples are compared with each other
    doubled = [np.concatenate([tensor, tensor[:1]]) for tensor in draw(case)]
    np.testing.assert_allclose(
        case.loss(teacher, student, [2, 1, 1, 1]), case.loss(*doubled), 1e-5
    )


@every_loss
def test_loss_without_any_weight_is_zero_with_zero_gradient(case):
    teacher, student = draw(case)
    weights = [np.zeros(BATCH)]
    if case.positions:
        weights.append(np.zeros((BATCH, LENGTH)))
    for weight in weights:
        assert float(case.loss(teacher, student, weight)) == 0.0
        np.testing.assert_array_equal(
            gradient(case.loss, teacher, student, weight), 0.0
        )


@parametrize(
    [case for case in CASES if case.positions and not case.counts_padding]
)
def test_loss_of_a_padded_batch_is_that_of_the_batch(case):
    teacher, student = draw(case)
    mask = np.pad(np.ones((BATCH, LENGTH)), [(0, 0), (0, 2)])
    padded = case.loss(pad(case, teacher, 99.0), pad(case, student, -9.0), mask)
    np.testing.assert_allclose(padded, case.loss(teacher, student), rtol=1e-5)


@every_loss_with_positions
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "float16"])
def test_loss_takes_masks_of_any_dtype_and_rows_of_padding_alone(case, dtype):
    teacher, student = draw(case)
    mask = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0]])
    value = case.loss(teacher, student, mask.astype(dtype))
    np.testing.assert_allclose(
        value, case.loss(teacher[:3], student[:3], mask[:3]), rtol=1e-5
    )
    assert np.isfinite(
        gradient(case.loss, teacher, student, mask.astype(dtype))
    ).all()


@every_loss
def test_loss_is_the_same_after_its_configuration(case):
    setting = json.loads(json.dumps(case.loss.to_setting()))
    assert losses.get_loss(setting) == case.loss


@every_loss
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_loss_of_half_precision_is_computed_in_float32(case, dtype):
    halves = [
        keras.ops.cast(tensor, dtype) for tensor in draw(case, scale=10.0)
    ]
    value = case.loss(*halves)
    assert keras.backend.standardize_dtype(value.dtype) == "float32"
    singles = [keras.ops.cast(tensor, "float32") for tensor in halves]
    assert float(value) == float(case.loss(*singles))


@tensorflow_only
@every_loss
def test_loss_is_the_same_in_a_graph_with_open_shapes(case):
    teacher, student = draw(case)
    weights = np.array([1.0, 0.5, 0.0, 2.0], "float32")
    dynamic = [None] * (len(case.shape) - 1) + [case.shape[-1]]
    if isinstance(case.loss, losses.RelationKLDivergence):
        dynamic[2] = case.shape[2]  # the width must be known
    spec = native.TensorSpec(dynamic, "float32")
    graph = native.function(
        lambda *arguments: case.loss(*arguments),
        input_signature=[spec, spec, native.TensorSpec([None], "float32")],
    )
    np.testing.assert_allclose(
        graph(teacher, student, weights),
        case.loss(teacher, student, weights),
        rtol=1e-6,
    )


@parametrize([case for case in CASES if case.loss.needs_same_width])
def test_loss_refuses_tensors_of_different_shapes(case):
    teacher, student = draw(case)
    with pytest.raises(ValueError, match="shape"):
        case.loss(teacher, student[..., :1])
    with pytest.raises(ValueError, match="shape"):
        case.loss(teacher, student[0])


def close(first, second):
    np.testing.assert_allclose(first, second, rtol=2e-4, atol=1e-6)


@parametrize([case for case in CASES if not case.compares_examples])
@given(
    seed=seeds,
    scale=scales,
    weight=example_weights,
    cut=st.integers(1, BATCH - 1),
)
def test_sums_of_parts_are_the_sums_of_the_whole(
    case, seed, scale, weight, cut
):
    teacher, student = draw(case, seed, scale)
    parts = [
        case.loss.sums(teacher[rows], student[rows], weight[rows])
        for rows in (slice(None, cut), slice(cut, None))
    ]
    close(
        np.sum(parts, axis=0),
        np.stack(case.loss.sums(teacher, student, weight)),
    )


@parametrize([case for case in CASES if not case.counts_padding])
@given(seed=seeds, scale=scales, data=st.data())
def test_what_has_no_weight_may_be_anything(case, seed, scale, data):
    shape = (BATCH, LENGTH) if case.positions else (BATCH,)
    size = int(np.prod(shape))
    mask = np.reshape(
        data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), shape
    )
    teacher, student = draw(case, seed, scale)
    others = draw(case, seed + 1, 10 * scale)
    places = mask.reshape(*shape, *[1] * (teacher.ndim - mask.ndim))
    if case.positions == 2:  # (batch, heads, query, key): both are to be real
        places = mask[:, None, :, None] & mask[:, None, None, :]
    replaced = [
        np.where(places, tensor, other)
        for tensor, other in zip((teacher, student), others, strict=True)
    ]
    close(case.loss(*replaced, mask), case.loss(teacher, student, mask))
