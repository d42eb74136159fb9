"""Reads tokenizers: kdkit's, Hugging Face's, keras-hub's, vocabulary files.

A checkpoint's tokenizer is the one that transformers 5 builds from the same
files: a class such as `BertTokenizer` takes the vocabulary and some settings,
without such a class `tokenizer.json` decides everything.
"""

import inspect
import json
import pathlib

import keras_hub
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from kdkit.errors import UsageError, unknown
from kdkit.io.reading import read_json
from kdkit.models.hugging_face import checkpoint_family
from kdkit.models.places import TOKENIZER_CONFIG, Place, find
from kdkit.models.tokenizer import FILE, ROLES, Tokenizer
from kdkit.models.tokenizer_kinds import (
    ALBERT_TOKENS,
    BERT_TOKENS,
    ROBERTA_TOKENS,
    TEXT_END,
    as_tokenizer,
    byte_pairs,
    charsmap_of,
    framed,
    read_proto,
    sentence_pieces,
    unigrams,
    word_piece_tokenizer,
    word_pieces,
)

WHOLE = "tokenizer.json"
SEGMENTS = "token_type_ids"  # in `model_input_names`
# transformers' classes for a tokenizer that `tokenizer.json` defines.
WHOLE_CLASSES = ("PreTrained", "TokenizersBackend")
# Classes of transformers that give a model no segments by default.
NO_SEGMENTS = ("DistilBert", "Roberta", "GPT2", "Qwen2", "Qwen3", "XLMRoberta")
EXTRA = ("extra_special_tokens", "additional_special_tokens")
FLAGS = ("lstrip", "rstrip", "single_word", "normalized")
# The end of a vocabulary's name, with the end of its merges' name.
MERGES = {
    "encoder.json": "vocab.bpe",  # OpenAI's names
    "vocab.json": "merges.txt",  # Hugging Face's names
    "vocabulary.json": "merges.txt",  # keras-hub's names
}
# Words, single digits, punctuation, white space.
QWEN_WORDS = tokenizers.Regex(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def read_tokenizer(place: Place, family) -> Tokenizer:
    """Reads the tokenizer of a Hugging Face checkpoint."""
    path, whole = place.path, place.read(WHOLE)
    config = place.read(TOKENIZER_CONFIG)
    if "auto_map" in config:
        raise UsageError(
            f"The tokenizer in {path} needs its own code (auto_map), which "
            "kdkit does not run."
        )
    named = config
    if "added_tokens_decoder" not in config:
        named = {**config, **place.read("special_tokens_map.json")}
    classes = (one.get("tokenizer_class") for one in (config, place.config))
    name = next(filter(None, classes), family.class_name)
    name = name.removesuffix("Fast").removesuffix("Tokenizer")
    is_whole = bool(whole) and name in WHOLE_CLASSES
    if name in WHOLE_CLASSES:
        name = family.class_name
    if name not in CLASSES and not is_whole:
        raise unknown(f"tokenizer in {path}", f"{name}Tokenizer", CLASSES)
    kind, build, tokens, num_separators = CLASSES.get(name, (None, None, {}, 0))
    tokens = _special_tokens(named, tokens)
    if is_whole:
        own = {"added_tokens": [], "truncation": None, "padding": None}
        whole["model"].pop("dropout", None)  # random ids
        rust = tokenizers.Tokenizer.from_str(json.dumps({**whole, **own}))
    elif whole and whole["model"].get("type", kind) != kind:
        raise UsageError(
            f"{path / WHOLE} has a model of type {whole['model']['type']!r}. "
            f"Expected {kind!r}."
        )
    else:
        rust = build(path, whole, config, tokens)
    added = _added_tokens(place, named, whole)
    rust.add_tokens([_added(one, tokens.values()) for one in added])
    names = config.get("model_input_names")
    has_segments = name not in NO_SEGMENTS
    if names is not None:
        has_segments = SEGMENTS in names
    if num_separators and not is_whole:
        framed(rust, tokens, num_separators, int(has_segments))
    direction = (whole.get("truncation") or {}).get("direction", "right")
    side = config.get("truncation_side", direction.lower())
    return Tokenizer(rust, tokens, side, 1 + has_segments)


def _content(token):
    return token if isinstance(token, str) else token["content"]


def _special_tokens(named, defaults):
    """Returns the special tokens by role."""
    found = dict(defaults)
    for role, names in ROLES.items():
        for name in reversed(names):
            token = named.get(f"{name}_token")
            found |= {role: _content(token)} if token else {}
    return found


def _added_tokens(place, named, whole):
    """Returns the added tokens in transformers' order: by id, then by name."""
    special = [
        token
        for name, token in named.items()
        if name.endswith("_token") and isinstance(token, str | dict)
    ]
    for name in EXTRA:
        tokens = named.get(name) or []
        special += tokens.values() if isinstance(tokens, dict) else tokens
    special = {_content(token): token for token in special}
    numbered = {token["id"]: token for token in whole.get("added_tokens") or []}
    for content, number in place.read("added_tokens.json").items():
        token = {"content": content, "special": False}
        numbered[number] = special.get(content, token)
    for number, token in named.get("added_tokens_decoder", {}).items():
        numbered[int(number)] = token
    found = [numbered[number] for number in sorted(numbered)]
    for token in found:
        special.pop(_content(token), None)
    return [*found, *special.values()]


def _added(token, special):
    """Returns a token as `tokenizers` adds it.

    Only the model's own special tokens are special: texts may contain the
    others.
    """
    if isinstance(token, str):
        token = {"content": token}
    flags = {name: token[name] for name in FLAGS if name in token}
    flags.setdefault("normalized", not token.get("special", True))
    content = token["content"]
    return tokenizers.AddedToken(content, special=content in special, **flags)


def _word_pieces(path, whole, config, tokens):
    file = path / "vocab.txt"
    return word_pieces(
        whole["model"]["vocab"] if whole else _read_word_pieces(file),
        tokens["unknown"],
        config.get("do_lower_case", True),
        config.get("strip_accents"),
        config.get("tokenize_chinese_chars", True),
    )


def _byte_pairs(path, whole, config, tokens):
    del tokens
    if whole:
        ids, merges = whole["model"]["vocab"], whole["model"]["merges"]
        merges = [
            tuple(one.split(" ") if isinstance(one, str) else one)
            for one in merges
        ]
    else:
        ids, merges = _read_byte_pairs(path / "vocab.json", path / "merges.txt")
    return byte_pairs(ids, merges, config.get("add_prefix_space") or False)


def _qwen(path, whole, config, tokens):
    rust = _byte_pairs(path, whole, config, tokens)
    rust.normalizer = normalizers.NFC()
    adds_space = rust.pre_tokenizer.add_prefix_space
    rust.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(QWEN_WORDS, "isolated"),
            pre_tokenizers.ByteLevel(adds_space, use_regex=False),
        ]
    )
    return rust


