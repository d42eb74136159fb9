"""What every format does before a file gets its name, on files in memory."""

import re
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from kit.exported import INPUTS, Memory, model_of
from kit.helpers import ROOT, batch, bert, cross_entropy, labels

import kdkit
from kdkit import export

EYE = np.eye(3, dtype="float32")
THREE = {"verification_data": [EYE] * 3}


@pytest.fixture
def exported(tmp_path):
    """A function that exports to memory; it leaves no other file."""

    def made(model, *arguments, change=lambda outputs, _: outputs, **options):
        path, exporter = tmp_path / "student.memory", Memory(change)
        options["overwrite"] = True
        try:
            report = exporter.export(model, path, *arguments, **options)
        finally:
            assert {*tmp_path.iterdir()} <= {path}
        return report, exporter.source

    return made


def passing():
    """A model that returns its input."""
    given = keras.Input((3,))
    return keras.Model(given, layers.Identity()(given))


def test_a_report_measures_difference_and_agreement(exported):
    moved = np.array([[0, 0, 0], [0, 1.5, 0], [0, 0.7, 0.5]], "float32")
    change = lambda x, number: x + (number == 1) * moved  # noqa: E731
    report, _ = exported(passing(), "int8", change=change, **THREE)
    assert (report.max_abs_difference, report.examples) == (1.5, 9)
    change = lambda x, number: x[:, [0, 2, 1]]  # noqa: E731
    report, _ = exported(passing(), "int8", change=change, **THREE)
    assert report.same_top_class == pytest.approx(1 / 3)


def test_padding_does_not_count_in_outputs_for_tokens(exported):
    ids, mask = (
        keras.Input((3,), dtype="int32", name=name) for name in INPUTS[::2]
    )
    states = layers.Embedding(9, 3)(ids)
    states = keras.ops.where(mask[..., None] > 0, states, 0.0)
    model = keras.Model({"token_ids": ids, "padding_mask": mask}, states)
    real = np.array([[1, 1, 0], [1, 0, 0]])
    data = [{"token_ids": 2 * real, "padding_mask": real}]
    change = lambda x, _: x - EYE[0] * (real[..., None] == 0)  # noqa: E731
    report, _ = exported(model, change=change, verification_data=data)
    assert (report.max_abs_difference, report.same_top_class) == (0, 1)
    assert report.examples == 2


def test_decisions_on_labels_are_compared_one_by_one(exported):
    """Zeros decide against each label, and have the highest one nowhere."""
    seen, model = [], model_of("classifier")
    change = lambda x, _: seen.append(x) or 0 * x  # noqa: E731
    report, _ = exported(model, "int8", outputs="sigmoid", change=change)
    assert report.same_top_class == (np.concatenate(seen) <= 0.5).mean()


WRONG = {  # how outputs change, the precision, what the error names
    "one of three": (lambda x, n: x + (n == 1) * EYE / 9, "fp32", "2 of 3"),
    "shape": (lambda x, n: x[:, :1], "int8", r"\(3, 1\)"),
    "NaN": (lambda x, n: x * np.nan, "int8", "9 of 9 outputs"),
    "infinity": (lambda x, n: x if n != 2 else x + np.inf, "int8", "batch 3"),
}


@pytest.mark.parametrize("name", WRONG)
def test_outputs_that_are_not_the_models_refuse_a_file(name, exported):
    change, precision, words = WRONG[name]
    with pytest.raises(RuntimeError, match=f"was not written.*{words}"):
        exported(passing(), precision, change=change, **THREE)


def test_a_model_that_returns_nan_is_refused(exported):
    with pytest.raises(RuntimeError, match="Keras model returns NaN"):
        exported(passing(), verification_data=[EYE * np.nan])


def turned(cosine):
    """Vectors of length 1 with this cosine to those of the model."""

    def change(vectors, _):
        side = np.roll(vectors, 1, axis=1)
        side -= vectors * (side * vectors).sum(1, keepdims=True)
        side /= np.linalg.norm(side, axis=1, keepdims=True)
        return cosine * vectors + np.sqrt(1 - cosine**2) * side

    return change


@pytest.mark.parametrize(
    ("precision", "cosine", "is_near"),
    [
        *[("fp32", 0.99, False), ("fp16", 0.9995, True), ("fp16", 0.99, False)],
        *[("int8", 0.9, True), ("int8", 0.7, False)],
    ],
)
def test_vectors_in_other_directions_refuse_a_file(
    precision, cosine, is_near, exported
):
    model = model_of("embedder")
    if not is_near:
        with pytest.raises(RuntimeError, match="was not written"):
            exported(model, precision, change=turned(cosine))
        return
    report, _ = exported(model, precision, change=turned(cosine))
    assert report.smallest_cosine == pytest.approx(cosine, abs=1e-5)
    assert report.mean_cosine == pytest.approx(cosine, abs=1e-5)
    report, _ = exported(model, precision, change=lambda x, _: 2 * x)
    assert report.smallest_cosine == pytest.approx(1)
    with pytest.raises(RuntimeError, match="differ from the Keras model's"):
        exported(model, change=lambda x, _: 2 * x)


