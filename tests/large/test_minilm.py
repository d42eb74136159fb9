"""all-MiniLM-L6-v2, a real checkpoint, against transformers."""

import os
import pathlib

import numpy as np
import pytest
from kit.foreign import largest, outputs
from kit.references import reference

from kdkit.models import load_encoder
from kdkit.taps import tapped

PLACE = os.environ.get("MINILM", "~/.cache/kdkit/all-minilm-l6-v2")
TEXTS = [
    "a film that is both funny and sad",
    "The quick brown fox jumped over the lazy dog, didn't it?",
    "no",
]


@pytest.mark.large
def test_states_attention_and_vectors_are_the_references():
    path = pathlib.Path(PLACE).expanduser()
    if not path.is_dir():
        pytest.skip(f"no all-MiniLM-L6-v2 in {path}: set MINILM to its folder")
    transformers = reference("transformers")
    model = transformers.AutoModel.from_pretrained(
        path, attn_implementation="eager"
    ).eval()
    read = transformers.AutoTokenizer.from_pretrained(path)(
        TEXTS, padding=True, return_tensors="pt"
    )
    expected = outputs(model, read)
    inputs = {
        "token_ids": read["input_ids"],
        "segment_ids": read["token_type_ids"],
        "padding_mask": read["attention_mask"],
    }
    inputs = {name: one.numpy().astype("int32") for name, one in inputs.items()}
    real = inputs["padding_mask"].astype(bool)
    backbone, _ = load_encoder(path)
    taps = ["hidden_states", "attention_probs", "pooled_output"]
    ours = tapped(backbone, taps)(inputs)
    for state, theirs in zip(
        ours["hidden_states"], expected.hidden_states, strict=True
    ):
        assert largest(state, theirs, real) < 1e-5
    for scores, theirs in zip(
        ours["attention_probs"], expected.attentions, strict=True
    ):
        by_query = np.swapaxes(scores, 1, 2), theirs.transpose(1, 2)
        assert largest(*by_query, real) < 1e-5
    assert largest(ours["pooled_output"], expected.pooler_output) < 1e-5