def _albert(path, whole, config, tokens):
    steps = [normalizers.Replace(quotes, '"') for quotes in ("``", "''")]
    if not config.get("keep_accents", False):
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if config.get("do_lower_case", True):
        steps.append(normalizers.Lowercase())
    return _unigrams(path / "spiece.model", whole, config, tokens, steps)


def _xlm_roberta(path, whole, config, tokens):
    file = path / "sentencepiece.bpe.model"
    return _unigrams(file, whole, config, tokens, [], is_shifted=True)


def _unigrams(file, whole, config, tokens, steps, is_shifted=False):
    arguments = steps, config.get("add_prefix_space", True)
    if not whole:
        proto = read_proto(file.read_bytes())
        return sentence_pieces(proto, tokens, is_shifted, *arguments)
    scores = list(map(tuple, whole["model"]["vocab"]))
    return unigrams(scores, charsmap_of(whole), tokens, *arguments)


QWEN_TOKENS = dict.fromkeys(("end", "pad", "unknown"), TEXT_END["end"])
# By class: the type of the model, its reader, the special tokens, and the
# number of ends between two texts, 0 without tokens around texts.
CLASSES = {
    **dict.fromkeys(
        ("Bert", "DistilBert", "Electra"),
        ("WordPiece", _word_pieces, BERT_TOKENS, 1),
    ),
    "Roberta": ("BPE", _byte_pairs, ROBERTA_TOKENS, 2),
    "GPT2": ("BPE", _byte_pairs, TEXT_END, 0),
    # The first is the class, the second the name of the model.
    **dict.fromkeys(("Qwen2", "Qwen3"), ("BPE", _qwen, QWEN_TOKENS, 0)),
    "Albert": ("Unigram", _albert, ALBERT_TOKENS, 1),
    "XLMRoberta": ("Unigram", _xlm_roberta, ROBERTA_TOKENS, 2),
}


def _read_word_pieces(file):
    return models.WordPiece.read_file(str(file))


def _read_byte_pairs(*files):
    return models.BPE.read_file(*map(str, files))


