"""Builds tokenizers of each kind, from keras-hub's tokenizers and back."""

import base64
import functools

import tokenizers
from keras_hub.tokenizers import (
    BertTokenizer,
    BytePairTokenizer,
    RobertaTokenizer,
    SentencePieceTokenizer,
    WordPieceTokenizer,
    XLMRobertaTokenizer,
)
from sentencepiece import sentencepiece_model_pb2 as sentencepiece_model
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from kdkit.errors import UsageError
from kdkit.models.families import family_of
from kdkit.models.tokenizer import ROLES, Tokenizer

Piece = sentencepiece_model.ModelProto.SentencePiece
read_proto = sentencepiece_model.ModelProto.FromString
# By the type of the model: keras-hub's base class, and a class for families
# whose own is none of it.
KERAS_HUB = {
    "WordPiece": (WordPieceTokenizer, BertTokenizer),
    "BPE": (BytePairTokenizer, RobertaTokenizer),
    "Unigram": (SentencePieceTokenizer, XLMRobertaTokenizer),
}


def _by_role(start, end, *others):
    return dict(zip(ROLES, (start, end, *others), strict=False))


BERT_TOKENS = _by_role("[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]")
ALBERT_TOKENS = _by_role("[CLS]", "[SEP]", "<pad>", "[MASK]", "<unk>")
ROBERTA_TOKENS = _by_role("<s>", "</s>", "<pad>", "<mask>", "<unk>")
TEXT_END = _by_role("<|endoftext|>", "<|endoftext|>")
FIRST = ("<s>", "<pad>", "</s>", "<unk>")  # in XLM-RoBERTa
# Texts that tokenizers are known to treat differently.
SAMPLES = (
    "The film is slow -- very, very slow. I loved it!!!<br /><br />10/10 :)",
    "It's $1.20, or 3.5 percent: https://example.org/a_b?c=1, me@example.org.",
    "An amélie-like café scene, naïve but touching.",
    "Not good\u00a0at\u00a0all.",
    "Ein Mann läuft über die Straße.",
    "Zwei Männer grüßen sich vor einem großen weißen Haus.",
    "Un garçon et une fille jouent près de la forêt.",
    "L'élève a très bien réussi à Noël.",
    "El niño come una piña en São Paulo.",
    "“Curly quotes” – and a dash… or two",
    "It costs 5 € or £4, that is ½ of 10 ₣.",
    "soft\u00adhyphen, zero\u200bwidth and a mark\ufeff",
    "東京タワー is in 東京.",
    "Привет, мир!",
    "So funny 😂😂 👍🏽",
    "e\u0301crit with a combining accent, ﬁnd with a ligature",
)


def framed(rust, tokens, num_separators=1, second=1):
    """Adds the special tokens, around one text and around a pair.

    The second text of a pair is in the segment `second`.
    """
    rust.add_special_tokens(list(dict.fromkeys(tokens.values())))
    start, end = tokens["start"], tokens["end"]
    rust.post_processor = processors.TemplateProcessing(
        single=[start, "$A", end],
        pair=[
            *(start, "$A", *[end] * num_separators),
            *(f"$B:{second}", f"{end}:{second}"),
        ],
        special_tokens=[
            (one, rust.token_to_id(one)) for one in dict.fromkeys((start, end))
        ],
    )
    return rust


def word_pieces(
    ids, unknown_token, lowercase, strip_accents=None, chinese=True
):
    """Returns word pieces in words that are split as in BERT."""
    rust = tokenizers.Tokenizer(models.WordPiece(ids, unk_token=unknown_token))
    rust.normalizer = normalizers.BertNormalizer(
        lowercase=lowercase,
        strip_accents=strip_accents,
        handle_chinese_chars=chinese,
    )
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    rust.decoder = decoders.WordPiece()
    return rust


def byte_pairs(vocabulary, merges, add_prefix_space=False):
    """Returns byte pairs in words that are split as in GPT-2."""
    rust = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    return by_bytes(rust, add_prefix_space)


def by_bytes(rust, add_prefix_space=False):
    """Splits texts as in GPT-2, into characters for bytes."""
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space)
    rust.decoder = decoders.ByteLevel()
    return rust


