"""Masked-language models: an encoder and a head tied to its embeddings."""

import contextlib
import pathlib

import keras_hub

from kdkit.errors import UsageError
from kdkit.families import FAMILIES
from kdkit.families import family_of
from kdkit.models.loading import LoadedModel
from kdkit.models.loading import find_preset_directory
from kdkit.models.loading import load_encoder
from kdkit.models.loading import task_class
from kdkit.models.tokens import family_tokenizer


def masked_lm(backbone):
    """Puts a masked-language-modelling head on an encoder.

    A dense layer as wide as the encoder, GELU, layer normalisation, and the
    transposed token embeddings with a bias (Devlin et al., 2018). The encoder
    is not copied: what is trained here is trained wherever it is used.

    Args:
        backbone: a backbone of a family in `kdkit.families.FAMILIES`, but
            ELECTRA, whose pretraining is another.

    Returns:
        The family's masked-language model without preprocessor, such as a
        `keras_hub.models.BertMaskedLM`, whose output are logits of shape
        `(batch_size, num_predictions, vocabulary_size)` at the input
        `mask_positions`.

    Raises:
        UsageError: (a `ValueError`) if keras-hub has no such model for it.
    """
    family = family_of(backbone)
    if family is None or family.masked_lm is None:
        known = [one.title for one in FAMILIES.values() if one.masked_lm]
        raise UsageError(
            "keras-hub has no masked-language model for a "
            f"{type(backbone).__name__}. Expected an encoder of {known}."
        )
    return family.masked_lm(backbone)


@contextlib.contextmanager
def frozen_pooler(backbone):
    """Keeps the pooler of an encoder out of training.

    Masked-language modelling does not use it, and Keras warns of weights
    without gradient.

    Args:
        backbone: a keras-hub backbone, with or without a pooler.
    """
    pooler = getattr(backbone, "pooled_dense", None)
    if pooler is None:
        yield
        return
    was_trainable, pooler.trainable = pooler.trainable, False
    try:
        yield
    finally:
        pooler.trainable = was_trainable


def has_masked_lm_head(source) -> bool:
    """Whether there is a masked-language model with its head in a place.

    Args:
        source: string or path, as `load_masked_lm` takes it. A keras-hub preset
            that is yet to be downloaded counts as an encoder alone.
    """
    path = pathlib.Path(source)
    return path.is_dir() and task_class(find_preset_directory(path)).endswith(
        "MaskedLM"
    )


def load_masked_lm(source) -> LoadedModel:
    """Loads a masked-language model, or puts a new head on an encoder.

    Args:
        source: string or path. A run of `kdkit pretrain`, or an encoder as
            `kdkit.models.load_encoder` takes it.

    Raises:
        UsageError: (a `ValueError`) if nothing is found there.
    """
    if has_masked_lm_head(source):
        directory = find_preset_directory(pathlib.Path(source))
        model = keras_hub.models.MaskedLM.from_preset(str(directory))
        tokenizer = model.preprocessor.tokenizer
        model.preprocessor = None
        return LoadedModel(model, tokenizer, has_trained_head=True)
    backbone, tokenizer = load_encoder(source)
    return LoadedModel(masked_lm(backbone), tokenizer, has_trained_head=False)


def save_masked_lm(model, tokenizer, path, sequence_length):
    """Writes a masked-language model as a keras-hub preset directory.

    The directory loads with `keras_hub.models.MaskedLM.from_preset`, or as an
    encoder with `keras_hub.models.Backbone.from_preset`, where kdkit is not
    installed.

    Args:
        model: a model as `masked_lm` returns it.
        tokenizer: the tokenizer of its family, or another of word pieces for a
            model that reads those.
        path: string or path of the directory.
        sequence_length: int. Length that the preprocessor pads and cuts to.

    Raises:
        UsageError: if the tokenizer is of another size than the model.
    """
    tokenizer = family_tokenizer(model, tokenizer)
    if tokenizer.vocabulary_size() > model.backbone.vocabulary_size:
        raise UsageError(
            "The tokenizer has more pieces than the model has embeddings. "
            f"Received: {tokenizer.vocabulary_size()} pieces, "
            f"{model.backbone.vocabulary_size} embeddings."
        )
    # A copy, since what is saved of a compiled model includes its optimiser.
    copy = type(model).from_config(model.get_config())
    copy.set_weights(model.get_weights())
    copy.preprocessor = type(model).preprocessor_cls(
        tokenizer, sequence_length=sequence_length
    )
    copy.save_to_preset(str(path))
