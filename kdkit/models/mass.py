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
        vocabulary_size: int. Number of tokens of encoder and decoder, which
            share their embeddings.
        encoder_num_layers: int. Transformer blocks of the encoder.
        decoder_num_layers: int. Transformer blocks of the decoder.
        num_heads: int. Attention heads per block (A).
        hidden_dim: int. Width of the hidden states (H).
        intermediate_dim: int. Width of the feed-forward layers.
        tied_output: bool. Whether the decoder's logits are computed with its
            token embeddings, transposed, or with separate weights. Defaults to
            `True`.
        dropout: float. Dropout rate. Defaults to `0.1`.
        max_sequence_length: int. Number of position embeddings of each half.
            Defaults to `512`.
        dtype: dtype or `keras.DTypePolicy`. Defaults to Keras' default.
        kwargs: arguments of `keras_hub.models.Backbone`, such as `name`.

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

    def __init__(
        self,
        vocabulary_size,
        encoder_num_layers,
        decoder_num_layers,
        num_heads,
        hidden_dim,
        intermediate_dim,
        tied_output=True,
        dropout=0.1,
        max_sequence_length=512,
        dtype=None,
        **kwargs,
    ):
        # keras-hub looks under this name for the layer that predicts tokens.
        self.token_embedding = keras_hub.layers.ReversibleEmbedding(
            vocabulary_size,
            hidden_dim,
            tie_weights=tied_output,
            embeddings_initializer=_initializer(hidden_dim),
            dtype=dtype,
            name="token_embedding",
        )
        for half in ("encoder", "decoder"):
            for name, layer in _embedding_layers(
                half, max_sequence_length, hidden_dim, dropout, dtype
            ).items():
                setattr(self, name, layer)
        block = {
            "intermediate_dim": intermediate_dim,
            "num_heads": num_heads,
            "dropout": dropout,
            "activation": "gelu",
            "layer_norm_epsilon": EPSILON,
            "kernel_initializer": _initializer(hidden_dim),
            "dtype": dtype,
        }
        self.encoder_transformer_layers = [
            keras_hub.layers.TransformerEncoder(
                name=f"transformer_encoder_layer_{index}", **block
            )
            for index in range(encoder_num_layers)
        ]
        self.decoder_transformer_layers = [
            keras_hub.layers.TransformerDecoder(
                name=f"transformer_decoder_layer_{index}", **block
            )
            for index in range(decoder_num_layers)
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
        tokens = self.token_embedding(inputs["decoder_token_ids"])
        positions = self.decoder_position_embedding(
            tokens, positions=inputs["decoder_positions"]
        )
        x = self.decoder_embeddings_add((tokens, positions))
        x = self.decoder_embeddings_layer_norm(x)
        x = self.decoder_embeddings_dropout(x)
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
            **kwargs,
        )
        self.vocabulary_size = vocabulary_size
        self.encoder_num_layers = encoder_num_layers
        self.decoder_num_layers = decoder_num_layers
        self.num_heads = num_heads
        self.hidden_dim = hidden_dim
        self.intermediate_dim = intermediate_dim
        self.tied_output = tied_output
        self.dropout = dropout
        self.max_sequence_length = max_sequence_length

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
        positions = self.encoder_position_embedding(tokens)
        x = self.encoder_embeddings_add((tokens, positions))
        x = self.encoder_embeddings_layer_norm(x)
        x = self.encoder_embeddings_dropout(x)
        for layer in self.encoder_transformer_layers:
            x = layer(x, padding_mask=padding_mask)
        return x

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


def _embedding_layers(half, max_sequence_length, hidden_dim, dropout, dtype):
    """Returns the layers between the tokens and a half's first block."""
    return {
        f"{half}_position_embedding": keras_hub.layers.PositionEmbedding(
            max_sequence_length,
            initializer=_initializer(hidden_dim),
            dtype=dtype,
            name=f"{half}_position_embedding",
        ),
        f"{half}_embeddings_add": keras.layers.Add(
            dtype=dtype, name=f"{half}_embeddings_add"
        ),
        f"{half}_embeddings_layer_norm": keras.layers.LayerNormalization(
            epsilon=EPSILON, dtype=dtype, name=f"{half}_embeddings_layer_norm"
        ),
        f"{half}_embeddings_dropout": keras.layers.Dropout(
            dropout, dtype=dtype, name=f"{half}_embeddings_dropout"
        ),
    }


def _initializer(hidden_dim):
    """Returns an initializer that preserves the variance at any width."""
    return keras.initializers.TruncatedNormal(stddev=hidden_dim**-0.5)
