"""Reads tokenizers: kdkit's, Hugging Face's, keras-hub's, vocabulary files.

A checkpoint's tokenizer is the one that transformers 5 builds from the same
files: a class such as `BertTokenizer` takes the vocabulary and some settings,
without such a class `tokenizer.json` decides everything.
"""

import base64
import json
import pathlib

import tokenizers
from sentencepiece import sentencepiece_model_pb2 as sentencepiece_model
from tokenizers import normalizers, pre_tokenizers

from kdkit.errors import UsageError, unknown
from kdkit.io.files import write_text
from kdkit.io.reading import numbered_lines, read_json
from kdkit.models.tokenizer import FILE, ROLES, Tokenizer
from kdkit.models.tokenizer_kinds import (
    ALBERT_TOKENS,
    BERT_TOKENS,
    ROBERTA_TOKENS,
    TEXT_END,
    Piece,
    byte_pairs,
    charsmap_of,
    framed,
    merge_lines,
    require_unigrams,
    unigrams,
    word_piece_tokenizer,
    word_pieces,
)

CONFIG, WHOLE = "tokenizer_config.json", "tokenizer.json"
SEGMENTS = "token_type_ids"  # in `model_input_names`
# transformers' classes for a tokenizer that `tokenizer.json` defines.
WHOLE_CLASSES = ("PreTrained", "TokenizersBackend")
EXTRA = ("extra_special_tokens", "additional_special_tokens")
# The end of a vocabulary's name, with the end of its merges' name.
MERGES = {
    "encoder.json": "vocab.bpe",  # OpenAI's names
    "vocab.json": "merges.txt",  # Hugging Face's names
    "vocabulary.json": "merges.txt",  # keras-hub's names
}
FIRST = ["<s>", "<pad>", "</s>", "<unk>"]  # in XLM-RoBERTa
QWEN = ("Qwen2", "Qwen3")  # the first is the class, the second a model's name
UNFRAMED = ("GPT2", *QWEN)  # no special tokens around texts
# Words, single digits, punctuation, white space.
QWEN_WORDS = tokenizers.Regex(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def read_tokenizer(path, family) -> Tokenizer:
    """Returns the tokenizer of a Hugging Face checkpoint.

    Args:
        path: path of the directory.
        family: `kdkit.models.Family` of the model.
    """
    path = pathlib.Path(path)
    config, whole = _optional(path / CONFIG), _optional(path / WHOLE)
    if "auto_map" in config:
        raise UsageError(
            f"The tokenizer in {path} needs its own code (auto_map in "
            f"{CONFIG}), which kdkit does not run."
        )
    named = config
    if "added_tokens_decoder" not in config:
        named = {**config, **_optional(path / "special_tokens_map.json")}
    name, is_whole = tokenizer_class(path, family), False
    if name in WHOLE_CLASSES:
        name, is_whole = family.class_name, bool(whole)
    if name not in CLASSES:
        raise unknown(f"tokenizer in {path}", f"{name}Tokenizer", CLASSES)
    kind, build, tokens = CLASSES[name]
    tokens = _named_tokens(named, tokens)
    if is_whole:
        own = {"added_tokens": [], "truncation": None, "padding": None}
        whole["model"].pop("dropout", None)  # random ids
        rust, more = _from_json({**whole, **own}, path / WHOLE), []
    else:
        model = whole.get("model", {})
        if model.get("type", kind) != kind:
            raise UsageError(
                f"{path / WHOLE} has a model of type {model['type']!r}. "
                f"Expected {kind!r}."
            )
        rust, more = build(path, model, config, tokens)
    decoder = config.get("added_tokens_decoder")
    listed = whole.get("added_tokens") or []
    if decoder is not None and not is_whole:
        listed = []
    declared = _declared(path, decoder, named, listed)
    rust.add_tokens([_added(one, tokens) for one in (*declared, *more)])
    num_segments = 1 if reads_one_segment(path, family) else 2
    if not is_whole and name not in UNFRAMED:
        separators = 2 if name.endswith("Roberta") else 1
        framed(rust, tokens, separators, num_segments - 1)
    direction = (whole.get("truncation") or {}).get("direction", "right")
    side = config.get("truncation_side", direction.lower())
    return Tokenizer(rust, tokens, side, num_segments)


def tokenizer_class(path, family) -> str:
    """Returns transformers' class of a tokenizer, without `Tokenizer`."""
    settings = (_optional(path / name) for name in (CONFIG, "config.json"))
    names = (one.get("tokenizer_class") for one in settings)
    name = next(filter(None, names), family.class_name)
    return name.removesuffix("Fast").removesuffix("Tokenizer")


def reads_one_segment(path, family) -> bool:
    """Whether the tokenizer assigns segment 0 to both texts of a pair."""
    path = pathlib.Path(path)
    names = _optional(path / CONFIG).get("model_input_names")
    if isinstance(names, list):
        return SEGMENTS not in names
    return tokenizer_class(path, family) == "XLMRoberta"


def _from_json(whole, file):
    """Returns the tokenizer of a `tokenizer.json`."""
    try:
        return tokenizers.Tokenizer.from_str(json.dumps(whole))
    except Exception as error:  # the library has no class for it
        raise UsageError(f"{file} is no tokenizer: {error}.") from error


def _optional(file):
    return read_json(file, "a tokenizer") if file.is_file() else {}


def _content(token):
    return token if isinstance(token, str) else token["content"]


def _named_tokens(named, defaults):
    """Returns the special tokens by role."""
    found = {}
    for role, names in ROLES.items():
        tokens = (named.get(f"{name}_token") for name in names)
        token = next(filter(None, tokens), defaults.get(role))
        if token is not None:
            found[role] = _content(token)
    return found


def _declared(path, decoder, named, listed):
    """Returns the added tokens in transformers' order."""
    special = [
        token
        for name, token in named.items()
        if name.endswith("_token") and isinstance(token, str | dict)
    ]
    for name in EXTRA:
        tokens = named.get(name) or []
        special += tokens.values() if isinstance(tokens, dict) else tokens
    contents = set(map(_content, special))
    declared = {}
    if decoder is None:
        for content, number in _optional(path / "added_tokens.json").items():
            declared[number] = {
                "content": content,
                "special": content in contents,
            }
    for number, token in (decoder or {}).items():
        declared[int(number)] = token
    for token in listed:
        declared[token["id"]] = token
    found = [declared[number] for number in sorted(declared)]
    known = set(map(_content, found))
    return [
        *found,
        *(one for one in special if _content(one) not in known),
    ]


def _added(token, tokens):
    """Returns a token as `tokenizers` adds it.

    Only the model's own special tokens are special: texts may contain the
    others.
    """
    if isinstance(token, str):
        token = {"content": token, "special": True}
    flags = {
        name: token[name]
        for name in ("lstrip", "rstrip", "single_word", "normalized")
        if name in token
    }
    flags.setdefault("normalized", not token.get("special", True))
    is_special = token["content"] in tokens.values()
    return tokenizers.AddedToken(token["content"], special=is_special, **flags)


def _read_word_pieces(path, model, config, tokens):
    pieces = model.get("vocab") or _lines(path / "vocab.txt")
    rust = word_pieces(
        pieces,
        tokens["unknown"],
        config.get("do_lower_case", True),
        config.get("strip_accents"),
        config.get("tokenize_chinese_chars", True),
    )
    return rust, ()


def _lines(file):
    """Returns the pieces in a file, by line."""
    return {line.rstrip(): number - 1 for number, line in numbered_lines(file)}


def _read_byte_pairs(path, model, config, tokens):
    del tokens
    if model:
        vocabulary = model["vocab"]
        merges = [tuple(one.split(" ")) for one in merge_lines(model)]
    else:
        vocabulary = read_json(path / "vocab.json", "a vocabulary")
        merges = _merges(path / "merges.txt")
    adds_space = config.get("add_prefix_space", False)
    return byte_pairs(vocabulary, merges, adds_space), ()


def _read_qwen(path, model, config, tokens):
    rust, more = _read_byte_pairs(path, model, config, tokens)
    rust.normalizer = normalizers.NFC()
    adds_space = config.get("add_prefix_space") or False
    rust.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(QWEN_WORDS, "isolated"),
            pre_tokenizers.ByteLevel(adds_space, use_regex=False),
        ]
    )
    return rust, more


