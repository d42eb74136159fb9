"""Tiny models and tokenizers of every encoder family."""

import io
import string

import keras_hub
import sentencepiece

from kdkit.models import student
from kdkit.models.families import FAMILIES
from kit.helpers import LENGTH, VOCABULARY_SIZE, spread_weights

SENTENCES = [
    "a dull plot and a weak cast",
    "the cast is good and the plot is superb , yet the end is dull",
    "good",
]
MORE_SENTENCES = [
    "the end is superb",
    "weak",
    "a plot",
]
WORD_PIECES = (
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    + sorted({word for text in SENTENCES for word in text.split()})
    + ["##s", "##er"]
)


def encoder(family, num_classes=3, seed=0, **sizes):
    """A tiny classifier of a family, or its backbone without `num_classes`."""
    has_width = FAMILIES[family].takes("embedding_dim")
    wide = {"embedding_dim": 12} if has_width else {}
    config = {
        "family": family,
        "num_layers": 2,
        "hidden_dim": 16,
        "num_heads": 2,
        "intermediate_dim": 24,
        "vocabulary_size": VOCABULARY_SIZE,
        "max_sequence_length": 2 * LENGTH,
        "dropout": 0.0,
        **wide,
        **sizes,
    }
    model = student(config, num_classes=num_classes)
    spread_weights(model, seed)
    return model


def tokenizer(family):
    """A tiny tokenizer of a family."""
    return MAKERS[family](FAMILIES[family].tokenizer)


def _word_pieces(cls):
    return cls(vocabulary=WORD_PIECES, lowercase=True)


def _byte_pairs(cls):
    letters = [*string.ascii_lowercase, ","]
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *letters]
    pieces += ["Ġ"] + [f"Ġ{letter}" for letter in letters] + ["th", "Ġth"]
    merges = [f"Ġ {letter}" for letter in letters] + ["t h", "Ġ th"]
    return cls(
        vocabulary={
            piece: index for index, piece in enumerate([*pieces, "<mask>"])
        },
        merges=merges,
    )


def sentence_piece_model(vocab_size=30, **ids_and_pieces):
    """The bytes of a model of SentencePiece for `SENTENCES`."""
    proto = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=proto,
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        minloglevel=3,
        **ids_and_pieces,
    )
    return proto.getvalue()


def _sentence_pieces(**ids_and_pieces):
    def make(cls):
        return cls(proto=sentence_piece_model(**ids_and_pieces))

    return make


MAKERS = {
    "bert": _word_pieces,
    "distil_bert": _word_pieces,
    "electra": _word_pieces,
    "roberta": _byte_pairs,
    "xlm_roberta": _sentence_pieces(unk_id=0, bos_id=1, eos_id=2),
    "albert": _sentence_pieces(
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        bos_piece="[CLS]",
        eos_piece="[SEP]",
        user_defined_symbols=["[MASK]"],
    ),
    "deberta_v3": _sentence_pieces(
        pad_id=0,
        bos_id=1,
        eos_id=2,
        unk_id=3,
        pad_piece="[PAD]",
        bos_piece="[CLS]",
        eos_piece="[SEP]",
        unk_piece="[UNK]",
    ),
}

MASKED_LMS = {
    "bert": keras_hub.models.BertMaskedLM,
    "distil_bert": keras_hub.models.DistilBertMaskedLM,
    "roberta": keras_hub.models.RobertaMaskedLM,
    "xlm_roberta": keras_hub.models.XLMRobertaMaskedLM,
    "albert": keras_hub.models.AlbertMaskedLM,
    "deberta_v3": keras_hub.models.DebertaV3MaskedLM,
}
