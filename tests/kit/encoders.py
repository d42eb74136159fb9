"""Tiny models and tokenizers of every encoder family."""

import io
import string

import keras
import keras_hub
import sentencepiece

from kdkit.models import student
from kit.helpers import LENGTH, VOCABULARY_SIZE, spread_weights

# Encoder families, by the names of their classes in keras-hub.
NAMES = {
    "bert": "Bert",
    "distil_bert": "DistilBert",
    "roberta": "Roberta",
    "xlm_roberta": "XLMRoberta",
    "albert": "Albert",
    "electra": "Electra",
    "deberta_v3": "DebertaV3",
}
ENCODERS = tuple(NAMES)
DECODERS = {
    "gpt2": keras_hub.models.GPT2CausalLM,
    "llama3": keras_hub.models.Llama3CausalLM,
    "qwen3": keras_hub.models.Qwen3CausalLM,
}

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
    wide = {"embedding_dim": 12} if family in ("albert", "electra") else {}
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


def backbone_class(family):
    """keras-hub's backbone of a family."""
    return getattr(keras_hub.models, f"{NAMES[family]}Backbone")


def classifier_class(family):
    """keras-hub's classifier of a family; ELECTRA has none."""
    if family == "electra":
        return keras.Model
    return getattr(keras_hub.models, f"{NAMES[family]}TextClassifier")


def blocks_of(backbone):
    """The blocks of an encoder in the order of their calls."""
    if not isinstance(backbone, keras_hub.models.AlbertBackbone):
        return backbone.transformer_layers
    return [
        block
        for group in backbone.transformer_layers
        for _ in range(backbone.num_layers // backbone.num_groups)
        for block in group
    ]


def tokenizer(family):
    """A tiny tokenizer of a family."""
    made = getattr(keras_hub.tokenizers, f"{NAMES[family]}Tokenizer")
    return MAKERS[family](made)


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
    family: getattr(keras_hub.models, f"{name}MaskedLM")
    for family, name in NAMES.items()
    if family != "electra"
}