def _merges(file):
    """Reads merges, two tokens per line with a blank between them."""
    return [
        tuple(line.split(" "))
        for _, line in numbered_lines(file)
        if line.strip() and not line.startswith("#version")
    ]


def _read_albert(path, model, config, tokens):
    scores, charsmap, more = _read_sentence_pieces(path / "spiece.model", model)
    steps = [normalizers.Replace(quotes, '"') for quotes in ("``", "''")]
    if not config.get("keep_accents", False):
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if config.get("do_lower_case", True):
        steps.append(normalizers.Lowercase())
    return _read_unigrams(scores, charsmap, steps, config, tokens), more


def _read_xlm_roberta(path, model, config, tokens):
    file = path / "sentencepiece.bpe.model"
    scores, charsmap, more = _read_sentence_pieces(file, model)
    if not model:
        first, mask = ((one, 0.0) for one in FIRST), (tokens["mask"], 0.0)
        scores = [*first, *scores[3:], mask]
    return _read_unigrams(scores, charsmap, [], config, tokens), more


def _read_unigrams(scores, charsmap, steps, config, tokens):
    if charsmap is not None:
        steps.append(charsmap)
    unknown_id = [piece for piece, _ in scores].index(tokens["unknown"])
    adds_space = config.get("add_prefix_space", True)
    return unigrams(scores, unknown_id, steps, adds_space)


