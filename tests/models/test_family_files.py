"""The contract of the encoder families: token ids, presets, files."""

import functools
import json

import numpy as np
import pytest
from kit.encoders import MORE_SENTENCES, SENTENCES, encoder, tokenizer
from kit.helpers import LENGTH, batch, large_except, run_without_kdkit

import kdkit
from kdkit.models import (
    load_classifier,
    load_tokenizer,
    save_preset,
)
from kdkit.models.families import FAMILIES


def inputs_of(model):
    everything = batch() | {"mask_positions": np.array([[1, 2]] * 4)}
    return {name: everything[name] for name in model.input}


def ids_of(tokens):
    """The ids of the sentences, one list each."""
    return [list(row) for row in tokens(SENTENCES)]


def preprocessor(family, tokens, length):
    """keras-hub's own preprocessor of a family's classifier."""
    return FAMILIES[family].classifier.preprocessor_cls(
        tokens, sequence_length=length
    )


@pytest.mark.parametrize(
    ("family", "texts"),
    large_except(
        [
            # One family of each kind of tokenizer for single sentences.
            *((name, (SENTENCES,)) for name in ("bert", "roberta", "albert")),
            *((family, (SENTENCES, MORE_SENTENCES)) for family in FAMILIES),
        ],
        ("albert", (SENTENCES,)),
        ("bert", (SENTENCES, MORE_SENTENCES)),
    ),
)
def test_encode_equals_keras_hub_preprocessor(family, texts):
    """At this length some rows are cut and some are not."""
    tokens = tokenizer(family)
    found = kdkit.data.encode(kdkit.data.Examples(texts), tokens, 14)
    assert 0 < found.num_truncated < len(found)
    expected = preprocessor(family, tokens, 14)(x=texts)
    ids = np.array(expected["token_ids"])
    masks = np.array(expected["padding_mask"])
    np.testing.assert_array_equal(found.lengths, masks.sum(axis=1))
    np.testing.assert_array_equal(found.token_ids, ids[masks])
    assert found.pad_token_id == tokens.pad_token_id
    if "segment_ids" in expected:
        np.testing.assert_array_equal(
            found.segment_ids, np.array(expected["segment_ids"])[masks]
        )


@pytest.fixture(scope="module")
def presets(tmp_path_factory):
    """Saves a preset of a family: its path and what was saved in it."""
    root = tmp_path_factory.mktemp("presets")

    def save(family):
        tokens = tokenizer(family)
        model = encoder(family, vocabulary_size=tokens.vocabulary_size())
        save_preset(model, tokens, root / family, sequence_length=LENGTH)
        return root / family, model, tokens

    return functools.cache(save)


@pytest.mark.parametrize(
    "family", large_except(FAMILIES, "bert", "albert", "roberta", "deberta_v3")
)
def test_saved_preset_gives_the_same_logits_and_tokenizer(presets, family):
    path, model, tokens = presets(family)
    loaded = load_classifier(path, num_classes=3)
    assert loaded.has_trained_head
    assert type(loaded.model) is type(model)
    assert type(loaded.model.backbone) is FAMILIES[family].backbone
    for found in (loaded.tokenizer, load_tokenizer(path)):
        assert type(found) is FAMILIES[family].tokenizer
        assert found.get_vocabulary() == tokens.get_vocabulary()
        assert ids_of(found) == ids_of(tokens)
    x = inputs_of(model)
    np.testing.assert_array_equal(loaded.model(x), model(x))


@pytest.mark.large
@pytest.mark.parametrize("family", ["bert", "electra"])
def test_a_saved_model_loads_where_kdkit_is_not_installed(
    family, presets, tmp_path
):
    """Also ELECTRA, which keras-hub has no classifier of its own for."""
    path, model, tokens = presets(family)
    script = (
        "import json, keras_hub\n"
        f"m = keras_hub.models.TextClassifier.from_preset({str(path)!r})\n"
        f"x = m.preprocessor({SENTENCES!r})\n"
        "print(json.dumps(m(x).numpy().tolist()))\n"
    )
    printed = run_without_kdkit(script, tmp_path)
    logits = json.loads(printed.splitlines()[-1])
    x = preprocessor(family, tokens, LENGTH)(SENTENCES)
    np.testing.assert_allclose(logits, model(x), atol=1e-5)
