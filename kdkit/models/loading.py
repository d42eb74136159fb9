"""Loads models of all kinds, and their tokenizers.

`find` reads the JSON files of a model. A model that was saved with the wanted
head is loaded whole. Otherwise its encoder is loaded and gets that head: one
from a Hugging Face checkpoint, or a new one.
"""

import dataclasses
import pathlib
import warnings

import keras
import keras_hub

from kdkit.errors import UsageError
from kdkit.models.architectures import preprocessor_length
from kdkit.models.conventions import conventions_of
from kdkit.models.embedders import Pooling, make_embedder, pooling_of
from kdkit.models.families import family_of
from kdkit.models.heads import Head, add_head, is_causal, join, language_model
from kdkit.models.hugging_face import (
    Tensors,
    checkpoint_family,
    checkpoint_language_model,
    copy_head,
    has_masked_lm,
    is_hugging_face,
    load_weights,
    read_checkpoint,
)
from kdkit.models.places import (
    CLASSIFIER,
    EMBEDDER,
    ENCODER,
    HEAD_FILE,
    LANGUAGE_MODEL,
    Place,
    find,
)
from kdkit.models.saving import LANGUAGES, LENGTH, LoadedModel
from kdkit.models.sentence_transformers import (
    load_sentence_transformer,
    undescribed_pooling,
)
from kdkit.models.tokenizer import Tokenizer
from kdkit.models.tokenizer_files import (
    WHOLE,
    load_saved_tokenizer,
    read_static_tokenizer,
    read_tokenizer,
    read_vocabulary,
    reads_one_segment,
)
from kdkit.models.tokenizer_kinds import as_tokenizer
from kdkit.models.variants import with_settings

OPTIMIZER = "Skipping variable loading for optimizer"  # Keras' warning


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
    if head is not None:
        return _load(place, CLASSIFIER, head)
    if pooling is not None:
        return _load(place, EMBEDDER, pooling=pooling)
    family = checkpoint_family(place.config)
    is_decoder = family is not None and family.is_decoder
    return _load(place, LANGUAGE_MODEL if is_decoder else place.kind)


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
    return _load(find(source), CLASSIFIER, num_classes)


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
    return _load(find(source), EMBEDDER, pooling=pooling)


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
    return _load(find(source), LANGUAGE_MODEL)


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


def has_language_model(source) -> bool:
    """Whether a path contains a language model with its head.

    Args:
        source: string or path, as for `load_language_model`. A keras-hub
            preset that is not downloaded yet counts as a backbone only.
    """
    place = find(source)
    return place.kind == LANGUAGE_MODEL or has_masked_lm(place)


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
    num_classes = find(source).num_classes or 1
    loaded = load_classifier(source, num_classes)
    if not loaded.has_trained_head or num_classes > 2:
        raise UsageError(
            f"{source} is not a cross-encoder. Expected a trained head of one "
            f"score or two classes. Received: {num_classes} classes, "
            f"has_trained_head={loaded.has_trained_head}."
        )
    return dataclasses.replace(loaded, num_other_classes=None)


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
    return _load_encoder(find(source), needs_pooler, load_weights)


def load_tokenizer(source) -> Tokenizer:
    """Loads the tokenizer from a run, a preset directory or a vocabulary.

    Args:
        source: string or path. A `.txt` file contains one word piece per line;
            texts are lower-cased if no piece has a capital letter. A `.json`
            file is a byte-pair vocabulary, such as `vocab.json` with its
            merges in `merges.txt` next to it.

    Raises:
        UsageError: (a `ValueError`) if a directory contains no model.
    """
    if pathlib.Path(source).suffix in (".txt", ".json"):
        return read_vocabulary(source)
    return load_saved_tokenizer(source) or _load_tokenizer(find(source))


