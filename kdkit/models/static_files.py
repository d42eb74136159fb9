"""Reads and writes static embedders: kdkit's directories, and other programs'.

sentence-transformers has the module `StaticEmbedding`: a folder with a
`tokenizer.json` and the table as `embedding.weight`.
"""

import pathlib

import numpy as np

from kdkit.models.hugging_face import WEIGHTS, Tensors, write_tensors
from kdkit.models.hugging_face_saving import write_json
from kdkit.models.loading import LoadedModel
from kdkit.models.places import POOLING_FILE, TOKENIZER_DIRECTORY
from kdkit.models.static import (
    make_static_embedder,
    set_token_vectors,
    token_vectors,
)
from kdkit.models.tokenizer_files import (
    WHOLE,
    read_static_tokenizer,
)
from kdkit.models.tokenizer_kinds import as_tokenizer

TABLE = "embedding.weight"
OTHER_TABLE = "embeddings"  # in files of model2vec
MAPPING, SCALES = "mapping", "weights"  # model2vec's tables with shared rows
NUM_AROUND = 2  # tokens around a text, which sentence-transformers leaves out


def save_static(model, tokenizer, path: pathlib.Path) -> None:
    """Writes a static embedder, its tokenizer and its sizes."""
    path.mkdir(parents=True, exist_ok=True)
    model.save(path / POOLING_FILE)
    folder = path / TOKENIZER_DIRECTORY
    folder.mkdir()
    as_tokenizer(tokenizer).save_assets(folder)
    rows, dimensions = token_vectors(model).shape
    sizes = {"vocabulary_size": rows, "hidden_dim": dimensions}
    write_json(path / "config.json", {"model": "static_embedder", **sizes})


def save_static_module(model, tokenizer, path, sequence_length) -> None:
    """Writes the folder of sentence-transformers' `StaticEmbedding`."""
    tokenizer = as_tokenizer(tokenizer)
    if tokenizer.tokens:
        sequence_length = max(sequence_length - NUM_AROUND, 1)
    write_json(path / WHOLE, tokenizer.to_json(sequence_length))
    table = np.ascontiguousarray(token_vectors(model))
    write_tensors(path / WEIGHTS, {TABLE: table})


def load_static_module(path: pathlib.Path, normalize: bool) -> LoadedModel:
    """Loads a static embedder from the folder of a `StaticEmbedding`."""
    tokenizer, length = read_static_tokenizer(path / WHOLE)
    with Tensors(path) as tensors:
        table = tensors.read(TABLE if TABLE in tensors else OTHER_TABLE)
        if MAPPING in tensors:
            table = table[tensors.integers(MAPPING)]
        if SCALES in tensors:
            table = table * tensors.read(SCALES)[:, np.newaxis]
    model = make_static_embedder(tokenizer, table.shape[1], normalize)
    set_token_vectors(model, table, tokenizer, sif=None)
    return LoadedModel(model, tokenizer, True, sequence_length=length)
