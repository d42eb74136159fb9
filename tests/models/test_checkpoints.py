"""Hugging Face checkpoints of every family and option, against transformers."""

import itertools

import keras_hub
import numpy as np
import pytest
import safetensors.numpy
from kit.encoders import backbone_class, classifier_class, tokenizer
from kit.foreign import (
    CHECKPOINTS,
    batch,
    foreign_model,
    largest,
    outputs,
    save_foreign,
)
from kit.helpers import large_except
from kit.hugging_face import (
    ABSENT,
    add_head,
    change_config,
    change_tensors,
    write_checkpoint,
)
from kit.references import reference

from kdkit import models
from kdkit.models import Head, load_classifier, load_encoder
from kdkit.taps import tapped

TOLERANCE = 1e-5
MASKED = np.array([[1, 4, 8], [0, 2, 5]], "int32")
# Two of the four options of ALBERT's depth need four blocks.
ENCODERS = [
    ("bert", {}),
    ("bert", {"hidden_act": "silu", "layer_norm_eps": 0.1}),
    ("bert", {"hidden_act": "gelu_new"}),
    ("bert", {"type_vocab_size": 1}),
    ("bert", {"pad_token_id": 3}),
    ("bert", {"num_attention_heads": 4}),
    ("distil_bert", {}),
    ("distil_bert", {"activation": "relu"}),
    ("distil_bert", {"sinusoidal_pos_embds": True}),
    ("roberta", {}),
    ("roberta", {"layer_norm_eps": 1e-5, "type_vocab_size": 1}),
    ("xlm_roberta", {}),
    ("albert", {}),
    ("albert", {"hidden_act": "relu", "layer_norm_eps": 0.1}),
    ("albert", {"inner_group_num": 2}),
    ("albert", {"num_hidden_layers": 4, "num_hidden_groups": 2}),
    ("gpt2", {}),
    ("gpt2", {"activation_function": "gelu", "n_inner": 40}),
    ("qwen3", {}),
    ("qwen3", {"rms_norm_eps": 0.1, "hidden_act": "gelu"}),
]
CLASSIFIERS = [  # the last ones without the class's name in config.json
    *((family, {}, True) for family in CHECKPOINTS),
    ("bert", {"hidden_act": "relu"}, True),
    ("albert", {"hidden_act": "gelu"}, True),
    ("bert", {}, False),
    ("roberta", {}, False),
]
LANGUAGE_MODELS = [
    ("bert", "ForMaskedLM", {}),
    ("bert", "ForMaskedLM", {"hidden_act": "relu", "layer_norm_eps": 0.01}),
    ("bert", "ForPreTraining", {}),
    *((family, "ForMaskedLM", {}) for family in CHECKPOINTS[1:]),
    ("roberta", "ForMaskedLM", {"layer_norm_eps": 1e-5}),
    ("gpt2", "LMHeadModel", {}),
    ("qwen3", "ForCausalLM", {}),
    ("qwen3", "ForCausalLM", {"tie_word_embeddings": False}),
]
DECODERS = ("gpt2", "qwen3")


def name_of(value):
    if isinstance(value, str | bool):
        return str(value)
    return "-".join(f"{name}={one}" for name, one in value.items()) or "default"


def inputs_of(model, inputs):
    inputs = {**inputs, "mask_positions": MASKED}
    return {name: inputs[name] for name in model.input}


@pytest.mark.parametrize(("family", "options"), ENCODERS, ids=name_of)
def test_states_and_attention_are_the_references(family, options, tmp_path):
    model = foreign_model(family, **options)
    save_foreign(model, family, tmp_path)
    backbone, _ = load_encoder(tmp_path)
    inputs, received, real = batch(model, family)
    inputs = inputs_of(backbone, inputs)
    expected = outputs(model, received)
    read = tapped(backbone, ["hidden_states", "attention_probs"])(inputs)
    states = read["hidden_states"]
    if family in DECODERS:  # whose last state is behind a layer normalisation
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


