"""Byte-pair and Unigram tokenizers of checkpoints give the reference's ids."""

import io
import itertools
import json
import shutil

import keras_hub
import numpy as np
import pytest
import sentencepiece
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
from kdkit.models import load_encoder, load_tokenizer, save_encoder
from kdkit.models.ruled_tokenizers import plain_tokenizer

LARGE = pytest.mark.large
PIECES = 2000
MERGES = 2000  # GPT-2's most frequent ones; all with --run-large
# What two tokenizers that are written for words of Latin letters differ in.
TEXTS = [
    "Straße, Été naïve\u00a0cafe\u0301 İ Σ ﬁ ½\u0301 e\u0301\u0302",
    "it's don''t ``so'' 1,5 12345 !?.. \u2581a\u2581 \u2581\u2581b",
    " a  b\n\nc\t \td \u3000e\u2009f\x85g\x0bh\x00i\u200bj  ",
    "",
    " ",
    "\n",
]


def trained(data_dir, **settings):
    """A Unigram model of real texts."""
    texts = [
        text
        for name in DATA_SETS
        for text in real_texts(data_dir, name)
        if len(text) < 4000
    ]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=PIECES,
        minloglevel=3,
        num_threads=1,
        **settings,
    )
    return model.getvalue()


@pytest.fixture(scope="module")
def albert(data_dir):
    """ALBERT's vocabulary: special pieces, and one that a user defined."""
    model = trained(
        data_dir,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        user_defined_symbols=["("],
    )
    return {"spiece.model": model}


@pytest.fixture(scope="module")
def xlm_roberta(data_dir):
    """XLM-RoBERTa's vocabulary, which has three special pieces of its own."""
    model = trained(data_dir, unk_id=0, bos_id=1, eos_id=2)
    return {"sentencepiece.bpe.model": model}


@pytest.fixture(scope="module")
def gpt2(data_dir, pytestconfig):
    """GPT-2's vocabulary and merges, the first or all."""
    number = None if pytestconfig.getoption("--run-large") else MERGES
    ids = json.loads((data_dir / "vocab" / "gpt2-encoder.json").read_bytes())
    header, *merges = (
        (data_dir / "vocab" / "gpt2-vocab.bpe").read_text("utf-8").splitlines()
    )
    merges = merges[:number]
    words = sorted(ids, key=ids.get)[: 256 + len(merges)]
    ids = {
        word: number for number, word in enumerate([*words, "<|endoftext|>"])
    }
    return {
        "vocab.json": json.dumps(ids).encode(),
        "merges.txt": "\n".join([header, *merges, ""]).encode(),
    }


@pytest.fixture(scope="module")
def roberta(gpt2):
    """The same with RoBERTa's special tokens."""
    vocabulary = json.loads(gpt2["vocab.json"])
    vocabulary.pop("<|endoftext|>")
    words = sorted(vocabulary, key=vocabulary.get)
    words = ["<s>", "<pad>", "</s>", "<unk>", *words, "<mask>"]
    ids = {word: number for number, word in enumerate(words)}
    return {**gpt2, "vocab.json": json.dumps(ids).encode()}


CLASSES = {
    "albert": ("albert", "AlbertTokenizer"),
    "xlm_roberta": ("xlm-roberta", "XLMRobertaTokenizer"),
    "roberta": ("roberta", "RobertaTokenizer"),
    "gpt2": ("gpt2", "GPT2Tokenizer"),
}
CASES = {
    "albert": ("albert", {}),
    "albert_cased": ("albert", {"do_lower_case": False}),
    "albert_accents": ("albert", {"keep_accents": True}),
    "albert_cased_accents": (
        "albert",
        {"do_lower_case": False, "keep_accents": True},
    ),
    "albert_no_prefix": ("albert", {"add_prefix_space": False}),
    "xlm_roberta": ("xlm_roberta", {}),
    # Its class has no such settings.
    "xlm_roberta_lower": ("xlm_roberta", {"do_lower_case": True}),
    "roberta": ("roberta", {}),
    "roberta_prefix": ("roberta", {"add_prefix_space": True}),
    "gpt2": ("gpt2", {}),
}


def write(directory, family, files, settings=(), layout="new", added=()):
    """Writes a tokenizer as transformers does; returns transformers' own.

    Args:
        layout: string. `"old"` for the vocabulary in a file of its own,
            `"new"` for what transformers 5 saves.
    """
    model_type, name = CLASSES[family]
    directory.mkdir(exist_ok=True)
    for file, content in files.items():
        (directory / file).write_bytes(content)
    config = {"tokenizer_class": name, **dict(settings)}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    (directory / "config.json").write_text(
        json.dumps({"model_type": model_type})
    )
    if layout == "new":
        judge = again(directory)
        judge.add_tokens(list(added))
        for file in files:
            (directory / file).unlink()
        judge.save_pretrained(directory)
    return again(directory)


