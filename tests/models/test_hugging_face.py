"""Hugging Face checkpoint directories of the families keras-hub converts."""

import json

import keras
import numpy as np
import pytest
import safetensors.numpy
from encoders import tokenizer

from kdkit.errors import UsageError
from kdkit.families import FAMILIES
from kdkit.models import Head
from kdkit.models import load_classifier

WIDTH, INNER, POSITIONS, LAYERS = 8, 16, 12, 2
BERT_CONFIG = {
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": POSITIONS,
    "type_vocab_size": 2,
}
BERT_DENSE = {
    "attention.self.query": (WIDTH, WIDTH),
    "attention.self.key": (WIDTH, WIDTH),
    "attention.self.value": (WIDTH, WIDTH),
    "attention.output.dense": (WIDTH, WIDTH),
    "intermediate.dense": (INNER, WIDTH),
    "output.dense": (WIDTH, INNER),
}
BERT_NORMS = ("attention.output.LayerNorm", "output.LayerNorm")
# Family: prefix, configuration, dense layers and norms of a block, path of a
# block, whether there is a pooler and of what name.
LAYOUTS = {
    "bert": (
        "",
        BERT_CONFIG,
        BERT_DENSE,
        BERT_NORMS,
        "encoder.layer.{}",
        "pooler.dense",
    ),
    "roberta": (
        "roberta.",
        {**BERT_CONFIG, "max_position_embeddings": POSITIONS + 2},
        BERT_DENSE,
        BERT_NORMS,
        "encoder.layer.{}",
        None,
    ),
    "distil_bert": (
        "distilbert.",
        {
            "n_layers": LAYERS,
            "n_heads": 2,
            "dim": WIDTH,
            "hidden_dim": INNER,
            "dropout": 0.1,
            "max_position_embeddings": POSITIONS,
        },
        {
            "attention.q_lin": (WIDTH, WIDTH),
            "attention.k_lin": (WIDTH, WIDTH),
            "attention.v_lin": (WIDTH, WIDTH),
            "attention.out_lin": (WIDTH, WIDTH),
            "ffn.lin1": (INNER, WIDTH),
            "ffn.lin2": (WIDTH, INNER),
        },
        ("sa_layer_norm", "output_layer_norm"),
        "transformer.layer.{}",
        None,
    ),
    "albert": (
        "albert.",
        {
            **BERT_CONFIG,
            "embedding_size": WIDTH,
            "num_hidden_groups": 1,
            "inner_group_num": 1,
        },
        {
            "attention.query": (WIDTH, WIDTH),
            "attention.key": (WIDTH, WIDTH),
            "attention.value": (WIDTH, WIDTH),
            "attention.dense": (WIDTH, WIDTH),
            "ffn": (INNER, WIDTH),
            "ffn_output": (WIDTH, INNER),
        },
        ("attention.LayerNorm", "full_layer_layer_norm"),
        "encoder.albert_layer_groups.0.albert_layers.0",
        "pooler",
    ),
}
LAYOUTS["xlm_roberta"] = LAYOUTS["roberta"]


