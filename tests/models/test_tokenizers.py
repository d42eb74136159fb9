"""The contract of tokenizers: transformers' ids, in threads and graphs too."""

import functools
import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from kit.encoders import sentence_piece_model
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
from kit.tokenizer_files import (
    CONFIG,
    PIECES,
    WHOLE,
    again,
    byte_pairs,
    change,
    check_same,
    ids,
    without_class,
    word_pieces,
    write,
)

from kdkit.models import load_tokenizer

MERGES = 2000  # GPT-2's most frequent ones; all with --run-large
VOCABULARY = "bert-base-uncased-vocab.txt"
# What tokenizers that are written for words of Latin letters differ in.
TEXTS = (
    "The café, naïve\u00a0a. Straße cafés \u200bb\ufffd",
    "Straße, Été naïve\u00a0cafe\u0301 İ Σ ﬁ ½\u0301 e\u0301\u0302",
    "it's don''t ``so'' 1,5 12345 !?.. \u2581a\u2581 \u2581\u2581b",
    " a  b\n\nc\t \td \u3000e\u2009f\x85g\x0bh\x00i\u200bj  ",
    "",
    " ",
    "\n",
)


@pytest.fixture(scope="module")
def files(data_dir, pytestconfig):
    """A function from a vocabulary's name to its files."""

    def texts():
        return [
            text
            for name in DATA_SETS
            for text in real_texts(data_dir, name)
            if len(text) < 4000
        ]

    def unigrams(name, **settings):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts()),
            model_writer=model,
            vocab_size=2000,
            minloglevel=3,
            num_threads=1,
            **settings,
        )
        return {name: model.getvalue()}

    @functools.cache
    def make(name):
        if name == "uncased":
            return {"vocab.txt": (data_dir / "vocab" / VOCABULARY).read_bytes()}
        if name == "cased":  # with capitals and accents
            trained = reference("tokenizers").BertWordPieceTokenizer(
                lowercase=False
            )
            trained.train_from_iterator(texts(), 6000, show_progress=False)
            pieces = trained.get_vocab()
            return word_pieces(sorted(pieces, key=pieces.get))
        if name == "albert":
            return unigrams(
                "spiece.model",
                pad_id=0,
                unk_id=1,
                bos_id=-1,
                eos_id=-1,
                control_symbols=["[CLS]", "[SEP]", "[MASK]"],
                user_defined_symbols=["("],
            )
        if name == "xlm_roberta":
            return unigrams(
                "sentencepiece.bpe.model", unk_id=0, bos_id=1, eos_id=2
            )
        folder = data_dir / "vocab"
        number = None if pytestconfig.getoption("--run-large") else MERGES
        merges = (folder / "gpt2-vocab.bpe").read_text("utf-8").splitlines()
        merges = merges[1:][:number]
        table = json.loads((folder / "gpt2-encoder.json").read_bytes())
        words = sorted(table, key=table.get)[: 256 + len(merges)]
        if name == "roberta":
            words = ["<s>", "<pad>", "</s>", "<unk>", *words, "<mask>"]
        else:
            words = [*words, "<|endoftext|>"]
        return byte_pairs({word: n for n, word in enumerate(words)}, merges)

    return make


# Name: vocabulary, family and settings in tokenizer_config.json.
KINDS = {
    "bert": ("uncased", "bert", {"do_lower_case": True}),
    "bert_cased": ("cased", "bert", {"do_lower_case": False}),
    "bert_accents": ("cased", "bert", {"strip_accents": False}),
    "bert_no_chinese": ("uncased", "bert", {"tokenize_chinese_chars": False}),
    "distil_bert": ("uncased", "distil_bert", {}),
    "albert": ("albert", "albert", {}),
    "albert_cased": ("albert", "albert", {"do_lower_case": False}),
    "albert_accents": ("albert", "albert", {"keep_accents": True}),
    "albert_cased_accents": ("albert", "albert",
        {"do_lower_case": False, "keep_accents": True}),
    "albert_no_prefix": ("albert", "albert", {"add_prefix_space": False}),
    "xlm_roberta": ("xlm_roberta", "xlm_roberta", {}),
    # Its class has no such settings.
    "xlm_roberta_lower": ("xlm_roberta", "xlm_roberta",
        {"do_lower_case": True}),
    "roberta": ("roberta", "roberta", {}),
    "roberta_prefix": ("roberta", "roberta", {"add_prefix_space": True}),
    "gpt2": ("gpt2", "gpt2", {}),
    "qwen3": ("gpt2", "qwen3", {}),
}  # fmt: skip