def unigrams(scores, charsmap, tokens, steps=(), add_prefix_space=True):
    """Returns the unigrams of a SentencePiece model, word by word."""
    number = [piece for piece, _ in scores].index(tokens["unknown"])
    rust = tokenizers.Tokenizer(models.Unigram(scores, number))
    last = [normalizers.Precompiled(charsmap)] if charsmap else []
    rust.normalizer = normalizers.Sequence([*steps, *last])
    words = pre_tokenizers.Metaspace(
        prepend_scheme="always" if add_prefix_space else "never"
    )
    rust.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), words]
    )
    rust.decoder = decoders.Metaspace()
    return rust


def sentence_pieces(proto, tokens, is_shifted, *arguments):
    """Returns the unigrams of a SentencePiece model, with arguments for those.

    If it is shifted, the ids are XLM-RoBERTa's.
    """
    if proto.trainer_spec.model_type != proto.trainer_spec.UNIGRAM:
        raise UsageError("Expected a Unigram model of SentencePiece.")
    scores = [(piece.piece, piece.score) for piece in proto.pieces]
    if is_shifted:
        scores[:3] = [(piece, 0.0) for piece in FIRST]
    if tokens["mask"] not in dict(scores):
        scores.append((tokens["mask"], 0.0))
    charsmap = proto.normalizer_spec.precompiled_charsmap
    rust = unigrams(scores, charsmap, tokens, *arguments)
    own = tokens.values()
    whole_pieces = [
        tokenizers.AddedToken(piece.piece, normalized=False)
        for piece in proto.pieces
        if piece.type == Piece.USER_DEFINED and piece.piece not in own
    ]
    rust.add_tokens(whole_pieces)
    return rust


def charsmap_of(whole) -> bytes:
    """Returns the table of characters in a `tokenizer.json`, if any."""
    step = whole["normalizer"] or {}
    for one in step.get("normalizers", [step]):
        if one.get("type") == "Precompiled":
            return base64.b64decode(one["precompiled_charsmap"])
    return b""


def word_piece_tokenizer(
    pieces, lowercase: bool, strip_accents: bool | None = None
) -> Tokenizer:
    """Returns a word-piece tokenizer that splits texts as BERT does.

    Args:
        pieces: list of strings, or dict to their ids, with BERT's special
            pieces.
        lowercase: bool. Whether to lower-case texts.
        strip_accents: bool or `None`, which means the value of `lowercase`.
            Defaults to `None`.
    """
    if not isinstance(pieces, dict):
        pieces = {piece: number for number, piece in enumerate(pieces)}
    unknown_token = BERT_TOKENS["unknown"]
    rust = word_pieces(pieces, unknown_token, lowercase, strip_accents)
    return Tokenizer(framed(rust, BERT_TOKENS), BERT_TOKENS)


@functools.lru_cache(maxsize=4)
def as_tokenizer(tokenizer) -> Tokenizer:
    """Returns the tokenizer itself, or kdkit's for one of keras-hub.

    Args:
        tokenizer: `Tokenizer`, or a `keras_hub.tokenizers.Tokenizer` of word
            pieces, byte pairs or unigrams.
    """
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    tokens, family = {}, family_of(tokenizer)
    for role, names in ROLES.items():
        for name in (role, *names):
            token = getattr(tokenizer, f"{name}_token", None)
            if token is not None:
                tokens[role] = token
    if hasattr(tokenizer, "mask_token_id"):
        tokens["mask"] = tokenizer.id_to_token(tokenizer.mask_token_id)
    if isinstance(tokenizer, WordPieceTokenizer):
        tokens["unknown"] = tokenizer.oov_token
        pieces = tokenizer.get_vocabulary()
        rust = word_pieces(
            {piece: number for number, piece in enumerate(pieces)},
            tokenizer.oov_token,
            tokenizer.lowercase,
            tokenizer.strip_accents,
        )
        prefix = tokenizer.suffix_indicator
        rust.model.continuing_subword_prefix = prefix
    elif isinstance(tokenizer, BytePairTokenizer):
        ids = dict(tokenizer.vocabulary)
        tokens |= {"unknown": "<unk>"} if "<unk>" in ids else {}
        merges = [
            tuple(one.split(" "))
            for one in tokenizer.merges
            if not one.startswith("#version")
        ]
        rust = byte_pairs(ids, merges, tokenizer.add_prefix_space)
    else:
        proto = read_proto(tokenizer.proto)
        tokens["unknown"] = proto.pieces[proto.trainer_spec.unk_id].piece
        is_shifted = isinstance(tokenizer, XLMRobertaTokenizer)
        rust = sentence_pieces(proto, tokens, is_shifted)
    if family is not None and family.is_decoder:
        rust.add_special_tokens(list(dict.fromkeys(tokens.values())))
    else:
        framed(rust, tokens, family.num_separators if family else 1)
    return Tokenizer(rust, tokens)


