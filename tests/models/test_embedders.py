"""Embedders, against sentence-transformers and NumPy."""

import keras
import keras_hub
import numpy as np
import pytest
from kit.encoders import encoder, tokenizer

from kdkit import models
from kdkit.data import Examples, encode
from kdkit.errors import UsageError
from kdkit.models.families import FAMILIES
from kdkit.models.heads import in_policy
from kdkit.taps import describe, tapped

LENGTH = 7
IDS = np.array([[5, 6, 7, 8, 9, 10], [5, 6, 7, 8, 0, 0], [5, 6, 0, 0, 0, 0]])
BATCH = {
    "token_ids": IDS.astype("int32"),
    "padding_mask": (IDS > 0).astype("int32"),
    "segment_ids": np.zeros_like(IDS, "int32"),
}
POOLED = {
    "mean": lambda states, real: (
        (states * real[..., None]).sum(1) / real.sum(1)[:, None]
    ),
    "cls": lambda states, real: states[:, 0],
    "max": lambda states, real: np.where(
        real[..., None] == 1, states, -np.inf
    ).max(1),
}
DENSE = (models.DenseSettings(5, activation="tanh"), models.DenseSettings(4))
every_family = pytest.mark.parametrize("family", FAMILIES)


def inputs_of(model, batch=BATCH):
    return {name: batch[name] for name in model.input}


def vectors(model, batch=BATCH):
    return np.asarray(model(inputs_of(model, batch)))


@every_family
@pytest.mark.parametrize("mode", models.POOLINGS)
def test_the_vector_is_the_pooled_states(family, mode):
    backbone = encoder(family, num_classes=None)
    outputs = backbone(inputs_of(backbone))
    if isinstance(outputs, dict):
        outputs = outputs["sequence_output"]
    expected = POOLED[mode](np.asarray(outputs), BATCH["padding_mask"])
    plain = models.make_embedder(backbone, models.Pooling(mode, False))
    np.testing.assert_allclose(vectors(plain), expected, atol=1e-5)
    unit = models.make_embedder(backbone, models.Pooling(mode))
    expected = expected / np.linalg.norm(expected, axis=-1, keepdims=True)
    np.testing.assert_allclose(vectors(unit), expected, atol=1e-5)
    assert models.pooling_of(unit) == models.Pooling(mode)
    assert models.embedding_width(unit) == 16


def test_dense_layers_are_between_pooling_and_normalization():
    backbone = encoder("bert", num_classes=None)
    pooling = models.Pooling("cls", dense=DENSE)
    model = models.make_embedder(backbone, pooling)
    first, second = models.dense_layers(model)
    state = np.asarray(backbone(inputs_of(backbone))["sequence_output"])[:, 0]
    expected = np.tanh(state @ first.kernel + first.bias)
    expected = expected @ second.kernel + second.bias
    expected = expected / np.linalg.norm(expected, axis=-1, keepdims=True)
    np.testing.assert_allclose(vectors(model), expected, atol=1e-5)
    assert models.pooling_of(model) == pooling


@pytest.mark.parametrize("dense", [(), DENSE], ids=["no dense", "dense"])
def test_an_embedder_computes_in_half_precision(dense):
    pooling = models.Pooling(dense=dense)
    model = models.make_embedder(encoder("bert", num_classes=None), pooling)
    half = in_policy(model, "mixed_bfloat16")
    assert half.compute_dtype == "bfloat16"
    assert models.pooling_of(half) == pooling
    difference = keras.ops.cast(half(inputs_of(half)), "float32")
    assert np.abs(difference - vectors(model)).max() < 0.05


def test_a_row_without_tokens_is_finite():
    empty = {**BATCH, "padding_mask": np.zeros_like(BATCH["padding_mask"])}
    for family in ("bert", "distil_bert"):
        model = models.make_embedder(encoder(family, num_classes=None))
        assert np.isfinite(vectors(model, empty)).all()