def read_static_tokenizer(file) -> tuple[Tokenizer, int | None]:
    """Reads a `tokenizer.json` that puts no special tokens around texts.

    The special tokens in texts are found, as in sentence-transformers.

    Returns:
        Tuple of the tokenizer and the length to which it truncates texts,
        `None` if it does not.
    """
    whole = read_json(pathlib.Path(file), "a tokenizer")
    settings = whole.get("truncation") or {}
    side = settings.get("direction", "right").lower()
    rust = tokenizers.Tokenizer.from_str(json.dumps(whole))
    return Tokenizer(rust, side=side), settings.get("max_length")


def load_tokenizer(source) -> Tokenizer:
    """Loads the tokenizer from a run, a preset directory or a vocabulary.

    Args:
        source: string or path. A `.txt` file contains one word piece per line;
            texts are lower-cased if no piece has a capital letter. A `.json`
            file is a byte-pair vocabulary, such as `vocab.json` with its
            merges in `merges.txt` next to it.

    Raises:
        UsageError: (a `ValueError`) if a directory contains no model.
    """
    place = find(source)
    if place.path.suffix in (".txt", ".json"):
        return read_vocabulary(place.path)
    family = checkpoint_family(place)
    if family is not None:
        return read_tokenizer(place, family)
    if place.static_folder is not None:
        return read_static_tokenizer(place.static_folder / WHOLE)[0]
    saved = load_saved_tokenizer(place.folder)
    if saved is not None:
        return saved
    made = keras_hub.tokenizers.Tokenizer.from_preset(place.preset)
    if place.files is None and hasattr(made, "strip_accents"):
        # The papers' uncased models strip accents, and the presets do not.
        made.strip_accents = made.lowercase
    return as_tokenizer(made)


def read_preprocessor(preprocessor, tokenizer: Tokenizer | None) -> tuple:
    """Returns the tokenizer, keras-hub's if there is no other, and a length.

    The preprocessor truncates to that length; `None` if it is not known.
    """
    if preprocessor is None:
        return tokenizer, None
    if tokenizer is None:
        tokenizer = as_tokenizer(preprocessor.tokenizer)
    length = getattr(preprocessor, "sequence_length", None)
    parameters = inspect.signature(type(preprocessor)).parameters
    usual = getattr(parameters.get("sequence_length"), "default", None)
    return tokenizer, None if length == usual else length


def load_saved_tokenizer(directory) -> Tokenizer | None:
    """Loads what `Tokenizer.save_assets` wrote; `None` if it did not."""
    if not pathlib.Path(directory, FILE).is_file():
        return None
    tokenizer = Tokenizer()
    tokenizer.load_assets(directory)
    return tokenizer


def read_vocabulary(file) -> Tokenizer:
    """Reads a file of word pieces, or byte pairs with their merges.

    Args:
        file: path. A `.txt` file has one word piece per line; texts are
            lower-cased if no piece has a capital letter. A `.json` file is a
            byte-pair vocabulary, see `byte_pair_files`.
    """
    file = pathlib.Path(file)
    if file.suffix == ".json":
        rust = byte_pairs(*_read_byte_pairs(*byte_pair_files(file)))
        rust.add_special_tokens([TEXT_END["end"]])
        return Tokenizer(rust, TEXT_END)
    pieces = _read_word_pieces(file)
    is_cased = any(
        piece != piece.lower()
        for piece in {*pieces} - {*BERT_TOKENS.values()}
        if not (piece.startswith("[") and piece.endswith("]"))
    )
    return word_piece_tokenizer(pieces, lowercase=not is_cased)


def byte_pair_files(file) -> tuple[pathlib.Path, pathlib.Path]:
    """Returns the paths of a vocabulary and its merges.

    Args:
        file: string or path. The vocabulary, a JSON object from token to id,
            whose name ends with `encoder.json`, `vocab.json` or
            `vocabulary.json`. The merges must be in the same folder, under the
            same name with the end `vocab.bpe` or `merges.txt`.

    Raises:
        UsageError: (a `ValueError`) for another name.
    """
    file = pathlib.Path(file)
    for ending, merges in MERGES.items():
        if file.name.endswith(ending):
            begin = file.name.removesuffix(ending)
            return file, file.with_name(begin + merges)
    raise unknown("end of a vocabulary's name", file.name, MERGES)


def save_vocabulary(tokenizer: Tokenizer, folder) -> tuple[str, ...]:
    """Writes a vocabulary for older programs; returns the files' names."""
    if tokenizer.kind == "Unigram":  # which they do not read as JSON
        return ()
    files = tokenizer.rust.model.save(str(folder))
    return tuple(pathlib.Path(file).name for file in files)
