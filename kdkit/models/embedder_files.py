"""Loads and saves embedders: keras-hub presets, runs, other programs' files.

keras-hub's embedders are saved as presets that
`keras_hub.models.TextEmbedder.from_preset` loads. The others are saved as the
encoder's preset, and the pooling as a functional model in `POOLING_FILE`.
"""

import dataclasses
import pathlib

import keras
import keras_hub

from kdkit.errors import UsageError
from kdkit.models.conventions import PLAIN, conventions_at
from kdkit.models.embedders import (
    Pooling,
    make_embedder,
    pooling_model,
    pooling_of,
    standalone_pooling,
)
from kdkit.models.families import family_of
from kdkit.models.heads import backbone_of, join
from kdkit.models.loading import (
    LoadedModel,
    find_preset_directory,
    load_encoder,
    load_task,
)
from kdkit.models.places import (
    MODULES,
    POOLING_FILE,
    TOKENIZER_DIRECTORY,
    is_cross_encoder,
    task_class,
)
from kdkit.models.saving import (
    LENGTH,
    forget_process,
    save_plain_encoder,
    save_task,
    saved_length,
)
from kdkit.models.sentence_transformers import (
    load_sentence_transformer,
    require_same_pooling,
    undescribed_pooling,
)
from kdkit.models.static import is_static_embedder
from kdkit.models.static_files import save_static
from kdkit.models.tokenizer_files import load_saved_tokenizer
from kdkit.models.tokenizer_kinds import keras_hub_class
from kdkit.models.variants import save_extras


def load_embedder(source, pooling=None) -> LoadedModel:
    """Loads an embedder with its tokenizer.

    Args:
        source: string or path. A sentence-transformers directory (with
            `modules.json`), a kdkit run directory, a directory from
            `kdkit.models.save_embedder`, a keras-hub preset directory with a
            `TextEmbedder`, or the name of such a preset. With `pooling` also an
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
    path = pathlib.Path(source)
    if not path.exists():
        return _load_named(str(source), pooling)
    return dataclasses.replace(
        _load_directory(path, source, pooling),
        conventions=conventions_at(path),
    )


def _load_directory(path, source, pooling):
    """Loads an embedder from a directory, without its conventions."""
    if is_cross_encoder(path):
        raise UsageError(f"{source} scores pairs of texts: it embeds none.")
    if (path / MODULES).is_file():
        return load_sentence_transformer(path, pooling)
    path = find_preset_directory(path)
    if task_class(path).endswith("TextEmbedder"):
        loaded = load_task(str(path), keras_hub.models.TextEmbedder)
    elif (path / POOLING_FILE).is_file():
        loaded = _load_with_pooling(path)
    elif pooling is None:
        raise undescribed_pooling(source)
    else:
        backbone, tokenizer = load_encoder(path, needs_pooler=False)
        model = make_embedder(backbone, _as_pooling(pooling))
        return LoadedModel(model, tokenizer, True)
    require_same_pooling(pooling, pooling_of(loaded.model), source)
    return loaded


def save_embedder(
    model, tokenizer, path, sequence_length, conventions=PLAIN
) -> None:
    """Writes an embedder and its tokenizer as a preset directory.

    `load_embedder` loads the directory. Without kdkit a keras-hub embedder
    loads with `keras_hub.models.TextEmbedder.from_preset`. For other families,
    and with dense layers, the directory contains the encoder and the tokenizer
    as presets, and the pooling in `sentence_embedding.keras`: a functional
    model from the encoder's states to the vector. With `batch`, a dict of
    tensors:

    ```python
    encoder = keras_hub.models.Backbone.from_preset(path)
    pooling = keras.models.load_model(f"{path}/sentence_embedding.keras")
    states = {**batch, "sequence_output": encoder(batch)}
    vectors = pooling({name: states[name] for name in pooling.input})
    ```

    Of a static embedder, `sentence_embedding.keras` is the whole model, and
    `tokenizer/` has the tokenizer.

    Args:
        model: an embedder, see `kdkit.models.make_embedder`.
        tokenizer: the encoder's `kdkit.models.Tokenizer`, or keras-hub's.
        path: string or path of the directory.
        sequence_length: int. The length to which texts are truncated.
        conventions: `kdkit.models.Conventions`. Defaults to no prompts and the
            cosine.

    Raises:
        UsageError: (a `ValueError`) if the tokenizer does not fit the model.
    """
    path = pathlib.Path(path)
    backbone = backbone_of(model)
    own_tokenizer = getattr(family_of(backbone), "tokenizer", None)
    if is_static_embedder(model):
        save_static(model, tokenizer, path)
        save_extras(path, **{LENGTH: sequence_length})
    elif (
        pooling_model(model) is None
        and keras_hub_class(tokenizer, family_of(backbone)) is own_tokenizer
    ):
        save_task(model, tokenizer, path, sequence_length)
    else:
        save_plain_encoder(backbone, tokenizer, path)
        standalone_pooling(model).save(path / POOLING_FILE)
        save_extras(path, **{LENGTH: sequence_length})
    if conventions != PLAIN:
        conventions.save(path)
    forget_process(path)


def _load_with_pooling(path):
    """Loads an encoder and the pooling in the file next to it."""
    saved = keras.models.load_model(
        path / POOLING_FILE, compile=False, safe_mode=True
    )
    if is_static_embedder(saved):
        model = saved
        tokenizer = load_saved_tokenizer(path / TOKENIZER_DIRECTORY)
    else:
        backbone, tokenizer = load_encoder(path, needs_pooler=False)
        model = join(backbone, saved)
    return LoadedModel(
        model, tokenizer, True, sequence_length=saved_length(path)
    )


def _load_named(name, pooling):
    """Loads a preset by its name in keras-hub."""
    if pooling is not None:
        backbone, tokenizer = load_encoder(name, needs_pooler=False)
        model = make_embedder(backbone, _as_pooling(pooling))
        return LoadedModel(model, tokenizer, True)
    return load_task(name, keras_hub.models.TextEmbedder)


def _as_pooling(pooling):
    return Pooling(pooling) if isinstance(pooling, str) else pooling
