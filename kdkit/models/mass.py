"""MASS: an encoder-decoder with independent depths of encoder and decoder.

Song et al., 2019 (MASS), https://arxiv.org/abs/1905.02450, in the sizes of
LightPAFF's section 5. keras-hub's BART is the same transformer, but with one
depth and one vocabulary, and its positions always start at 0.
"""

import dataclasses

import keras
import keras_hub

from kdkit.models.sizes import MassConfig

EPSILON = 1e-5


@keras.saving.register_keras_serializable(package="kdkit")
class MassBackbone(keras_hub.models.Backbone):
    """A transformer that reads a sentence and predicts another, or a part.

    Normalization follows each layer and the activation is GELU, as in BERT and
    in MASS's own code.

    Args:
        dtype: dtype or `keras.DTypePolicy`. Defaults to Keras' default.
        name: string. Defaults to `None`.
        trainable: bool. Defaults to `True`.
        **sizes: fields of `kdkit.models.MassConfig`.

    Call arguments:
        inputs: dict of `int32` tensors of shape `(batch_size, length)`, where
            encoder and decoder have different lengths: `encoder_token_ids`,
            `encoder_padding_mask`, `decoder_token_ids`,
            `decoder_padding_mask`, and `decoder_positions`, the position of
            each decoder token in the sentence.

    Returns of a call:
        dict of float tensors `encoder_sequence_output` and
        `decoder_sequence_output` of shape `(batch_size, length, hidden_dim)`.
    """

    def __init__(self, *, dtype=None, name=None, trainable=True, **sizes):
        config = MassConfig(**sizes)
        # keras-hub looks under this name for the layer that predicts tokens.
        self.token_embedding = keras_hub.layers.ReversibleEmbedding(
            config.vocabulary_size,
            config.hidden_dim,
            tie_weights=config.tied_output,
            embeddings_initializer=_initializer(config),
            dtype=dtype,
            name="token_embedding",
        )
        for half in ("encoder", "decoder"):
            for layer in _embedding_layers(half, config, dtype):
                setattr(self, layer.name, layer)
        block = {
            "intermediate_dim": config.intermediate_dim,
            "num_heads": config.num_heads,
            "dropout": config.dropout,
            "activation": "gelu",
            "layer_norm_epsilon": EPSILON,
            "kernel_initializer": _initializer(config),
            "dtype": dtype,
        }
        self.encoder_transformer_layers = [
            keras_hub.layers.TransformerEncoder(
                name=f"transformer_encoder_layer_{index}", **block
            )
            for index in range(config.encoder_num_layers)
        ]
        self.decoder_transformer_layers = [
            keras_hub.layers.TransformerDecoder(
                name=f"transformer_decoder_layer_{index}", **block
            )
            for index in range(config.decoder_num_layers)
        ]
        inputs = {
            name: keras.Input((None,), dtype="int32", name=name)
            for name in (
                "encoder_token_ids",
                "encoder_padding_mask",
                "decoder_token_ids",
                "decoder_padding_mask",
                "decoder_positions",
            )
        }
        encoded = self.encode(
            inputs["encoder_token_ids"], inputs["encoder_padding_mask"]
        )
        x = self._embed(
            "decoder",
            self.token_embedding(inputs["decoder_token_ids"]),
            positions=inputs["decoder_positions"],
        )
        for layer in self.decoder_transformer_layers:
            x = layer(
                x,
                encoded,
                decoder_padding_mask=inputs["decoder_padding_mask"],
                encoder_padding_mask=inputs["encoder_padding_mask"],
            )
        super().__init__(
            inputs=inputs,
            outputs={
                "encoder_sequence_output": encoded,
                "decoder_sequence_output": x,
            },
            dtype=dtype,
            name=name,
            trainable=trainable,
        )
        for size, value in dataclasses.asdict(config).items():
            setattr(self, size, value)

    @property
    def num_layers(self) -> int:
        """The depth of a cache of keys and values: the decoder's."""
        return self.decoder_num_layers

    def language_model(self):
        """Returns a `MassSeq2SeqLM` on this backbone."""
        return MassSeq2SeqLM(self)

    def encode(self, token_ids, padding_mask):
        """Runs only the encoder; returns the hidden states of its last block.

        Args:
            token_ids: int tensor of shape `(batch_size, length)`.
            padding_mask: int or bool tensor of that shape, 0 for padding.

        Returns:
            A float tensor of shape `(batch_size, length, hidden_dim)`.
        """
        return self.encode_embedded(
            self.token_embedding(token_ids), padding_mask
        )

    def encode_embedded(self, tokens, padding_mask):
        """Runs the encoder on embedded tokens.

        Args:
            tokens: float tensor of shape `(batch_size, length, hidden_dim)`.
            padding_mask: as in `encode`.

        Returns:
            The same as `encode`.
        """
        x = self._embed("encoder", tokens)
        for layer in self.encoder_transformer_layers:
            x = layer(x, padding_mask=padding_mask)
        return x

    def _embed(self, half, tokens, **positions):
        """Returns the input of the first block of a half."""
        add, normalize, drop = (
            getattr(self, f"{half}_embeddings_{part}")
            for part in ("add", "layer_norm", "dropout")
        )
        table = getattr(self, f"{half}_position_embedding")
        return drop(normalize(add((tokens, table(tokens, **positions)))))

    def get_config(self):
        sizes = dataclasses.fields(MassConfig)
        own = {size.name: getattr(self, size.name) for size in sizes}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable(package="kdkit")
class MassSeq2SeqLM(keras_hub.models.BartSeq2SeqLM):
    """A `MassBackbone` with logits for the tokens that the decoder predicts.

    `generate` takes token ids, with cached keys and values. The layers have
    BART's names, so that BART's decoding step works on them.

    Args:
        backbone: `MassBackbone`.
        preprocessor: `None`; there is none. Defaults to `None`.
        **kwargs: arguments of `keras_hub.models.Seq2SeqLM`, such as `name`.

    Returns of a call:
        float tensor of shape `(batch_size, decoder_length, vocabulary_size)`
        for the decoder's vocabulary.
    """

    backbone_cls = MassBackbone
    preprocessor_cls = None

    def call_encoder(self, token_ids, padding_mask):
        """Returns the encoder's hidden states, for decoding with a cache."""
        return self.backbone.encode(token_ids, padding_mask)


def _embedding_layers(half, config, dtype):
    """Returns the layers between the tokens and a half's first block."""
    return (
        keras_hub.layers.PositionEmbedding(
            config.max_sequence_length,
            initializer=_initializer(config),
            dtype=dtype,
            name=f"{half}_position_embedding",
        ),
        keras.layers.Add(dtype=dtype, name=f"{half}_embeddings_add"),
        keras.layers.LayerNormalization(
            epsilon=EPSILON, dtype=dtype, name=f"{half}_embeddings_layer_norm"
        ),
        keras.layers.Dropout(
            config.dropout, dtype=dtype, name=f"{half}_embeddings_dropout"
        ),
    )


def _initializer(config):
    """Returns an initializer that preserves the variance at any width."""
    return keras.initializers.TruncatedNormal(stddev=config.hidden_dim**-0.5)
