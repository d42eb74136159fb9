"""MASS's language model."""

import keras
import keras_hub

from kdkit.models.mass import MassBackbone


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
