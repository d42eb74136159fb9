"""The tokenizers in Hugging Face checkpoints: one reader for each kind.

The result is the tokenizer that transformers 5 builds from the same files.
"""

import dataclasses
import json
import warnings

import keras_hub
import tokenizers

from kdkit.errors import UsageError
from kdkit.io.reading import numbered_lines
from kdkit.models.families import DECODERS, family_of
from kdkit.models.hugging_face_byte_pairs import read_byte_pairs
from kdkit.models.hugging_face_files import (
    WHOLE,
    WHOLE_CLASSES,
    TokenizerFiles,
    tokenizer_files,
)
from kdkit.models.hugging_face_unigrams import read_unigrams
from kdkit.models.ruled_tokenizers import with_rules
from kdkit.models.text_rules import (
    WORD_LENGTH,
    TextRules,
    bert_rules,
    read_normalizer,
    tokenizer_rules,
)

VOCABULARY = "vocab.txt"
# transformers uses BERT's tokenizer class for all of these.
CLASSES = ("", "BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")
SPECIAL = {
    "cls": "[CLS]",
    "sep": "[SEP]",
    "pad": "[PAD]",
    "mask": "[MASK]",
}
PRE_TOKENIZER = "BertPreTokenizer"
KIND = "WordPiece"


def read_word_pieces(files: TokenizerFiles, cls):
    """Returns the word-piece tokenizer of a checkpoint, with its rules."""
    files.require_class(*CLASSES, *WHOLE_CLASSES)
    unknown = files.special_token("unk", "[UNK]")
    special = [*files.require_special(SPECIAL), unknown]
    model = files.model(KIND)
    vocabulary, added = files.all_tokens(_pieces(model, files), special)
    settings = {"oov_token": unknown}
    if files.is_whole:
        rules = TextRules(
            read_normalizer(files.whole.get("normalizer"), files.path / WHOLE),
            added,
            model.get("max_input_chars_per_word", WORD_LENGTH),
        )
        settings["oov_token"] = model.get("unk_token", "[UNK]")
        settings["suffix_indicator"] = model.get(
            "continuing_subword_prefix", "##"
        )
        _require_pre_tokenizer(files)
    else:
        rules = bert_rules(
            files.config.get("do_lower_case", True),
            files.config.get("strip_accents"),
            files.config.get("tokenize_chinese_chars", True),
            added_tokens=added,
        )
    return with_rules(cls(vocabulary, **settings), rules)


def _pieces(model, files):
    """Returns the vocabulary by piece."""
    if files.whole:
        return model["vocab"]
    return {
        line.rstrip(): number - 1
        for number, line in numbered_lines(files.path / VOCABULARY)
    }


def _require_pre_tokenizer(files):
    splitter = files.whole.get("pre_tokenizer") or {}
    if splitter.get("type") != PRE_TOKENIZER:
        raise UsageError(
            f"{files.path / WHOLE} splits texts by {splitter.get('type')!r}. "
            f"Expected {PRE_TOKENIZER!r}."
        )


XLM_ROBERTA = "XLMRobertaTokenizer"
SEGMENTS = "token_type_ids"  # in `model_input_names` of `tokenizer_config.json`
# From the tokenizer's class in keras-hub to a function of the files and the
# class.
READERS = {
    keras_hub.tokenizers.WordPieceTokenizer: read_word_pieces,
    keras_hub.tokenizers.BytePairTokenizer: read_byte_pairs,
    keras_hub.tokenizers.SentencePieceTokenizer: read_unigrams,
}


def read_tokenizer(path, family):
    """Returns the tokenizer of a Hugging Face checkpoint directory."""
    files = tokenizer_files(path)
    cls = _tokenizer_class(files, family)
    for base, read in READERS.items():
        if issubclass(cls, base):
            tokenizer = read(files, cls)
            if files.is_whole and not family.is_decoder:
                _require_special_tokens(files, tokenizer)
            return _with_sides(files, tokenizer, family)
    return keras_hub.tokenizers.Tokenizer.from_preset(str(path))


def _tokenizer_class(files: TokenizerFiles, family):
    """Returns keras-hub's class; a BERT may have XLM-RoBERTa's pieces."""
    model = files.whole.get("model", {})
    has_unigrams = (
        files.is_whole
        and model.get("type") == "Unigram"
        and issubclass(family.tokenizer, keras_hub.tokenizers.BertTokenizer)
    )
    if files.class_name == XLM_ROBERTA or has_unigrams:
        return keras_hub.tokenizers.XLMRobertaTokenizer
    return family.tokenizer


def reads_one_segment(path) -> bool:
    """Whether the tokenizer assigns segment 0 to both texts of a pair."""
    files = tokenizer_files(path)
    names = files.config.get("model_input_names")
    if isinstance(names, list):
        return SEGMENTS not in names
    return files.class_name == XLM_ROBERTA


def _with_sides(files: TokenizerFiles, tokenizer, family):
    """Sets the side on which texts are truncated; warns about left padding."""
    if (
        files.side("padding") == "left"
        and family.name not in DECODERS
        and not family.checkpoints.positions_follow_padding
    ):
        warnings.warn(
            f"The tokenizer in {files.path} pads on the left (padding_side), "
            "which moves the positions of the padded texts in transformers. "
            "kdkit pads on the right: a text's outputs are those that "
            "transformers computes for the text alone.",
            stacklevel=2,
        )
    if files.side("truncation") == "right":
        return tokenizer
    rules = tokenizer_rules(tokenizer) or TextRules()
    return with_rules(
        tokenizer, dataclasses.replace(rules, truncation_side="left")
    )


def _require_special_tokens(files: TokenizerFiles, tokenizer):
    """Raises an error if a `tokenizer.json` adds other special tokens."""
    start, end = tokenizer.start_token_id, tokenizer.end_token_id
    first, second = (tokenizer.vocabulary_size() + one for one in range(2))
    between = [end] * family_of(tokenizer).num_separators
    expected = [start, first, *between, second, end]
    received = _with_special_tokens(files, first, second)
    if received != ([start, first, end], expected):
        raise UsageError(
            f"{files.path / WHOLE} adds other special tokens to texts "
            f"(post_processor). Expected {expected} for the pair {first}, "
            f"{second}. Received: {received[-1]}."
        )


def _with_special_tokens(files, *texts):
    """Returns the ids for one text and for two, with special tokens."""
    whole = {
        "version": "1.0",
        "added_tokens": [],
        "post_processor": files.whole.get("post_processor"),
        "model": {
            "type": "WordLevel",
            "vocab": {str(number): number for number in texts},
            "unk_token": "",
        },
    }
    made = tokenizers.Tokenizer.from_str(json.dumps(whole))
    first, second = map(str, texts)
    return made.encode(first).ids, made.encode(first, second).ids