def require_same_ids(teacher, student) -> None:
    """Raises an error if ids mean different words to two models.

    Args:
        teacher: the teacher's tokenizer.
        student: the student's tokenizer.

    Raises:
        UsageError: (a `ValueError`) if their vocabularies, normalization,
            added or special tokens differ.
    """
    teacher, student = map(as_tokenizer, (teacher, student))
    theirs, ours = teacher.definition, student.definition
    different = [name for name, one in theirs.items() if ours[name] != one]
    if different:
        raise UsageError(
            "Teacher and student do not share their token ids: "
            f"{teacher.vocabulary_size()} and {student.vocabulary_size()} "
            f"tokens, with another {', '.join(different)}."
        )


def count_differences(tokenizer, other, texts=SAMPLES) -> int:
    """Counts the texts to which two tokenizers give other ids."""
    texts = list(texts)
    pairs = zip(tokenizer(texts), other(texts), strict=True)
    return sum(list(one) != list(another) for one, another in pairs)


def to_keras_hub(tokenizer, family):
    """Returns keras-hub's nearest tokenizer, for presets without kdkit.

    Args:
        tokenizer: `Tokenizer`, or keras-hub's.
        family: `kdkit.models.Family` of the model, or `None`.
    """
    tokenizer = as_tokenizer(tokenizer)
    cls = getattr(family, "tokenizer", object)
    base, other = KERAS_HUB[tokenizer.kind]
    # GPT-2's class has no token for masks.
    has_mask = tokenizer.kind == "BPE" and "mask" in tokenizer.tokens
    if has_mask or not issubclass(cls, base):
        cls = other
    whole, pieces = tokenizer.whole, tokenizer.get_vocabulary()
    if tokenizer.kind == "WordPiece":
        return cls(
            pieces,
            lowercase=tokenizer.lowercase,
            strip_accents=tokenizer.strip_accents,
            oov_token=tokenizer.unknown_token,
            suffix_indicator=whole["model"]["continuing_subword_prefix"],
        )
    if tokenizer.kind == "BPE":
        adds_space = whole["pre_tokenizer"].get("add_prefix_space", False)
        return cls(
            {piece: number for number, piece in enumerate(pieces)},
            list(map(" ".join, whole["model"]["merges"])),
            add_prefix_space=adds_space,
        )
    return cls(_unigram_proto(tokenizer, pieces, whole, cls))


def _unigram_proto(tokenizer, pieces, whole, cls):
    """Returns a SentencePiece model with the ids of a class of keras-hub."""
    proto = sentencepiece_model.ModelProto()
    scores, special = dict(whole["model"]["vocab"]), tokenizer.tokens.values()
    if issubclass(cls, XLMRobertaTokenizer):
        # This class adds the padding token and the last piece, the mask.
        start, _, end, unknown_piece, *others, _ = pieces
        pieces = [unknown_piece, start, end, *others]
    for piece in pieces:
        kind = Piece.NORMAL if piece in scores else Piece.USER_DEFINED
        kind = Piece.CONTROL if piece in special else kind
        if piece == tokenizer.unknown_token:
            kind = Piece.UNKNOWN
        proto.pieces.add(piece=piece, score=scores.get(piece, 0.0), type=kind)
    proto.trainer_spec.unk_id = pieces.index(tokenizer.unknown_token)
    proto.normalizer_spec.precompiled_charsmap = charsmap_of(whole)
    return proto.SerializeToString()
