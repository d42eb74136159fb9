"""Rows, presets and models keep the ids of a checkpoint's tokenizer."""

import itertools

import keras_hub
import numpy as np
import pytest
from kit.encoders import (
    ENCODERS,
    MORE_SENTENCES,
    SENTENCES,
    classifier_class,
    encoder,
    tokenizer,
)
from kit.foreign import foreign_model
from kit.helpers import bert, large_except, save_classifier
from kit.hugging_face import change_config
from kit.real_texts import hostile_texts
from kit.references import reference
from kit.tokenizer_files import (
    CONFIG,
    PIECES,
    WHOLE,
    again,
    change,
    expected_ids,
    ids,
    write,
)

from kdkit import data
from kdkit.models import (
    LoadedModel,
    load_classifier,
    load_encoder,
    load_tokenizer,
    save_model,
)

TEXTS = ["the café, naïve\u00a0a.", "Straße cafés b", "the É a Newtok newtok"]
FAMILIES = ("bert", "albert", "xlm_roberta", "roberta", "gpt2")


def checkpoint(path, family, model_of=None, **settings):
    """A tiny encoder that transformers saves, with its tokenizer.

    Args:
        model_of: string. Another family for the model.
        **settings: of the tokenizer.
    """
    added = ["Newtok"] if family == "bert" else []
    judge = write(path, family, settings=settings, added=added)
    positions = "n_positions" if family == "gpt2" else "max_position_embeddings"
    sizes = {"vocab_size": len(judge), positions: 34}
    if judge.pad_token_id is not None:
        sizes["pad_token_id"] = judge.pad_token_id
    model = foreign_model(model_of or family, **sizes)
    model.save_pretrained(path)
    return model, again(path)


@pytest.mark.parametrize("family", large_except(FAMILIES, "bert", "gpt2"))
def test_ids_stay_wherever_a_checkpoint_goes(family, tmp_path):
    """Eagerly, in `tf.data`, and in presets, with keras-hub alone."""
    path, preset = tmp_path / "checkpoint", tmp_path / "preset"
    _, judge = checkpoint(path, family)
    backbone, made = load_encoder(path)
    texts = [*TEXTS, *hostile_texts()[:20]]
    expected = expected_ids(judge, texts)
    assert ids(made, texts) == expected
    save_model(LoadedModel(backbone, made), preset)
    found = [load_encoder(preset)[1], load_tokenizer(preset)]
    if family != "gpt2":
        classifier = load_classifier(path, 2)
        task = tmp_path / "task"
        save_classifier(classifier.model, classifier.tokenizer, task, 16)
        found += [load_classifier(task, 2).tokenizer, load_tokenizer(task)]
    for one in (made, *found):
        assert [list(map(int, row)) for row in one(texts)] == expected
        assert one.vocabulary_size() == len(judge)
    plain = keras_hub.tokenizers.Tokenizer.from_preset(str(preset))
    assert not type(plain).__module__.startswith("kdkit")
    assert ids(plain, ["the a"]) == expected_ids(judge, ["the a"])


@pytest.mark.parametrize(
    ("family", "num_texts"),
    large_except(
        [*itertools.product(filter("electra".__ne__, ENCODERS), (1, 2))],
        *[("albert", 1), ("bert", 2)],
    ),
)
def test_rows_are_those_of_keras_hubs_preprocessor(family, num_texts):
    """At this length some rows are cut and some are not.

    Of an odd number of tokens keras-hub gives the first text more, not the
    longer one, as transformers does.
    """
    tokens, texts = tokenizer(family), (SENTENCES, MORE_SENTENCES)[:num_texts]
    length = 14 if num_texts == 1 or "roberta" in family else 15
    rows = encoded(tokens, texts, length)
    assert 0 < rows.num_truncated < len(rows)
    preprocessor = classifier_class(family).preprocessor_cls(
        tokens, sequence_length=length
    )
    expected = preprocessor(x=texts)
    masks = np.array(expected["padding_mask"])
    np.testing.assert_array_equal(rows.lengths, masks.sum(axis=1))
    assert rows.pad_token_id == tokens.pad_token_id
    for name in {"token_ids", "segment_ids"} & set(expected):
        found = getattr(rows, name)
        np.testing.assert_array_equal(found, np.array(expected[name])[masks])


