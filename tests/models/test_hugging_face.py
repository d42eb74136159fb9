"""Hugging Face checkpoint directories of the families keras-hub converts."""

import json

import keras
import numpy as np
import pytest
import safetensors.numpy
from kit.encoders import encoder, tokenizer
from kit.hugging_face import LAYOUTS, add_head, change_config, write_checkpoint

from kdkit.models import Head, load_classifier
from kdkit.models.families import FAMILIES


@pytest.mark.parametrize("family", LAYOUTS)
def test_encoder_of_a_checkpoint_gets_a_new_head(family, tmp_path):
    table = write_checkpoint(tmp_path, family)
    loaded = load_classifier(tmp_path, num_classes=3)
    assert not loaded.has_trained_head
    assert type(loaded.model) is FAMILIES[family].classifier
    assert loaded.model.output_shape == (None, 3)
    assert isinstance(loaded.tokenizer, FAMILIES[family].tokenizer)
    expected = tokenizer(family)
    assert loaded.tokenizer.get_vocabulary() == expected.get_vocabulary()
    assert list(loaded.tokenizer(["good"])[0]) == list(expected(["good"])[0])
    np.testing.assert_array_equal(
        loaded.model.backbone.token_embedding.get_weights()[0], table
    )


@pytest.mark.parametrize("family", LAYOUTS)
def test_head_of_a_checkpoint_is_the_classifiers(family, tmp_path):
    write_checkpoint(tmp_path, family)
    head = add_head(tmp_path, family)
    loaded = load_classifier(tmp_path, num_classes=3)
    assert loaded.has_trained_head
    for layer, name in FAMILIES[family].checkpoints.classifier.items():
        kernel, bias = loaded.model.get_layer(layer).get_weights()
        np.testing.assert_array_equal(kernel, head[f"{name}.weight"].T)
        np.testing.assert_array_equal(bias, head[f"{name}.bias"])
    # No dense layer of the head is left as it was made.
    dense = [
        layer.name
        for layer in loaded.model.layers
        if isinstance(layer, keras.layers.Dense)
    ]
    assert set(dense) == set(FAMILIES[family].checkpoints.classifier)


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
    assert loaded.num_other_classes == 2
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


def test_a_head_of_another_kind_is_not_a_classifiers(tmp_path):
    write_checkpoint(tmp_path, "bert")
    add_head(tmp_path, "bert")
    change_config(tmp_path, architectures=["BertForTokenClassification"])
    assert not load_classifier(tmp_path, num_classes=3).has_trained_head


def test_a_preset_of_an_encoder_gets_a_new_head(tmp_path):
    encoder("bert", num_classes=None).save_to_preset(str(tmp_path))
    tokenizer("bert").save_to_preset(str(tmp_path))
    assert not load_classifier(tmp_path, num_classes=3).has_trained_head


def test_a_new_head_is_reported_where_config_names_no_class(tmp_path):
    write_checkpoint(tmp_path, "bert")
    change_config(tmp_path, architectures=None)
    with pytest.warns(UserWarning, match="names no class .* gets a new head"):
        loaded = load_classifier(tmp_path, num_classes=3)
    assert not loaded.has_trained_head


def test_every_family_that_can_be_converted_is_tested():
    assert set(LAYOUTS) == {
        name for name, family in FAMILIES.items() if family.checkpoints
    }