def _load(place, kind, head=None, pooling=None):
    """Loads a model of a kind, with a new head if it has none."""
    if kind == CLASSIFIER and not isinstance(head, Head):
        head = _head(place, head)
    is_named = kind == EMBEDDER and pooling is None and place.files is None
    is_whole = place.kind == kind and not is_hugging_face(place.config)
    if kind == EMBEDDER and place.is_cross_encoder:
        raise UsageError(
            f"{place.source} scores pairs of texts: it embeds none."
        )
    if kind == EMBEDDER and place.modules:
        model, tokenizer, length = load_sentence_transformer(
            place, pooling, _load_encoder
        )
        loaded = LoadedModel(model, tokenizer, sequence_length=length)
    elif place.file is not None or is_whole or is_named:
        loaded = _load_whole(place, "TextEmbedder" if is_named else place.task)
    elif kind == EMBEDDER and pooling is None:
        raise undescribed_pooling(place.source)
    else:
        loaded = _load_with_head(place, kind, head, pooling)
    if kind == EMBEDDER:
        _require_same_pooling(pooling, pooling_of(loaded.model), place)
        conventions = conventions_of(place)
        return dataclasses.replace(loaded, conventions=conventions)
    if head is not None:
        require_num_classes(loaded.model.output_shape[-1], head, place.source)
        _require_class_names(place, head, loaded)
    return dataclasses.replace(loaded, head=head)


def _head(place, num_classes):
    """Returns the head of a classifier, `None` if it is not in its files."""
    if num_classes is None:
        num_classes, names = place.num_classes, place.class_names
        return num_classes and Head("sequence", num_classes, names)
    return Head("sequence", num_classes)


def _load_whole(place, task):
    """Loads a model as it was saved, with its head."""
    tokenizer = load_saved_tokenizer(place.folder)
    preprocessor = None
    if place.file is not None:
        model = _load_keras(place.file)
        preprocessor = getattr(model, "preprocessor", None)
        if preprocessor is not None:
            tokenizer = None  # that of the folder may be another model's
    elif task:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", OPTIMIZER)
            cls = getattr(keras_hub.models, task)
            model = cls.from_preset(_preset(place))
        preprocessor, model.preprocessor = model.preprocessor, None
        model = with_settings(model, place.card)
    else:
        backbone, tokenizer = _load_encoder(place)
        if place.has_head:
            model = join(backbone, _load_keras(place.path / HEAD_FILE))
        else:
            model = backbone
    if tokenizer is None and preprocessor is not None:
        tokenizer = as_tokenizer(preprocessor.tokenizer)
    return LoadedModel(
        model,
        tokenizer,
        languages=tuple(place.card.get(LANGUAGES, (None, None))),
        sequence_length=place.card.get(LENGTH)
        or preprocessor_length(preprocessor),
    )


def _load_keras(file):
    return keras.models.load_model(file, compile=False, safe_mode=True)


def _load_with_head(place, kind, head, pooling):
    """Loads an encoder, and adds its checkpoint's head or a new one."""
    needs_pooler = kind in (CLASSIFIER, ENCODER)
    backbone, tokenizer = _load_encoder(place, needs_pooler)
    if kind == CLASSIFIER:
        model = add_head(backbone, head, tokenizer)
        there = copy_head(place, model, head)
        if there == head.num_classes:
            return LoadedModel(model, tokenizer)
        return LoadedModel(model, tokenizer, False, num_other_classes=there)
    if kind == EMBEDDER:
        if isinstance(pooling, str):
            pooling = Pooling(pooling)
        return LoadedModel(make_embedder(backbone, pooling), tokenizer)
    if kind == LANGUAGE_MODEL:
        model = checkpoint_language_model(place, backbone)
        if model is not None:
            return LoadedModel(model, tokenizer)
        model = language_model(backbone)
        return LoadedModel(model, tokenizer, is_causal(model))
    return LoadedModel(backbone, tokenizer, False)


def _load_encoder(place, needs_pooler=True, has_weights=True):
    """Loads an encoder with the tokenizer that belongs to it."""
    if checkpoint_family(place.config) is not None:
        return _load_checkpoint(place, needs_pooler, has_weights)
    backbone = keras_hub.models.Backbone.from_preset(
        _preset(place), load_weights=has_weights
    )
    backbone = with_settings(backbone, place.card)
    tokenizer = _load_tokenizer(place)
    _require_embeddings(tokenizer, backbone, place)
    return backbone, tokenizer