@pytest.mark.parametrize(
    ("family", "options", "says_class"), CLASSIFIERS, ids=name_of
)
def test_logits_are_the_references(family, options, says_class, tmp_path):
    model = foreign_model(
        family, "ForSequenceClassification", num_labels=3, **options
    )
    save_foreign(model, family, tmp_path)
    if not says_class:
        change_config(tmp_path, architectures=ABSENT)
    if family == "albert":  # with the head in a file of its own
        (tmp_path / "model.safetensors").unlink()
        model.save_pretrained(tmp_path, max_shard_size="2KB")
    loaded = load_classifier(tmp_path, num_classes=3)
    assert loaded.has_trained_head
    assert type(loaded.model).__name__ == classifier_class(family).__name__
    inputs, received, _ = batch(model, family)
    logits = loaded.model(inputs_of(loaded.model, inputs))
    assert largest(logits, outputs(model, received).logits) < TOLERANCE


def masked_logits(model, received):
    """Those at `MASKED`; of a decoder all."""
    found = outputs(model, received)
    logits = found.logits if "logits" in found else found.prediction_logits
    if type(model).__name__.endswith(("LMHeadModel", "ForCausalLM")):
        return logits
    return logits[np.arange(len(MASKED))[:, None], MASKED]


@pytest.mark.parametrize(
    ("family", "head", "options"), LANGUAGE_MODELS, ids=name_of
)
def test_logits_of_tokens_are_the_references(family, head, options, tmp_path):
    """Also of the model that kdkit saves, with the names of old tensors."""
    model = foreign_model(family, head, **options)
    save_foreign(model, family, tmp_path)
    if not options:
        change_tensors(tmp_path, with_old_names)
    kind = "decoder" if family in DECODERS else "masked_lm"
    assert models.find(tmp_path).kind == kind
    loaded = models.load_language_model(tmp_path)  # which needs no pooler
    assert loaded.has_trained_head
    inputs, received, real = batch(model, family)
    real = real if family in DECODERS else ...
    expected = masked_logits(model, received)
    ours = loaded.model(inputs_of(loaded.model, inputs))
    assert largest(ours, expected, real) < TOLERANCE
    if family in ("bert", *DECODERS) and not options:
        path = tmp_path / "own"
        models.save_model(loaded, path)
        again = models.load_language_model(path).model
        assert largest(again(inputs_of(again, inputs)), expected, real) < 1e-5


def test_logits_of_a_deep_albert_are_the_references_in_float64(tmp_path):
    """In float32 transformers itself is off by more than the tolerance."""
    sizes = {"num_hidden_layers": 4, "num_hidden_groups": 2}
    model = foreign_model("albert", "ForMaskedLM", **sizes)
    save_foreign(model, "albert", tmp_path)
    inputs, received, _ = batch(model, "albert")
    loaded = models.load_masked_lm(tmp_path).model
    exact = masked_logits(model.double(), received)
    assert largest(loaded(inputs_of(loaded, inputs)), exact) < TOLERANCE


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
    ("qwen3", "attention_bias", True),
    ("qwen3", "use_sliding_window", True),
    ("qwen3", "rope_scaling", {"type": "yarn", "factor": 2.0}),
    ("qwen3", "rope_parameters.rope_type", "yarn"),
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A function that returns a family's encoder and its directory."""
    made = {}

    def save(family):
        if family not in made:
            path = tmp_path_factory.mktemp(family)
            made[family] = write_checkpoint(path, family), path
        return made[family]

    return save


@pytest.mark.parametrize(("family", "field", "value"), REFUSED)
def test_what_keras_hub_lacks_is_refused_by_name(family, field, value, saved):
    _, path = saved(family)
    before = (path / "config.json").read_text()
    outer, _, name = field.rpartition(".")
    change_config(path, **{outer or name: {name: value} if outer else value})
    try:
        with pytest.raises(ValueError, match=name):
            load_encoder(path)
    finally:
        (path / "config.json").write_text(before)


def state_differs_by(model, family, path, state=-1):
    """The last hidden state's difference from the reference's."""
    backbone, _ = load_encoder(path, needs_pooler=False)
    inputs, received, real = batch(model, family)
    ours = backbone(inputs_of(backbone, inputs))
    if isinstance(ours, dict):
        ours = ours["sequence_output"]
    return largest(ours, outputs(model, received).hidden_states[state], real)


