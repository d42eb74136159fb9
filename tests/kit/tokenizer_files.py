"""Files of tokenizers, and transformers as the judge of their ids."""

import functools
import json

import tensorflow as tf

from kit.encoders import tokenizer
from kit.references import reference

# By family: the type of its models and its class in transformers.
CLASSES = {
    "bert": ("bert", "BertTokenizer"),
    "distil_bert": ("distilbert", "DistilBertTokenizer"),
    "albert": ("albert", "AlbertTokenizer"),
    "xlm_roberta": ("xlm-roberta", "XLMRobertaTokenizer"),
    "roberta": ("roberta", "RobertaTokenizer"),
    "gpt2": ("gpt2", "GPT2Tokenizer"),
    "qwen3": ("qwen3", "Qwen2Tokenizer"),
}
PIECES = (
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cafe", "naive",
    "##s", "a", "b", "##b", ".", ",", "'", "ss",
)  # fmt: skip
CONFIG, WHOLE = "tokenizer_config.json", "tokenizer.json"


def word_pieces(pieces=PIECES):
    """The files of a BERT's vocabulary."""
    return {"vocab.txt": "\n".join(pieces).encode()}


def byte_pairs(vocabulary, merges):
    """The files of a vocabulary of byte pairs."""
    return {
        "vocab.json": json.dumps(vocabulary).encode(),
        "merges.txt": "\n".join(["#version: 0.2", *merges, ""]).encode(),
    }


def tiny_files(family):
    """The files of a tiny vocabulary of a family."""
    if family in ("bert", "distil_bert"):
        return word_pieces()
    if family in ("gpt2", "roberta"):
        letters = reference("tokenizers").pre_tokenizers.ByteLevel.alphabet()
        pieces = [*sorted(letters), "Ġt", "he", "ab", "bc"]
        if family == "gpt2":
            pieces += ["<|endoftext|>"]
        else:
            pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces, "<mask>"]
        ids = {piece: number for number, piece in enumerate(pieces)}
        return byte_pairs(ids, ["Ġ t", "h e", "a b", "b c"])
    name = "spiece" if family == "albert" else "sentencepiece.bpe"
    return {f"{name}.model": tokenizer(family).proto}


def write(
    directory,
    family,
    files=None,
    settings=(),
    layout="new",
    added=(),
    special=(),
):
    """Writes a tokenizer as transformers does; returns transformers' own.

    Args:
        layout: string. `"old"` for the vocabulary in a file of its own,
            `"new"` for what transformers 5 saves.
        added: strings. Added tokens; `special` ones are found as written.
    """
    directory.mkdir(exist_ok=True)
    files = files or tiny_files(family)
    model_type, name = CLASSES[family]
    for file, content in files.items():
        (directory / file).write_bytes(content)
    for file, value in (
        (CONFIG, {"tokenizer_class": name, **dict(settings)}),
        ("config.json", {"model_type": model_type}),
    ):
        (directory / file).write_text(json.dumps(value))
    judge = again(directory)
    if layout == "old":
        ids = {token: len(judge) + n for n, token in enumerate(added)}
        (directory / "added_tokens.json").write_text(json.dumps(ids))
    else:
        judge.add_tokens(list(added))
        if special:
            judge.add_special_tokens({"additional_special_tokens": [*special]})
        for file in files:
            (directory / file).unlink()
        judge.save_pretrained(directory)
    return again(directory)


def again(directory):
    """The tokenizer in a directory as transformers reads it."""
    return reference("transformers").AutoTokenizer.from_pretrained(directory)


def change(file, apply=None, **changes):
    """Changes a JSON file by a function or by entries; `None` removes one."""
    values = json.loads(file.read_text("utf-8"))
    if apply is not None:
        apply(values)
    values |= changes
    values = {key: value for key, value in values.items() if value is not None}
    file.write_text(json.dumps(values), "utf-8")


def without_class(directory):
    """Has `tokenizer.json` alone decide about the ids."""
    change(directory / CONFIG, tokenizer_class="TokenizersBackend")


def ids(made, texts):
    """The ids in a graph, as `tf.data` gives them."""
    return _traced(made)(tf.constant(texts)).to_list()


@functools.lru_cache(maxsize=4)
def _traced(made):
    return tf.function(
        lambda texts: made(texts),
        input_signature=[tf.TensorSpec((None,), "string")],
        autograph=False,
    )


def expected_ids(judge, texts):
    return judge(list(texts), add_special_tokens=False)["input_ids"]


def check_same(made, judge, texts):
    """Fails with the first text that has other ids."""
    expected = expected_ids(judge, texts)
    for text, ours, theirs in zip(
        texts, ids(made, texts), expected, strict=True
    ):
        assert ours == theirs, text