def _load_checkpoint(place, needs_pooler, has_weights):
    """Loads the encoder and the tokenizer of a Hugging Face checkpoint."""
    checkpoint = read_checkpoint(place)
    family = checkpoint.family
    backbone, tokenizer = checkpoint.build(), _load_tokenizer(place)
    if has_weights:
        checkpoint = dataclasses.replace(
            checkpoint, reads_one_segment=reads_one_segment(place.path, family)
        )
        with Tensors(place.path) as tensors:
            lacks_pooler = load_weights(backbone, checkpoint, tensors)
        if lacks_pooler and needs_pooler:
            warnings.warn(
                f"The checkpoint in {place.path} has no pooler. Its encoder "
                "gets a new pooler with random weights. Fine-tune it before "
                "you use pooled_output.",
                stacklevel=2,
            )
    expected = place.config.get("pad_token_id", tokenizer.pad_token_id)
    counts = family.checkpoints.positions_follow_padding
    if counts and expected != tokenizer.pad_token_id:
        raise UsageError(
            f"{place.path}: positions count from pad_token_id={expected}, but "
            f"the tokenizer pads with {tokenizer.pad_token_id}."
        )
    _require_embeddings(tokenizer, backbone, place)
    return backbone, tokenizer


def _load_tokenizer(place: Place):
    """Loads the tokenizer of a model."""
    family = checkpoint_family(place.config)
    if family is not None:
        return read_tokenizer(place.path, family)
    if place.static_folder is not None:
        return read_static_tokenizer(place.static_folder / WHOLE)[0]
    saved = load_saved_tokenizer(place.folder)
    if saved is not None:
        return saved
    made = keras_hub.tokenizers.Tokenizer.from_preset(_preset(place))
    # The papers' uncased models strip accents, and keras-hub's presets do not.
    return as_tokenizer(made, None if place.files is None else ())


def _preset(place):
    """Returns the directory or the name of a preset, for keras-hub."""
    if place.files is not None:
        return str(place.files)
    is_known = place.source in keras_hub.models.Backbone.presets
    if not is_known and "://" not in place.source:
        raise UsageError(
            f"There is no file, directory or preset {place.source}."
        )
    return place.source


def _require_embeddings(tokenizer, backbone, place):
    """Raises an error for token ids without an embedding in the encoder."""
    size = family_of(backbone).size(backbone, "vocabulary_size")
    pieces = tokenizer.vocabulary_size()
    if pieces > size:
        raise UsageError(
            f"The tokenizer in {place.source} has {pieces} tokens, but the "
            f"model has {size} embeddings."
        )


def _require_same_pooling(pooling, described, place):
    """Raises an error if a given pooling is not the described one."""
    if pooling not in (None, described, described.mode):
        raise UsageError(
            f"The embedder in {place.source} has another pooling. Expected "
            f"{described}. Received: {pooling!r}."
        )


def require_num_classes(received, head, source):
    """Raises an error if the model's number of classes is not the task's.

    Args:
        received: int or `None`. The model's number, `None` if unknown.
        head: `kdkit.models.Head` that the task needs.
        source: string or path of the model.

    Raises:
        UsageError: (a `ValueError`) if the numbers differ.
    """
    if received not in (None, head.num_classes):
        raise UsageError(
            f"The model in {source} has {received} classes. The task has "
            f"{head.num_classes}."
        )


def _require_class_names(place, head, loaded):
    """Raises an error if the model's classes have other names."""
    # A checkpoint's classes were put in the head's order.
    is_ordered = is_hugging_face(place.config) or not loaded.has_trained_head
    received = None if is_ordered else place.class_names
    if None not in (received, head.class_names) and received != tuple(
        head.class_names
    ):
        raise UsageError(
            f"The classes in {place.folder} are not the task's. Expected "
            f"{list(head.class_names)}. Received: {list(received)}."
        )
