"""Word-piece tokenizers of checkpoints give the ids that transformers gives."""

import json
import os
import pathlib

import keras_hub
import numpy as np
import pytest
import tensorflow as tf
from kit.helpers import large_except
from kit.real_texts import (
    DATA_SETS,
    MANY_TEXTS,
    NUM_TEXTS,
    every_character,
    hostile_texts,
    real_texts,
)
from kit.references import reference

from kdkit import data
from kdkit.data.encoding import traced_tokenizer
from kdkit.errors import UsageError
from kdkit.models import (
    load_classifier,
    load_encoder,
    load_saved_tokenizer,
    load_tokenizer,
    save_encoder,
    save_preset,
    save_tokenizer,
    tokenizer_rules,
)

WORDS = ["the", "cafe", "naive", "##s", "a", "b", "##b", ".", ",", "'", "ss"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
TEXTS = ["The café, naïve\u00a0a.", "Straße cafés \u200bb\ufffd", "the É"]


@pytest.fixture(scope="module")
def uncased(data_dir):
    """BERT's vocabulary, by piece."""
    file = data_dir / "vocab" / "bert-base-uncased-vocab.txt"
    pieces = file.read_text("utf-8").split("\n")[:30522]
    return {piece: number for number, piece in enumerate(pieces)}


@pytest.fixture(scope="module")
def cased(data_dir):
    """A vocabulary with capitals and accents, trained here, by piece."""
    trained = reference("tokenizers").BertWordPieceTokenizer(lowercase=False)
    texts = [text for name in DATA_SETS for text in real_texts(data_dir, name)]
    trained.train_from_iterator(texts, vocab_size=6000, show_progress=False)
    return trained.get_vocab()


def write(directory, pieces, family="bert", **settings):
    """Saves a tokenizer by transformers, and a config; returns transformers'.

    Settings are those of its class; `added` and `special` are tokens to add.
    """
    transformers = reference("transformers")
    added, special = settings.pop("added", ()), settings.pop("special", ())
    name = {"bert": "BertTokenizer", "distilbert": "DistilBertTokenizer"}
    if not isinstance(pieces, dict):
        pieces = {piece: number for number, piece in enumerate(pieces)}
    made = getattr(transformers, name[family])(pieces, **settings)
    made.add_tokens(list(added))
    made.add_special_tokens({"additional_special_tokens": list(special)})
    made.save_pretrained(directory)
    (directory / "config.json").write_text(json.dumps({"model_type": family}))
    return again(directory)


def again(directory):
    """The tokenizer in a directory as transformers reads it."""
    return reference("transformers").AutoTokenizer.from_pretrained(directory)


def change(file, **changes):
    """Writes other entries into a JSON file; `None` takes one out."""
    values = json.loads(file.read_text()) | changes
    kept = {key: value for key, value in values.items() if value is not None}
    file.write_text(json.dumps(kept))


def ids(tokenizer, texts):
    return [list(row) for row in tokenizer(texts)]


def traced_ids(tokenizer, texts):
    """The ids in a graph, as `kdkit.data.encode` has them."""
    return traced_tokenizer(tokenizer)(tf.constant(texts)).to_list()


def expected_ids(judge, texts):
    return judge(texts, add_special_tokens=False)["input_ids"]


def check_same(tokenizer, judge, texts, ids=ids):
    """Fails with the first text that has other ids."""
    expected = expected_ids(judge, texts)
    for text, ours, theirs in zip(
        texts, ids(tokenizer, texts), expected, strict=True
    ):
        assert ours == theirs, text


CASES = {
    "bert_uncased": ("uncased", "bert", {}),
    "bert_cased": ("cased", "bert", {"do_lower_case": False}),
    "distil_bert_uncased": ("uncased", "distilbert", {}),
}
HOSTILE_CASES = CASES | {
    "bert_accents": ("cased", "bert", {"strip_accents": False}),
    "bert_no_chinese": ("uncased", "bert", {"tokenize_chinese_chars": False}),
}


@pytest.mark.parametrize(
    "number", large_except([NUM_TEXTS, MANY_TEXTS], NUM_TEXTS)
)
@pytest.mark.parametrize("case", CASES)
def test_ids_of_real_texts_are_the_references(
    case, number, data_dir, tmp_path, request
):
    pieces, family, settings = CASES[case]
    judge = write(tmp_path, request.getfixturevalue(pieces), family, **settings)
    tokenizer = load_tokenizer(tmp_path)
    for name in DATA_SETS:
        texts = real_texts(data_dir, name, number)
        check_same(tokenizer, judge, texts, traced_ids)
    check_same(tokenizer, judge, hostile_texts(), traced_ids)


@pytest.mark.parametrize("case", HOSTILE_CASES)
def test_ids_of_hostile_texts_are_the_references(
    case, data_dir, tmp_path, request
):
    pieces, family, settings = HOSTILE_CASES[case]
    added = {"added": ["Newtok", "ß½"], "special": ["<e>"]}
    vocabulary = request.getfixturevalue(pieces)
    judge = write(tmp_path, vocabulary, family, **settings, **added)
    check_same(load_tokenizer(tmp_path), judge, hostile_texts())


@pytest.mark.parametrize("step", [50, pytest.param(1, marks=pytest.mark.large)])
@pytest.mark.parametrize("lowercase", [True, False])
def test_every_character_is_taken_as_the_reference_takes_it(
    lowercase, step, uncased, tmp_path
):
    judge = write(tmp_path, uncased, do_lower_case=lowercase)
    check_same(load_tokenizer(tmp_path), judge, every_character(step))


def test_vocabulary_file_alone_is_read_as_berts(uncased, data_dir, tmp_path):
    tokenizer = load_tokenizer(
        data_dir / "vocab" / "bert-base-uncased-vocab.txt"
    )
    judge = write(tmp_path, uncased)
    for name in DATA_SETS:
        check_same(tokenizer, judge, real_texts(data_dir, name))
    check_same(tokenizer, judge, hostile_texts())


@pytest.mark.parametrize("lowercase", [True, False])
def test_files_of_older_versions_are_read_as_new_ones(
    lowercase, uncased, tmp_path
):
    """A vocabulary, settings and added tokens in files of their own."""
    judge = write(
        tmp_path, uncased, do_lower_case=lowercase, added=["Newtok", "[x]"]
    )
    texts = [*hostile_texts(), "a Newtok[x] newtok"]
    expected = expected_ids(judge, texts)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "vocab.txt").write_text("\n".join(uncased), "utf-8")
    added = {"[x]": 30523, "Newtok": 30522}
    (tmp_path / "added_tokens.json").write_text(json.dumps(added))
    settings = {"do_lower_case": lowercase, "strip_accents": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert expected_ids(again(tmp_path), texts) == expected
    assert ids(load_tokenizer(tmp_path), texts) == expected


@pytest.mark.parametrize("whole", ["tokenizer.json", "vocab.txt"])
@pytest.mark.parametrize("config", [None, {}, {"strip_accents": None}])
def test_missing_setting_has_the_references_default(config, whole, tmp_path):
    write(tmp_path, PIECES, do_lower_case=False)
    if whole == "vocab.txt":
        (tmp_path / "tokenizer.json").unlink()
        (tmp_path / whole).write_text("\n".join(PIECES))
    file = tmp_path / "tokenizer_config.json"
    file.unlink()
    if config is not None:
        file.write_text(json.dumps(config))
    judge = again(tmp_path)
    assert PIECES.index("cafe") in expected_ids(judge, ["CAFÉ"])[0]
    check_same(load_tokenizer(tmp_path), judge, TEXTS)


def test_tokenizer_without_a_class_of_its_own_is_as_its_file_is(tmp_path):
    write(tmp_path, PIECES, do_lower_case=True, added=["Cafe"], special=["<e>"])
    change(
        tmp_path / "tokenizer_config.json",
        tokenizer_class="PreTrainedTokenizerFast",
    )
    steps = [{"type": "NFD"}, {"type": "StripAccents"}]
    whole = tmp_path / "tokenizer.json"
    model = json.loads(whole.read_text())["model"]
    change(
        whole,
        normalizer={"type": "Sequence", "normalizers": steps},
        model={**model, "max_input_chars_per_word": 3},
    )
    texts = ["The thé <e>a Cafés", "the cafe abbb abb", *TEXTS]
    check_same(load_tokenizer(tmp_path), again(tmp_path), texts)


ADDED = {
    "normalized": [["Newtok"], []],
    "as it is written": [[], ["Newtok", "<e>", "[E 1]"]],
    "both": [["newtok", "b"], ["Newtok", "b b"]],
    "longest first": [["ab", "abb", "a"], ["<e>", "<ee>"]],
}


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("case", ADDED)
def test_added_tokens_are_found_whole(case, lowercase, tmp_path):
    added, special = ADDED[case]
    judge = write(
        tmp_path, PIECES, do_lower_case=lowercase, added=added, special=special
    )
    texts = [
        "a Newtok newtok NEWTOKs",
        "<e>b<ee>[E 1]Newtok",
        "abb b b b\u00a0b Àbb",
        "a\x00b Newtok",
        *TEXTS,
    ]
    tokenizer = load_tokenizer(tmp_path)
    check_same(tokenizer, judge, texts)
    assert tokenizer.vocabulary_size() == len(judge)
    number = tokenizer.token_to_id((added or special)[0])
    assert number == judge.convert_tokens_to_ids((added or special)[0])


def test_special_tokens_in_texts_are_plain_text(tmp_path):
    write(tmp_path, [*PIECES, "[", "]", "sep", "mask"])
    tokenizer = load_tokenizer(tmp_path)
    made = [tokenizer.id_to_token(one) for one in tokenizer("[SEP] a[MASK]")]
    assert made == ["[", "sep", "]", "a", "[", "mask", "]"]


def edit(**changes):
    return lambda path: change(path / "tokenizer_config.json", **changes)


def edit_whole(**changes):
    def apply(path):
        edit(tokenizer_class="TokenizersBackend")(path)
        change(path / "tokenizer.json", **changes)

    return apply


def whole_word(content):
    return {"content": content, "single_word": True, "normalized": False}


REFUSED = {
    "tokenizer_class": (edit(tokenizer_class="BertJapaneseTokenizer"),
                        "BertJapaneseTokenizer"),
    "auto_map": (edit(auto_map={"AutoTokenizer": ["x", None]}), "auto_map"),
    "cls_token": (edit(cls_token="<s>"), "'<s>' as cls_token"),
    "single_word": (edit(added_tokens_decoder={"16": whole_word("xy")}),
                    "xy.*single_word"),
    "pre_tokenizer": (edit_whole(pre_tokenizer={"type": "Metaspace"}),
                      "Metaspace"),
    "model": (edit_whole(model={"type": "BPE", "vocab": {}}), "BPE"),
    "no special tokens": (edit_whole(post_processor=None), "special tokens"),
    "vocabulary": (edit_whole(model={"type": "WordPiece",
                                     "vocab": {"a": 0, "b": 0}}),
                   "several tokens of one id"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_followed_is_refused_by_name(case, tmp_path):
    write(tmp_path, PIECES)
    apply, message = REFUSED[case]
    apply(tmp_path)
    with pytest.raises(UsageError, match=message):
        load_tokenizer(tmp_path)


@pytest.fixture
def checkpoint(tmp_path):
    """A tiny BERT that transformers saved, with its tokenizer."""
    transformers = reference("transformers")
    directory = tmp_path / "checkpoint"
    judge = write(directory_made(directory), PIECES, added=["Newtok"])
    config = transformers.BertConfig(
        vocab_size=len(judge),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
        hidden_act="gelu",
    )
    transformers.BertModel(config).save_pretrained(directory)
    return directory, judge


def directory_made(directory):
    directory.mkdir()
    return directory


def test_rows_of_an_encoder_have_the_references_ids(checkpoint):
    directory, judge = checkpoint
    _, tokenizer = load_encoder(directory)
    pairs = tuple(zip(*((text, text[::-1]) for text in TEXTS), strict=True))
    rows = data.encode(data.Examples(pairs, None), tokenizer, 30)
    expected = judge(*map(list, pairs))["input_ids"]
    made = [rows.row(number).tolist() for number in range(len(TEXTS))]
    assert made == expected
    texts = tf.data.Dataset.from_tensor_slices(TEXTS).batch(2).map(tokenizer)
    flat = [row for batch in texts for row in batch.to_list()]
    assert flat == expected_ids(judge, TEXTS)


LONG = ("the naive cafes a b . ,", "a b , . the cafe")


def set_side(directory, side, place):
    """Says on which side texts are cut, in one of the two files."""
    if place == "tokenizer_config.json":
        change(directory / place, truncation_side=side)
    else:
        length = {"max_length": 512, "strategy": "LongestFirst", "stride": 0}
        direction = {"direction": side.capitalize()}
        change(directory / place, truncation={**length, **direction})


PLACES = ["tokenizer_config.json", "tokenizer.json"]


@pytest.mark.parametrize(
    ("num_texts", "length", "side", "place"),
    [
        (1, 6, "left", PLACES[0]),
        (2, 7, "left", PLACES[1]),
        (2, 9, "right", PLACES[0]),
        (1, 6, "right", PLACES[1]),
    ],
)
def test_long_texts_are_cut_on_the_references_side(
    num_texts, length, side, place, tmp_path
):
    write(tmp_path, PIECES)
    set_side(tmp_path, side, place)
    judge = again(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    texts = tuple((text,) for text in LONG[:num_texts])
    rows = data.encode(data.Examples(texts, None), tokenizer, length)
    expected = judge(*LONG[:num_texts], truncation=True, max_length=length)
    assert rows.row(0).tolist() == expected["input_ids"]
    assert rows.segment_ids.tolist() == expected["token_type_ids"]
    assert rows.num_truncated == 1


def test_a_saved_tokenizer_keeps_the_side_on_which_it_cuts(tmp_path):
    write(tmp_path, PIECES, truncation_side="left")
    tokenizer = load_tokenizer(tmp_path)
    save_tokenizer(tokenizer, tmp_path / "saved")
    saved = load_saved_tokenizer(tmp_path / "saved")
    assert tokenizer_rules(saved).truncation_side == "left"
    rows = [
        data.encode(data.Examples((LONG,), None), one, 6)
        for one in (tokenizer, saved)
    ]
    np.testing.assert_array_equal(rows[0].token_ids, rows[1].token_ids)


def test_padding_on_the_left_is_reported(checkpoint):
    directory, judge = checkpoint
    change(directory / "tokenizer_config.json", padding_side="left")
    with pytest.warns(UserWarning, match="pads on the left .padding_side."):
        backbone, tokenizer = load_encoder(directory)
    rows = data.encode(data.Examples((TEXTS,), None), tokenizer, 30)
    lengths = rows.lengths
    model = reference("transformers").AutoModel.from_pretrained(directory)
    inputs = rows.inputs(np.arange(len(TEXTS)), int(lengths.max()))
    states = np.asarray(backbone(inputs)["sequence_output"])
    with reference("torch").no_grad():
        for number, text in enumerate(TEXTS):
            alone = model(**judge(text, return_tensors="pt")).last_hidden_state
            np.testing.assert_allclose(
                states[number, : lengths[number]], alone[0], atol=1e-5
            )


def test_saved_presets_keep_the_rules(checkpoint, tmp_path):
    directory, judge = checkpoint
    texts = [*TEXTS, "a newtok Newtoks", *hostile_texts()[:20]]
    expected = expected_ids(judge, texts)
    loaded = load_classifier(directory, 2)
    save_preset(loaded.model, loaded.tokenizer, tmp_path / "task", 16)
    save_encoder(loaded.model.backbone, loaded.tokenizer, tmp_path / "encoder")
    save_tokenizer(loaded.tokenizer, tmp_path / "tokenizer")
    for tokenizer in (
        load_classifier(tmp_path / "task", 2).tokenizer,
        load_encoder(tmp_path / "encoder")[1],
        load_tokenizer(tmp_path / "task"),
        load_saved_tokenizer(tmp_path / "tokenizer"),
    ):
        assert tokenizer_rules(tokenizer) == tokenizer_rules(loaded.tokenizer)
        assert ids(tokenizer, texts) == expected
    # keras-hub alone strips accents, too, and differs in ß.
    plain = keras_hub.tokenizers.Tokenizer.from_preset(str(tmp_path / "task"))
    assert type(plain) is keras_hub.tokenizers.BertTokenizer
    assert ids(plain, ["The café"]) == expected_ids(judge, ["The café"])


@pytest.mark.large
def test_ids_of_minilm_are_the_references(data_dir):
    place = os.environ.get("MINILM", "~/.cache/kdkit/all-minilm-l6-v2")
    path = pathlib.Path(place).expanduser()
    if not path.is_dir():
        pytest.skip(f"no all-MiniLM-L6-v2 in {path}: set MINILM to its folder")
    backbone, tokenizer = load_encoder(path)
    for name in DATA_SETS:
        check_same(
            tokenizer, again(path), real_texts(data_dir, name, MANY_TEXTS)
        )
    pairs = ["a cosy café in São Paulo", "not good\u00a0at\u00a0all"]
    plain = ["a cosy cafe in Sao Paulo", "not good at all"]
    rows = data.encode(data.Examples((pairs + plain,), None), tokenizer, 16)
    states = backbone.predict(rows.inputs(np.arange(4), 16), verbose=0)
    vectors = states["sequence_output"][:, 0]
    np.testing.assert_allclose(vectors[:2], vectors[2:], atol=1e-5)


def test_keras_hubs_preprocessors_apply_the_rules(checkpoint):
    directory, judge = checkpoint
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        load_tokenizer(directory), sequence_length=12
    )
    made = np.asarray(preprocessor(TEXTS)["token_ids"])
    expected = judge(TEXTS, padding="max_length", max_length=12)["input_ids"]
    assert made.tolist() == expected


@pytest.mark.parametrize("what", large_except(["task", "parts"], "task"))
def test_presets_that_keras_hub_saves_load_without_kdkit(
    what, checkpoint, tmp_path
):
    """`save_to_preset` of a user, who did not call kdkit's own."""
    directory, judge = checkpoint  # with exact GELU, which is kdkit's
    loaded = load_classifier(directory, num_classes=2)
    model, preset = loaded.model, tmp_path / "preset"
    if what == "task":
        model.preprocessor = type(model).preprocessor_cls(
            loaded.tokenizer, sequence_length=16
        )
        model.save_to_preset(str(preset))
        tokenizer = load_classifier(preset, num_classes=2).tokenizer
        task = keras_hub.models.TextClassifier.from_preset(str(preset))
        backbone, plain = task.backbone, task.preprocessor.tokenizer
    else:
        model.backbone.save_to_preset(str(preset))
        loaded.tokenizer.save_to_preset(str(preset))
        backbone = keras_hub.models.Backbone.from_preset(str(preset))
        plain = keras_hub.tokenizers.Tokenizer.from_preset(str(preset))
        _, tokenizer = load_encoder(preset)
    assert type(backbone) is keras_hub.models.BertBackbone
    assert type(plain) is keras_hub.tokenizers.BertTokenizer
    for file in ("config", "preprocessor", "task", "tokenizer"):
        if (preset / f"{file}.json").is_file():
            assert "kdkit" not in (preset / f"{file}.json").read_text()
    assert ids(tokenizer, TEXTS) == expected_ids(judge, TEXTS)
    again, _ = load_encoder(preset)
    inputs = {
        "token_ids": np.array([[2, 5, 6, 3]]),
        "segment_ids": np.zeros((1, 4), "int32"),
        "padding_mask": np.ones((1, 4), "int32"),
    }
    expected = model.backbone(inputs)["sequence_output"]
    made = again(inputs)["sequence_output"]
    np.testing.assert_allclose(made, expected, atol=1e-6)