PAIRS = (["the café.", "so"], ["It is a cafe b.", "a b"])
NAMES = ["input_ids", "attention_mask", "token_type_ids"]
LONG = ("the naive cafes a b . ,", "a b , . the cafe")


def encoded(made, texts, length):
    return data.encode(data.Examples(texts, None), made, length)


def compare_pairs(model, judge, made, backbone):
    """Compares rows and states of pairs with the reference's."""
    received = judge(*PAIRS, return_tensors="pt", padding=True)
    length = received["input_ids"].shape[1]
    rows = encoded(made, PAIRS, length)
    inputs = rows.inputs(np.arange(len(PAIRS)), length)
    np.testing.assert_array_equal(inputs["token_ids"], received["input_ids"])
    states = backbone({name: inputs[name] for name in backbone.input})
    with reference("torch").no_grad():
        expected = model(**received).last_hidden_state.numpy()
    real = received["attention_mask"].numpy() == 1
    found = np.asarray(states["sequence_output"])
    np.testing.assert_allclose(found[real], expected[real], atol=1e-5)


@pytest.mark.parametrize(
    ("family", "model_of", "inputs"),
    [
        ("bert", "bert", None),
        ("xlm_roberta", "bert", None),
        ("albert", "albert", NAMES[:2]),
        pytest.param("albert", "albert", NAMES, marks=pytest.mark.large),
    ],
)
def test_pairs_have_the_references_ids_and_segments(
    family, model_of, inputs, tmp_path
):
    """Also of a BERT of XLM-RoBERTa's pieces, which gives pairs one segment."""
    settings = {"model_input_names": inputs} if inputs else {}
    model, judge = checkpoint(tmp_path, family, model_of, **settings)
    compare_pairs(model, judge, *load_encoder(tmp_path)[::-1])


def test_a_class_without_segments_gives_pairs_one(tmp_path):
    write(tmp_path, "bert")
    change(tmp_path / CONFIG, tokenizer_class="DistilBertTokenizer")
    judge = again(tmp_path)
    model = foreign_model("bert", vocab_size=len(judge))
    model.save_pretrained(tmp_path)
    compare_pairs(model, judge, *load_encoder(tmp_path)[::-1])


def test_pairs_of_an_albert_have_the_segments_of_its_own_code(tmp_path):
    """transformers 5 leaves them out, unless they are asked for."""
    judge = write(tmp_path, "albert")
    assert "token_type_ids" not in judge(*PAIRS)
    rows = encoded(load_tokenizer(tmp_path), PAIRS, 60)
    expected = judge(*PAIRS, return_token_type_ids=True)["token_type_ids"]
    assert rows.segment_ids.tolist() == sum(expected, [])


@pytest.mark.parametrize(
    ("num_texts", "length", "side", "file"),
    [
        (1, 6, "left", CONFIG),
        (2, 7, "left", WHOLE),
        (2, 10, "right", CONFIG),
        (1, 6, "right", WHOLE),
    ],
)
def test_long_texts_are_cut_on_the_references_side(
    num_texts, length, side, file, tmp_path
):
    """Also by the tokenizer of a preset that was saved with it."""
    path = tmp_path / "checkpoint"
    size = len(write(path, "bert"))
    if file == CONFIG:
        change(path / file, truncation_side=side)
    else:
        settings = {"max_length": 512, "strategy": "LongestFirst", "stride": 0}
        settings["direction"] = side.capitalize()
        change(path / file, truncation=settings)
    texts = LONG[:num_texts]
    expected = again(path)(*texts, truncation=True, max_length=length)
    found = [load_tokenizer(path)]
    if (side, file) == ("left", CONFIG):
        model = encoder("bert", None, vocabulary_size=size)
        save_model(LoadedModel(model, found[0]), tmp_path / "saved")
        found.append(load_tokenizer(tmp_path / "saved"))
    for made in found:
        rows = encoded(made, tuple((text,) for text in texts), length)
        assert rows.row(0).tolist() == expected["input_ids"]
        assert rows.segment_ids.tolist() == expected["token_type_ids"]
        assert rows.num_truncated == 1


