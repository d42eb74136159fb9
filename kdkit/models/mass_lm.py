"""MASS's language model: what the decoder predicts, and how it is written."""

import keras
import keras_hub

from kdkit.models.mass import MassBackbone
from kdkit.models.mass_preprocessor import MassSeq2SeqLMPreprocessor


@keras.saving.register_keras_serializable(package="kdkit")
class MassSeq2SeqLM(keras_hub.models.BartSeq2SeqLM):
    """A `MassBackbone` with logits of the tokens that the decoder predicts.

    It generates as every `keras_hub.models.Seq2SeqLM` does, with cached keys
    and values; the names of its layers are BART's, so that BART's step serves.

    Args:
        backbone: `MassBackbone`.
        preprocessor: a `keras_hub.models.Seq2SeqLMPreprocessor`, or `None` for
            a model on token ids. Defaults to `None`.
        kwargs: of `keras_hub.models.Seq2SeqLM`, such as `name`.

    Returns of a call:
        float tensor of shape `(batch_size, decoder_length, vocabulary_size)`,
        the vocabulary being the decoder's.
    """

    backbone_cls = MassBackbone
    preprocessor_cls = MassSeq2SeqLMPreprocessor

    def call_encoder(self, token_ids, padding_mask):
        """The encoder's hidden states, for decoding with a cache."""
        return self.backbone.encode(token_ids, padding_mask)

    def generate(
        self, inputs, max_length=None, stop_token_ids="auto", strip_prompt=False
    ):
        if stop_token_ids == "auto" and self.preprocessor is not None:
            # What is written ends as the decoder's vocabulary has it.
            stop_token_ids = [self.preprocessor.target_tokenizer.end_token_id]
        return super().generate(
            inputs, max_length, stop_token_ids, strip_prompt
        )
