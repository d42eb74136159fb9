"""Hugging Face checkpoints of every family and option, against transformers."""

import itertools
import json

import keras
import keras_hub
import numpy as np
import pytest
import safetensors.numpy
from kit.foreign import batch, foreign_model, largest, outputs, save_foreign
from kit.helpers import large_except
from kit.hugging_face import change_config

from kdkit.errors import UsageError
from kdkit.models import load_classifier, load_encoder
from kdkit.models.backbones import load_backbone
from kdkit.models.families import FAMILIES
from kdkit.taps import tapped

TOLERANCE = 1e-5
# Two of the four options of ALBERT's depth need four blocks.
OPTIONS = [
    ("bert", {}),
    ("bert", {"hidden_act": "silu", "layer_norm_eps": 0.1}),
    ("bert", {"type_vocab_size": 1}),
    ("bert", {"pad_token_id": 3}),
    ("bert", {"num_attention_heads": 4}),
    ("distil_bert", {}),
    ("distil_bert", {"activation": "relu"}),
    ("distil_bert", {"sinusoidal_pos_embds": True}),
    ("roberta", {}),
    ("roberta", {"layer_norm_eps": 1e-5, "type_vocab_size": 1}),
    ("roberta", {"pad_token_id": 3}),
    ("xlm_roberta", {}),
    ("albert", {}),
    ("albert", {"hidden_act": "relu", "layer_norm_eps": 0.1}),
    ("albert", {"inner_group_num": 2}),
    ("albert", {"num_hidden_layers": 4, "num_hidden_groups": 2}),
    ("gpt2", {}),
    ("gpt2", {"activation_function": "gelu", "n_inner": 40}),
]


def name_of(value):
    if isinstance(value, str):
        return value
    return "-".join(f"{name}={one}" for name, one in value.items()) or "default"


@pytest.mark.parametrize(("family", "options"), OPTIONS, ids=name_of)
def test_states_and_attention_are_the_references(family, options, tmp_path):
    model = foreign_model(family, **options)
    model.save_pretrained(tmp_path)
    backbone = load_backbone(tmp_path)
    inputs, received, real = batch(model, family)
    inputs = {name: inputs[name] for name in backbone.input}
    expected = outputs(model, received)
    taps = ["hidden_states", "attention_probs"]
    read = tapped(backbone, taps)(inputs)
    states = read["hidden_states"]
    if family == "gpt2":  # whose last state is behind a layer normalisation
        states[-1] = backbone(inputs)
    for ours, theirs in zip(states, expected.hidden_states, strict=True):
        assert largest(ours, theirs, real) < TOLERANCE
    for ours, theirs in zip(
        read["attention_probs"], expected.attentions, strict=True
    ):
        queries = np.swapaxes(ours, 1, 2), theirs.transpose(1, 2)
        assert largest(*queries, real) < TOLERANCE
    if isinstance(backbone.output, dict):
        pooled = backbone(inputs)["pooled_output"]
        assert largest(pooled, expected.pooler_output) < TOLERANCE


CLASSIFIERS = [
    ("bert", {}),
    ("bert", {"hidden_act": "relu"}),
    ("distil_bert", {}),
    ("roberta", {}),
    ("xlm_roberta", {}),
    ("albert", {}),
    ("albert", {"hidden_act": "gelu"}),
]


@pytest.mark.parametrize(("family", "options"), CLASSIFIERS, ids=name_of)
def test_logits_are_the_references(family, options, tmp_path):
    model = foreign_model(
        family, "ForSequenceClassification", num_labels=3, **options
    )
    save_foreign(model, family, tmp_path)
    loaded = load_classifier(tmp_path, num_classes=3)
    assert loaded.has_trained_head
    inputs, received, _ = batch(model, family)
    logits = loaded.model({name: inputs[name] for name in loaded.model.input})
    expected = outputs(model, received).logits
    assert largest(logits, expected) < TOLERANCE


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_head_without_architectures_is_read_as_the_reference_does(
    family, tmp_path
):
    model = foreign_model(family, "ForSequenceClassification", num_labels=3)
    save_foreign(model, family, tmp_path)
    file = tmp_path / "config.json"
    config = json.loads(file.read_text())
    del config["architectures"]
    file.write_text(json.dumps(config))
    again = type(model).from_pretrained(tmp_path).eval()
    loaded = load_classifier(tmp_path, num_classes=3)
    inputs, received, _ = batch(again, family)
    logits = loaded.model({name: inputs[name] for name in loaded.model.input})
    assert largest(logits, outputs(again, received).logits) < TOLERANCE