def again(directory):
    """The tokenizer in a directory as transformers reads it."""
    return reference("transformers").AutoTokenizer.from_pretrained(directory)


def change(file, apply):
    """Rewrites a JSON file by a function that changes what it holds."""
    values = json.loads(file.read_text("utf-8"))
    apply(values)
    file.write_text(json.dumps(values), "utf-8")


def ids(tokenizer, texts):
    return traced_tokenizer(tokenizer)(tf.constant(texts)).to_list()


def expected_ids(judge, texts):
    return judge(texts, add_special_tokens=False)["input_ids"]


def check_same(tokenizer, judge, texts):
    """Fails with the first text that has other ids."""
    for text, ours, theirs in zip(
        texts, ids(tokenizer, texts), expected_ids(judge, texts), strict=True
    ):
        assert ours == theirs, text


@pytest.mark.parametrize(
    "case",
    [
        "albert",
        pytest.param("albert_cased_accents", marks=LARGE),
        "xlm_roberta",
        "roberta",
    ],
)
@pytest.mark.parametrize(
    "number", large_except([NUM_TEXTS, MANY_TEXTS], NUM_TEXTS)
)
def test_ids_of_real_texts_are_the_references(
    case, number, data_dir, tmp_path, request
):
    family, settings = CASES[case]
    files = request.getfixturevalue(family)
    judge = write(tmp_path, family, files, settings)
    tokenizer = load_tokenizer(tmp_path)
    for name in DATA_SETS:
        check_same(tokenizer, judge, real_texts(data_dir, name, number))


# Both layouts of each in `make test-large`.
IN_EVERY_TEST = [
    ("albert", "old"),
    ("albert_cased_accents", "new"),
    ("xlm_roberta", "old"),
    ("roberta_prefix", "new"),
    ("gpt2", "old"),
]


@pytest.mark.parametrize(
    ("case", "layout"),
    [
        pytest.param(*both, marks=() if both in IN_EVERY_TEST else LARGE)
        for both in itertools.product(CASES, ("old", "new"))
    ],
)
def test_ids_of_hostile_texts_are_the_references(
    case, layout, tmp_path, request
):
    family, settings = CASES[case]
    files = request.getfixturevalue(family)
    judge = write(tmp_path, family, files, settings, layout)
    tokenizer = load_tokenizer(tmp_path)
    check_same(tokenizer, judge, [*TEXTS, *hostile_texts()])
    assert tokenizer.vocabulary_size() == len(judge)
    for token, number in judge.get_vocab().items():
        assert tokenizer.token_to_id(token) == number


@pytest.mark.parametrize("step", [50, pytest.param(1, marks=LARGE)])
@pytest.mark.parametrize(
    "family", large_except(["albert", "xlm_roberta", "roberta"], "albert")
)
def test_every_character_is_taken_as_the_reference_takes_it(
    family, step, tmp_path, request
):
    judge = write(tmp_path, family, request.getfixturevalue(family))
    check_same(load_tokenizer(tmp_path), judge, every_character(step))


@pytest.mark.parametrize(
    "family", large_except(["albert", "roberta", "gpt2"], "albert", "roberta")
)
def test_added_tokens_are_found_whole(family, tmp_path, request):
    files = request.getfixturevalue(family)
    added = ["Covid", "New York"]
    judge = write(tmp_path, family, files, added=added)
    tokenizer = load_tokenizer(tmp_path)
    texts = ["aCovidb", "covid New York, new york NewYork", *TEXTS]
    check_same(tokenizer, judge, texts)
    assert tokenizer.vocabulary_size() == len(judge)


def test_byte_pairs_of_sentencepiece_are_refused(data_dir, tmp_path):
    model = trained(data_dir, model_type="bpe")
    (tmp_path / "spiece.model").write_bytes(model)
    (tmp_path / "config.json").write_text('{"model_type": "albert"}')
    with pytest.raises(UsageError, match="not a Unigram model"):
        load_tokenizer(tmp_path)


def test_added_token_without_room_is_refused_by_name(xlm_roberta, tmp_path):
    write(tmp_path, "xlm_roberta", xlm_roberta, added=["Covid"])
    with pytest.raises(UsageError, match="'Covid'"):
        load_tokenizer(tmp_path)