DEFAULTS = ("hidden_act", "layer_norm_eps", "type_vocab_size")
FOLLOWED = {  # fields of config.json, and the state to compare
    "unknown or absent": (
        {
            **dict.fromkeys(DEFAULTS, ABSENT),
            "a_new_field": {"a": [1]},
            "position_embedding_type": "absolute",
        },
        -1,
    ),
    "fewer blocks": ({"num_hidden_layers": 1}, 1),
}


@pytest.mark.parametrize("case", FOLLOWED)
def test_changed_fields_are_followed_as_the_reference_does(case, tmp_path):
    changes, state = FOLLOWED[case]
    model = write_checkpoint(tmp_path, "bert")
    change_config(tmp_path, **changes)
    assert state_differs_by(model, "bert", tmp_path, state) < TOLERANCE


def with_old_names(tensors):
    """As they were before transformers renamed layer normalisation's."""
    return {
        name.replace(".weight", ".gamma").replace(".bias", ".beta")
        if "norm" in name.lower()
        else name: value
        for name, value in tensors.items()
    }


def prefixed(prefix):
    return lambda tensors: {
        prefix + name: value for name, value in tensors.items()
    }


HEADS = ["Model", "ForMaskedLM"]


@pytest.mark.parametrize(
    ("family", "head"),
    large_except(
        [*itertools.product(CHECKPOINTS, HEADS)],
        *zip(CHECKPOINTS, itertools.cycle(HEADS)),
    ),
)
def test_names_of_tensors_may_be_old_and_prefixed(family, head, tmp_path):
    model = foreign_model(family, head)
    save_foreign(model, family, tmp_path)
    change_tensors(tmp_path, with_old_names)
    if family == "distil_bert":  # of a wrapper or of sentence-transformers
        prefix = "0.auto_model." if head == "Model" else "module."
        change_tensors(tmp_path, prefixed(prefix))
    assert state_differs_by(model, family, tmp_path) < TOLERANCE


def test_one_file_counts_more_than_shards_as_in_the_reference(tmp_path):
    model = foreign_model("albert")
    save_foreign(model, "albert", tmp_path)
    (tmp_path / "model.safetensors").unlink()
    model.save_pretrained(tmp_path, max_shard_size="2KB")
    assert len([*tmp_path.glob("*.safetensors")]) > 1
    assert state_differs_by(model, "albert", tmp_path) < TOLERANCE
    model.embeddings.word_embeddings.weight.data.add_(1.0)
    tensors = {name: one.numpy() for name, one in model.state_dict().items()}
    safetensors.numpy.save_file(tensors, tmp_path / "model.safetensors")
    assert state_differs_by(model, "albert", tmp_path) < TOLERANCE


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_read_as_float32(dtype, tmp_path):
    model = foreign_model("bert").to(getattr(reference("torch"), dtype))
    save_foreign(model, "bert", tmp_path)
    assert state_differs_by(model.float(), "bert", tmp_path) < TOLERANCE


@pytest.mark.parametrize("family", ["bert", "albert"])
def test_a_missing_pooler_is_new_and_said_so(family, tmp_path):
    save_foreign(foreign_model(family, "ForMaskedLM"), family, tmp_path)
    with pytest.warns(UserWarning, match="pooler"):
        backbone, _ = load_encoder(tmp_path)
    kernel, bias = backbone.pooled_dense.get_weights()
    assert 0 < np.abs(kernel).max() < 0.1
    assert not bias.any()