def _read_sentence_pieces(file, model):
    """Returns scored pieces, the charsmap and tokens found in texts first."""
    if model:
        scores = list(map(tuple, model["vocab"]))
        whole = _optional(file.with_name(WHOLE))
        step = whole.get("normalizer") or {}
        for one in step.get("normalizers", [step]):
            if one.get("type") == "Precompiled":
                charsmap = base64.b64decode(one["precompiled_charsmap"])
                return scores, normalizers.Precompiled(charsmap), ()
        return scores, None, ()
    proto = sentencepiece_model.ModelProto.FromString(file.read_bytes())
    require_unigrams(proto, file)
    more = [
        {
            "content": piece.piece,
            "special": piece.type == Piece.CONTROL,
            "normalized": False,
        }
        for piece in proto.pieces
        if piece.type in (Piece.CONTROL, Piece.USER_DEFINED)
    ]
    scores = [(piece.piece, piece.score) for piece in proto.pieces]
    return scores, charsmap_of(proto), more


QWEN_TOKENS = dict.fromkeys(("end", "pad", "unknown"), "<|endoftext|>")
# By class: the type of the model, its reader, the special tokens.
CLASSES = {
    **dict.fromkeys(
        ("Bert", "DistilBert", "Electra"),
        ("WordPiece", _read_word_pieces, BERT_TOKENS),
    ),
    "Roberta": ("BPE", _read_byte_pairs, ROBERTA_TOKENS),
    "GPT2": ("BPE", _read_byte_pairs, TEXT_END),
    **dict.fromkeys(QWEN, ("BPE", _read_qwen, QWEN_TOKENS)),
    "Albert": ("Unigram", _read_albert, ALBERT_TOKENS),
    "XLMRoberta": ("Unigram", _read_xlm_roberta, ROBERTA_TOKENS),
}


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
    rust = _from_json(whole, file)
    return Tokenizer(rust, side=side), settings.get("max_length")


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
        file, merges = byte_pair_files(file)
        vocabulary = read_json(file, "a vocabulary")
        rust = byte_pairs(vocabulary, _merges(merges))
        rust.add_special_tokens([TEXT_END["end"]])
        return Tokenizer(rust, TEXT_END)
    pieces = _lines(file)
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
    pieces, folder = tokenizer.get_vocabulary(), pathlib.Path(folder)
    if tokenizer.kind == "WordPiece":
        lines = "".join(f"{piece}\n" for piece in pieces)
        write_text(folder / "vocab.txt", lines)
        return ("vocab.txt",)
    if tokenizer.kind == "BPE":
        ids = {piece: number for number, piece in enumerate(pieces)}
        text = json.dumps(ids, ensure_ascii=False)
        write_text(folder / "vocab.json", f"{text}\n")
        lines = ["#version: 0.2", *merge_lines(tokenizer.whole["model"])]
        write_text(folder / "merges.txt", "".join(f"{one}\n" for one in lines))
        return ("vocab.json", "merges.txt")
    return ()