def written(directory, files, kind, **arguments):
    """kdkit's tokenizer of a kind, and transformers'."""
    vocabulary, family, settings = KINDS[kind]
    made = files(vocabulary)
    judge = write(directory, family, made, settings, **arguments)
    return load_tokenizer(directory), judge


@pytest.mark.parametrize(
    "number", large_except([NUM_TEXTS, MANY_TEXTS], NUM_TEXTS)
)
@pytest.mark.parametrize(
    "kind",
    large_except(
        ["bert", "bert_cased", "distil_bert", "albert", "albert_cased_accents",
         "xlm_roberta", "roberta"],
        *("bert", "bert_cased", "albert", "xlm_roberta", "roberta"),
    ),
)  # fmt: skip
def test_ids_of_real_texts_are_the_references(
    kind, number, files, data_dir, tmp_path
):
    made, judge = written(tmp_path, files, kind)
    for name in DATA_SETS:
        check_same(made, judge, real_texts(data_dir, name, number))


QUICK = [
    ("bert", "old"),
    ("bert_cased", "new"),
    ("bert_accents", "old"),
    ("bert_no_chinese", "new"),
    ("distil_bert", "new"),
    ("albert", "old"),
    ("albert_cased_accents", "new"),
    ("xlm_roberta", "old"),
    ("roberta_prefix", "new"),
    ("gpt2", "new"),
    ("qwen3", "old"),
]