REFUSED = [
    ("bert", "hidden_act", "gelu_10"),
    ("bert", "hidden_act", "quick_gelu"),
    ("bert", "hidden_act", None),
    ("bert", "position_embedding_type", "relative_key"),
    ("roberta", "position_embedding_type", "relative_key_query"),
    ("bert", "is_decoder", True),
    ("xlm_roberta", "is_decoder", True),
    ("bert", "add_cross_attention", True),
    ("bert", "is_encoder_decoder", True),
    ("bert", "quantization_config", {"quant_method": "gptq"}),
    ("bert", "pruned_heads", {"0": [1]}),
    ("distil_bert", "activation", "gelu_10"),
    ("gpt2", "scale_attn_weights", False),
    ("gpt2", "scale_attn_by_inverse_layer_idx", True),
    ("gpt2", "add_cross_attention", True),
    ("gpt2", "activation_function", "gelu_10"),
]


@pytest.mark.parametrize(("family", "field", "value"), REFUSED)
def test_what_keras_hub_lacks_is_refused_by_name(
    family, field, value, tmp_path
):
    save_foreign(foreign_model(family), family, tmp_path)
    change_config(tmp_path, **{field: value})
    with pytest.raises(UsageError, match=field):
        load_encoder(tmp_path)


def test_unknown_and_absent_fields_are_passed_over(tmp_path):
    model = foreign_model("bert")
    save_foreign(model, "bert", tmp_path)
    file = tmp_path / "config.json"
    config = json.loads(file.read_text())
    for name in ("hidden_act", "layer_norm_eps", "type_vocab_size"):
        del config[name]  # transformers' defaults
    config |= {"a_new_field": {"a": [1]}, "position_embedding_type": "absolute"}
    file.write_text(json.dumps(config))
    inputs, received, real = batch(model, "bert")
    ours = load_backbone(tmp_path)(inputs)["sequence_output"]
    theirs = outputs(model, received).last_hidden_state
    assert largest(ours, theirs, real) < TOLERANCE


def retensor(path, rename=lambda name: name, change=None):
    """Writes the tensors once more, under other names."""
    file = path / "model.safetensors"
    tensors = safetensors.numpy.load_file(file)
    tensors = {rename(name): value.copy() for name, value in tensors.items()}
    if change is not None:
        change(tensors)
    safetensors.numpy.save_file(tensors, file, metadata={"format": "pt"})


def last_state_differs_by(path, family, model):
    inputs, received, real = batch(model, family)
    backbone = load_backbone(path, needs_pooler=False)
    ours = backbone({name: inputs[name] for name in backbone.input})
    if isinstance(ours, dict):
        ours = ours["sequence_output"]
    expected = outputs(model, received).hidden_states[-1]
    return largest(ours, expected, real)


def old_name(name):
    """As it was before transformers renamed layer normalisation's weights."""
    if "norm" not in name.lower():
        return name
    return name.replace(".weight", ".gamma").replace(".bias", ".beta")


CONVERTED = [*FAMILIES][:5]  # whose checkpoints are read
HEADS = ["Model", "ForMaskedLM"]


@pytest.mark.parametrize(
    ("family", "head"),
    large_except(
        [*itertools.product(CONVERTED, HEADS)],
        *zip(CONVERTED, itertools.cycle(HEADS)),
    ),
)
def test_names_of_tensors_may_be_old_and_prefixed(family, head, tmp_path):
    model = foreign_model(family, head)
    model.save_pretrained(tmp_path)
    retensor(tmp_path, old_name)
    assert last_state_differs_by(tmp_path, family, model) < TOLERANCE


@pytest.mark.parametrize("prefix", ["module.", "0.auto_model."])
def test_any_prefix_of_all_tensors_is_read(prefix, tmp_path):
    model = foreign_model("distil_bert")
    model.save_pretrained(tmp_path)
    retensor(tmp_path, lambda name: prefix + name)
    assert last_state_differs_by(tmp_path, "distil_bert", model) < TOLERANCE


def test_shards_are_read(tmp_path):
    model = foreign_model("albert")
    model.save_pretrained(tmp_path, max_shard_size="2KB")
    assert len([*tmp_path.glob("*.safetensors")]) > 1
    assert last_state_differs_by(tmp_path, "albert", model) < TOLERANCE


