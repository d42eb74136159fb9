"""Files that are not in the repository: GLUE's, and all-MiniLM-L6-v2."""

import os
import pathlib

import numpy as np
import pytest
from kit.foreign import largest, outputs
from kit.references import reference

from kdkit.models import load_encoder
from kdkit.taps import tapped
from kdkit.tasks import TASKS

pytestmark = pytest.mark.large

NUM_ROWS = {
    "cola": (8551, 1043),
    "mrpc": (3668, 408),
    "rte": (2490, 277),
    "sst2": (67349, 872),
    "stsb": (5749, 1500),
    "wnli": (635, 71),
}


@pytest.mark.parametrize("name", NUM_ROWS)
def test_task_reads_the_official_files(data_dir, name):
    task = TASKS[name]
    task.check_data(("train", "dev"), data_dir / "glue")
    parts = [task.load(split, data_dir / "glue") for split in ("train", "dev")]
    assert tuple(len(part) for part in parts) == NUM_ROWS[name]
    for part in parts:
        assert len(part.texts) == task.num_texts
        if task.is_regression:
            assert part.labels.min() >= 0
            assert part.labels.max() <= 5
        else:
            assert {*part.labels} == {*range(task.num_classes)}


def test_task_reads_the_official_test_file_without_labels(data_dir):
    examples = TASKS["sst2"].load("test", data_dir / "glue")
    assert len(examples) == 1821
    assert examples.labels is None
    assert examples.texts[0][0] == "uneasy mishmash of styles and genres ."


PLACE = os.environ.get("MINILM", "~/.cache/kdkit/all-minilm-l6-v2")
TEXTS = [
    "a film that is both funny and sad",
    "The quick brown fox jumped over the lazy dog, didn't it?",
    "no",
]


def test_states_attention_and_vectors_of_minilm_are_the_references():
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
    names = {
        "token_ids": "input_ids",
        "segment_ids": "token_type_ids",
        "padding_mask": "attention_mask",
    }
    inputs = {
        ours: read[theirs].numpy().astype("int32")
        for ours, theirs in names.items()
    }
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
