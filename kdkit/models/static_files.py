"""Reads and writes static embedders: kdkit's directories, and other programs'.

sentence-transformers has the module `StaticEmbedding`: a folder with a
`tokenizer.json` and the table as `embedding.weight`.
"""

import pathlib

import numpy as np

from kdkit.models.hugging_face import WEIGHTS, Tensors, write_tensors
from kdkit.models.hugging_face_files import WHOLE
from kdkit.models.hugging_face_saving import (
    require_same_ids,
    with_nearest_rules,
    write_json,
)
from kdkit.models.loading import LoadedModel
from kdkit.models.places import POOLING_FILE, TOKENIZER_DIRECTORY
from kdkit.models.static import (
    make_static_embedder,
    set_token_vectors,
    token_vectors,
)
from kdkit.models.tokenizer_json import to_tokenizer_json
from kdkit.models.tokenizers import read_whole_tokenizer, save_tokenizer
from kdkit.models.whole_tokenizer import WholeTokenizer

TABLE = "embedding.weight"
OTHER_TABLE = "embeddings"  # in files of model2vec
MAPPING, SCALES = "mapping", "weights"  # model2vec's tables with shared rows
NUM_AROUND = 2  # tokens around a text, which sentence-transformers leaves out


def save_static(model, tokenizer, path: pathlib.Path) -> None:
    """Writes a static embedder, its tokenizer and its sizes."""
    path.mkdir(parents=True, exist_ok=True)
    model.save(path / POOLING_FILE)
    save_tokenizer(tokenizer, path / TOKENIZER_DIRECTORY)
    rows, dimensions = token_vectors(model).shape
    sizes = {"vocabulary_size": rows, "hidden_dim": dimensions}
    write_json(path / "config.json", {"model": "static_embedder", **sizes})


def save_static_module(model, tokenizer, path, sequence_length) -> None:
    """Writes the folder of sentence-transformers' `StaticEmbedding`."""
    side = "right"
    if isinstance(tokenizer, WholeTokenizer):
        made, side = tokenizer.copy(), tokenizer.truncation_side
    else:
        tokenizer = with_nearest_rules(tokenizer)
        made = to_tokenizer_json(tokenizer)
        made.save(str(path / WHOLE))
        require_same_ids(tokenizer, path)
        sequence_length = max(sequence_length - NUM_AROUND, 1)
    if sequence_length is not None:
        made.enable_truncation(sequence_length, direction=side)
    made.save(str(path / WHOLE))
    table = np.ascontiguousarray(token_vectors(model))
    write_tensors(path / WEIGHTS, {TABLE: table})


def load_static_module(path: pathlib.Path, normalize: bool) -> LoadedModel:
    """Loads a static embedder from the folder of a `StaticEmbedding`."""
    tokenizer = read_whole_tokenizer(path / WHOLE)
    with Tensors(path) as tensors:
        table = tensors.read(TABLE if TABLE in tensors else OTHER_TABLE)
        if MAPPING in tensors:
            table = table[tensors.integers(MAPPING)]
        if SCALES in tensors:
            table = table * tensors.read(SCALES)[:, np.newaxis]
    model = make_static_embedder(tokenizer, table.shape[1], normalize)
    set_token_vectors(model, table, tokenizer, sif=None)
    length = tokenizer.sequence_length
    return LoadedModel(model, tokenizer, True, sequence_length=length)
