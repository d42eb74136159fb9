"""Unigram tokenizers in Hugging Face checkpoints: ALBERT's, XLM-RoBERTa's.

A SentencePiece model has only one normalizer, its `precompiled_charsmap`. So
all normalization steps of a checkpoint are approximated by one map.
"""

import base64
import functools
import io
import json
import pathlib
import tempfile

import keras_hub
import sentencepiece

from kdkit.errors import UsageError
from kdkit.models.character_maps import (
    build_normalizer,
    character_images,
    read_charsmap,
)
from kdkit.models.families import family_of
from kdkit.models.hugging_face_files import WHOLE, WHOLE_CLASSES, TokenizerFiles
from kdkit.models.ruled_tokenizers import with_rules
from kdkit.models.text_rules import (
    TextRules,
    is_by_character,
    joined,
    read_normalizer,
)
from kdkit.models.token_models import Piece, sentencepiece_model

KIND = "Unigram"
ALBERT = keras_hub.tokenizers.AlbertTokenizer
XLM_ROBERTA = keras_hub.tokenizers.XLMRobertaTokenizer
FIRST = ["<s>", "<pad>", "</s>", "<unk>"]  # in XLM-RoBERTa
NUM_SPECIAL_PIECES = 3  # in XLM-RoBERTa's SentencePiece file
WHITE_SPACE_SPLIT = {"type": "WhitespaceSplit"}


def read_unigrams(files: TokenizerFiles, cls):
    """Returns the Unigram tokenizer of a checkpoint, with its rules."""
    files.require_class("", cls.__name__, *WHOLE_CLASSES)
    form = family_of(cls).checkpoints
    special = form.special_tokens
    files.require_special(special)
    unknown, more = form.unknown_id, ()
    if files.whole:
        model = files.model(KIND)
        scores, charsmap = model["vocab"], _charsmap(files)
        if files.is_whole:
            unknown = model.get("unk_id")
            if model.get("byte_fallback", False):
                raise _refused(files, "spells unknown characters by bytes")
    else:
        scores, charsmap, more = _read_model(files, cls)
    pieces = {piece: number for number, (piece, _) in enumerate(scores)}
    vocabulary, added = files.all_tokens(pieces, special.values(), more)
    if cls is XLM_ROBERTA:
        _require_places(files, vocabulary, special["mask"])
    if files.is_whole:
        path = files.path / WHOLE
        steps = read_normalizer(files.whole.get("normalizer"), path)
        add_prefix_space = _adds_prefix_space(files)
    else:
        steps = _steps(files, cls, charsmap)
        add_prefix_space = files.config.get("add_prefix_space", True)
    proto = sentencepiece_model.ModelProto()
    proto.normalizer_spec.add_dummy_prefix = add_prefix_space
    proto.normalizer_spec.precompiled_charsmap = plain_charsmap(steps)
    for number, piece in enumerate(vocabulary):
        kind, score = Piece.USER_DEFINED, 0.0
        if number < len(scores):
            kind, score = Piece.NORMAL, scores[number][1]
        if number == unknown:
            kind = Piece.UNKNOWN
        elif piece in special.values():
            kind = Piece.CONTROL
        proto.pieces.add(piece=piece, score=score, type=kind)
    if cls is XLM_ROBERTA:
        # keras-hub's class adds the other special tokens and the last piece.
        start, _, end, unknown_piece = proto.pieces[: len(FIRST)]
        ordered = [unknown_piece, start, end, *proto.pieces[len(FIRST) : -1]]
        del proto.pieces[:]
        proto.pieces.extend(ordered)
        unknown = 0
    proto.trainer_spec.unk_id = unknown
    tokenizer = cls(proto.SerializeToString())
    return with_rules(tokenizer, TextRules(steps, added))


def _charsmap(files):
    """Returns the first `precompiled_charsmap`, as base64."""
    step = files.whole.get("normalizer") or {}
    for one in step.get("normalizers", [step]):
        if one.get("type") == "Precompiled":
            return one["precompiled_charsmap"]
    return ""


