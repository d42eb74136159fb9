"""Converts tokenizers to the `tokenizer.json` of Hugging Face's `tokenizers`.

The file contains everything from a text to a model's inputs: normalization,
added tokens, vocabulary, special tokens, truncation and padding. So programs
without kdkit and TensorFlow compute the same ids.
"""

import tokenizers
from sentencepiece import sentencepiece_model_pb2 as sentencepiece_model
from tokenizers import models, normalizers, pre_tokenizers, processors

from kdkit.errors import UsageError
from kdkit.models.character_maps import build_normalizer
from kdkit.models.families import family_of
from kdkit.models.ruled_tokenizers import BytePair, WordPiece
from kdkit.models.text_rules import TextRules, bert_rules, tokenizer_rules
from kdkit.models.token_ids import vocabulary_by_id
from kdkit.models.token_models import UNKNOWN_PENALTY


def to_tokenizer_json(
    tokenizer, sequence_length: int | None = None
) -> tokenizers.Tokenizer:
    """Converts a tokenizer to a tokenizer of Hugging Face's `tokenizers`."""
    rules = _rules(tokenizer)
    if isinstance(tokenizer, WordPiece):
        result = _word_pieces(tokenizer, rules)
    elif isinstance(tokenizer, BytePair):
        result = _byte_pairs(tokenizer)
    else:
        result = _unigrams(tokenizer)
    if rules.normalizer:
        result.normalizer = normalizers.Sequence(
            [build_normalizer(step) for step in rules.normalizer]
        )
    result.add_special_tokens(
        [
            tokenizers.AddedToken(
                token.content,
                normalized=token.normalized,
                lstrip=token.lstrip,
                rstrip=token.rstrip,
            )
            for token in rules.added_tokens
        ]
    )
    result.post_processor = _template(tokenizer)
    if sequence_length is not None:
        result.enable_truncation(
            sequence_length, direction=rules.truncation_side
        )
        result.enable_padding(
            length=sequence_length,
            pad_id=tokenizer.pad_token_id,
            pad_token=tokenizer.id_to_token(tokenizer.pad_token_id),
        )
    return result


def _rules(tokenizer):
    """The text rules; for keras-hub's own tokenizers the nearest ones."""
    rules = tokenizer_rules(tokenizer)
    if rules is None and isinstance(tokenizer, WordPiece):
        return bert_rules(tokenizer.lowercase, tokenizer.strip_accents)
    if rules is None and isinstance(tokenizer, BytePair):
        return TextRules()
    if rules is None:
        raise UsageError(
            f"No tokenizer.json returns the ids of a {type(tokenizer).__name__}"
            ". Expected word pieces, byte pairs, or unigrams from a Hugging "
            "Face checkpoint."
        )
    return rules


def _word_pieces(tokenizer, rules):
    pieces = vocabulary_by_id(tokenizer)
    result = tokenizers.Tokenizer(
        models.WordPiece(
            {piece: number for number, piece in enumerate(pieces)},
            unk_token=tokenizer.oov_token,
            continuing_subword_prefix=tokenizer.suffix_indicator,
            max_input_chars_per_word=rules.max_input_chars_per_word,
        )
    )
    result.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return result


def _byte_pairs(tokenizer):
    result = tokenizers.Tokenizer(
        models.BPE(
            dict(tokenizer.vocabulary),
            [
                tuple(merge.split(" "))
                for merge in tokenizer.merges
                if not merge.startswith("#version")
            ],
        )
    )
    result.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=tokenizer.add_prefix_space
    )
    return result


def _unigrams(tokenizer):
    """Pieces that the SentencePiece model lacks are special tokens."""
    model = sentencepiece_model.ModelProto.FromString(tokenizer.proto)
    scores = {piece.piece: piece.score for piece in model.pieces}
    lowest = min(scores.values()) - UNKNOWN_PENALTY
    vocabulary = vocabulary_by_id(tokenizer)
    unknown = model.pieces[model.trainer_spec.unk_id].piece
    result = tokenizers.Tokenizer(
        models.Unigram(
            [(piece, scores.get(piece, lowest)) for piece in vocabulary],
            unk_id=vocabulary.index(unknown),
        )
    )
    scheme = "always" if model.normalizer_spec.add_dummy_prefix else "never"
    result.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(prepend_scheme=scheme),
        ]
    )
    return result


def _template(tokenizer):
    """The special tokens around one text and around a pair."""
    *start, end = (
        (tokenizer.id_to_token(number), number)
        for number in (tokenizer.start_token_id, tokenizer.end_token_id)
        if number is not None
    )
    first = [token for token, _ in start]
    family = family_of(tokenizer)
    separators = [end[0]] * (family.num_separators if family else 1)
    return processors.TemplateProcessing(
        single=[*first, "$A", end[0]],
        pair=[*first, "$A", *separators, "$B:1", f"{end[0]}:1"],
        special_tokens=list(dict.fromkeys([*start, end])),
    )
