"""Teachers from presets, Hugging Face directories, files and runs."""

import json
import subprocess
import sys

import keras_hub
import numpy as np
import pytest
import safetensors.numpy

from kdkit.errors import UsageError
from kdkit.models import load_classifier
from kdkit.models import load_tokenizer
from kdkit.models import save_preset
from kdkit.models import student

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]
BATCH = {
    "token_ids": np.array([[2, 5, 6, 3]], "int32"),
    "segment_ids": np.zeros((1, 4), "int32"),
    "padding_mask": np.ones((1, 4), "int32"),
}


def make_classifier():
    return student(
        {
            "num_layers": 2,
            "hidden_dim": 8,
            "num_heads": 2,
            "intermediate_dim": 16,
            "vocabulary_size": len(VOCABULARY),
            "max_sequence_length": 12,
        },
        num_classes=2,
    )


@pytest.fixture(scope="module")
def classifier():
    return make_classifier()


@pytest.fixture(scope="module")
def preset(classifier, tmp_path_factory):
    path = tmp_path_factory.mktemp("preset") / "student"
    tokenizer = keras_hub.tokenizers.BertTokenizer(VOCABULARY, lowercase=True)
    save_preset(classifier, tokenizer, path, sequence_length=8)
    return path


def test_saved_preset_gives_the_same_logits_and_tokenizer(classifier, preset):
    loaded = load_classifier(preset, num_classes=2)
    assert loaded.has_trained_head
    assert list(loaded.tokenizer(["good bad"])[0]) == [5, 6]
    np.testing.assert_array_equal(
        loaded.model(BATCH).numpy(), classifier(BATCH).numpy()
    )


def test_saved_preset_loads_where_kdkit_is_not_installed(
    classifier, preset, tmp_path
):
    script = (
        "import sys, json; sys.modules['kdkit'] = None\n"
        "import keras_hub\n"
        f"m = keras_hub.models.TextClassifier.from_preset({str(preset)!r})\n"
        "print(json.dumps(m.predict(['good bad'], verbose=0).tolist()))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    logits = json.loads(result.stdout.splitlines()[-1])
    np.testing.assert_allclose(logits, classifier(BATCH).numpy(), atol=1e-6)


def test_saved_preset_holds_no_optimizer(preset, tmp_path):
    trained = make_classifier()
    trained.compile(optimizer="adam", loss="mse")
    trained.optimizer.build(trained.trainable_variables)
    save_preset(trained, load_tokenizer(preset), tmp_path / "second", 8)
    sizes = {
        path.parent.name: path.stat().st_size
        for path in (
            preset / "task.weights.h5",
            tmp_path / "second" / "task.weights.h5",
        )
    }
    assert sizes["second"] <= sizes["student"]


def test_keras_file_loads(classifier, tmp_path):
    path = tmp_path / "model.keras"
    classifier.save(path)
    loaded = load_classifier(path, num_classes=2)
    assert loaded.tokenizer is None
    np.testing.assert_array_equal(
        loaded.model(BATCH).numpy(), classifier(BATCH).numpy()
    )


def test_other_number_of_classes_is_refused(preset):
    with pytest.raises(UsageError, match="has 2 classes and the task has 3"):
        load_classifier(preset, num_classes=3)


def test_missing_places_say_what_is_expected(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        load_classifier(tmp_path / "no.keras", 2)
    with pytest.raises(UsageError, match="No model found in"):
        load_classifier(tmp_path, 2)
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(UsageError, match="has no model yet"):
        load_classifier(tmp_path, 2)


def test_encoder_of_a_hugging_face_directory_gets_a_new_head(tmp_path):
    write_hugging_face_bert(tmp_path, hidden_dim=8, num_layers=2)
    loaded = load_classifier(tmp_path, num_classes=3)
    assert not loaded.has_trained_head
    assert loaded.model.output_shape == (None, 3)
    assert list(loaded.tokenizer(["bad"])[0]) == [6]
    table = safetensors.numpy.load_file(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(
        loaded.model.backbone.token_embedding.get_weights()[0],
        table["embeddings.word_embeddings.weight"],
    )


def write_hugging_face_bert(path, hidden_dim, num_layers):
    """A checkpoint directory as Hugging Face lays it out, random weights."""
    generator = np.random.default_rng(0)
    inner, positions = 2 * hidden_dim, 12
    config = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "vocab_size": len(VOCABULARY),
        "num_hidden_layers": num_layers,
        "num_attention_heads": 2,
        "hidden_size": hidden_dim,
        "intermediate_size": inner,
        "hidden_dropout_prob": 0.1,
        "max_position_embeddings": positions,
        "type_vocab_size": 2,
    }
    shapes = {
        "embeddings.word_embeddings.weight": (len(VOCABULARY), hidden_dim),
        "embeddings.position_embeddings.weight": (positions, hidden_dim),
        "embeddings.token_type_embeddings.weight": (2, hidden_dim),
        "embeddings.LayerNorm.weight": (hidden_dim,),
        "embeddings.LayerNorm.bias": (hidden_dim,),
        "pooler.dense.weight": (hidden_dim, hidden_dim),
        "pooler.dense.bias": (hidden_dim,),
    }
    dense = {
        "attention.self.query": (hidden_dim, hidden_dim),
        "attention.self.key": (hidden_dim, hidden_dim),
        "attention.self.value": (hidden_dim, hidden_dim),
        "attention.output.dense": (hidden_dim, hidden_dim),
        "intermediate.dense": (inner, hidden_dim),
        "output.dense": (hidden_dim, inner),
    }
    for layer in range(num_layers):
        prefix = f"encoder.layer.{layer}"
        for name, shape in dense.items():
            shapes[f"{prefix}.{name}.weight"] = shape
            shapes[f"{prefix}.{name}.bias"] = shape[:1]
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"{prefix}.{name}.weight"] = (hidden_dim,)
            shapes[f"{prefix}.{name}.bias"] = (hidden_dim,)
    tensors = {
        name: generator.normal(size=shape).astype("float32")
        for name, shape in shapes.items()
    }
    safetensors.numpy.save_file(
        tensors, path / "model.safetensors", metadata={"format": "pt"}
    )
    (path / "config.json").write_text(json.dumps(config))
    (path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    (path / "tokenizer_config.json").write_text(
        json.dumps({"do_lower_case": True})
    )
