"""Families of backbones, and the registry of those that kdkit knows."""

import collections
import dataclasses
import functools
import inspect
import operator
import types
from collections.abc import Mapping

from kdkit.errors import UsageError
from kdkit.late import keras_hub, ops
from kdkit.models.families.blocks import (
    BlockAdapter,
    DecoderBlock,
    EncoderBlock,
)
from kdkit.models.families.checkpoints import CheckpointFormat

POSITIONS = "position_embedding"
# Sizes that default to another size.
SAME_AS = {"embedding_dim": "hidden_dim", "num_key_value_heads": "num_heads"}


@dataclasses.dataclass(frozen=True)
class BlockSettings:
    """The activation and the epsilon of blocks, or of a head.

    Args:
        activation: string. A key of `kdkit.models.hugging_face.ACTIVATIONS`.
        layer_norm_epsilon: float.
    """

    activation: str
    layer_norm_epsilon: float


class KerasHubClass:
    """A family's class in keras-hub, imported when read; `None` without one."""

    def __init__(self, kind: str):
        self._kind = kind

    def __get__(self, family, owner):
        prefix = owner.class_name
        name = f"{prefix}{self._kind}"
        return getattr(keras_hub.models, name, None) if prefix else None


class Family:
    """Everything that differs between the backbones that kdkit distills.

    A family is a subclass with the attributes below, registered by
    `register_family`. It overrides a method where its backbone differs from
    keras-hub's BERT (an encoder) or GPT-2 (a decoder).

    Attributes:
        name: string. Its name in settings, such as `"distil_bert"`.
        title: string. Its name in texts, such as `"DistilBERT"`.
        class_name: string. The start of its classes' names in keras-hub and in
            transformers, such as `"DistilBert"`. It decides the next five
            attributes, whose classes are imported when they are first used.
        backbone: subclass of `keras_hub.models.Backbone`.
        tokenizer: subclass of `keras_hub.tokenizers.Tokenizer`.
        classifier: subclass of `keras_hub.models.TextClassifier`, or `None`.
        embedder: subclass of `keras_hub.models.TextEmbedder`, or `None`.
        masked_lm: subclass of `keras_hub.models.MaskedLM`, or `None`.
        causal_lm: subclass of `keras_hub.models.CausalLM`, `None` for an
            encoder. Defaults to `None`.
        block: subclass of `BlockAdapter` for the transformer blocks. Defaults
            to `EncoderBlock`.
        parts: dict. The backbone's layers outside the blocks: a name that
            families share, to a path of attributes. It may list layers
            that only backbones of some sizes have.
        size_names: dict. From a size of `kdkit.models.BertConfig` to its name
            in the backbone, `None` for a size that the backbone lacks. Other
            sizes have the same name. Defaults to sizes without
            `"embedding_dim"` and `"num_key_value_heads"`.
        block_settings: `BlockSettings` or `None`.
            Activation and epsilon of keras-hub's blocks. `None` if a copy of
            the backbone with other settings is not supported.
        head_settings: `BlockSettings` or `None`. The same for `masked_lm`.
        checkpoints: `CheckpointFormat` or `None`. The format of Hugging Face
            checkpoints, if kdkit reads them.
        num_separators: int. How many end tokens are between two sentences.
            Defaults to `1`.
        special_tokens: tuple of strings. The special tokens of a byte-pair
            vocabulary that is trained for the family, the end of a text last.
            Empty if none is trained.
        withheld_taps: tuple of strings. Taps per layer that the family lacks.
    """

    name: str
    title: str
    class_name: str = ""
    backbone: type = KerasHubClass("Backbone")
    tokenizer: type = KerasHubClass("Tokenizer")
    classifier: type | None = KerasHubClass("TextClassifier")
    embedder: type | None = KerasHubClass("TextEmbedder")
    masked_lm: type | None = KerasHubClass("MaskedLM")
    causal_lm: type | None = None
    block: type[BlockAdapter] = EncoderBlock
    parts: Mapping[str, str] = types.MappingProxyType({})
    size_names: Mapping[str, str | None] = types.MappingProxyType(
        {"embedding_dim": None, "num_key_value_heads": None}
    )
    block_settings: BlockSettings | None = None
    head_settings: BlockSettings | None = None
    checkpoints: CheckpointFormat | None = None
    num_separators: int = 1
    special_tokens: tuple[str, ...] = ()
    withheld_taps: tuple[str, ...] = ()

    @property
    def is_decoder(self) -> bool:
        """Whether the family's models predict the next token."""
        # Without loading keras-hub's class.
        return inspect.getattr_static(self, "causal_lm") is not None

    @property
    def has_positions(self) -> bool:
        """Whether a table of positions limits the length of the inputs."""
        return POSITIONS in self.parts

    def takes(self, size: str) -> bool:
        """Whether the backbone has a size of `BertConfig`."""
        return self.size_names.get(size, size) is not None

    def size(self, backbone, name: str):
        """Returns a backbone's size, such as `"vocabulary_size"`, or `None`.

        Args:
            backbone: a backbone of the family.
            name: string. A field of `kdkit.models.BertConfig`, or another
                argument of the backbone.
        """
        own = self.size_names.get(name, name)
        return None if own is None else getattr(backbone, own, None)

    def constructor_sizes(self, sizes: Mapping) -> dict:
        """Converts sizes to arguments of the backbone.

        Args:
            sizes: dict of the fields of a `kdkit.models.BertConfig`, without
                `family`.
        """
        return {
            self.size_names.get(name, name): (
                sizes[SAME_AS[name]] if size is None else size
            )
            for name, size in sizes.items()
            if self.takes(name)
        }

    def config(self, backbone) -> dict:
        """Returns the config from which a copy of a backbone is made."""
        return backbone.get_config()

    def blocks(self, backbone) -> tuple:
        """Returns the transformer blocks in the order of their calls."""
        return tuple(backbone.transformer_layers)

    def num_positions(self, backbone) -> int | None:
        """Returns a backbone's maximum input length, `None` for no limit."""
        return backbone.max_sequence_length if self.has_positions else None

    def part(self, backbone, name: str):
        """Returns a layer outside the blocks, by its name in `parts`."""
        return operator.attrgetter(self.parts[name])(backbone)

    def token_embedding(self, backbone):
        """Returns the layer of the token embeddings."""
        return self.part(backbone, "token_embedding")

    def embed(self, backbone, token_ids, position):
        """Returns the input of a decoder's first block at one position.

        Args:
            backbone: a backbone of the family.
            token_ids: int tensor of shape `(batch_size,)`.
            position: int tensor of shape `()`.

        Returns:
            Tensor of shape `(batch_size, 1, hidden_dim)`.
        """
        state = self.token_embedding(backbone)(token_ids)[:, None]
        if not self.has_positions:
            return state
        table = self.part(backbone, POSITIONS).position_embeddings
        return state + ops.take(table, position, axis=0)

    def logits(self, backbone, state):
        """Returns a decoder's logits over its vocabulary.

        Args:
            backbone: a backbone of the family.
            state: tensor of shape `(batch_size, hidden_dim)`, the output of the
                last block.
        """
        norm = self.part(backbone, "final_layer_norm")
        return self.token_embedding(backbone)(norm(state), reverse=True)

    def output_embeddings(self, backbone):
        """Returns the weights that turn a decoder's states into logits.

        Returns:
            Tensor or variable of shape `(vocabulary_size, hidden_dim)`.
        """
        layer = self.token_embedding(backbone)
        if layer.tie_weights:
            return layer.embeddings
        return ops.transpose(layer.reverse_embeddings)


