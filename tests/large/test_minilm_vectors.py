"""all-MiniLM-L6-v2: ids of transformers, vectors of sentence-transformers."""

import json
import os
import pathlib
import shutil

import numpy as np
import pytest
from kit.real_texts import DATA_SETS, MANY_TEXTS, real_texts
from kit.references import reference
from kit.tokenizer_files import again, check_same

from kdkit import models, tasks

PLACE = os.environ.get("MINILM", "~/.cache/kdkit/all-minilm-l6-v2")
TEXTS = [
    "A man is playing a guitar.",
    "Un gar\u00e7on joue pr\u00e8s de la for\u00eat; die Stra\u00dfe.",
    "e\u0301crit, \ufb01nd \u201ccurly\u201d \u2013 \u20ac5 \u2026",
    "So funny \U0001f602\U0001f602 \U0001f44d\U0001f3fd",
    "\u6771\u4eac \u041f\u0440\u0438\u0432\u0435\u0442",
    *("", " ", "\u200b", "x" * 300, "a long text about many things " * 60),
]
POOLING = {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True}
pytestmark = pytest.mark.large


def test_ids_and_vectors_are_the_references(data_dir, tmp_path):
    path = pathlib.Path(PLACE).expanduser()
    if not path.is_dir():
        pytest.skip(f"no all-MiniLM-L6-v2 in {path}: set MINILM to its folder")
    copy = shutil.copytree(path, tmp_path / "minilm")
    if not (copy / "1_Pooling").is_dir():
        with pytest.raises(ValueError, match="pooling"):
            models.load_embedder(path)
        (copy / "1_Pooling").mkdir()
        (copy / "1_Pooling" / "config.json").write_text(json.dumps(POOLING))
    theirs = reference("sentence_transformers").SentenceTransformer(
        str(copy), device="cpu"
    )
    loaded = models.load_embedder(path, "mean")
    length = loaded.sequence_length
    assert models.pooling_of(loaded.model) == models.Pooling("mean")
    assert length == theirs.max_seq_length
    assert length == models.load_embedder(copy).sequence_length
    found = tasks.embed_texts(loaded.model, TEXTS, loaded.tokenizer, length)
    np.testing.assert_allclose(found, theirs.encode(TEXTS), atol=1e-5)
    for name in DATA_SETS:
        texts = real_texts(data_dir, name, MANY_TEXTS)
        check_same(loaded.tokenizer, again(path), texts)
