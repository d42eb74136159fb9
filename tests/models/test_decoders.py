"""Decoders: taps, language models and their files, byte-pair tokenizers."""

import json

import keras_hub
import numpy as np
import pytest
from kit.helpers import DECODER_SIZES, decoder, softmax, to_numpy

from kdkit import models, taps
from kdkit.errors import UsageError
from kdkit.models.families import DECODERS, adapters_of, family_of

BATCH, LENGTH, LAYERS, WIDTH = 3, 7, 2, 16
VOCABULARY = 40
TEXT = ["the cast is good and the plot is superb", "a dull plot", "the end"]


def inputs():
    rng = np.random.default_rng(0)
    mask = np.ones((BATCH, LENGTH), "int32")
    mask[1, 5:] = 0
    ids = rng.integers(0, VOCABULARY, (BATCH, LENGTH)).astype("int32")
    return {"token_ids": ids, "padding_mask": mask}


@pytest.fixture(scope="module", params=DECODERS)
def model(request):
    return decoder(LAYERS, family=request.param)


@pytest.fixture(scope="module")
def outputs(model):
    run = taps.tapped(model, taps.describe(model).taps)
    return to_numpy(run(inputs(), training=False))


def test_describe_is_right(model):
    shape = taps.describe(model)
    heads = DECODER_SIZES.get(shape.family, {}).get("num_heads", 2)
    assert shape == taps.ModelShape(VOCABULARY, LAYERS, WIDTH, heads)
    assert set(taps.TAPS) - set(shape.taps) == {
        "cls_states",
        "pooled_output",
        "sentence_embedding",
    }
    with pytest.raises(UsageError, match="Unknown tap 'cls_states'"):
        taps.tapped(model, ["cls_states"])


def test_tapped_outputs_equal_the_models_own_exactly(model, outputs):
    x = inputs()
    np.testing.assert_array_equal(outputs["logits"], model(x, training=False))
    last = model.backbone.layer_norm(outputs["hidden_states"][-1])
    np.testing.assert_array_equal(last, model.backbone(x, training=False))


def test_tapped_attention_is_what_the_blocks_compute(model, outputs):
    """Pins the private names: the softmax gives the layers' own outputs."""
    positions = np.arange(LENGTH)
    allowed = positions[:, None] >= positions[None, :]
    allowed = allowed & (inputs()["padding_mask"][:, None, None, :] == 1)
    for index, block in enumerate(adapters_of(model.backbone)[""]):
        logits = outputs["attention_logits"][index]
        queries, keys = outputs["queries"][index], outputs["keys"][index]
        assert keys.shape == queries.shape  # one key for each query head
        np.testing.assert_allclose(
            logits,
            np.einsum("bqhd,bkhd->bhqk", queries, keys) / block.head_dim**0.5,
            atol=1e-5,
        )
        expected = softmax(np.where(allowed, logits, -1e9))
        probs = outputs["attention_probs"][index]
        np.testing.assert_allclose(probs, expected, atol=1e-6)
        read = np.einsum("bhqk,bkhd->bqhd", probs, outputs["values"][index])
        state = block.run(
            outputs["hidden_states"][index],
            lambda _, block=block, read=read: block.attention_output(read),
        )
        np.testing.assert_allclose(
            outputs["hidden_states"][index + 1], state, atol=1e-5
        )


def rotated(vectors):
    """Rotary positions in NumPy: halves of (batch, length, heads, dim)."""
    _, length, _, dim = vectors.shape
    angles = np.outer(
        np.arange(length), 10_000.0 ** (-np.arange(0, dim, 2) / dim)
    )[:, None]
    first, second = np.split(vectors, 2, axis=-1)
    return np.concatenate(
        [
            first * np.cos(angles) - second * np.sin(angles),
            second * np.cos(angles) + first * np.sin(angles),
        ],
        axis=-1,
    )


def test_llama_has_rotated_queries_and_keys_of_groups():
    model = decoder(1, family="llama3")
    read = to_numpy(
        taps.tapped(model, ["hidden_states", *taps.VECTOR_TAPS])(inputs())
    )
    state = read["hidden_states"][0]
    state = state / np.sqrt(np.mean(state**2, axis=-1, keepdims=True) + 1e-6)
    weights = {
        weight.path.split("transformer_layer_0/")[-1]: to_numpy(weight.value)
        for weight in model.weights
    }
    state = state * weights["self_attention_layernorm/scale"]
    queries, keys, values = (
        np.einsum(
            "blm,mhd->blhd", state, weights[f"self_attention/{name}/kernel"]
        )
        for name in ("query", "key", "value")
    )
    assert keys.shape[2] == 2
    for tap, expected in (
        ("queries", rotated(queries)),
        ("keys", np.repeat(rotated(keys), 2, axis=2)),
        ("values", np.repeat(values, 2, axis=2)),
    ):
        np.testing.assert_allclose(read[tap][0], expected, atol=1e-5)


def test_a_saved_decoder_loads_where_kdkit_is_not(model, tmp_path):
    family = family_of(model.backbone)
    tokenizer = models.train_byte_pairs(TEXT * 9, 262, family.name)
    assert isinstance(tokenizer, family.tokenizer)
    assert tokenizer.end_token_id == 261
    small = decoder(
        LAYERS,
        family=family.name,
        vocabulary_size=tokenizer.vocabulary_size(),
    )
    models.save_language_model(small, tokenizer, tmp_path / "saved", 12)
    loaded = models.load_language_model(tmp_path / "saved")
    assert loaded.has_trained_head
    assert models.is_causal(loaded.model)
    np.testing.assert_array_equal(loaded.model(inputs()), small(inputs()))
    own = keras_hub.models.CausalLM.from_preset(str(tmp_path / "saved"))
    ids = own.preprocessor.tokenizer(TEXT[0])
    np.testing.assert_array_equal(ids, tokenizer(TEXT[0]))
    text = own.generate("the", max_length=8)
    assert text.startswith("the")
    assert len(text) > len("the")
    with pytest.raises(UsageError, match="no masked tokens"):
        models.load_masked_lm(tmp_path / "saved")


def test_trained_byte_pairs_spell_any_text():
    tokenizer = models.train_byte_pairs(TEXT, 260)
    assert tokenizer.vocabulary_size() == 260
    strange = "naïve 猫\n <unk>"
    assert tokenizer.detokenize(tokenizer(strange)) == strange
    # Behind all others: keras-hub pads with the first.
    assert tokenizer.end_token_id == 259
    # The most frequent pairs are one token.
    assert len(tokenizer("the the")) < len("the the")


@pytest.mark.parametrize(
    ("vocabulary", "merges"),
    [
        ("gpt2-encoder.json", "gpt2-vocab.bpe"),
        ("vocab.json", "merges.txt"),
        ("vocabulary.json", "merges.txt"),
    ],
)
def test_byte_pairs_are_read_as_they_are_published(
    tmp_path, vocabulary, merges
):
    pieces = ["<|endoftext|>", "a", "b", "ab"]
    ids = {piece: index for index, piece in enumerate(pieces)}
    (tmp_path / vocabulary).write_text(json.dumps(ids))
    (tmp_path / merges).write_text("#version: 0.2\na b\n")
    tokenizer = models.load_tokenizer(tmp_path / vocabulary)
    assert list(tokenizer("abb")) == [3, 2]