BIASES = "encoder.layer.0.attention.self.distance_embedding.weight"
KERNEL = "encoder.layer.1.output.dense.weight"
DAMAGED = {
    "quantised weights": (
        lambda tensors: {**tensors, KERNEL: tensors[KERNEL].astype("int8")},
        f"{KERNEL} .*I8",
    ),
    "two models": (
        lambda tensors: {**tensors, **prefixed("second.")(tensors)},
        "2 models",
    ),
    "more weights": (
        lambda tensors: {**tensors, BIASES: np.ones((27, 8), "float32")},
        BIASES,
    ),
    "another shape": (
        lambda tensors: {**tensors, KERNEL: tensors[KERNEL][:, :23].copy()},
        "another shape",
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_tensors_that_would_be_another_model_are_refused(case, tmp_path):
    apply, named = DAMAGED[case]
    write_checkpoint(tmp_path, "bert")
    change_tensors(tmp_path, apply)
    with pytest.raises(ValueError, match=named):
        load_encoder(tmp_path)


def test_tokens_without_embeddings_are_refused(tmp_path):
    model = foreign_model("bert")
    model.resize_token_embeddings(model.config.vocab_size - 1)
    save_foreign(model, "bert", tmp_path)
    with pytest.raises(ValueError, match="embeddings"):
        load_encoder(tmp_path)


@pytest.mark.parametrize(
    ("family", "head"), [("bert", "ForMaskedLM"), ("gpt2", "LMHeadModel")]
)
def test_a_head_with_embeddings_of_its_own_is_refused(family, head, tmp_path):
    model = foreign_model(family, head, tie_word_embeddings=False)
    save_foreign(model, family, tmp_path)
    with pytest.raises(ValueError, match="token embeddings"):
        models.load_language_model(tmp_path)


def test_keras_hub_does_not_save_settings_that_it_lacks(tmp_path):
    model = foreign_model("bert", "ForMaskedLM", hidden_act="relu")
    save_foreign(model, "bert", tmp_path)
    loaded = models.load_masked_lm(tmp_path)
    for part in (loaded.model, loaded.model.backbone):
        with pytest.raises(ValueError, match="save_model"):
            part.save_to_preset(tmp_path / "preset")


def test_a_plain_roberta_is_keras_hubs_own_class(tmp_path):
    """Nothing to swap: RoBERTa's GELU is exact in keras-hub."""
    model = foreign_model("roberta", layer_norm_eps=1e-5)
    save_foreign(model, "roberta", tmp_path)
    backbone, _ = load_encoder(tmp_path)
    assert type(backbone) is keras_hub.models.RobertaBackbone


def test_sizes_alone_are_read_without_weights(tmp_path):
    write_checkpoint(tmp_path, "bert")
    (tmp_path / "model.safetensors").write_bytes(b"")
    backbone, _ = load_encoder(tmp_path, load_weights=False)
    assert backbone.hidden_dim == 16


@pytest.mark.parametrize("family", CHECKPOINTS)
def test_an_encoder_gets_a_new_head(family, saved):
    model, path = saved(family)
    loaded = load_classifier(path, num_classes=3)
    assert not loaded.has_trained_head
    assert isinstance(loaded.model.backbone, backbone_class(family))
    assert loaded.model.output_shape == (None, 3)
    expected = tokenizer(family)
    pieces = list(expected.get_vocabulary())
    assert loaded.tokenizer.get_vocabulary() == pieces
    table = models.token_embeddings(loaded.model)
    ours = model.get_input_embeddings().weight.detach().numpy()
    np.testing.assert_array_equal(table, ours)


ORDER = {"0": "neutral", "1": "Contradiction", "2": "ENTAILMENT"}
NAMES = ("entailment", "neutral", "contradiction")
UNNAMED = {str(number): f"LABEL_{number}" for number in range(3)}


@pytest.mark.parametrize(
    ("id2label", "order"), [(ORDER, [2, 0, 1]), (UNNAMED, [0, 1, 2])]
)
def test_classes_are_in_the_tasks_order(id2label, order, tmp_path):
    """Classes without names stay as they are."""
    write_checkpoint(tmp_path, "bert")
    head = add_head(tmp_path, "bert", id2label=id2label)
    loaded = load_classifier(tmp_path, Head("sequence", 3, NAMES))
    kernel, bias = loaded.model.get_layer("logits").get_weights()
    np.testing.assert_array_equal(kernel, head["classifier.weight"][order].T)
    np.testing.assert_array_equal(bias, head["classifier.bias"][order])


TAGGER = ["BertForTokenClassification"]
NEW_HEADS = {  # change to the files
    "other classes": lambda path: add_head(path, "bert", 2),
    "another kind": lambda path: add_head(path, "bert", architectures=TAGGER),
    "no class": lambda path: change_config(path, architectures=None),
}


@pytest.mark.parametrize("case", NEW_HEADS)
def test_a_head_that_is_not_the_tasks_makes_room_for_a_new_one(case, tmp_path):
    write_checkpoint(tmp_path, "bert")
    NEW_HEADS[case](tmp_path)
    loaded = load_classifier(tmp_path, num_classes=3)
    assert not loaded.has_trained_head
    assert loaded.model.output_shape == (None, 3)