def test_settings_alone_have_the_references_defaults(albert, tmp_path):
    write(tmp_path, "albert", albert)
    (tmp_path / "tokenizer_config.json").write_text("{}")
    judge = again(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    check_same(tokenizer, judge, TEXTS)
    assert ids(tokenizer, ["ÉTÉ"]) == ids(tokenizer, ["ete"])


@pytest.mark.parametrize(
    "family",
    large_except(["albert", "xlm_roberta", "roberta"], "albert", "roberta"),
)
def test_tokenizer_without_a_class_of_its_own_is_as_its_file_is(
    family, tmp_path, request
):
    write(tmp_path, family, request.getfixturevalue(family))

    def lower(whole):
        old = [whole["normalizer"]] if whole["normalizer"] else []
        steps = [{"type": "NFC"}, {"type": "Lowercase"}, *old]
        whole["normalizer"] = {"type": "Sequence", "normalizers": steps}

    change(tmp_path / "tokenizer.json", lower)
    change(
        tmp_path / "tokenizer_config.json",
        lambda config: config.update(tokenizer_class="TokenizersBackend"),
    )
    check_same(load_tokenizer(tmp_path), again(tmp_path), TEXTS)


def test_merges_may_be_texts_or_pairs(roberta, tmp_path):
    judge = write(tmp_path, "roberta", roberta)

    def join(whole):
        merges = whole["model"]["merges"]
        assert isinstance(merges[0], list)
        whole["model"]["merges"] = list(map(" ".join, merges))

    change(tmp_path / "tokenizer.json", join)
    check_same(load_tokenizer(tmp_path), judge, TEXTS)


def test_presets_of_an_albert_need_no_kdkit_for_most_texts(
    albert, data_dir, tmp_path
):
    """keras-hub applies one map, which has all steps of the normalizer."""
    judge = write(tmp_path, "albert", albert)
    plain = plain_tokenizer(load_tokenizer(tmp_path))
    assert type(plain) is keras_hub.tokenizers.AlbertTokenizer
    texts = [
        text
        for name in ("mrpc", "multi30k_fr")
        for text in real_texts(data_dir, name)
        if "(" not in text  # found first, which keras-hub cannot
    ]
    assert ids(plain, texts) == expected_ids(judge, texts)


SIZES = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 34,
}
MODELS = {
    "albert": (
        "AlbertConfig",
        "AlbertForSequenceClassification",
        {**SIZES, "embedding_size": 8},
    ),
    "xlm_roberta": (
        "XLMRobertaConfig",
        "XLMRobertaForSequenceClassification",
        SIZES,
    ),
    "roberta": ("RobertaConfig", "RobertaForSequenceClassification", SIZES),
    "gpt2": (
        "GPT2Config",
        "GPT2Model",
        {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 32},
    ),
}


