"""`tokenizer.json` gives the ids of the tokenizer that it was made from."""

import io
import string

import keras_hub
import numpy as np
import pytest
import sentencepiece
from kit.real_texts import hostile_texts

from kdkit import data, models
from kdkit.models.ruled_tokenizers import with_rules
from kdkit.models.text_rules import TextRules
from kdkit.models.tokenizer_json import to_tokenizer_json
from kdkit.models.vocabularies import SPECIAL_PIECES

LENGTH = 40
TRAINED_ON = ["the film is good", "naïve café déjà vu", string.printable]


def word_pieces():
    characters = f"{string.ascii_lowercase}{string.punctuation}éß日語"
    endings = [f"##{one}" for one in characters]
    pieces = [*SPECIAL_PIECES, *characters, *endings, "the", "cafe"]
    return models.word_piece_tokenizer(pieces, lowercase=True)


def byte_pairs():
    trained = models.train_byte_pairs([*TRAINED_ON] * 3, 264)
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [*special, *list(trained.vocabulary)[:-1], "<mask>"]
    ids = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = keras_hub.tokenizers.RobertaTokenizer(ids, trained.merges)
    return with_rules(tokenizer, TextRules())


def unigrams():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*TRAINED_ON, string.ascii_lowercase] * 20),
        model_writer=model,
        vocab_size=200,
        hard_vocab_limit=False,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        minloglevel=3,
        num_threads=1,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
    )
    tokenizer = keras_hub.tokenizers.AlbertTokenizer(model.getvalue())
    steps = ({"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"})
    return with_rules(tokenizer, TextRules(steps))


@pytest.mark.parametrize(
    "make",
    [word_pieces, byte_pairs, pytest.param(unigrams, marks=pytest.mark.large)],
    ids=lambda make: make.__name__,
)
def test_inputs_of_texts_and_pairs_are_the_tokenizers(make):
    tokenizer, texts = make(), hostile_texts()[:60]
    fast = to_tokenizer_json(tokenizer, LENGTH)
    # Pairs with few tokens, so that not both texts are too long.
    for columns in ((texts,), (texts, ["the"] * len(texts))):
        encoded = data.encode(data.Examples(columns), tokenizer, LENGTH)
        batch = encoded.inputs(np.arange(len(encoded)), LENGTH)
        for row, given in enumerate(zip(*columns, strict=True)):
            found = fast.encode(*given)
            assert batch["token_ids"][row].tolist() == found.ids, given
            assert batch["padding_mask"][row].tolist() == found.attention_mask
