"""Fake quantisation: NumPy oracles, gradients, and models that round."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras_hub.models import BertMaskedLM
from kit.helpers import batch, bert, decoder, with_random_weights

import kdkit
from kdkit import quantization
from kdkit.quantization import FakeQuantization
from kdkit.taps import tapped

RNG = np.random.default_rng(0)


def symmetric(weights, bits, block):
    """Each output's weights on a grid, with a scale for each block of rows."""
    weights = weights.astype("float64")
    rounded = np.empty_like(weights)
    for start in range(0, len(weights), block):
        for unit in range(weights.shape[1]):
            part = weights[start : start + block, unit]
            scale = np.abs(part).max() / (2 ** (bits - 1) - 1) or 1.0
            if block < len(weights):
                scale = float(tf.cast(tf.cast(scale, "bfloat16"), "float64"))
            rounded[start : start + block, unit] = np.rint(part / scale) * scale
    return rounded


def asymmetric(values, low, high):
    """Values on 256 steps, one of which is 0."""
    scale = (high - low) / 255 or 1.0
    zero_point = np.rint(-low / scale)
    integers = np.clip(np.rint(values / scale) + zero_point, 0, 255)
    return (integers - zero_point) * scale


@pytest.mark.parametrize(
    ("bits", "block"), [(8, None), (4, None), (4, 4), (4, 5)]
)
def test_weights_are_symmetric_integers_with_a_scale_per_output(bits, block):
    weights = RNG.normal(size=(12, 3)).astype("float32")
    weights[:, 2] = 0
    found = quantization.fake_quantize_weights(weights, bits, block)
    used = 4 if block == 4 else 12  # 5 does not divide 12
    np.testing.assert_allclose(found, symmetric(weights, bits, used), atol=1e-6)


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 2.0), (0.0, 3.0), (-2.0, 0.0)]
)
def test_activations_are_clipped_and_zero_stays_exact(low, high):
    values = np.append(RNG.normal(size=200) * 2, 0).astype("float32")
    found = np.array(quantization.fake_quantize_activations(values, low, high))
    scale = (high - low) / 255
    difference = np.abs(found - asymmetric(values, low, high))
    # A value halfway between two steps may take either.
    assert (difference < 1e-5).mean() > 0.99
    assert difference.max() < scale * 1.01
    assert found[-1] == 0


@pytest.mark.parametrize("shape", [(2, 3, 8), (2, 3, 4, 2)])
def test_rows_have_their_own_ranges(shape):
    values = RNG.normal(size=(2, 3, 8)).astype("float32") * [[[1.0], [9], [0]]]
    found = quantization.fake_quantize_rows(
        values.astype("float32").reshape(shape), num_axes=len(shape) - 2
    )
    for row, rounded in zip(
        values.reshape(-1, 8), np.reshape(found, (-1, 8)), strict=True
    ):
        low, high = min(row.min(), 0), max(row.max(), 0)
        np.testing.assert_allclose(
            rounded, asymmetric(row, low, high), atol=1e-5
        )


def test_biases_are_integers_of_the_scales_of_inputs_and_kernel():
    kernel = RNG.normal(size=(12, 3)).astype("float32")
    bias = RNG.normal(size=3).astype("float32")
    found = quantization.fake_quantize_bias(bias, kernel, -1.0, 2.0)
    step = np.abs(kernel).max(0) / 127 * 3 / 255
    np.testing.assert_allclose(found, np.rint(bias / step) * step, atol=1e-6)


def test_embeddings_have_the_range_of_their_table():
    table = RNG.normal(size=(10, 4)).astype("float32")
    found = quantization.fake_quantize_embeddings(table[[1, 7]], table)
    expected = asymmetric(table[[1, 7]], table.min(), table.max())
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: quantization.fake_quantize_weights(x, 4, 2),
        quantization.fake_quantize_rows,
        lambda x: quantization.fake_quantize_embeddings(x, x),
    ],
    ids=["weights", "rows", "embeddings"],
)
def test_the_gradient_passes_rounding_unchanged(function):
    values = tf.constant(RNG.normal(size=(4, 6)), "float32")
    upstream = tf.constant(RNG.normal(size=(4, 6)), "float32")
    with tf.GradientTape() as tape:
        tape.watch(values)
        rounded = function(values)
    gradient = tape.gradient(rounded, values, output_gradients=upstream)
    np.testing.assert_array_equal(gradient, upstream)


def test_the_gradient_of_activations_is_0_outside_of_their_range():
    values = tf.constant([-3.0, -0.9, 0.0, 1.9, 2.5])
    with tf.GradientTape() as tape:
        tape.watch(values)
        rounded = quantization.fake_quantize_activations(values, -1.0, 2.0)
    gradient = tape.gradient(rounded, values)
    np.testing.assert_array_equal(gradient, [0, 1, 1, 1, 0])


@pytest.fixture(scope="module")
def model():
    return with_random_weights(bert(2))


@pytest.fixture(scope="module")
def inputs():
    return batch(32)


@pytest.fixture
def static(model, inputs):
    """The rounding of a static file, while the model rounds by it."""
    batches = [
        {name: x[rows] for name, x in inputs.items()}
        for rows in (slice(0, 16), slice(16, None))
    ]
    rounding = FakeQuantization("static_int8", batches)
    rounding.apply(model)
    yield rounding
    rounding.remove()