@pytest.mark.parametrize("family", large_except(MODELS, "gpt2"))
def test_checkpoint_of_four_files_keeps_its_ids_wherever_it_goes(
    family, tmp_path, request
):
    """Eagerly, in tf.data, in presets and in SavedModels."""
    transformers = reference("transformers")
    directory = tmp_path / "checkpoint"
    judge = write(directory, family, request.getfixturevalue(family))
    config, model, sizes = MODELS[family]
    config = getattr(transformers, config)(vocab_size=len(judge), **sizes)
    getattr(transformers, model)(config).save_pretrained(directory)
    assert {file.name for file in directory.iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    backbone, tokenizer = load_encoder(directory)
    expected = expected_ids(judge, TEXTS)
    assert [list(map(int, row)) for row in tokenizer(TEXTS)] == expected
    batches = tf.data.Dataset.from_tensor_slices(TEXTS).batch(4).map(tokenizer)
    assert [row for batch in batches for row in batch.to_list()] == expected

    save_encoder(backbone, tokenizer, tmp_path / "preset")
    shutil.rmtree(directory)
    _, saved = load_encoder(tmp_path / "preset")
    assert ids(saved, TEXTS) == expected
    plain = keras_hub.tokenizers.Tokenizer.from_preset(str(tmp_path / "preset"))
    assert plain.vocabulary_size() == tokenizer.vocabulary_size()

    module = tf.Module()
    module.tokenizer = saved
    module.tokenize = tf.function(
        lambda texts: module.tokenizer(texts),
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    tf.saved_model.save(module, str(tmp_path / "saved"))
    reloaded = tf.saved_model.load(str(tmp_path / "saved"))
    assert reloaded.tokenize(tf.constant(TEXTS)).to_list() == expected


PAIRS = (["A film.", "so"], ["It is a good one.", "1 2"])


def last_states(backbone, tokenizer, length):
    """What kdkit's encoder makes of the pairs, padded."""
    rows = data.encode(data.Examples(PAIRS, None), tokenizer, length)
    inputs = rows.inputs(np.arange(len(PAIRS)), length)
    states = backbone({name: inputs[name] for name in backbone.input})
    return np.asarray(states["sequence_output"])


def test_a_bert_of_xlm_robertas_pieces_gives_pairs_one_segment(
    xlm_roberta, tmp_path
):
    transformers, torch = reference("transformers"), reference("torch")
    judge = write(tmp_path, "xlm_roberta", xlm_roberta)
    torch.manual_seed(0)
    sizes = {**SIZES, "initializer_range": 0.4, "pad_token_id": 1}
    config = transformers.BertConfig(vocab_size=len(judge), **sizes)
    model = transformers.BertModel(config).eval()
    model.save_pretrained(tmp_path)
    received = judge(*PAIRS, return_tensors="pt", padding=True)
    assert "token_type_ids" not in received
    length = received["input_ids"].shape[1]
    ours = last_states(*load_encoder(tmp_path), length)
    with torch.no_grad():
        expected = model(**received).last_hidden_state
    real = received["attention_mask"].numpy().astype(bool)
    difference = np.abs(ours - expected.numpy())[real]
    assert difference.max() < 1e-5


def test_pairs_of_an_albert_have_the_segments_of_its_own_code(albert, tmp_path):
    """transformers 5 leaves them out, unless they are asked for."""
    judge = write(tmp_path, "albert", albert)
    assert "token_type_ids" not in judge(*PAIRS)
    tokenizer = load_tokenizer(tmp_path)
    rows = data.encode(data.Examples(PAIRS, None), tokenizer, 40)
    expected = judge(*PAIRS, return_token_type_ids=True)["token_type_ids"]
    assert rows.segment_ids.tolist() == sum(expected, [])


@pytest.mark.parametrize("names", [["input_ids"], ["token_type_ids"]])
def test_inputs_of_a_tokenizer_decide_about_segments(names, albert, tmp_path):
    transformers = reference("transformers")
    judge = write(tmp_path, "albert", albert)
    edit = set_top(model_input_names=["attention_mask", *names])
    change(tmp_path / "tokenizer_config.json", edit)
    gives_segments = "token_type_ids" in again(tmp_path)(*PAIRS)
    config = transformers.AlbertConfig(
        vocab_size=len(judge), embedding_size=8, **SIZES
    )
    transformers.AlbertModel(config).save_pretrained(tmp_path)
    backbone, _ = load_encoder(tmp_path)
    first, second = backbone.get_layer("segment_embedding").get_weights()[0]
    assert np.array_equal(first, second) is not gives_segments


def set_model(**changes):
    return lambda whole: whole["model"].update(changes)


def set_top(**changes):
    return lambda whole: whole.update(changes)


REFUSED = {
    "type": ("albert", set_model(type="BPE"), "'BPE'"),
    "byte_fallback": ("albert", set_model(byte_fallback=True), "by bytes"),
    "first pieces": (
        "xlm_roberta",
        lambda whole: whole["model"]["vocab"].insert(1, ["0 0", 0.0]),
        "first",
    ),
    "Metaspace": (
        "albert",
        set_top(pre_tokenizer={"type": "Metaspace"}),
        "WhitespaceSplit and Metaspace",
    ),
    "pre_tokenizer": (
        "roberta",
        set_top(pre_tokenizer={"type": "Whitespace"}),
        "'Whitespace'",
    ),
    "use_regex": (
        "roberta",
        lambda whole: whole["pre_tokenizer"].update(use_regex=False),
        "its own pattern",
    ),
    "ignore_merges": (
        "roberta",
        set_model(ignore_merges=True),
        "ignore_merges=True",
    ),
    "dropout": ("roberta", set_model(dropout=0.1), "dropout=0.1"),
    "unk_token": (
        "roberta",
        lambda whole: [
            whole["model"].update(unk_token="<unk>"),
            whole["model"]["vocab"].pop("a"),
        ],
        "unk_token",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_followed_is_refused_by_name(case, tmp_path, request):
    family, apply, message = REFUSED[case]
    write(tmp_path, family, request.getfixturevalue(family))
    change(tmp_path / "tokenizer.json", apply)
    change(
        tmp_path / "tokenizer_config.json",
        lambda config: config.update(tokenizer_class="TokenizersBackend"),
    )
    with pytest.raises(UsageError, match=message):
        load_tokenizer(tmp_path)