def test_layers_are_dropped():
    teacher = models.make_embedder(
        encoder("bert", num_classes=None, num_layers=3),
        models.Pooling("max", dense=DENSE),
    )
    student = models.dropped_layers(teacher, [1, 3])
    assert models.pooling_of(student) == models.pooling_of(teacher)
    ours = student.layers[-2].transformer_layers
    theirs = teacher.layers[-2].transformer_layers
    for block, source in ((ours[0], theirs[0]), (ours[1], theirs[2])):
        for one, two in zip(block.weights, source.weights, strict=True):
            np.testing.assert_array_equal(one, two)
    all_blocks = models.dropped_layers(teacher, [1, 2, 3])
    np.testing.assert_allclose(vectors(all_blocks), vectors(teacher), atol=1e-6)


@pytest.mark.parametrize("family", ["bert", "distil_bert"])
def test_the_tap_is_the_output(family):
    model = models.make_embedder(encoder(family, num_classes=None))
    shape = describe(model)
    assert shape.embedding_width == 16
    assert shape.num_classes is None
    for taps in (["sentence_embedding"], ["sentence_embedding", "cls_states"]):
        found = tapped(model, taps)(BATCH)
        np.testing.assert_allclose(
            found["sentence_embedding"], vectors(model), atol=1e-6
        )
    with pytest.raises(
        UsageError, match="Unknown tap .logits.*sentence_embedding"
    ):
        tapped(model, ["logits"])
    with pytest.raises(UsageError, match="Unknown tap 'sentence_embedding'"):
        tapped(encoder(family), ["sentence_embedding"])


SAVED = {
    "keras-hub's": ("bert", models.Pooling("max", False)),
    "functional": ("distil_bert", models.Pooling("cls")),
    "with dense layers": ("bert", models.Pooling(dense=DENSE)),
}


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_embedder_is_the_same(name, tmp_path):
    family, pooling = SAVED[name]
    model = models.make_embedder(encoder(family, num_classes=None), pooling)
    tokens = tokenizer(family)
    models.save_embedder(model, tokens, tmp_path / "place", LENGTH)
    loaded = models.load_embedder(tmp_path / "place")
    np.testing.assert_allclose(vectors(loaded.model), vectors(model), atol=1e-6)
    assert models.pooling_of(loaded.model) == pooling
    assert loaded.sequence_length == LENGTH
    texts = ["good plot", "a"]
    assert list(map(list, loaded.tokenizer(texts))) == [
        list(ids) for ids in tokens(texts)
    ]
    models.load_embedder(tmp_path / "place", pooling.mode)
    with pytest.raises(UsageError, match="another pooling"):
        models.load_embedder(tmp_path / "place", models.Pooling("mean", False))
    # A classifier starts from the encoder.
    assert not models.load_classifier(tmp_path / "place", 2).has_trained_head


def test_a_saved_embedder_loads_without_kdkit(tmp_path):
    model = models.make_embedder(encoder("bert", num_classes=None))
    models.save_embedder(model, tokenizer("bert"), tmp_path / "bert", LENGTH)
    theirs = keras_hub.models.TextEmbedder.from_preset(str(tmp_path / "bert"))
    text = "a dull plot"
    row = encode(Examples(([text],), None), tokenizer("bert"), LENGTH)
    batch = row.inputs(np.arange(1), int(row.lengths[0]))
    np.testing.assert_allclose(
        theirs.encode_text(text, verbose=0), vectors(model, batch), atol=1e-5
    )
    model = models.make_embedder(encoder("distil_bert", num_classes=None))
    path = tmp_path / "distil_bert"
    models.save_embedder(model, tokenizer("distil_bert"), path, LENGTH)
    backbone = keras_hub.models.Backbone.from_preset(str(path))
    pooling = keras.models.load_model(path / "sentence_embedding.keras")
    batch = keras.tree.map_structure(keras.ops.convert_to_tensor, BATCH)
    states = {**batch, "sequence_output": backbone(inputs_of(backbone, batch))}
    found = pooling({name: states[name] for name in pooling.input})
    np.testing.assert_allclose(found, vectors(model), atol=1e-6)


def test_an_encoder_gets_the_given_pooling(tmp_path):
    backbone = encoder("bert", num_classes=None)
    models.save_encoder(backbone, tokenizer("bert"), tmp_path)
    loaded = models.load_embedder(tmp_path, "max")
    assert models.pooling_of(loaded.model) == models.Pooling("max")