def write_checkpoint(path, family):
    """A checkpoint as Hugging Face lays it out; returns its token table."""
    prefix, config, dense, norms, block, pooler = LAYOUTS[family]
    tokens = tokenizer(family)
    size = tokens.vocabulary_size()
    rows = config["max_position_embeddings"]
    shapes = {
        "embeddings.word_embeddings.weight": (size, WIDTH),
        "embeddings.position_embeddings.weight": (rows, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        "embeddings.LayerNorm.weight": (WIDTH,),
        "embeddings.LayerNorm.bias": (WIDTH,),
    }
    square = {pooler: (WIDTH, WIDTH)} if pooler else {}
    if family == "albert":
        square["encoder.embedding_hidden_mapping_in"] = (WIDTH, WIDTH)
    for layer in range(LAYERS):
        name = block.format(layer)
        square |= {f"{name}.{part}": shape for part, shape in dense.items()}
        square |= {f"{name}.{part}": (WIDTH,) for part in norms}
    for name, shape in square.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    generator = np.random.default_rng(0)
    tensors = {
        prefix + name: generator.normal(size=shape).astype("float32")
        for name, shape in shapes.items()
    }
    safetensors.numpy.save_file(
        tensors, path / "model.safetensors", metadata={"format": "pt"}
    )
    config = {
        **config,
        "model_type": FAMILIES[family].hugging_face_type,
        "architectures": ["Model"],
        "vocab_size": size,
    }
    (path / "config.json").write_text(json.dumps(config))
    write_tokenizer(path, family, tokens)
    return tensors[prefix + "embeddings.word_embeddings.weight"]


def write_tokenizer(path, family, tokens):
    if family in ("bert", "distil_bert"):
        (path / "vocab.txt").write_text("\n".join(tokens.get_vocabulary()))
        (path / "tokenizer_config.json").write_text(
            json.dumps({"do_lower_case": True})
        )
    elif family == "roberta":
        tokens.save_assets(str(path))
        (path / "vocabulary.json").rename(path / "vocab.json")
    else:
        names = {"albert": "spiece.model"}
        name = names.get(family, "sentencepiece.bpe.model")
        (path / name).write_bytes(tokens.proto)


@pytest.mark.parametrize("family", LAYOUTS)
def test_encoder_of_a_checkpoint_gets_a_new_head(family, tmp_path):
    table = write_checkpoint(tmp_path, family)
    loaded = load_classifier(tmp_path, num_classes=3)
    assert not loaded.has_trained_head
    assert type(loaded.model) is FAMILIES[family].classifier
    assert loaded.model.output_shape == (None, 3)
    assert type(loaded.tokenizer) is FAMILIES[family].tokenizer
    expected = tokenizer(family)
    assert loaded.tokenizer.get_vocabulary() == expected.get_vocabulary()
    assert list(loaded.tokenizer(["good"])[0]) == list(expected(["good"])[0])
    np.testing.assert_array_equal(
        loaded.model.backbone.token_embedding.get_weights()[0], table
    )


def add_head(path, family, num_classes=3, **config):
    """Makes it a checkpoint with a classifier; returns the head's tensors."""
    file = path / "model.safetensors"
    tensors = safetensors.numpy.load_file(file)
    if family == "bert":  # so named where there is a head
        tensors = {f"bert.{name}": value for name, value in tensors.items()}
    names = list(FAMILIES[family].hugging_face_head.values())
    generator = np.random.default_rng(1)
    head = {}
    for name in names:
        rows = num_classes if name == names[-1] else WIDTH
        head[f"{name}.weight"] = generator.normal(size=(rows, WIDTH))
        head[f"{name}.bias"] = generator.normal(size=rows)
    head = {name: value.astype("float32") for name, value in head.items()}
    safetensors.numpy.save_file(tensors | head, file, metadata={"format": "pt"})
    change_config(
        path, architectures=["ModelForSequenceClassification"], **config
    )
    return head


def change_config(path, **changes):
    file = path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize("family", LAYOUTS)
def test_head_of_a_checkpoint_is_the_classifiers(family, tmp_path):
    write_checkpoint(tmp_path, family)
    head = add_head(tmp_path, family)
    loaded = load_classifier(tmp_path, num_classes=3)
    assert loaded.has_trained_head
    for layer, name in FAMILIES[family].hugging_face_head.items():
        kernel, bias = loaded.model.get_layer(layer).get_weights()
        np.testing.assert_array_equal(kernel, head[f"{name}.weight"].T)
        np.testing.assert_array_equal(bias, head[f"{name}.bias"])
    # No dense layer of the head is left as it was made.
    dense = [
        layer.name
        for layer in loaded.model.layers
        if isinstance(layer, keras.layers.Dense)
    ]
    assert set(dense) == set(FAMILIES[family].hugging_face_head)


def test_classes_of_the_same_names_are_put_into_the_tasks_order(tmp_path):
    write_checkpoint(tmp_path, "bert")
    names = {"0": "CONTRADICTION", "1": "Entailment", "2": "neutral"}
    head = add_head(tmp_path, "bert", id2label=names)
    task_head = Head("sequence", 3, ("entailment", "neutral", "contradiction"))
    loaded = load_classifier(tmp_path, task_head)
    kernel, bias = loaded.model.get_layer("logits").get_weights()
    order = [1, 2, 0]
    np.testing.assert_array_equal(kernel, head["classifier.weight"][order].T)
    np.testing.assert_array_equal(bias, head["classifier.bias"][order])


def test_classes_of_other_names_stay_as_they_are(tmp_path):
    write_checkpoint(tmp_path, "bert")
    names = {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}
    head = add_head(tmp_path, "bert", id2label=names)
    loaded = load_classifier(tmp_path, Head("sequence", 3, ("a", "b", "c")))
    bias = loaded.model.get_layer("logits").get_weights()[1]
    np.testing.assert_array_equal(bias, head["classifier.bias"])


def test_a_head_of_other_classes_makes_room_for_a_new_one(tmp_path):
    write_checkpoint(tmp_path, "bert")
    add_head(tmp_path, "bert", num_classes=2)
    loaded = load_classifier(tmp_path, num_classes=3)
    assert not loaded.has_trained_head
    assert loaded.model.output_shape == (None, 3)


def test_a_head_in_a_file_of_its_own_is_found(tmp_path):
    write_checkpoint(tmp_path, "bert")
    head = add_head(tmp_path, "bert")
    tensors = safetensors.numpy.load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    places = {}
    for number in range(2):
        file = f"model-{number}.safetensors"
        part = {
            name: value
            for name, value in tensors.items()
            if (name in head) == number
        }
        places |= dict.fromkeys(part, file)
        safetensors.numpy.save_file(part, tmp_path / file)
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": places})
    )
    loaded = load_classifier(tmp_path, num_classes=3)
    bias = loaded.model.get_layer("logits").get_weights()[1]
    np.testing.assert_array_equal(bias, head["classifier.bias"])


