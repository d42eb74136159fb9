"""Byte-pair tokenizers in Hugging Face checkpoints: RoBERTa's and GPT-2's."""

from kdkit.errors import UsageError
from kdkit.models.families import family_of
from kdkit.models.hugging_face_files import WHOLE, WHOLE_CLASSES, TokenizerFiles
from kdkit.models.ruled_tokenizers import with_rules
from kdkit.models.text_rules import TextRules, read_normalizer
from kdkit.models.token_models import byte_characters
from kdkit.models.vocabularies import read_merges, read_vocabulary

KIND = "BPE"
VOCABULARY, MERGES = "vocab.json", "merges.txt"
CLASSES = ("", "RobertaTokenizer", "GPT2Tokenizer")
# Settings of the model, with the values that kdkit supports.
MODEL_SETTINGS = {
    "dropout": (None, 0, 0.0),
    "continuing_subword_prefix": (None, ""),
    "end_of_word_suffix": (None, ""),
    "byte_fallback": (None, False),
    "ignore_merges": (None, False),
}


def read_byte_pairs(files: TokenizerFiles, cls):
    """Returns the byte-pair tokenizer of a checkpoint, with its rules."""
    files.require_class(*CLASSES, *WHOLE_CLASSES)
    special = files.require_special(family_of(cls).checkpoints.special_tokens)
    unknown = files.special_token("unk", "<unk>")
    if files.whole:
        model = files.model(KIND)
        pieces, merges = model["vocab"], _merges(model)
    else:
        pieces = read_vocabulary(files.path / VOCABULARY)
        merges = read_merges(files.path / MERGES)
    tokens, added = files.all_tokens(pieces, (*special, unknown))
    steps, add_prefix_space = (), files.config.get("add_prefix_space", False)
    if files.is_whole:
        path = files.path / WHOLE
        steps = read_normalizer(files.whole.get("normalizer"), path)
        add_prefix_space = _adds_prefix_space(files)
        _require_settings(files, model, pieces)
    tokenizer = cls(
        {token: number for number, token in enumerate(tokens)},
        merges,
        add_prefix_space=add_prefix_space,
    )
    return with_rules(tokenizer, TextRules(steps, added))


def _merges(model):
    """Returns a `tokenizer.json`'s merges; each is a string or a pair there."""
    return [
        merge if isinstance(merge, str) else " ".join(merge)
        for merge in model["merges"]
    ]


def _adds_prefix_space(files):
    """Whether a `tokenizer.json` adds a blank in front of texts."""
    splitter = files.whole.get("pre_tokenizer") or {}
    has_own_pattern = splitter.get("use_regex", True)
    if splitter.get("type") != "ByteLevel" or not has_own_pattern:
        raise UsageError(
            f"{files.path / WHOLE} splits texts by {splitter.get('type')!r}. "
            "Expected 'ByteLevel' with its own pattern."
        )
    return splitter["add_prefix_space"]


def _require_settings(files, model, pieces):
    """Raises an error for settings that kdkit does not support."""
    for name, allowed in MODEL_SETTINGS.items():
        if model.get(name) not in allowed:
            raise UsageError(
                f"{files.path / WHOLE} has {name}={model[name]!r}. Expected "
                f"{allowed[-1]!r}."
            )
    if model.get("unk_token") is not None and not (
        set(byte_characters()) <= pieces.keys()
    ):
        raise UsageError(
            f"{files.path / WHOLE} has an unk_token for bytes that are in no "
            "piece. Expected a piece for each byte."
        )