def test_one_file_counts_more_than_old_shards_as_in_the_reference(tmp_path):
    model = foreign_model("albert")
    model.save_pretrained(tmp_path, max_shard_size="2KB")
    model.embeddings.word_embeddings.weight.data.add_(1.0)
    tensors = {name: one.numpy() for name, one in model.state_dict().items()}
    safetensors.numpy.save_file(tensors, tmp_path / "model.safetensors")
    assert last_state_differs_by(tmp_path, "albert", model) < TOLERANCE


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_read_as_float32(dtype, tmp_path):
    model = foreign_model("bert").to(
        getattr(pytest.importorskip("torch"), dtype)
    )
    model.save_pretrained(tmp_path)
    assert last_state_differs_by(tmp_path, "bert", model.float()) < TOLERANCE


@pytest.mark.parametrize("family", ["bert", "albert"])
def test_a_missing_pooler_is_new_and_said_so(family, tmp_path):
    model = foreign_model(family, "ForMaskedLM")
    save_foreign(model, family, tmp_path)
    with pytest.warns(UserWarning, match="has no pooler"):
        backbone, _ = load_encoder(tmp_path)
    kernel, bias = backbone.pooled_dense.get_weights()
    assert 0 < np.abs(kernel).max() < 0.1
    assert not bias.any()


def test_a_tensor_that_config_does_not_describe_is_refused(tmp_path):
    foreign_model("bert").save_pretrained(tmp_path)
    change_config(tmp_path, intermediate_size=23)
    with pytest.raises(UsageError, match="another shape"):
        load_backbone(tmp_path)


def test_quantised_weights_are_refused(tmp_path):
    foreign_model("bert").save_pretrained(tmp_path)
    name = "encoder.layer.1.output.dense.weight"

    def change(tensors):
        tensors[name] = tensors[name].astype("int8")

    retensor(tmp_path, change=change)
    with pytest.raises(UsageError, match=f"{name} is of type I8"):
        load_backbone(tmp_path)


def test_two_models_in_one_checkpoint_are_refused(tmp_path):
    foreign_model("bert").save_pretrained(tmp_path)

    def change(tensors):
        for name, value in list(tensors.items()):
            tensors[f"second.{name}"] = value.copy()

    retensor(tmp_path, change=change)
    with pytest.raises(UsageError, match="2 models"):
        load_backbone(tmp_path)


def test_a_block_with_more_weights_is_refused(tmp_path):
    foreign_model("bert").save_pretrained(tmp_path)
    name = "encoder.layer.0.attention.self.distance_embedding.weight"

    def change(tensors):
        tensors[name] = np.ones((27, 8), "float32")

    retensor(tmp_path, change=change)
    with pytest.raises(UsageError, match=name):
        load_backbone(tmp_path)


def test_blocks_above_config_s_depth_are_left_out_as_the_reference_does(
    tmp_path,
):
    model = foreign_model("bert", num_hidden_layers=3)
    model.save_pretrained(tmp_path)
    change_config(tmp_path, num_hidden_layers=1)
    inputs, received, real = batch(model, "bert")
    ours = load_backbone(tmp_path)(inputs)["sequence_output"]
    theirs = outputs(model, received).hidden_states[1]
    assert largest(ours, theirs, real) < TOLERANCE


def test_a_plain_roberta_is_keras_hubs_own_class(tmp_path):
    """Nothing to swap: RoBERTa's GELU is exact in keras-hub."""
    foreign_model("roberta", layer_norm_eps=1e-5).save_pretrained(tmp_path)
    backbone = load_backbone(tmp_path)
    assert type(backbone) is keras_hub.models.RobertaBackbone


def test_tokens_without_embeddings_are_refused(tmp_path):
    model = foreign_model("bert")
    model.resize_token_embeddings(model.config.vocab_size - 1)
    save_foreign(model, "bert", tmp_path)
    with pytest.raises(UsageError, match="embeddings"):
        load_encoder(tmp_path)


def test_sizes_alone_are_read_without_weights(tmp_path):
    save_foreign(foreign_model("bert"), "bert", tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"")
    backbone, _ = load_encoder(tmp_path, load_weights=False)
    assert backbone.hidden_dim == 16
    assert isinstance(backbone, keras.Model)
