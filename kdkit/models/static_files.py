"""Reads and writes static embedders: kdkit's directories, and other programs'.

sentence-transformers has the module `StaticEmbedding`: a folder with a
`tokenizer.json` and the table as `embedding.weight`.
"""

import pathlib

import numpy as np

from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.models.families import FAMILIES
from kdkit.models.hugging_face_files import WHOLE
from kdkit.models.hugging_face_files import tokenizer_files
from kdkit.models.hugging_face_saving import require_same_ids
from kdkit.models.hugging_face_saving import with_nearest_rules
from kdkit.models.hugging_face_saving import write_json
from kdkit.models.hugging_face_tokenizers import read_tokenizer
from kdkit.models.hugging_face_weights import WEIGHTS
from kdkit.models.hugging_face_weights import Tensors
from kdkit.models.hugging_face_weights import write_tensors
from kdkit.models.loading import LoadedModel
from kdkit.models.places import TOKENIZER_DIRECTORY
from kdkit.models.recovery import POOLING_FILE
from kdkit.models.static import make_static_embedder
from kdkit.models.static import set_token_vectors
from kdkit.models.static import token_vectors
from kdkit.models.tokenizer_json import to_tokenizer_json
from kdkit.models.tokenizers import save_tokenizer
from kdkit.models.trust import loading

TABLE = "embedding.weight"
OTHER_TABLE = "embeddings"  # in files of model2vec
NOT_READ = ("mapping", "weights")  # model2vec's tables with shared rows
FAMILY_OF_KIND = {"WordPiece": "bert", "Unigram": "xlm_roberta"}
NUM_AROUND = 2  # tokens around a text, which sentence-transformers leaves out


def save_static(model, tokenizer, path: pathlib.Path) -> None:
    """Writes a static embedder, its tokenizer and its sizes.

    Args:
        model: `keras.Model`, see `kdkit.models.make_static_embedder`.
        tokenizer: its keras-hub tokenizer.
        path: `pathlib.Path` of the directory.
    """
    path.mkdir(parents=True, exist_ok=True)
    model.save(path / POOLING_FILE)
    save_tokenizer(tokenizer, path / TOKENIZER_DIRECTORY)
    rows, dimensions = token_vectors(model).shape
    sizes = {"vocabulary_size": rows, "hidden_dim": dimensions}
    write_json(path / "config.json", {"model": "static_embedder", **sizes})


def save_static_module(model, tokenizer, path, sequence_length: int) -> None:
    """Writes the folder of sentence-transformers' `StaticEmbedding`.

    Args:
        model: `keras.Model`, see `kdkit.models.make_static_embedder`.
        tokenizer: its keras-hub tokenizer.
        path: `pathlib.Path` of the folder.
        sequence_length: int. The length to which texts are truncated, with the
            tokens around them.

    Raises:
        UsageError: (a `ValueError`) for a tokenizer that has no
            `tokenizer.json`.
        RunError: if the written tokenizer does not return the same ids.
    """
    tokenizer = with_nearest_rules(tokenizer)
    made = to_tokenizer_json(tokenizer)
    made.save(str(path / WHOLE))
    require_same_ids(tokenizer, path)
    made.enable_truncation(max(sequence_length - NUM_AROUND, 1))
    made.save(str(path / WHOLE))
    table = np.ascontiguousarray(token_vectors(model))
    write_tensors(path / WEIGHTS, {TABLE: table})


def load_static_module(path: pathlib.Path, normalize: bool) -> LoadedModel:
    """Loads a static embedder from the folder of a `StaticEmbedding`.

    Args:
        path: `pathlib.Path` of the folder, whose files were checked.
        normalize: bool. Whether a module `Normalize` follows.

    Raises:
        UsageError: (a `ValueError`) if a file is missing or damaged, or of a
            kind that kdkit does not read.
    """
    for name in (WHOLE, WEIGHTS):
        if not (path / name).is_file():
            raise UsageError(
                f"The static embedder in {path} has no {name}. Expected both "
                f"{WHOLE} and {WEIGHTS}. Restore it from a copy."
            )
    whole = tokenizer_files(path).whole
    kind = whole.get("model")
    kind = kind.get("type") if isinstance(kind, dict) else None
    if kind not in FAMILY_OF_KIND:
        raise UsageError(
            f"The static embedder in {path} has a tokenizer of type "
            f"{shortened(kind)}. Expected one of {sorted(FAMILY_OF_KIND)}. Use "
            "a model with such a tokenizer."
        )
    tokenizer = read_tokenizer(path, FAMILIES[FAMILY_OF_KIND[kind]])
    with Tensors(path) as tensors:
        name = TABLE if TABLE in tensors else OTHER_TABLE
        unread = [one for one in NOT_READ if one in tensors]
        if unread:
            raise UsageError(
                f"The table in {path} is stored with {' and '.join(unread)}, "
                "which kdkit does not read. Expected one row for each token. "
                "Save the model again with sentence_transformers."
            )
        table = tensors.read(name)
    size = tokenizer.vocabulary_size()
    if table.ndim != 2 or len(table) != size:
        raise UsageError(
            f"The table in {path} does not fit its tokenizer. Expected {size} "
            f"rows. Received: shape {table.shape}. Restore the folder from a "
            "copy."
        )
    model = make_static_embedder(tokenizer, table.shape[1], normalize)
    with loading(path):
        set_token_vectors(model, table, tokenizer, sif=None)
    return LoadedModel(
        model, tokenizer, True, sequence_length=_length(whole.get("truncation"))
    )


def _length(truncation):
    """The length of a tokenizer's truncation, `None` if there is none."""
    length = truncation.get("max_length") if truncation else None
    is_length = type(length) is int and length > 0
    return length + NUM_AROUND if is_length else None
