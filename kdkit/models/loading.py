"""Loads models of all kinds, and their tokenizers.

`find` reads the JSON files of a model. A model that was saved with the wanted
head is loaded whole. Otherwise its encoder is loaded and gets that head: one
from a Hugging Face checkpoint, or a new one.
"""

import dataclasses

import keras_hub

from kdkit.errors import UsageError
from kdkit.models.embedders import Pooling, make_embedder, pooling_of
from kdkit.models.heads import Head, add_head, is_causal, language_model
from kdkit.models.hugging_face import checkpoint_language_model, copy_head
from kdkit.models.places import (
    CLASSIFIER,
    EMBEDDER,
    LANGUAGE_MODELS,
    find,
)
from kdkit.models.presets import load_encoder, load_saved
from kdkit.models.saving import LoadedModel
from kdkit.models.sentence_transformers import (
    load_sentence_transformer,
    undescribed_pooling,
)


def load_model(source, head=None, pooling=None) -> LoadedModel:
    """Loads a model of any kind with its tokenizer.

    Args:
        source: string or path. A kdkit run directory (its `student/` or
            `teacher/`), a keras-hub preset directory, a Hugging Face checkpoint
            directory, a sentence-transformers directory, a `.keras` file, or
            the name of a keras-hub preset, which is then downloaded.
        head: `kdkit.models.Head` or int, the number of classes. An encoder
            without that head gets a new one. Defaults to `None`: the model as
            it was saved.
        pooling: string or `kdkit.models.Pooling`, as in `load_embedder`.
            Defaults to `None`.

    Returns:
        `kdkit.models.LoadedModel`.

    Raises:
        UsageError: (a `ValueError`) if there is no model, or it needs something
            that keras-hub's models do not compute.

    Example:

    ```python
    loaded = kdkit.models.load_model("runs/sst2_pkd")
    kdkit.models.save_model(loaded, "student")
    ```
    """
    place = find(source)
    is_classifier = place.kind == CLASSIFIER and pooling is None
    if head is None and is_classifier and place.num_classes is not None:
        head = Head("sequence", place.num_classes, place.class_names)
    if head is not None:
        return load_classifier(place, head)
    if pooling is not None or place.kind == EMBEDDER:
        return load_embedder(place, pooling)
    if place.kind in LANGUAGE_MODELS:
        return load_language_model(place)
    return load_saved(place, place.kind) or LoadedModel(
        *load_encoder(place), has_trained_head=False
    )


def load_classifier(source, num_classes) -> LoadedModel:
    """Loads a classifier, or adds a new head to an encoder.

    The encoder must be from a family that kdkit knows. Hugging Face checkpoints
    are read as in `kdkit.models.load_encoder`. The head of a checkpoint that
    was fine-tuned on the same number of classes is copied (see
    `kdkit.models.hugging_face`).

    Args:
        source: string or path, as in `load_model`.
        num_classes: int, width of a text classifier's logits; or the `Head`
            that the task needs.

    Raises:
        UsageError: (a `ValueError`) if a directory contains no model, the
            encoder's family is unknown, or the head has another number of
            classes or other class names.
    """
    place, head = find(source), num_classes
    if not isinstance(head, Head):
        head = Head("sequence", num_classes)
    loaded, names = load_saved(place, CLASSIFIER), place.class_names
    if loaded is None:
        backbone, tokenizer = load_encoder(place)
        model = add_head(backbone, head, tokenizer)
        loaded = LoadedModel(model, tokenizer, copy_head(place, model, head))
    elif names and head.class_names and [*names] != [*head.class_names]:
        raise UsageError(
            f"The classes in {place.folder} are not the task's. Expected "
            f"{list(head.class_names)}. Received: {list(names)}."
        )
    received = loaded.model.output_shape[-1]
    if received != head.num_classes:
        raise UsageError(
            f"The model in {place.source} has {received} classes. The task has "
            f"{head.num_classes}."
        )
    return dataclasses.replace(loaded, head=head)


def load_embedder(source, pooling=None) -> LoadedModel:
    """Loads an embedder with its tokenizer.

    Args:
        source: string or path, as in `load_model`. With `pooling` also an
            encoder without pooling: a Hugging Face checkpoint or a preset.
        pooling: string, one of `kdkit.models.POOLINGS`, or
            `kdkit.models.Pooling`, for directories that do not describe it.
            With a string the vectors are normalized, except where
            `modules.json` has no `Normalize`. Defaults to `None`.

    Returns:
        `kdkit.models.LoadedModel`. Its `sequence_length` is the largest number
        of tokens that the embedder was made for, if known. Its `conventions`
        contain prompts, which the caller puts before texts, and the similarity.

    Raises:
        UsageError: (a `ValueError`) if a directory contains no model, or the
            pooling is not described, differs from `pooling` or is one that
            kdkit does not compute.

    Example:

    ```python
    embedder = kdkit.models.load_embedder("all-MiniLM-L6-v2/")
    ```
    """
    place = find(source)
    if place.is_cross_encoder:
        raise UsageError(
            f"{place.source} scores pairs of texts: it embeds none."
        )
    is_named = pooling is None and place.files is None
    if place.modules:
        model, tokenizer, length = load_sentence_transformer(place, pooling)
        loaded = LoadedModel(model, tokenizer, sequence_length=length)
    else:
        head_class = "TextEmbedder" if is_named else ""
        loaded = load_saved(place, EMBEDDER, head_class=head_class)
    if loaded is None:
        if pooling is None:
            raise undescribed_pooling(place.source)
        backbone, tokenizer = load_encoder(place, needs_pooler=False)
        if isinstance(pooling, str):
            pooling = Pooling(pooling)
        loaded = LoadedModel(make_embedder(backbone, pooling), tokenizer)
    described = pooling_of(loaded.model)
    if pooling not in (None, described, described.mode):
        raise UsageError(
            f"The embedder in {place.source} has another pooling. Expected "
            f"{described}. Received: {pooling!r}."
        )
    return dataclasses.replace(loaded, conventions=place.conventions)


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
    place = find(source)
    loaded = load_saved(place, *LANGUAGE_MODELS)
    if loaded is not None:
        return loaded
    backbone, tokenizer = load_encoder(place, needs_pooler=False)
    found = checkpoint_language_model(place, backbone)
    model = language_model(backbone) if found is None else found
    is_trained = found is not None or is_causal(model)
    return LoadedModel(model, tokenizer, is_trained)


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


def load_reranker(source) -> LoadedModel:
    """Loads a cross-encoder: a classifier of pairs of texts with one score.

    Args:
        source: string or path, as in `load_model`. The classifier has one
            logit, as for regression and in sentence-transformers'
            cross-encoders, or two classes.

    Raises:
        UsageError: (a `ValueError`) if its head was not trained, or has more
            than two classes.
    """
    place = find(source)
    num_classes = place.num_classes or 1
    loaded = load_classifier(place, num_classes)
    if not loaded.has_trained_head or num_classes > 2:
        raise UsageError(
            f"{source} is not a cross-encoder. Expected a trained head of one "
            f"score or two classes. Received: {num_classes} classes, "
            f"has_trained_head={loaded.has_trained_head}."
        )
    return loaded
