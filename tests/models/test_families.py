"""The contract of the families: taps, objectives, one traced step."""

import keras
import keras_hub
import numpy as np
import pytest
from kit.encoders import ENCODERS, MASKED_LMS, blocks_of, encoder
from kit.helpers import (
    LENGTH,
    VOCABULARY_SIZE,
    batch,
    decoder,
    inputs_of,
    large_except,
    softmax,
    spread_weights,
    to_numpy,
)

import kdkit
from kdkit import losses, models, taps

LAYERS, WIDTH, HEADS = 2, 16, 2
WITH_POOLER = ("bert", "albert", "electra")


def own_model(backbone):
    """A functional model of a user's own around a backbone."""
    inputs = {
        name: keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=name)
        for name, tensor in backbone.input.items()
    }
    states = backbone(inputs)
    if isinstance(states, dict):
        states = states["sequence_output"]
    return keras.Model(inputs, keras.layers.Dense(3)(states[:, 0]))


@pytest.fixture(scope="module", params=ENCODERS)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def model(family):
    return encoder(family)


@pytest.fixture(scope="module")
def outputs(model):
    """All taps of a classifier on one batch."""
    run = taps.tapped(model, taps.describe(model).taps)
    return to_numpy(run(inputs_of(model), training=False))


def test_describe_is_right(family, model):
    shape = taps.describe(model)
    assert shape == taps.ModelShape(
        num_classes=3,
        num_layers=LAYERS,
        hidden_dim=WIDTH,
        num_heads=HEADS,
        has_pooled_output=family in WITH_POOLER,
    )
    assert shape.family == family
    expected = set(taps.TAPS) - {taps.SENTENCE_EMBEDDING}
    if family not in WITH_POOLER:
        expected.remove("pooled_output")
    if family == "deberta_v3":
        expected -= {*taps.ATTENTION_TAPS, *taps.VECTOR_TAPS}
    assert set(shape.taps) == expected


def test_tapped_outputs_equal_the_models_own_exactly(model, outputs):
    x = inputs_of(model)
    np.testing.assert_array_equal(outputs["logits"], model(x, training=False))
    own = to_numpy(models.backbone_of(model)(x, training=False))
    if isinstance(own, dict):
        np.testing.assert_array_equal(
            outputs["pooled_output"], own["pooled_output"]
        )
        own = own["sequence_output"]
    np.testing.assert_array_equal(outputs["hidden_states"][-1], own)


@pytest.mark.parametrize("wrap", ["backbone", "own_model", "masked_lm"])
def test_other_models_of_the_family_are_tapped_as_exactly(
    family, model, outputs, wrap
):
    if wrap == "backbone":
        other = models.backbone_of(model)
    elif wrap == "own_model" or family not in MASKED_LMS:
        other = own_model(models.backbone_of(model))
    else:
        other = MASKED_LMS[family](models.backbone_of(model))
    x = inputs_of(other)
    found = to_numpy(taps.tapped(other, taps.describe(other).taps)(x))
    assert ("logits" in found) == (wrap != "backbone")
    for tap in found:
        expected = outputs[tap] if tap != "logits" else other(x)
        keras.tree.map_structure(
            np.testing.assert_array_equal, found[tap], to_numpy(expected)
        )


