"""MASS's language model and its preprocessor."""

import keras
import keras_hub
import numpy as np
from keras import ops

from kdkit.models.mass import MassBackbone
from kdkit.models.tokenizers import DECODER_TOKENIZER
from kdkit.models.vocabularies import MassTokenizer

TOKENIZER = "tokenizer.json"  # keras-hub's name for it in presets


@keras.saving.register_keras_serializable(package="kdkit")
class MassSeq2SeqLMPreprocessor(keras_hub.models.Seq2SeqLMPreprocessor):
    """Tokenizes pairs of texts, or texts alone for `generate`.

    Each text begins with the token of its language, or `<s>`, and ends with
    `</s>`. So the decoder's first token selects the language to write.

    Args:
        tokenizer: `MassTokenizer` for sources and targets, or for sources only.
        encoder_sequence_length: int. Length to which sources are padded and
            truncated. Defaults to `128`.
        decoder_sequence_length: int. Length to which targets are padded and
            truncated. Defaults to `128`.
        source_language: string or `None`. Defaults to `None`.
        target_language: string or `None`. Defaults to `None`.
        decoder_tokenizer: `MassTokenizer` for targets, if they have their own
            vocabulary, or `None` for a joint vocabulary. A preset stores it in
            `decoder_tokenizer.json`, next to the other one. Defaults to
            `None`.
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
        decoder_tokenizer=None,
        **kwargs,
    ):
        super().__init__(
            _kept_in(TOKENIZER, tokenizer),
            encoder_sequence_length=encoder_sequence_length,
            decoder_sequence_length=decoder_sequence_length,
            **kwargs,
        )
        self.decoder_tokenizer = None
        if decoder_tokenizer is not None:
            self.decoder_tokenizer = _kept_in(
                DECODER_TOKENIZER, decoder_tokenizer
            )
        self.source_language = source_language
        self.target_language = target_language

    @property
    def target_tokenizer(self):
        """The tokenizer for targets, or the joint tokenizer.

        Returns:
            `MassTokenizer`.
        """
        if self.decoder_tokenizer is None:
            return self.tokenizer
        return self.decoder_tokenizer

    def build(self, input_shape):
        self.encoder_packer, self.decoder_packer = (
            keras_hub.layers.StartEndPacker(
                sequence_length=length,
                start_value=tokenizer.language_token_id(language),
                end_value=tokenizer.end_token_id,
                pad_value=tokenizer.pad_token_id,
                return_padding_mask=True,
            )
            for tokenizer, length, language in (
                (
                    self.tokenizer,
                    self.encoder_sequence_length,
                    self.source_language,
                ),
                (
                    self.target_tokenizer,
                    self.decoder_sequence_length,
                    self.target_language,
                ),
            )
        )
        self.built = True

    def call(self, x, y=None, sample_weight=None, **lengths):
        texts = x["decoder_text"]
        x, y, sample_weight = super().call(x, y, sample_weight, **lengths)
        if self.decoder_tokenizer is not None:
            length = 1 + x["decoder_token_ids"].shape[-1]
            tokens, mask = self._pack_target(texts, length)
            y, sample_weight = tokens[..., 1:], mask[..., 1:]
            x["decoder_token_ids"] = tokens[..., :-1]
            x["decoder_padding_mask"] = mask[..., :-1]
        tokens = x["decoder_token_ids"]
        # The whole target is predicted, so its positions start at 0.
        positions = ops.cumsum(ops.ones_like(tokens), axis=-1) - 1
        return x | {"decoder_positions": positions}, y, sample_weight

    def generate_preprocess(self, x, **lengths):
        made = super().generate_preprocess(x, **lengths)
        # An empty text has no tokens in any vocabulary.
        if self.decoder_tokenizer is not None and isinstance(x, dict):
            names = ("decoder_token_ids", "decoder_padding_mask")
            length = made["decoder_token_ids"].shape[-1]
            target = self._pack_target(
                x["decoder_text"], length, add_end_value=False
            )
            made |= dict(zip(names, target, strict=True))
        return made

    def generate_postprocess(self, x):
        if self.decoder_tokenizer is None:
            return super().generate_postprocess(x)
        tokenizer = self.decoder_tokenizer
        tokens, mask = map(
            ops.convert_to_numpy,
            (x["decoder_token_ids"], x["decoder_padding_mask"]),
        )
        is_text = mask.astype("bool") & ~np.isin(
            tokens, tokenizer.special_token_ids
        )
        return tokenizer.detokenize(
            [row[real] for row, real in zip(tokens, is_text, strict=True)]
        )

    def _pack_target(self, texts, length, **packing):
        """Returns tokens from the decoder's own vocabulary, and their mask."""
        return self.decoder_packer(
            self.decoder_tokenizer(texts), sequence_length=length, **packing
        )

    def get_config(self):
        return {
            **super().get_config(),
            "encoder_sequence_length": self.encoder_sequence_length,
            "decoder_sequence_length": self.decoder_sequence_length,
            "source_language": self.source_language,
            "target_language": self.target_language,
            "decoder_tokenizer": self.decoder_tokenizer
            and keras.layers.serialize(self.decoder_tokenizer),
        }

    @classmethod
    def from_config(cls, config):
        decoder = config.get("decoder_tokenizer")
        if isinstance(decoder, dict):
            config = {
                **config,
                "decoder_tokenizer": keras.layers.deserialize(decoder),
            }
        return super().from_config(config)


def _kept_in(config_file, tokenizer):
    """Returns the tokenizer, or a copy with another file name in presets."""
    if tokenizer.config_file == config_file:
        return tokenizer
    return MassTokenizer(tokenizer.proto, config_file=config_file)


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

    def generate(
        self, inputs, max_length=None, stop_token_ids="auto", strip_prompt=False
    ):
        if stop_token_ids == "auto" and self.preprocessor is not None:
            # The output ends with the end token of the decoder's vocabulary.
            stop_token_ids = [self.preprocessor.target_tokenizer.end_token_id]
        return super().generate(
            inputs, max_length, stop_token_ids, strip_prompt
        )
