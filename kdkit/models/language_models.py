"""Language models: a backbone and a head tied to its token embeddings.

The head predicts masked tokens for encoders, and the next token for decoders
and encoder-decoders.
"""

import contextlib
import dataclasses
import pathlib

import keras_hub

from kdkit.errors import UsageError
from kdkit.models.families import family_of
from kdkit.models.hugging_face import (
    checkpoint_language_model,
    has_masked_lm,
)
from kdkit.models.loading import (
    LoadedModel,
    find_preset_directory,
    load_encoder,
)
from kdkit.models.mass import MassBackbone
from kdkit.models.mass_lm import MassSeq2SeqLM
from kdkit.models.places import task_class
from kdkit.models.saving import (
    LENGTH,
    forget_process,
    save_extra_files,
    saved_length,
)
from kdkit.models.tokenizer_files import load_saved_tokenizer
from kdkit.models.tokenizer_kinds import (
    as_tokenizer,
    to_keras_hub,
)
from kdkit.models.variants import (
    as_keras_hub,
    load_extras,
    save_extras,
    saved_settings,
    with_settings,
)

LANGUAGES = "languages"  # the entry of `kdkit.json`


def language_model(backbone):
    """Adds a language-modelling head to a backbone.

    On an encoder: a dense layer as wide as the encoder, GELU, layer
    normalization, and the transposed token embeddings with a bias (Devlin et
    al., 2018). On a decoder or an encoder-decoder: only the transposed token
    embeddings (Radford et al., 2019). The backbone is not copied: training the
    language model trains the backbone.

    Args:
        backbone: a `kdkit.models.MassBackbone`, or a backbone from a known
            family except ELECTRA, which has another pretraining task.

    Returns:
        The family's keras-hub model without preprocessor. A
        `keras_hub.models.MaskedLM` has logits of shape `(batch_size,
        num_predictions, vocabulary_size)` for the input `mask_positions`. A
        `keras_hub.models.CausalLM` has logits of shape `(batch_size,
        sequence_length, vocabulary_size)` for the token after each token, and
        so has a `kdkit.models.MassSeq2SeqLM` for its decoder's tokens.
    """
    if isinstance(backbone, MassBackbone):
        return MassSeq2SeqLM(backbone)
    family = family_of(backbone)
    return (family.masked_lm or family.causal_lm)(backbone)


def is_causal(model) -> bool:
    """Whether a language model predicts the next token, not masked ones."""
    return isinstance(model, keras_hub.models.CausalLM)


def is_encoder_decoder(model) -> bool:
    """Whether a language model writes one text from another."""
    return isinstance(model, keras_hub.models.Seq2SeqLM)


@contextlib.contextmanager
def frozen_pooler(backbone):
    """Excludes an encoder's pooler from training inside the block.

    Language modelling does not use the pooler, and Keras warns about weights
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


def has_language_model(source) -> bool:
    """Whether a path contains a language model with its head.

    Args:
        source: string or path, as for `load_language_model`. A keras-hub
            preset that is not downloaded yet counts as a backbone only.
    """
    path = pathlib.Path(source)
    if _keras_hub_class(path) is not None:
        return True
    try:
        return path.is_dir() and has_masked_lm(find_preset_directory(path))
    except UsageError:  # raised again when the model is loaded
        return False


def has_decoder(source) -> bool:
    """Like `has_language_model`, for decoders only."""
    return _keras_hub_class(pathlib.Path(source)) is keras_hub.models.CausalLM


def has_encoder_decoder(source) -> bool:
    """Like `has_language_model`, for encoder-decoders only."""
    return _keras_hub_class(pathlib.Path(source)) is keras_hub.models.Seq2SeqLM


def load_language_model(source) -> LoadedModel:
    """Loads a language model, or adds a head to a backbone.

    Args:
        source: string or path. A run of `kdkit pretrain`, or a backbone, as
            for `kdkit.models.load_encoder`.

    Returns:
        `LoadedModel`. A decoder's head consists of its token embeddings and is
        as trained as these. An encoder without a head gets a random one.

    Raises:
        UsageError: (a `ValueError`) if a directory contains no model.
    """
    path = pathlib.Path(source)
    cls = _keras_hub_class(path)
    if cls is not None:
        directory = find_preset_directory(path)
        model = cls.from_preset(str(directory))
        preprocessor, model.preprocessor = model.preprocessor, None
        model = with_settings(model, saved_settings(directory))
        tokenizer = load_saved_tokenizer(directory)
        if tokenizer is None:
            tokenizer = as_tokenizer(preprocessor.tokenizer)
        loaded = LoadedModel(model, tokenizer, True)
        if not is_encoder_decoder(model):
            return loaded
        return dataclasses.replace(
            loaded,
            languages=tuple(load_extras(directory)[LANGUAGES]),
            sequence_length=saved_length(directory),
        )
    backbone, tokenizer = load_encoder(source, needs_pooler=False)
    if path.is_dir():
        model = checkpoint_language_model(find_preset_directory(path), backbone)
        if model is not None:
            return LoadedModel(model, tokenizer, has_trained_head=True)
    model = language_model(backbone)
    return LoadedModel(model, tokenizer, has_trained_head=is_causal(model))


def load_masked_lm(source) -> LoadedModel:
    """Like `load_language_model`, for encoders only.

    Raises:
        UsageError: (a `ValueError`) for a decoder.
    """
    loaded = load_language_model(source)
    if not isinstance(loaded.model, keras_hub.models.MaskedLM):
        raise UsageError(
            f"The model in {source} is a {type(loaded.model).__name__}, which "
            "predicts no masked tokens. Expected an encoder."
        )
    return loaded


def save_language_model(
    model, tokenizer, path, sequence_length, languages=(None, None)
):
    """Writes a language model as a keras-hub preset directory.

    Without kdkit, `keras_hub.models.MaskedLM.from_preset` or
    `keras_hub.models.CausalLM.from_preset` loads the directory, and
    `keras_hub.models.Backbone.from_preset` loads it without the head. For an
    encoder-decoder, import kdkit and use
    `keras_hub.models.Seq2SeqLM.from_preset`.

    Args:
        model: a model from `language_model`.
        tokenizer: the model's `kdkit.models.Tokenizer`, or keras-hub's.
        path: string or path of the directory.
        sequence_length: int. Length to which the preprocessor pads and
            truncates, for each side of an encoder-decoder.
        languages: tuple of two strings or `None`s. The source and the target
            language of an encoder-decoder. Defaults to `(None, None)`.
    """
    # A copy, because a saved compiled model includes its optimizer.
    copy = as_keras_hub(model)
    if is_encoder_decoder(model):
        copy.save_to_preset(str(path))
        tokenizer.save_assets(path)
        extras = {LENGTH: sequence_length, LANGUAGES: list(languages)}
        save_extras(path, **extras)
    else:
        plain = to_keras_hub(tokenizer, family_of(model.backbone))
        copy.preprocessor = type(model).preprocessor_cls(
            plain, sequence_length=sequence_length
        )
        copy.save_to_preset(str(path))
        save_extra_files(model, tokenizer, plain, path)
    forget_process(path)


def _keras_hub_class(path):
    """Returns the class that loads a language model, `None` without one."""
    if not path.is_dir():
        return None
    try:
        name = task_class(find_preset_directory(path))
    except UsageError:  # raised again when the model is loaded
        return None
    for cls in (
        keras_hub.models.MaskedLM,
        keras_hub.models.CausalLM,
        keras_hub.models.Seq2SeqLM,
    ):
        if name.endswith(cls.__name__):
            return cls
    return None