def test_taps_have_the_documented_names_and_shapes(model, outputs):
    states = (4, LENGTH, WIDTH)
    vectors = (4, LENGTH, HEADS, WIDTH // HEADS)
    matrices = (4, HEADS, LENGTH, LENGTH)
    shapes = {
        "logits": (4, 3),
        "pooled_output": (4, WIDTH),
        "embedding_output": states,
        "hidden_states": [states] * (LAYERS + 1),
        "cls_states": [(4, WIDTH)] * (LAYERS + 1),
        "attention_logits": [matrices] * LAYERS,
        "attention_probs": [matrices] * LAYERS,
        "queries": [vectors] * LAYERS,
        "keys": [vectors] * LAYERS,
        "values": [vectors] * LAYERS,
    }
    assert tuple(outputs) == taps.describe(model).taps
    for tap, found in outputs.items():
        if isinstance(found, list):
            assert [tensor.shape for tensor in found] == shapes[tap]
        else:
            assert found.shape == shapes[tap]


def test_states_are_those_of_every_call(outputs):
    """ALBERT's blocks are one layer, and its states differ all the same."""
    states = outputs["hidden_states"]
    np.testing.assert_array_equal(outputs["embedding_output"], states[0])
    for index, state in enumerate(states):
        np.testing.assert_array_equal(outputs["cls_states"][index], state[:, 0])
        assert not any(np.allclose(state, other) for other in states[:index])


def test_tapped_attention_is_what_the_blocks_compute(family, model, outputs):
    """Pins the private names: the layers' own probabilities and outputs."""
    if family in ("deberta_v3", "distil_bert"):
        pytest.skip("the family's layers do not return their scores")
    mask = inputs_of(model)["padding_mask"]
    for index, block in enumerate(blocks_of(models.backbone_of(model))):
        own_state, own_probs = block(
            outputs["hidden_states"][index],
            padding_mask=mask,
            return_attention_scores=True,
        )
        queries, keys = (outputs[tap][index] for tap in ("queries", "keys"))
        logits = outputs["attention_logits"][index]
        products = np.einsum("bqhd,bkhd->bhqk", queries, keys)
        np.testing.assert_allclose(
            logits, products / np.sqrt(WIDTH // HEADS), 1e-4, 1e-5
        )
        masked = np.where(mask[:, None, None, :] == 1, logits, -np.inf)
        np.testing.assert_allclose(softmax(masked), own_probs, atol=1e-6)
        np.testing.assert_allclose(
            outputs["attention_probs"][index], own_probs, atol=1e-6
        )
        np.testing.assert_allclose(
            outputs["hidden_states"][index + 1], own_state, atol=1e-5
        )


def test_all_taps_take_one_forward_pass(model, monkeypatch):
    blocks = blocks_of(models.backbone_of(model))
    calls = []
    original = type(blocks[0]).call

    def counted(self, *args, **kwargs):
        calls.append(self)
        return original(self, *args, **kwargs)

    run = taps.tapped(model, taps.describe(model).taps)
    monkeypatch.setattr(type(blocks[0]), "call", counted)
    run(inputs_of(model))
    assert [*map(id, calls)] == [*map(id, blocks)]


class Traced(keras.Model):
    """The taps of a model as the outputs of a model."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.run = taps.tapped(model, taps.describe(model).taps)

    def call(self, x):
        return self.run(x, training=False)


def test_taps_of_a_traced_step_are_those_of_the_eager_one(model, outputs):
    traced = Traced(model)
    traced.compile(run_eagerly=False)
    found = traced.predict(inputs_of(model), batch_size=4, verbose=0)
    keras.tree.map_structure(
        lambda ours, theirs: np.testing.assert_allclose(
            ours, theirs, atol=1e-5
        ),
        found,
        outputs,
    )


def test_groups_and_repetitions_of_albert_are_blocks_in_order():
    backbone = keras_hub.models.AlbertBackbone(
        vocabulary_size=VOCABULARY_SIZE,
        num_layers=4,
        num_heads=2,
        embedding_dim=4,
        hidden_dim=8,
        intermediate_dim=8,
        num_groups=2,
        num_inner_repetitions=2,
        max_sequence_length=LENGTH,
    )
    spread_weights(backbone)
    assert taps.describe(backbone).num_layers == 8
    states = taps.tapped(backbone, ["hidden_states"])(batch())["hidden_states"]
    assert len(states) == 9
    for index, block in enumerate(blocks_of(backbone)):
        np.testing.assert_array_equal(
            states[index + 1],
            block(states[index], padding_mask=batch()["padding_mask"]),
        )


@pytest.mark.parametrize(
    ("make", "tap"),
    [
        *(
            (lambda: encoder("deberta_v3"), tap)
            for tap in taps.ATTENTION_TAPS + taps.VECTOR_TAPS
        ),
        (lambda: encoder("bert"), "sentence_embedding"),
        (lambda: decoder(1), "cls_states"),
        (lambda: models.make_embedder(encoder("bert", None)), "logits"),
    ],
)
def test_a_tap_that_a_model_lacks_is_refused(make, tap):
    with pytest.raises(ValueError, match=f"'{tap}'"):
        taps.tapped(make(), [tap])


def objectives(shape):
    """Every objective that makes sense for models of a shape."""
    terms = [
        (losses.SoftCrossEntropy(), "logits", None),
        (losses.LogitKLDivergence(), "logits", None),
        (losses.LogitMSE(), "logits", None),
        (losses.EmbeddingMSE(), "embedding_output", "shared"),
        (losses.HiddenStateMSE(), "hidden_states", "shared"),
        (losses.HiddenStateCosine(), "hidden_states", "per_layer"),
        (losses.PatienceMSE(), "cls_states", "per_layer"),
        (losses.HiddenStateMSE(), "pooled_output", "shared"),
        (losses.AttentionMSE(), "attention_logits", None),
        (losses.AttentionMSE(), "attention_probs", None),
        (losses.RelationKLDivergence(4), "queries", None),
        (losses.RelationKLDivergence(4), "keys", None),
        (losses.RelationKLDivergence(4), "values", None),
    ]
    return [
        kdkit.Objective(
            loss, tap=tap, projection=projection, name=f"{loss.name}_{tap}"
        )
        for loss, tap, projection in terms
        if tap in shape.taps
    ]


@pytest.mark.parametrize("family", large_except(ENCODERS, "bert", "albert"))
def test_every_objective_that_makes_sense_trains(family):
    teacher = encoder(family, hidden_dim=24, num_layers=3, seed=1)
    student = encoder(family, seed=2)
    terms = objectives(taps.describe(student))
    assert len(terms) >= 7
    distiller = kdkit.Distiller(teacher, student, terms)
    distiller.compile(optimizer="adam")
    before = student.get_weights()
    history = distiller.fit(batch(), batch_size=4, verbose=0).history
    assert set(history) == {"loss", *(term.name for term in terms)}
    for name, (value,) in history.items():
        assert 0 < value < np.inf, name
    moved = {
        weight.path
        for weight, old in zip(student.weights, before, strict=True)
        if not np.array_equal(weight, old)
    }
    backbone = models.backbone_of(student)
    # Biases of keys alone have no effect; embeddings not in this batch.
    kernels = {
        weight.path
        for block in blocks_of(backbone)
        for weight in block.trainable_weights
        if weight.path.endswith("kernel")
    }
    assert {*kernels, backbone.token_embedding.embeddings.path} <= moved


def test_relations_bridge_families_and_head_counts():
    distiller = kdkit.Distiller(
        encoder("albert", num_heads=4, hidden_dim=24),
        encoder("roberta"),
        [kdkit.Objective(losses.RelationKLDivergence(4), tap="values")],
    )
    distiller.compile(optimizer="adam")
    logs = distiller.evaluate(batch(), verbose=0, return_dict=True)
    assert 0 < logs["loss"] < np.inf
