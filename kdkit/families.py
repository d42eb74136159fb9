"""keras-hub's families of models, as data: all that differs between them."""

import dataclasses
import functools
import operator
from collections.abc import Callable
from collections.abc import Mapping

import keras_hub

BERT_PARTS = {
    name: name
    for name in (
        "token_embedding",
        "position_embedding",
        "segment_embedding",
        "embeddings_layer_norm",
        "pooled_dense",
    )
}
# One layer of keras-hub's embeds tokens and positions, and there is no pooler.
ROBERTA_PARTS = {
    "token_embedding": "token_embedding",
    "position_embedding": "embeddings.position_embedding",
    "embeddings_layer_norm": "embeddings_layer_norm",
}
ROBERTA_HEAD = {
    "pooled_dense": "classifier.dense",
    "logits": "classifier.out_proj",
}


def listed_blocks(backbone):
    """The blocks of a backbone that lists them in the order of their calls."""
    return tuple(backbone.transformer_layers)


def albert_blocks(backbone):
    """ALBERT's blocks, where calls share layers: one entry per call."""
    calls_per_group = backbone.num_layers // backbone.num_groups
    return tuple(
        block
        for group in backbone.transformer_layers
        for _ in range(calls_per_group)
        for block in group
    )


class _Class:
    """A field that is given as a name in keras-hub and read as the class.

    keras-hub takes seconds to import, and most of the table is read without.
    """

    def __init__(self, *default):
        self._default = default

    def __set_name__(self, owner, name):
        self._field = f"_{name}"

    def __set__(self, family, name):
        vars(family)[self._field] = name

    def __get__(self, family, owner):
        if family is None:  # `dataclasses` looks for a default
            if not self._default:
                raise AttributeError(self._field)
            return self._default[0]
        name = vars(family)[self._field]
        return None if name is None else operator.attrgetter(name)(keras_hub)


@dataclasses.dataclass(frozen=True)
class Family:
    """One of keras-hub's families of encoders or decoders.

    Args:
        name: string. Key in `FAMILIES` or `DECODERS`.
        title: string. The name that people use.
        backbone: subclass of `keras_hub.models.Backbone`.
        classifier: subclass of `keras_hub.models.TextClassifier` to put on it,
            `None` for a decoder.
        tokenizer: subclass of `keras_hub.tokenizers.Tokenizer`.
        masked_lm: subclass of `keras_hub.models.MaskedLM`, or `None` where
            keras-hub has none.
        parts: dict. Where the backbone keeps its layers beside the blocks: a
            name that families share, to a path of attributes. Layers that a
            backbone of some sizes lacks may be in it.
        blocks: callable from a backbone to its transformer blocks, in the
            order in which they are called.
        renamed_sizes: dict. Sizes that its constructor calls by another name.
        has_embedding_dim: bool. Whether embeddings have a width of their own.
        hugging_face_type: string or `None`. The `model_type` of Hugging Face
            checkpoints that kdkit reads as it, if any.
        hugging_face_head: dict. The dense layers of the classifier's head, to
            what they are called in checkpoints that have one.
        num_separators: int. How many end tokens stand between two sentences.
        needs_fixed_length: string. Why LiteRT cannot run it at any length, or
            empty where it can.
        withheld_taps: tuple of strings. Taps per layer that it cannot give.
        withheld_because: string. Why not.
        causal_lm: subclass of `keras_hub.models.CausalLM`, or `None` for an
            encoder.
    """

    name: str
    title: str
    backbone: type = _Class()
    classifier: type | None = _Class()
    tokenizer: type = _Class()
    masked_lm: type | None = _Class()
    parts: Mapping[str, str]
    blocks: Callable = listed_blocks
    renamed_sizes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    has_embedding_dim: bool = False
    hugging_face_type: str | None = None
    hugging_face_head: Mapping[str, str] = dataclasses.field(
        default_factory=dict
    )
    num_separators: int = 1
    needs_fixed_length: str = ""
    withheld_taps: tuple[str, ...] = ()
    withheld_because: str = ""
    causal_lm: type | None = _Class(None)

    def size(self, backbone, name: str):
        """A size of a backbone, such as `"vocabulary_size"`, or `None`."""
        return getattr(backbone, self.renamed_sizes.get(name, name), None)


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "bert",
            "BERT",
            "models.BertBackbone",
            "models.BertTextClassifier",
            "tokenizers.BertTokenizer",
            "models.BertMaskedLM",
            BERT_PARTS,
            hugging_face_type="bert",
            hugging_face_head={"logits": "classifier"},
        ),
        Family(
            "distil_bert",
            "DistilBERT",
            "models.DistilBertBackbone",
            "models.DistilBertTextClassifier",
            "tokenizers.DistilBertTokenizer",
            "models.DistilBertMaskedLM",
            ROBERTA_PARTS,
            hugging_face_type="distilbert",
            hugging_face_head={
                "pooled_dense": "pre_classifier",
                "logits": "classifier",
            },
        ),
        Family(
            "roberta",
            "RoBERTa",
            "models.RobertaBackbone",
            "models.RobertaTextClassifier",
            "tokenizers.RobertaTokenizer",
            "models.RobertaMaskedLM",
            ROBERTA_PARTS,
            hugging_face_type="roberta",
            hugging_face_head=ROBERTA_HEAD,
            num_separators=2,
        ),
        Family(
            "xlm_roberta",
            "XLM-RoBERTa",
            "models.XLMRobertaBackbone",
            "models.XLMRobertaTextClassifier",
            "tokenizers.XLMRobertaTokenizer",
            "models.XLMRobertaMaskedLM",
            ROBERTA_PARTS,
            hugging_face_type="xlm-roberta",
            hugging_face_head=ROBERTA_HEAD,
            num_separators=2,
        ),
        Family(
            "albert",
            "ALBERT",
            "models.AlbertBackbone",
            "models.AlbertTextClassifier",
            "tokenizers.AlbertTokenizer",
            "models.AlbertMaskedLM",
            {**BERT_PARTS, "embeddings_projection": "embeddings_projection"},
            blocks=albert_blocks,
            has_embedding_dim=True,
            hugging_face_type="albert",
            hugging_face_head={"logits": "classifier"},
        ),
        Family(
            "electra",
            "ELECTRA",
            "models.ElectraBackbone",
            # keras-hub has none of its own; BERT's reads the same outputs.
            "models.BertTextClassifier",
            "tokenizers.ElectraTokenizer",
            None,
            {**BERT_PARTS, "embeddings_projection": "embeddings_projection"},
            renamed_sizes={"vocabulary_size": "vocab_size"},
            has_embedding_dim=True,
        ),
        Family(
            "deberta_v3",
            "DeBERTa-v3",
            "models.DebertaV3Backbone",
            "models.DebertaV3TextClassifier",
            "tokenizers.DebertaV3Tokenizer",
            "models.DebertaV3MaskedLM",
            {
                "token_embedding": "token_embedding",
                "embeddings_layer_norm": "embeddings_layer_norm",
                "relative_embeddings": "relative_embeddings",
            },
            needs_fixed_length=(
                "LiteRT has no kernels for the buckets of its relative "
                "positions, which are constants at one length only"
            ),
            withheld_taps=(
                "attention_logits",
                "attention_probs",
                "queries",
                "keys",
                "values",
            ),
            withheld_because=(
                "its disentangled attention adds products with relative "
                "positions to those of queries and keys, so that neither are "
                "what other families' taps of these names are"
            ),
        ),
    )
}

