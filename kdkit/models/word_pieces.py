"""Word piece tokenizers from the vocabularies of BERTs."""

import collections
import pathlib

import keras_hub

from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.models.ruled_tokenizers import with_rules
from kdkit.models.text_rules import bert_rules
from kdkit.models.trust import loading
from kdkit.reading import numbered_lines

SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def read_word_pieces(path: pathlib.Path):
    """Returns a tokenizer from a file of word pieces.

    Args:
        path: `pathlib.Path`. A UTF-8 file with one word piece a line; it is
            taken as lower-cased, without accents, unless a piece has a capital
            letter.

    Raises:
        UsageError: (a `ValueError`) if a special piece is missing, or a piece
            stands there twice.
    """
    pieces = [
        line
        for _, line in numbered_lines(path, "a vocabulary, one piece a line")
    ]
    missing = [piece for piece in SPECIAL_PIECES if piece not in pieces]
    if missing:
        raise UsageError(
            f"{path} is no vocabulary of a BERT. Expected one word piece a "
            f"line, {', '.join(SPECIAL_PIECES)} among them. Missing: "
            f"{', '.join(missing)}."
        )
    counts = collections.Counter(piece.rstrip() for piece in pieces)
    twice = [piece for piece, count in counts.items() if count > 1]
    if twice:
        raise UsageError(
            f"{path}: expected each word piece once. Received: "
            f"{shortened(twice)} more than once."
        )
    ordinary = set(pieces) - set(SPECIAL_PIECES)
    is_cased = any(
        piece != piece.lower()
        for piece in ordinary
        if not (piece.startswith("[") and piece.endswith("]"))
    )
    with loading(path):
        return word_piece_tokenizer(pieces, lowercase=not is_cased)


def word_piece_tokenizer(pieces, lowercase: bool):
    """Returns a tokenizer of word pieces that splits texts as BERT's does.

    Args:
        pieces: list of strings, with BERT's special pieces.
        lowercase: bool. Whether texts are lower-cased and accents stripped.
    """
    tokenizer = keras_hub.tokenizers.BertTokenizer(pieces)
    return with_rules(tokenizer, bert_rules(lowercase))
