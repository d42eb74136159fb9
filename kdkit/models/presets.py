"""Reads encoders, and models as they were saved: keras-hub's and Keras'."""

import warnings

import keras
import keras_hub

from kdkit.errors import UsageError
from kdkit.models.families import family_of
from kdkit.models.heads import backbone_of, join
from kdkit.models.hugging_face import load_backbone
from kdkit.models.places import HEAD_FILE, find
from kdkit.models.saving import LANGUAGES, LENGTH, LoadedModel
from kdkit.models.tokenizer_files import (
    load_saved_tokenizer,
    load_tokenizer,
    read_preprocessor,
)
from kdkit.models.variants import with_settings

OPTIMIZER = "Skipping variable loading for optimizer"  # Keras' warning


def load_encoder(source, load_weights=True, needs_pooler=True):
    """Loads an encoder without its head.

    Hugging Face checkpoints of BERT, DistilBERT, RoBERTa, XLM-RoBERTa,
    ALBERT, GPT-2 and Qwen 3 are read field by field of their `config.json`.
    The encoder computes the same as in transformers, or an error names the
    unsupported field.

    Args:
        source: string or path, as in `load_model`, but not a `.keras` file.
        load_weights: bool. `False` to load only the sizes, which is fast.
            Defaults to `True`.
        needs_pooler: bool. Whether to warn if a Hugging Face checkpoint has no
            pooler, so that the encoder's is random. Defaults to `True`.

    Returns:
        Tuple of a backbone from a family in
        `kdkit.models.families.ALL_FAMILIES`, and its tokenizer.

    Raises:
        UsageError: (a `ValueError`) if a directory contains no model, or a
            checkpoint needs something that keras-hub's models do not compute.
    """
    place = find(source)
    tokenizer = load_tokenizer(place)
    if place.is_checkpoint:
        backbone = load_backbone(place, tokenizer, load_weights, needs_pooler)
    else:
        backbone = keras_hub.models.Backbone.from_preset(
            place.preset, load_weights=load_weights
        )
        backbone = with_settings(backbone, place.card)
    _require_embeddings(backbone, tokenizer, place)
    return backbone, tokenizer


def _require_embeddings(model, tokenizer, place):
    """Requires an embedding for each id: GPUs would read zeros."""
    backbone = backbone_of(model)
    family = family_of(backbone)
    if family is None or tokenizer is None:
        return
    size = family.size(backbone, "vocabulary_size")
    count = tokenizer.vocabulary_size()
    if count > size:
        raise UsageError(
            f"The tokenizer in {place.source} has {count} tokens, but the "
            f"model has {size} embeddings."
        )


def load_saved(place, *kinds, head_class="") -> LoadedModel | None:
    """Loads a model as it was saved, `None` for a model of another kind."""
    is_saved = place.kind in kinds and not place.is_checkpoint
    if place.file is None and not is_saved and not head_class:
        return None
    tokenizer, preprocessor = load_saved_tokenizer(place.folder), None
    if place.file is not None:
        model = keras.models.load_model(place.file, compile=False)
        preprocessor = getattr(model, "preprocessor", None)
        if preprocessor is not None:
            tokenizer = None  # that of the folder may be another model's
    elif head_class or place.head_class:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", OPTIMIZER)
            cls = getattr(keras_hub.models, head_class or place.head_class)
            model = cls.from_preset(place.preset)
        preprocessor, model.preprocessor = model.preprocessor, None
        model = with_settings(model, place.card)
    else:
        model, tokenizer = load_encoder(place)
        if place.has_head:
            file = place.path / HEAD_FILE
            model = join(model, keras.models.load_model(file, compile=False))
    tokenizer, length = read_preprocessor(preprocessor, tokenizer)
    _require_embeddings(model, tokenizer, place)
    return LoadedModel(
        model,
        tokenizer,
        languages=tuple(place.card.get(LANGUAGES, (None, None))),
        sequence_length=place.card.get(LENGTH, length),
    )
