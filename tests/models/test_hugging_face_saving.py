"""Written tokenizers (goes with models/hugging_face_saving.py)."""

import pytest
from kit import encoders

from kdkit import models
from kdkit.models.hugging_face_saving import require_same_ids
from kdkit.models.tokenizer_json import to_tokenizer_json


def test_a_written_tokenizer_of_other_ids_is_no_file(tmp_path):
    pieces = encoders.WORD_PIECES
    made = to_tokenizer_json(models.word_piece_tokenizer(pieces, True))
    made.save(str(tmp_path / "tokenizer.json"))
    other = [*pieces[:5], *pieces[:4:-1]]
    with pytest.raises(RuntimeError, match="other ids"):
        require_same_ids(models.word_piece_tokenizer(other, True), tmp_path)


def test_byte_pairs_of_sentencepiece_are_not_written_as_unigrams(
    sentence_pieces,
):
    with pytest.raises(ValueError, match="MassTokenizer"):
        to_tokenizer_json(models.MassTokenizer(sentence_pieces))