@pytest.mark.parametrize(
    ("kind", "layout"),
    large_except(
        [(one, way) for one in KINDS for way in ("old", "new")], *QUICK
    ),
)
def test_ids_of_hostile_texts_and_added_tokens_are_the_references(
    kind, layout, files, tmp_path
):
    added = ["Covid", "New York", "ß½"]
    made, judge = written(tmp_path, files, kind, layout=layout, added=added)
    more = ["aCovidb", "covid New York, new york NewYork"]
    check_same(made, judge, [*TEXTS, *more, *hostile_texts()])
    assert made.vocabulary_size() == len(judge)
    vocabulary = judge.get_vocab()
    for token in [*added, *list(vocabulary)[:: len(vocabulary) // 200 + 1]]:
        assert made.token_to_id(token) == vocabulary[token]


@pytest.mark.parametrize("step", [50, pytest.param(1, marks=pytest.mark.large)])
@pytest.mark.parametrize(
    "kind",
    large_except(
        ["bert", "bert_cased", "albert", "xlm_roberta", "roberta"],
        *("bert", "bert_cased", "albert"),
    ),
)
def test_every_character_is_taken_as_the_reference_takes_it(
    kind, step, files, tmp_path
):
    check_same(*written(tmp_path, files, kind), every_character(step))


def test_vocabulary_file_alone_is_read_as_berts(files, data_dir, tmp_path):
    made = load_tokenizer(data_dir / "vocab" / VOCABULARY)
    _, judge = written(tmp_path, files, "bert")
    check_same(made, judge, [*real_texts(data_dir, "mrpc"), *hostile_texts()])


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
    settings = {"do_lower_case": lowercase}
    judge = write(
        tmp_path, "bert", None, settings, added=added, special=special
    )
    texts = [
        *("a Newtok newtok NEWTOKs", "<e>b<ee>[E 1]Newtok"),
        *("abb b b b\u00a0b Àbb", "a\x00b Newtok", *TEXTS),
    ]
    check_same(load_tokenizer(tmp_path), judge, texts)


@pytest.mark.parametrize("layout", ["new", "old"])
@pytest.mark.parametrize("config", [None, {}, {"strip_accents": None}])
@pytest.mark.parametrize("family", ["bert", "albert"])
def test_missing_settings_have_the_references_defaults(
    family, config, layout, tmp_path
):
    write(tmp_path, family, None, {"do_lower_case": False}, layout)
    (tmp_path / CONFIG).unlink()
    if config is not None:
        (tmp_path / CONFIG).write_text(json.dumps(config))
    judge, made = again(tmp_path), load_tokenizer(tmp_path)
    check_same(made, judge, [*TEXTS, "CAFÉ"])
    if family == "bert":
        assert ids(made, ["CAFÉ"]) == [[PIECES.index("cafe")]]


BERT_STEP = {  # accents are open: lower-casing strips them
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}
NFD = [{"type": "NFD"}, {"type": "StripAccents"}]
STEPS = {
    "bert": [BERT_STEP],
    "distil_bert": NFD,
    "albert": [*NFD, {"type": "Lowercase"}],
    "roberta": [*NFD, {"type": "Lowercase"}],
}


@pytest.mark.parametrize("family", STEPS)
def test_a_tokenizer_without_a_class_is_as_its_file_is(family, tmp_path):
    write(tmp_path, family)
    without_class(tmp_path)

    def normalize(whole):
        steps = STEPS[family] + [whole["normalizer"]] * (family == "albert")
        whole["normalizer"] = {"type": "Sequence", "normalizers": steps}
        if family == "bert":
            whole["model"]["max_input_chars_per_word"] = 3

    change(tmp_path / WHOLE, normalize)
    judge = again(tmp_path)
    if family == "roberta":  # random ids
        change(tmp_path / WHOLE, lambda whole: whole["model"].update(dropout=1))
    texts = ["The thé Cafés", "the cafe abbb abb", *TEXTS]
    check_same(load_tokenizer(tmp_path), judge, texts)


def test_unigrams_follow_the_best_path(tmp_path):
    """An unknown character costs more than any piece; one is one of a word."""
    write(tmp_path, "albert")
    without_class(tmp_path)
    pieces = [["qu", -10.0], ["ab", -10.0], ["uab", -3.0], ["a", -9.0]]
    change(
        tmp_path / WHOLE,
        lambda whole: whole["model"].update(
            vocab=[*whole["model"]["vocab"][:5], *pieces]
        ),
    )
    texts = ["quab", "日本 語 日", "aquab abqu", "abab"]
    made, judge = load_tokenizer(tmp_path), again(tmp_path)
    check_same(made, judge, texts)
    assert [len(row) for row in ids(made, texts)[:2]] == [3, 3]


@pytest.mark.parametrize("join", [list, " ".join])
def test_merges_are_texts_or_pairs(join, tmp_path):
    write(tmp_path, "gpt2")

    def respell(whole):
        whole["model"]["merges"] = [*map(join, whole["model"]["merges"])]

    change(tmp_path / WHOLE, respell)
    check_same(load_tokenizer(tmp_path), again(tmp_path), ["the abc", *TEXTS])


def test_special_tokens_in_texts_are_plain_text(tmp_path):
    write(tmp_path, "bert", word_pieces([*PIECES, "[", "]", "sep", "mask"]))
    made = load_tokenizer(tmp_path)
    pieces = [made.id_to_token(int(one)) for one in made("[SEP] a[MASK]")]
    assert pieces == ["[", "sep", "]", "a", "[", "mask", "]"]


def test_threads_truncate_to_their_own_lengths(tmp_path):
    """The object in Rust is shared, and its truncation is a state of it."""
    write(tmp_path, "bert")
    made = load_tokenizer(tmp_path)
    texts = ["the cafe a b . , " * 5] * 4000

    def lengths(some, length):
        some = [text.decode() for text in some]
        return made.encode((some,), length)[2]

    encoded = (
        tf.data.Dataset.from_tensor_slices(texts)
        .batch(20)
        .map(
            lambda some: (
                tf.numpy_function(lambda one: lengths(one, 9), [some], "int32"),
                made(some).row_lengths(),
            ),
            num_parallel_calls=4,
        )
    )
    found = [made.encode((texts[:200],), 5)[2]]
    for own, whole in encoded.as_numpy_iterator():
        found.append(made.encode((texts[:20],), 5)[2])
        assert set(own) == {9}
        assert set(whole) == {30}
    assert set(np.concatenate(found)) == {5}


def test_it_encodes_without_tensorflow(tmp_path):
    """Whatever the backend of Keras, and if a file of Keras holds it."""
    write(tmp_path, "bert")
    made = load_tokenizer(tmp_path)
    made.save_assets(tmp_path)
    program = f"""
import sys
sys.modules["tensorflow"] = sys.modules["tensorflow_text"] = None
from kdkit import data
from kdkit.models import tokenizer_files
made = tokenizer_files.load_saved_tokenizer({str(tmp_path)!r})
rows = data.encode(data.Examples((["the cafe"], ["a b"])), made, 6)
print(rows.token_ids.tolist(), made(["the cafe"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    pair = made.encode((["the cafe"], ["a b"]), 6)[0].tolist()
    assert done.stdout == f"{pair} {made(['the cafe'])}\n"


def config(**changes):
    return lambda path: change(path / CONFIG, **changes)


def whole(apply=None, **changes):
    def edit(path):
        without_class(path)
        change(path / WHOLE, apply, **changes)

    return edit


def model(**changes):
    return whole(lambda values: values["model"].update(changes))


def whole_word(content):
    return {"content": content, "single_word": True, "normalized": False}


def byte_pairs_of_sentencepiece(path):
    for file in (path / CONFIG, path / WHOLE):
        file.unlink()
    proto = sentence_piece_model(40, model_type="bpe", bos_id=-1, eos_id=-1)
    (path / "spiece.model").write_bytes(proto)


def added_after_the_mask(path):
    write(path, "xlm_roberta", added=["Covid"])


# Family, change to the files, and what the message must name.
UNUSUAL = {
    "tokenizer_class": ("bert", config(tokenizer_class="BertJapaneseTokenizer"),
                        "BertJapaneseTokenizer"),
    "auto_map": ("bert", config(auto_map={"AutoTokenizer": ["x", None]}),
                 "auto_map"),
    "cls_token": ("bert", config(cls_token="<s>"), None),
    "single_word": ("bert",
                    config(added_tokens_decoder={"16": whole_word("xy")}),
                    None),
    "another model": ("bert",
                      lambda path: change(path / WHOLE, model={"type": "BPE"}),
                      "'BPE'.*'WordPiece'"),
    "no special tokens": ("bert", whole(post_processor=None), None),
    "byte_fallback": ("albert", model(byte_fallback=True), None),
    "byte pairs of SentencePiece": ("albert", byte_pairs_of_sentencepiece,
                                    "Unigram"),
    "first pieces": (
        "xlm_roberta",
        whole(lambda values: values["model"]["vocab"].insert(1, ["0 0", 0.0])),
        None,
    ),
    "added": ("xlm_roberta", added_after_the_mask, None),
    "words": ("roberta", whole(pre_tokenizer={"type": "Whitespace"}), None),
    "use_regex": (
        "roberta",
        whole(lambda values: values["pre_tokenizer"].update(use_regex=False)),
        None,
    ),
    "ignore_merges": ("roberta", model(ignore_merges=True), None),
}  # fmt: skip


@pytest.mark.parametrize("case", UNUSUAL)
def test_what_cannot_be_followed_is_refused_by_name(case, tmp_path):
    """What can be followed has the reference's ids."""
    family, apply, name = UNUSUAL[case]
    write(tmp_path, family)
    apply(tmp_path)
    if name is None:
        texts = [*TEXTS, "xy axy the a", "Covid"]
        check_same(load_tokenizer(tmp_path), again(tmp_path), texts)
        return
    with pytest.raises(ValueError, match=name):
        load_tokenizer(tmp_path)