def test_a_classifier_whose_head_is_gone_is_told(tmp_path):
    write_checkpoint(tmp_path, "bert")
    change_config(tmp_path, architectures=["BertForSequenceClassification"])
    with pytest.raises(UsageError, match="lack classifier.weight, classifier"):
        load_classifier(tmp_path, num_classes=3)


def test_a_head_of_another_width_is_told(tmp_path):
    write_checkpoint(tmp_path, "distil_bert")
    add_head(tmp_path, "distil_bert")
    file = tmp_path / "model.safetensors"
    tensors = safetensors.numpy.load_file(file)
    tensors["pre_classifier.weight"] = tensors["pre_classifier.weight"][:, 1:]
    tensors = {name: value.copy() for name, value in tensors.items()}
    safetensors.numpy.save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(UsageError, match=r"shape \(8, 8\).*\(8, 7\)"):
        load_classifier(tmp_path, num_classes=3)


def test_every_family_that_can_be_converted_is_tested():
    assert set(LAYOUTS) == {
        name for name, family in FAMILIES.items() if family.hugging_face_type
    }


@pytest.mark.parametrize("kind", ["electra", "deberta-v2"])
def test_checkpoints_that_keras_hub_cannot_convert_are_refused(kind, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    with pytest.raises(UsageError) as raised:
        load_classifier(tmp_path, num_classes=3)
    for text in (f"of type {kind!r}", "'albert', 'bert', 'distilbert'"):
        assert text in str(raised.value)


def test_a_broken_checkpoint_says_what_is_missing(tmp_path):
    write_checkpoint(tmp_path, "distil_bert")
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(UsageError, match="could not load .*vocab.txt"):
        load_classifier(tmp_path, num_classes=3)