def _read_model(files, cls):
    """Returns scored pieces, charsmap and added tokens from an older file."""
    form = family_of(cls).checkpoints
    path = files.path / form.vocabulary_file
    model = sentencepiece_model.ModelProto.FromString(path.read_bytes())
    unigram = sentencepiece_model.TrainerSpec.UNIGRAM
    if model.trainer_spec.model_type != unigram:
        raise _refused(files, "is not a Unigram model of SentencePiece")
    more = [
        {
            "content": piece.piece,
            "special": piece.type == Piece.CONTROL,
            "normalized": False,
        }
        for piece in model.pieces
        if piece.type in (Piece.CONTROL, Piece.USER_DEFINED)
    ]
    scores = [(piece.piece, piece.score) for piece in model.pieces]
    if cls is XLM_ROBERTA:
        scores = [
            *((piece, 0.0) for piece in FIRST),
            *scores[NUM_SPECIAL_PIECES:],
            (form.special_tokens["mask"], 0.0),
        ]
    charsmap = model.normalizer_spec.precompiled_charsmap
    return scores, base64.b64encode(charsmap).decode(), more


def _require_places(files, vocabulary, mask):
    """Raises an error if keras-hub's class puts its tokens elsewhere."""
    if vocabulary[: len(FIRST)] != FIRST or vocabulary[-1] != mask:
        raise UsageError(
            f"The tokenizer in {files.path} has other tokens than "
            f"XLM-RoBERTa's. Expected {FIRST} first and {mask!r} last. "
            f"Received: {vocabulary[: len(FIRST)]}, {vocabulary[-1]!r}."
        )


def _steps(files, cls, charsmap):
    """Returns the normalization steps of transformers' class."""
    types = []
    if cls is ALBERT:
        if not files.config.get("keep_accents", False):
            types += ["NFKD", "StripAccents"]
        if files.config.get("do_lower_case", True):
            types += ["Lowercase"]
    steps = [{"type": name} for name in types]
    if cls is ALBERT:
        steps = [
            {"type": "Replace", "pattern": {"String": quotes}, "content": '"'}
            for quotes in ("``", "''")
        ] + steps
    if charsmap:
        steps.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    return tuple(steps)


def _adds_prefix_space(files):
    """Whether a `tokenizer.json` adds a blank in front of each word."""
    splitter = files.whole.get("pre_tokenizer") or {}
    parts = splitter.get("pretokenizers", ())
    if len(parts) == 2 and parts[0] == WHITE_SPACE_SPLIT:
        words = {
            "prepend_scheme": "always",
            "split": True,
            "add_prefix_space": True,
            **parts[1],
        }
        scheme = words.pop("prepend_scheme")
        if scheme in ("always", "never") and words == {
            "type": "Metaspace",
            "replacement": "\u2581",
            "split": True,
            "add_prefix_space": words["add_prefix_space"],
        }:
            return scheme == "always"
    raise _refused(
        files, "does not split texts by WhitespaceSplit and Metaspace"
    )


def _refused(files, what):
    return UsageError(f"The tokenizer in {files.path} {what}.")


def plain_charsmap(steps) -> bytes:
    """Returns one `precompiled_charsmap` for all steps of a normalizer."""
    if [step["type"] for step in steps] == ["Precompiled"]:
        return base64.b64decode(steps[0]["precompiled_charsmap"])
    return _compiled(json.dumps(list(steps))) if steps else b""


@functools.lru_cache(maxsize=8)
def _compiled(steps):
    steps = json.loads(steps)
    sequences, functions = set(), []
    for step in joined(steps):
        if step["type"] == "Replace":
            sequences |= {step["pattern"].get("String")} - {None}
        elif is_by_character(step):
            sequences |= set(map(chr, character_images(step)))
        elif step["type"] == "Precompiled":
            charsmap = base64.b64decode(step["precompiled_charsmap"])
            sequences |= set(read_charsmap(charsmap))
        functions.append(build_normalizer(step).normalize_str)
    images = {}
    for sequence in sorted(sequences - {"\0"}):
        image = sequence
        for function in functions:
            image = function(image)
        if image != sequence:
            images[sequence] = image
    return _trained(images)


def _trained(images):
    """Returns the map that SentencePiece's trainer builds from the images."""

    def points(text):
        return " ".join(f"{ord(character):X}" for character in text)

    rules = [f"{points(one)}\t{points(images[one])}\n" for one in images]
    model = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "rules.tsv"
        file.write_text("".join(rules), encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a"]),
            model_writer=model,
            normalization_rule_tsv=str(file),
            model_type="char",
            vocab_size=8,
            hard_vocab_limit=False,
            num_threads=1,
            minloglevel=3,
        )
    trained = sentencepiece_model.ModelProto.FromString(model.getvalue())
    return trained.normalizer_spec.precompiled_charsmap