def test_padding_on_the_left_changes_no_state(tmp_path):
    """kdkit pads on the right."""
    model, judge = checkpoint(tmp_path, "bert")
    change(tmp_path / CONFIG, padding_side="left")
    backbone, made = load_encoder(tmp_path)
    compare_pairs(model, judge, made, backbone)


def test_keras_hubs_preprocessors_apply_the_rules(tmp_path):
    _, judge = checkpoint(tmp_path, "bert")
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        load_tokenizer(tmp_path), sequence_length=12
    )
    found = np.asarray(preprocessor(TEXTS)["token_ids"])
    expected = judge(TEXTS, padding="max_length", max_length=12)["input_ids"]
    assert found.tolist() == expected


def test_presets_that_keras_hub_saves_have_the_tokenizer(tmp_path):
    """`save_to_preset` of a user, who did not call kdkit's own."""
    path, preset = tmp_path / "checkpoint", tmp_path / "preset"
    _, judge = checkpoint(path, "bert")
    change_config(path, hidden_act="gelu_new")  # exact GELU is kdkit's
    loaded = load_classifier(path, num_classes=2)
    model = loaded.model
    model.preprocessor = type(model).preprocessor_cls(
        loaded.tokenizer, sequence_length=16
    )
    model.save_to_preset(str(preset))
    backbone, made = load_encoder(preset)
    assert ids(made, TEXTS) == expected_ids(judge, TEXTS)
    model.save(tmp_path / "model.keras")
    in_file = load_classifier(tmp_path / "model.keras", 2).tokenizer
    assert ids(in_file, TEXTS) == expected_ids(judge, TEXTS)
    inputs = {
        "token_ids": np.array([[2, 5, 6, 3]]),
        "segment_ids": np.zeros((1, 4), "int32"),
        "padding_mask": np.ones((1, 4), "int32"),
    }
    found, expected = (
        one(inputs)["sequence_output"] for one in (backbone, model.backbone)
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("lowercase", [True, False])
def test_named_presets_have_the_rules_of_their_papers(lowercase, monkeypatch):
    """A preset that is downloaded says whether it is lower-cased."""
    pieces = [*PIECES, "CAFÉ", "café", "CAFE"]
    downloaded = keras_hub.tokenizers.BertTokenizer(pieces, lowercase)
    for cls, made in (
        (keras_hub.models.Backbone, bert(num_classes=None)),
        (keras_hub.tokenizers.Tokenizer, downloaded),
    ):
        monkeypatch.setattr(
            cls, "from_preset", lambda name, made=made, **options: made
        )
    _, made = load_encoder("bert_tiny_en_uncased")
    found = [pieces[one] for (one,) in ids(made, ["CAFÉ", "café"])]
    assert found == (["cafe"] * 2 if lowercase else ["CAFÉ", "café"])


@pytest.mark.parametrize("family", ["distil_bert", "electra"])
def test_other_families_of_word_pieces_keep_the_rules(family, tmp_path):
    _, judge = checkpoint(tmp_path, "bert")
    model = encoder(family, None, vocabulary_size=len(judge))
    made = load_tokenizer(tmp_path)
    save_model(LoadedModel(model, made), tmp_path / "preset")
    _, made = load_encoder(tmp_path / "preset")
    assert ids(made, TEXTS) == expected_ids(judge, TEXTS)


def test_texts_of_every_shape_are_tokenized(tmp_path):
    write(tmp_path, "bert")
    made = load_tokenizer(tmp_path)
    (row,) = ids(made, ["the cafe"])
    assert np.array(made("the cafe")).tolist() == row
    assert [list(one) for one in made(["", "the"])] == [[], row[:1]]
