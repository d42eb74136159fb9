"""Every format has Keras' outputs for each row of SST-2's dev set."""

import keras_hub
import numpy as np
import pytest

from kdkit import data, export, models
from kdkit.cli.main import main
from kdkit.tasks import get_task

LENGTH = 64
# Of the logits' spread: how far a file may be from Keras.
TOLERANCE = {"fp32": 1e-4, "fp16": 1e-2, "int8": 0.3}


@pytest.fixture(scope="module")
def glue(data_dir):
    if not (data_dir / "glue" / "SST-2" / "dev.tsv").is_file():
        pytest.skip(f"no SST-2 in {data_dir}: set KDKIT_DATA to its folder")
    return data_dir / "glue"


@pytest.fixture(scope="module")
def bert_of_words(data_dir, make_bert):
    tokenizer = models.load_tokenizer(
        data_dir / "vocab" / "bert-base-uncased-vocab.txt"
    )
    model = make_bert(
        sizes={
            "vocabulary_size": tokenizer.vocabulary_size(),
            "num_layers": 2,
            "max_sequence_length": LENGTH,
        },
        preprocessor=keras_hub.models.BertTextClassifierPreprocessor(
            tokenizer, sequence_length=LENGTH
        ),
    )
    return model, tokenizer


@pytest.fixture(scope="module")
def dev(bert_of_words, glue):
    """All rows of dev, and what Keras says of them: either class."""
    model, tokenizer = bert_of_words
    rows = data.encode(get_task("sst2").load("dev", glue), tokenizer, LENGTH)
    batches = data.BatchStream(rows, data.Buckets(64)).evaluation()
    logits = np.concatenate([np.asarray(model(x)) for x, *_ in batches])
    assert len(logits) == 872
    bias = model.weights[-1]
    assert bias.shape == (2,)
    bias.assign(bias - np.median(logits, axis=0))
    return batches, logits - np.median(logits, axis=0)


@pytest.fixture(scope="module")
def preset(bert_of_words, dev, tmp_path_factory):
    """The classifier as a directory that the command line reads."""
    folder = tmp_path_factory.mktemp("preset") / "model"
    models.save_preset(*bert_of_words, folder, LENGTH)
    return folder


def check(name, run, dev):
    """That a file's logits are Keras', up to its precision."""
    batches, expected = dev
    found = np.concatenate([np.asarray(run(batch)) for batch, *_ in batches])
    differences = np.abs(found - expected).max(-1)
    assert np.quantile(differences, 0.99) < TOLERANCE[name] * expected.std()
    same = np.mean(found.argmax(-1) == expected.argmax(-1))
    assert same > (0.9 if name == "int8" else 0.995)


@pytest.mark.large
@pytest.mark.parametrize("length", ["fixed", "dynamic"])
def test_litert_files(length, preset, glue, dev, tmp_path):
    command = ["export", str(preset), "--task", "sst2", "--data-dir", str(glue)]
    command += ["--output", str(tmp_path), "--precision", *TOLERANCE]
    command += ["--dynamic-length"] if length == "dynamic" else []
    assert main(command) == 0
    for precision in TOLERANCE:
        (file,) = tmp_path.glob(f"*{precision}*.tflite")
        check(precision, export.open_file(file), dev)


@pytest.mark.large
def test_saved_model(preset, glue, dev, tmp_path):
    command = ["export", str(preset), "--task", "sst2", "--data-dir", str(glue)]
    command += ["--output", str(tmp_path), "--format", "saved_model"]
    assert main(command) == 0
    (folder,) = {path.parent for path in tmp_path.rglob("saved_model.pb")}
    check("fp32", export.open_file(folder), dev)
