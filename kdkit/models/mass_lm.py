"""MASS's language model and its preprocessor."""

import keras
import keras_hub
from keras import ops

from kdkit.models.mass import MassBackbone
from kdkit.models.vocabularies import MassTokenizer


@keras.saving.register_keras_serializable(package="kdkit")
class MassSeq2SeqLMPreprocessor(keras_hub.models.Seq2SeqLMPreprocessor):
    """Tokenizes pairs of texts, or texts alone for `generate`.

    Each text begins with the token of its language, or `<s>`, and ends with
    `</s>`. So the decoder's first token selects the language to write.

    Args:
        tokenizer: `MassTokenizer` for sources and targets.
        encoder_sequence_length: int. Length to which sources are padded and
            truncated. Defaults to `128`.
        decoder_sequence_length: int. Length to which targets are padded and
            truncated. Defaults to `128`.
        source_language: string or `None`. Defaults to `None`.
        target_language: string or `None`. Defaults to `None`.
        kwargs: arguments of `keras_hub.models.Seq2SeqLMPreprocessor`.

    Raises:
        UsageError: (a `ValueError`) for a language without a token, when texts
            are first read.
    """

    backbone_cls = MassBackbone
    tokenizer_cls = MassTokenizer

    def __init__(
        self,
        tokenizer,
        encoder_sequence_length=128,
        decoder_sequence_length=128,
        source_language=None,
        target_language=None,
        **kwargs,
    ):
        super().__init__(
            tokenizer,
            encoder_sequence_length=encoder_sequence_length,
            decoder_sequence_length=decoder_sequence_length,
            **kwargs,
        )
        self.source_language = source_language
        self.target_language = target_language

    def build(self, input_shape):
        self.encoder_packer, self.decoder_packer = (
            keras_hub.layers.StartEndPacker(
                sequence_length=length,
                start_value=self.tokenizer.language_token_id(language),
                end_value=self.tokenizer.end_token_id,
                pad_value=self.tokenizer.pad_token_id,
                return_padding_mask=True,
            )
            for length, language in (
                (self.encoder_sequence_length, self.source_language),
                (self.decoder_sequence_length, self.target_language),
            )
        )
        self.built = True

    def call(self, x, y=None, sample_weight=None, **lengths):
        x, y, sample_weight = super().call(x, y, sample_weight, **lengths)
        tokens = x["decoder_token_ids"]
        # The whole target is predicted, so its positions start at 0.
        positions = ops.cumsum(ops.ones_like(tokens), axis=-1) - 1
        return x | {"decoder_positions": positions}, y, sample_weight

    def get_config(self):
        return {
            **super().get_config(),
            "encoder_sequence_length": self.encoder_sequence_length,
            "decoder_sequence_length": self.decoder_sequence_length,
            "source_language": self.source_language,
            "target_language": self.target_language,
        }


@keras.saving.register_keras_serializable(package="kdkit")
class MassSeq2SeqLM(keras_hub.models.BartSeq2SeqLM):
    """A `MassBackbone` with logits for the tokens that the decoder predicts.

    `generate` works as for every `keras_hub.models.Seq2SeqLM`, with cached keys
    and values. The layers have BART's names, so that BART's decoding step works
    on them.

    Args:
        backbone: `MassBackbone`.
        preprocessor: a `keras_hub.models.Seq2SeqLMPreprocessor`, or `None` for
            a model on token ids. Defaults to `None`.
        **kwargs: arguments of `keras_hub.models.Seq2SeqLM`, such as `name`.

    Returns of a call:
        float tensor of shape `(batch_size, decoder_length, vocabulary_size)`
        for the decoder's vocabulary.
    """

    backbone_cls = MassBackbone
    preprocessor_cls = MassSeq2SeqLMPreprocessor

    def call_encoder(self, token_ids, padding_mask):
        """Returns the encoder's hidden states, for decoding with a cache."""
        return self.backbone.encode(token_ids, padding_mask)