_ENCODERS = {}
_DECODERS = {}
FAMILIES = types.MappingProxyType(_ENCODERS)
DECODERS = types.MappingProxyType(_DECODERS)
# A `ChainMap` lists its last mapping first.
ALL_FAMILIES = types.MappingProxyType(
    collections.ChainMap(_DECODERS, _ENCODERS)
)


def register_family(cls: type[Family]) -> type[Family]:
    """Adds a family to those that kdkit distills.

    Args:
        cls: subclass of `Family`.

    Returns:
        The class, so that this is a decorator.

    Raises:
        UsageError: (a `ValueError`) if another family has this name.

    Example:

    ```python
    @kdkit.models.register_family
    class MyBert(kdkit.models.Family):
        name = "my_bert"
        title = "My BERT"
        backbone = MyBertBackbone
        tokenizer = keras_hub.tokenizers.BertTokenizer
        classifier = keras_hub.models.BertTextClassifier
        parts = {"token_embedding": "token_embedding"}
    ```
    """
    if cls.name in ALL_FAMILIES:
        raise UsageError(f"There is already a family {cls.name!r}.")
    family = cls()
    (_DECODERS if family.is_decoder else _ENCODERS)[cls.name] = family
    _by_class.cache_clear()
    return cls


@functools.cache
def _by_class():
    """Returns the family of each backbone class and tokenizer class."""
    found = {}
    for family in ALL_FAMILIES.values():
        for cls in (family.backbone, family.tokenizer):
            found.setdefault(cls, family)  # families may share a tokenizer
    return found


def family_of(backbone_or_tokenizer) -> Family | None:
    """Returns the family of a backbone or a tokenizer, `None` for others."""
    cls = backbone_or_tokenizer
    cls = cls if isinstance(cls, type) else type(cls)
    families = map(_by_class().get, cls.__mro__)
    return next(filter(None, families), None)


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


def adapters_of(backbone) -> dict[str, tuple[BlockAdapter, ...]]:
    """Returns the adapters of the blocks in each stack of a backbone.

    A stack is an encoder or a decoder, with the name `""`, or half of an
    encoder-decoder, `"encoder"` or `"decoder"`. Blocks are in the order of
    their calls. In a backbone of no known family, they are keras-hub's
    transformer layers.
    """
    family = family_of(backbone)
    if family is not None:
        return {"": tuple(map(family.block, family.blocks(backbone)))}
    encoder = EncoderBlock, keras_hub.layers.TransformerEncoder
    decoder = DecoderBlock, keras_hub.layers.TransformerDecoder
    kinds = {"": encoder, "encoder_": encoder, "decoder_": decoder}
    found = {}
    for part, (adapter, cls) in kinds.items():
        blocks = getattr(backbone, f"{part}transformer_layers", None) or ()
        if blocks and all(isinstance(block, cls) for block in blocks):
            found[part.removesuffix("_")] = tuple(map(adapter, blocks))
    return found


def blocks_of(backbone) -> tuple:
    """Returns the transformer blocks of an encoder or decoder."""
    adapters = adapters_of(backbone).get("", ())
    return tuple(adapter.block for adapter in adapters)
