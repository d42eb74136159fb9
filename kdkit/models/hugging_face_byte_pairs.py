"""Byte-pair tokenizers in Hugging Face checkpoints: RoBERTa's and GPT-2's."""

from kdkit.errors import UsageError, shortened
from kdkit.models.families import family_of
from kdkit.models.hugging_face_files import WHOLE, WHOLE_CLASSES, TokenizerFiles
from kdkit.models.library_errors import loading
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
        pieces, merges = files.pieces(KIND), _merges(files, model)
    else:
        pieces, merges = _read_files(files)
    tokens, added = files.all_tokens(pieces, (*special, unknown))
    missing = [one for one in special if one not in tokens]
    if missing:
        raise UsageError(
            f"The vocabulary in {files.path} does not fit {cls.__name__}. "
            f"Expected {special} in it. Missing: {', '.join(missing)}."
        )
    steps, add_prefix_space = (), files.setting("add_prefix_space", False)
    if files.is_whole:
        path = files.path / WHOLE
        steps = read_normalizer(files.whole.get("normalizer"), path)
        add_prefix_space = _adds_prefix_space(files)
        _require_settings(files, model, pieces)
    with loading(files.path):
        tokenizer = cls(
            {token: number for number, token in enumerate(tokens)},
            merges,
            add_prefix_space=add_prefix_space,
        )
        return with_rules(tokenizer, TextRules(steps, added))


def _merges(files, model):
    """Returns a `tokenizer.json`'s merges; each is a string or a pair there."""
    merges = model.get("merges")
    if not isinstance(merges, list):
        raise _damaged(files, "a list of merges")
    pairs = [
        merge.split(" ") if isinstance(merge, str) else merge
        for merge in merges
    ]
    for pair in pairs:
        if not (
            isinstance(pair, list)
            and len(pair) == 2
            and all(isinstance(part, str) and part for part in pair)
            and " " not in "".join(pair)
        ):
            raise _damaged(files, "pairs of pieces as merges")
    return list(map(" ".join, pairs))


def _read_files(files):
    """Returns pieces and merges from the files of older versions."""
    paths = files.path / VOCABULARY, files.path / MERGES
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise UsageError(
            f"No vocabulary in {files.path}. Expected {WHOLE}, or {VOCABULARY} "
            f"and {MERGES}. Missing: {', '.join(missing)}. Copy the files of "
            "the tokenizer next to the model's files."
        )
    return read_vocabulary(paths[0]), read_merges(paths[1])


def _adds_prefix_space(files):
    """Whether a `tokenizer.json` adds a blank in front of texts."""
    splitter = files.whole.get("pre_tokenizer")
    splitter = splitter if isinstance(splitter, dict) else {}
    adds = splitter.get("add_prefix_space")
    if (
        splitter.get("type") != "ByteLevel"
        or type(adds) is not bool
        or splitter.get("use_regex", True) is not True
    ):
        raise UsageError(
            f"{files.path / WHOLE} splits texts by "
            f"{shortened(splitter.get('type'))}. Expected 'ByteLevel' with its "
            "own pattern, as for GPT-2. Use a checkpoint with such a "
            "tokenizer."
        )
    return adds


def _require_settings(files, model, pieces):
    """Raises an error for settings that kdkit does not support."""
    others = [
        f"{name}={shortened(model[name])}"
        for name, allowed in MODEL_SETTINGS.items()
        if model.get(name) not in allowed
    ]
    if model.get("unk_token") is not None and not all(
        character in pieces for character in byte_characters()
    ):
        others.append("an unk_token for bytes that are in no piece")
    if others:
        raise UsageError(
            f"{files.path / WHOLE} has {', '.join(others)}, which kdkit does "
            "not support. Use a checkpoint with a tokenizer like GPT-2's."
        )


def _damaged(files, expected):
    return UsageError(
        f"{files.path / WHOLE} is damaged. Expected {expected}. Restore it "
        "from a copy."
    )