DECODERS = {
    family.name: family
    for family in (
        Family(
            "gpt2",
            "GPT-2",
            "models.GPT2Backbone",
            None,
            "tokenizers.GPT2Tokenizer",
            None,
            {
                "token_embedding": "token_embedding",
                "position_embedding": "position_embedding",
                "final_layer_norm": "layer_norm",
            },
            hugging_face_type="gpt2",
            withheld_taps=("cls_states",),
            withheld_because=(
                "a decoder reads from left to right, so the state of its first "
                "token knows nothing of the others"
            ),
            causal_lm="models.GPT2CausalLM",
        ),
    )
}
ALL_FAMILIES = FAMILIES | DECODERS


@functools.cache
def _by_class():
    """The family of each backbone and of each tokenizer."""
    return {
        cls: family
        for family in ALL_FAMILIES.values()
        for cls in (family.backbone, family.tokenizer)
    }


@functools.cache
def _halves():
    """The blocks of an encoder-decoder."""
    return {
        "encoder": keras_hub.layers.TransformerEncoder,
        "decoder": keras_hub.layers.TransformerDecoder,
    }


def family_of(backbone_or_tokenizer) -> Family | None:
    """The family of a backbone or a tokenizer, or of the class it extends."""
    for cls in type(backbone_or_tokenizer).__mro__:
        if cls in _by_class():
            return _by_class()[cls]
    return None


def find_backbone(model):
    """Returns the keras-hub backbone in a model, or `None`."""
    if isinstance(model, keras_hub.models.Backbone):
        return model
    if isinstance(model, keras_hub.models.Task):
        return model.backbone
    found = [
        layer
        for layer in getattr(model, "layers", ())
        if isinstance(layer, keras_hub.models.Backbone)
    ]
    return found[0] if len(found) == 1 else None


def blocks_of(backbone) -> tuple:
    """The transformer blocks of an encoder or decoder, in the order of calls.

    A backbone of a user's own lists them in `transformer_layers`, one
    `keras_hub.layers.TransformerEncoder` each.

    Returns:
        A tuple of layers, in which a layer that is called several times stands
        as often. Empty where the blocks are not known.
    """
    family = family_of(backbone)
    if family is not None:
        return family.blocks(backbone)
    blocks = getattr(backbone, "transformer_layers", None) or ()
    if all(
        isinstance(block, keras_hub.layers.TransformerEncoder)
        for block in blocks
    ):
        return tuple(blocks)
    return ()


def stacks_of(backbone) -> dict[str, tuple]:
    """The transformer blocks of each stack of a backbone, by its name.

    An encoder-decoder lists them in `encoder_transformer_layers` and in
    `decoder_transformer_layers`, as keras-hub's BART does.

    Returns:
        A dict with the keys `"encoder"` and `"decoder"`, or the key `""` for a
        model of one stack. Empty where the blocks are not known.
    """
    halves = {
        half: tuple(getattr(backbone, f"{half}_transformer_layers", None) or ())
        for half in _halves()
    }
    if all(
        blocks and all(isinstance(block, _halves()[half]) for block in blocks)
        for half, blocks in halves.items()
    ):
        return halves
    blocks = blocks_of(backbone)
    return {"": blocks} if blocks else {}