def test_generated_batches_cover_the_inputs(exported):
    model = model_of("classifier")
    batches, again = (exported(model)[1].batches for _ in range(2))
    keras.tree.map_structure(np.testing.assert_array_equal, batches, again)
    lengths = {one["token_ids"].shape[1] for one in batches}
    assert len(lengths) == 2
    assert max(lengths) <= model.backbone.max_sequence_length
    for one in batches:
        assert one["token_ids"].max() < model.backbone.vocabulary_size
        assert len(np.unique(one["padding_mask"].sum(axis=1))) > 1
        assert set(np.unique(one["segment_ids"])) == {0, 1}
        assert not one["token_ids"][one["padding_mask"] == 0].any()


def test_a_masked_mean_has_a_token_in_each_generated_row(exported):
    pooled = [layers.GlobalAveragePooling1D(), layers.Dense(2)]
    table = layers.Embedding(20, 8, mask_zero=True)
    given = keras.Input((6,), dtype="int32")
    report, source = exported(keras.Sequential([given, table, *pooled]))
    assert report.sequence_length == 6
    assert source.input_names == ("token_ids",)


def test_images_of_any_size_need_batches(exported):
    pooled = [layers.GlobalAveragePooling2D(), layers.Dense(2)]
    batches = [np.ones((2, 3, 4, 1)), (np.ones((1, 5, 5, 1)), np.zeros(1))]
    model = keras.Sequential([keras.Input((None, None, 1)), *pooled])
    report, source = exported(model, verification_data=batches)
    assert (report.examples, source.sizes) == (3, (None, None, 1))


@pytest.mark.parametrize("dtype", ["mixed_float16", "float16", "bfloat16"])
def test_a_model_in_half_precision_is_written_in_float32(dtype, exported):
    model = bert(1, dtype=dtype)
    copy = exported(model)[1].model
    assert model.backbone.dtype_policy.name == dtype
    assert {layer.dtype_policy.name for layer in copy.layers} == {"float32"}
    for one, other in zip(model.get_weights(), copy.get_weights(), strict=True):
        np.testing.assert_array_equal(one.astype("float32"), other)


def fresh(**dense):
    """A model whose encoder is loaded and whose head is as it begins."""
    backbone = bert(1, num_classes=None)
    states = backbone(backbone.input)["pooled_output"]
    head = layers.Dense(3, name="logits", **dense)
    return keras.Model(backbone.input, head(states))


def without_bias():
    return fresh(use_bias=False)


def without_pooler():
    """A model that needs no pooler, whose bias is that of a new layer."""
    backbone = bert(1, num_classes=None)
    bias = backbone.pooled_dense.bias
    bias.assign(keras.ops.zeros_like(bias))
    states = backbone(backbone.input)["sequence_output"]
    return keras.Model(backbone.input, layers.Dense(3)(states[:, 0]))


def train(student, on):
    """Trains on states or logits of a teacher, or on labels."""
    if on == "labels":
        student.compile("adam", cross_entropy(), run_eagerly=True)
        student.fit(batch(), labels(), verbose=0)
        return
    losses = kdkit.losses
    loss = losses.SoftCrossEntropy if on == "logits" else losses.HiddenStateMSE
    objective = kdkit.Objective(loss(), tap=on)
    model = kdkit.Distiller(bert(2, seed=1), student, [objective])
    model.compile(optimizer=keras.optimizers.Adam(1e-3), run_eagerly=True)
    model.fit(batch(), verbose=0)


UNTRAINED = {  # the student, what it is trained on, whether its head is warned
    "states": (fresh, ["hidden_states"], True),
    "a later stage": (fresh, ["hidden_states", "logits"], False),
    "fit": (fresh, ["hidden_states", "labels"], False),
    "a loaded head": (lambda: bert(1), ["hidden_states"], False),
    "no bias": (without_bias, ["hidden_states"], True),
    "its training": (without_bias, ["hidden_states", "labels"], False),
    "an unused pooler": (without_pooler, ["logits"], False),
}


@pytest.mark.parametrize("name", UNTRAINED)
def test_a_head_without_any_gradient_is_warned_of(name, exported):
    make, stages, is_warned = UNTRAINED[name]
    student = make()
    for stage in stages:
        train(student, stage)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exported(student)
    texts = [str(one.message) for one in caught]
    assert sum("Never trained: 'logits'" in one for one in texts) == is_warned
    assert sum("Never" in one for one in texts) == is_warned


@pytest.mark.parametrize("name", ["litert", "saved_model"])
def test_the_warning_names_the_line_of_the_user(name, tmp_path, monkeypatch):
    student = fresh()
    train(student, "hidden_states")
    monkeypatch.setattr(export.get_exporter(name), "write", None)
    with (
        pytest.warns(UserWarning, match="logits") as found,
        pytest.raises(TypeError),
    ):
        getattr(export, f"to_{name}")(student, tmp_path / "student")
    assert found[0].filename == __file__
    assert not list(tmp_path.iterdir())


def test_the_example_of_the_readme_trains_the_head(exported):
    """It compiles no loss on labels, so the objectives alone must do it."""
    text = (ROOT / "README.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    (block,) = [block for block in blocks if "kdkit.Distiller(" in block]
    data = tf.data.Dataset.from_tensors(batch())
    names = {"kdkit": kdkit, "train": data, "dev": data, "student": fresh()}
    names["teacher"] = bert(2, hidden_dim=12, seed=1)
    with warnings.catch_warnings():
        # Keras' own, on data that is no array.
        warnings.filterwarnings("ignore", "`shuffle=True` was passed")
        exec(block, names)
        exported(names["student"])