def test_every_dense_layer_has_the_ranges_of_its_inputs_and_product(
    model, inputs, static
):
    static.remove()
    weights = {one.path: one.numpy() for one in model.weights}
    kernels = {path for path in weights if path.endswith("/kernel")}
    ranges = static.ranges_by_path(model)
    assert {f"{path}/kernel" for path in ranges} == kernels
    key = "transformer_layer_1/self_attention_layer/key"
    (path,) = [path for path in ranges if path.endswith(key)]
    taps = tapped(model, ["hidden_states"])(inputs)
    state = np.array(taps["hidden_states"][1])
    product = state @ weights[f"{path}/kernel"].reshape(8, 8)
    expected = [
        (min(one.min(), 0), max(one.max(), 0)) for one in (state, product)
    ]
    np.testing.assert_allclose(ranges[path], expected, atol=1e-4)


def test_a_layer_computes_with_rounded_inputs_weights_and_product(
    model, static
):
    dense = model.backbone.get_layer("pooled_dense")
    values = RNG.normal(size=(5, dense.kernel.shape[0])).astype("float32")
    found = np.array(dense(values))
    of_inputs, of_product = static.ranges["pooled_dense"]
    kernel = symmetric(dense.kernel.numpy(), 8, dense.kernel.shape[0])
    product = asymmetric(values, *of_inputs) @ kernel + dense.bias.numpy()
    expected = np.tanh(asymmetric(product, *of_product))
    step = (of_product[1] - of_product[0]) / 255
    assert np.abs(found - expected).max() < 1.01 * step


@pytest.mark.parametrize("precision", quantization.PRECISIONS)
def test_a_model_rounds_until_it_is_removed(model, inputs, precision, tmp_path):
    before, weights = np.array(model(inputs)), model.get_weights()
    rounding = FakeQuantization(precision, [inputs])
    rounding.apply(model)
    assert quantization.rounds_as(model, precision)
    during = np.array(model(inputs))
    with quantization.full_precision(model):
        np.testing.assert_array_equal(model(inputs), before)
    np.testing.assert_array_equal(model(inputs), during)
    rounding.save(tmp_path / "quantization.json")
    rounding.remove()
    np.testing.assert_array_equal(model(inputs), before)
    assert 1e-5 < np.abs(during - before).max() < 1.0
    for one, other in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(one, other)
    again = quantization.read_quantization(tmp_path / "quantization.json")
    again.apply(model)
    np.testing.assert_array_equal(model(inputs), during)
    again.remove()


def test_a_distiller_trains_a_student_that_rounds(inputs):
    """Also where its steps were traced before without rounding."""
    student = with_random_weights(bert(1), seed=1)
    objective = kdkit.Objective(kdkit.losses.LogitMSE())
    distiller = kdkit.Distiller(bert(1), student, [objective])
    distiller.compile(optimizer=keras.optimizers.Adam(1e-3), jit_compile=False)
    data = tf.data.Dataset.from_tensors(inputs)
    rounding = FakeQuantization("static_int8", data)
    losses = []
    student.predict(inputs, verbose=0)  # traced without rounding
    for callbacks in ([], [rounding]):
        before = student.get_weights()
        distiller.fit(data, verbose=0, shuffle=False, callbacks=callbacks)
        losses.append(distiller.evaluate(data, verbose=0, return_dict=True))
    assert quantization.active_quantization(student) is rounding
    for one, other in zip(student.get_weights(), before, strict=True):
        assert (one != other).any()
    with quantization.full_precision(student):
        teacher = np.array(distiller.teacher(inputs))
        exact = np.mean((np.array(student(inputs)) - teacher) ** 2)
    rounded = np.mean((np.array(student(inputs)) - teacher) ** 2)
    assert losses[1]["loss"] == pytest.approx(rounded, rel=1e-4)
    assert rounded != pytest.approx(exact, rel=1e-3)
    for then in (rounding.remove, lambda: None):
        for model in (student, distiller):
            found = model.predict(inputs, verbose=0)
            np.testing.assert_allclose(found, student(inputs), atol=1e-5)
        then()
    (last, *_) = distiller.evaluate(data, verbose=0)
    assert last == pytest.approx(exact, rel=1e-4)


def _apply(model, precision="int4", **arguments):
    FakeQuantization(precision, **arguments).apply(model)


@pytest.mark.parametrize(
    ("run", "named"),
    [
        (lambda model: FakeQuantization("int5"), "'int5'"),
        (
            lambda model: _apply(
                model, "static_int8", calibration_data=[batch(15)]
            ),
            "15",
        ),
        (
            lambda model: _apply(model, "static_int8", ranges={"a": ()}),
            "ranges",
        ),
        (lambda model: _apply(decoder(1)), "GPT2Backbone"),
        (lambda model: _apply(bert(1, dtype="mixed_bfloat16")), "bfloat16"),
        (lambda model: _apply(keras.Sequential()), "Sequential"),
        (
            lambda model: _apply(BertMaskedLM(bert(1).backbone)),
            "masked LM",
        ),
    ],
    ids=["precision", "few rows", "ranges", "decoder", "half", "other", "MLM"],
)
def test_what_cannot_round_is_one_clear_line(model, run, named):
    with pytest.raises(ValueError, match=named):
        run(model)
    assert quantization.active_quantization(model) is None


def test_a_model_cannot_round_twice(model, static):
    with pytest.raises(ValueError, match=model.name):
        _apply(model)
    assert quantization.active_quantization(model) is static
