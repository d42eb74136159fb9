"""Heads of every kind: shapes, candidates, distillation through them."""

import keras
import keras_hub
import numpy as np
import pytest
from kit.helpers import (
    LENGTH,
    VOCABULARY_SIZE,
    batch,
    bert,
    divergence,
    large_except,
    log_softmax,
    run_without_kdkit,
    spread_weights,
)

import kdkit
from kdkit.models import (
    Head,
    add_head,
    in_policy,
    initialize_from_teacher,
    load_classifier,
    save_preset,
)
from kdkit.models.heads import backbone_of, classifier_head_kind, find_head

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmno"]


def model(kind, num_layers=2, hidden_dim=8, num_classes=2, seed=0, **head):
    backbone = bert(num_layers, hidden_dim, num_classes=None, seed=seed)
    result = add_head(backbone, Head(kind, num_classes, **head), tokenizer())
    spread_weights(find_head(result) or result, seed)
    return result


def tokenizer():
    return keras_hub.tokenizers.BertTokenizer(PIECES, lowercase=False)


def head_weights(of_model):
    layer = find_head(of_model).get_layer("logits")
    return [weight.numpy() for weight in layer.weights]


def test_multiple_choice_puts_the_logits_of_a_question_in_a_row():
    choices = model("multiple_choice", num_classes=2)
    x = batch(6)
    pooled = backbone_of(choices)(x)["pooled_output"].numpy()
    kernel, bias = head_weights(choices)
    scores = pooled @ kernel + bias
    np.testing.assert_allclose(choices(x), scores.reshape(3, 2), atol=1e-5)
    # An option has its logit whatever the other questions are.
    first = {name: array[:2] for name, array in x.items()}
    np.testing.assert_allclose(choices(first), choices(x)[:1], atol=1e-5)


def test_token_heads_give_logits_for_each_position():
    tagger = model("tokens", num_classes=3)
    x = batch(4)
    states = backbone_of(tagger)(x)["sequence_output"].numpy()
    kernel, bias = head_weights(tagger)
    np.testing.assert_allclose(tagger(x), states @ kernel + bias, atol=1e-5)
    assert not backbone_of(tagger).pooled_dense.trainable_weights


def test_only_candidates_of_a_token_have_a_logit_of_their_own():
    free = model("tokens", num_classes=3)
    bound = model(
        "tokens", num_classes=3, candidates={"b": (0, 2), "a": (1,), "長": (0,)}
    )
    find_head(bound).get_layer("logits").set_weights(head_weights(free))
    x = batch(4)
    expected = free(x).numpy()
    excluded = np.zeros(expected.shape, bool)
    excluded[x["token_ids"] == PIECES.index("b")] = [False, True, False]
    excluded[x["token_ids"] == PIECES.index("a")] = [True, False, True]
    assert excluded.any()
    expected[excluded] = -1e4
    np.testing.assert_allclose(bound(x), expected, atol=1e-5)
    (table,) = find_head(bound).get_layer("candidates").get_weights()
    assert table.shape == (PIECES.index("b") + 2, 3)
    assert not find_head(bound).get_layer("candidates").trainable_weights


@pytest.mark.parametrize("kind", ["sequence", "multiple_choice", "tokens"])
def test_kind_and_backbone_are_found_again(kind):
    built = model(kind)
    assert classifier_head_kind(built) == kind
    assert isinstance(backbone_of(built), keras_hub.models.BertBackbone)
    student = model(kind, num_layers=1, seed=1)
    initialize_from_teacher(student, built, [2])
    np.testing.assert_array_equal(
        backbone_of(student).token_embedding.get_weights()[0],
        backbone_of(built).token_embedding.get_weights()[0],
    )


@pytest.fixture(
    scope="module", params=large_except(["multiple_choice", "tokens"], "tokens")
)
def preset(request, tmp_path_factory):
    """A saved model of a kind, its head and the directory."""
    head = Head(
        request.param,
        3 if request.param == "tokens" else 2,
        class_names=("x", "y", "z") if request.param == "tokens" else None,
        candidates={"b": (0, 2)} if request.param == "tokens" else None,
    )
    built = add_head(bert(num_classes=None), head, tokenizer())
    path = tmp_path_factory.mktemp("heads") / request.param
    built.compile(optimizer="adam", loss="mse")
    save_preset(built, tokenizer(), path, LENGTH, head)
    return built, head, path


def test_saved_model_gives_the_same_logits_and_tokenizer(preset):
    built, head, path = preset
    loaded = load_classifier(path, head)
    assert loaded.has_trained_head
    assert loaded.tokenizer.get_vocabulary() == PIECES
    np.testing.assert_array_equal(loaded.model(batch(4)), built(batch(4)))


@pytest.mark.large
def test_saved_model_loads_where_kdkit_is_not_installed(preset, tmp_path):
    built, _, path = preset
    np.savez(tmp_path / "batch.npz", **batch(4))
    program = (
        "import keras, keras_hub, numpy as np\n"
        f"path = {str(path)!r}\n"
        "batch = dict(np.load('batch.npz'))\n"
        "batch = {k: keras.ops.convert_to_tensor(batch[k]) for k in batch}\n"
        "encoder = keras_hub.models.Backbone.from_preset(path)\n"
        "head = keras.models.load_model(f'{path}/head.keras')\n"
        "keras_hub.tokenizers.Tokenizer.from_preset(path)\n"
        "states = {**batch, **encoder(batch)}\n"
        "logits = head({name: states[name] for name in head.input})\n"
        "np.save('logits.npy', logits)\n"
    )
    run_without_kdkit(program, tmp_path)
    np.testing.assert_allclose(
        np.load(tmp_path / "logits.npy"), built(batch(4)), atol=1e-5
    )


def test_whole_model_saves_to_a_keras_file(preset, tmp_path):
    built, head, _ = preset
    built.save(tmp_path / "model.keras")
    loaded = load_classifier(tmp_path / "model.keras", head)
    np.testing.assert_allclose(
        loaded.model(batch(4)), built(batch(4)), atol=1e-5
    )


def token_batch(with_labels):
    x = batch(4)
    labels = np.random.default_rng(0).integers(3, size=(4, LENGTH))
    return x, labels.astype("int32"), with_labels.astype("float32")


def test_soft_and_true_labels_of_tokens_count_at_labelled_positions():
    weights = np.array(
        [[0, 1, 0, 1, 0, 0], [0, 1, 0, 0, 0, 0]] + [[0] * LENGTH] * 2
    )
    x, labels, sample_weight = token_batch(weights)
    teacher, student = model("tokens", 2, 12, 3), model("tokens", 1, 8, 3)
    distiller = kdkit.Distiller(
        teacher,
        student,
        [
            kdkit.Objective(kdkit.losses.SoftCrossEntropy()),
            kdkit.Objective(
                kdkit.losses.HiddenStateMSE(),
                tap="hidden_states",
                projection="shared",
                use_sample_weight=False,
            ),
        ],
        hard_label_weight=1.0,
    )
    distiller.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )
    )
    of_teacher, of_student = teacher(x).numpy(), student(x).numpy()
    soft = divergence(of_teacher, of_student)
    hard = -np.take_along_axis(
        log_softmax(of_student), labels[..., None], axis=-1
    )[..., 0]
    rows, positions = np.nonzero(weights)
    logs = distiller.evaluate(
        x, labels, sample_weight=sample_weight, verbose=0, return_dict=True
    )
    np.testing.assert_allclose(
        logs["soft_cross_entropy"], soft[rows, positions].mean(), rtol=1e-5
    )
    np.testing.assert_allclose(
        logs["hard_label_loss"], hard[rows, positions].mean(), rtol=1e-5
    )
    everywhere = distiller.evaluate(
        x, labels, sample_weight=np.ones_like(sample_weight), verbose=0,
        return_dict=True,
    )  # fmt: skip
    assert logs["hidden_state_mse"] == everywhere["hidden_state_mse"]


def test_options_of_a_question_are_distilled_as_one_distribution():
    teacher = model("multiple_choice", 2, 8, 2)
    student = model("multiple_choice", 1, 8, 2, seed=1)
    distiller = kdkit.Distiller(
        teacher,
        student,
        [
            kdkit.Objective(kdkit.losses.SoftCrossEntropy()),
            kdkit.Objective(kdkit.losses.PatienceMSE(), tap="cls_states"),
        ],
    )
    distiller.compile(optimizer="adam")
    x = batch(8)
    logs = distiller.evaluate(x, verbose=0, return_dict=True)
    soft = divergence(teacher(x).numpy(), student(x).numpy())
    assert soft.shape == (4,)
    np.testing.assert_allclose(logs["soft_cross_entropy"], soft.mean(), 1e-5)
    assert logs["patience_mse"] > 0


def test_the_weight_of_a_question_is_that_of_its_options():
    distiller = kdkit.Distiller(
        model("multiple_choice", 2, 8, 2),
        model("multiple_choice", 1, 8, 2, seed=1),
        [
            kdkit.Objective(kdkit.losses.SoftCrossEntropy()),
            kdkit.Objective(kdkit.losses.HiddenStateMSE(), tap="hidden_states"),
            kdkit.Objective(kdkit.losses.PatienceMSE(), tap="cls_states"),
        ],
    )
    distiller.compile(optimizer="adam")
    x = batch(6)
    one = {name: array[2:4] for name, array in x.items()}
    labels = np.array([0, 1, 1])
    weighted = distiller.test_on_batch(
        x, labels, np.array([0.0, 2.0, 0.0]), return_dict=True
    )
    alone = distiller.test_on_batch(one, labels[1:2], return_dict=True)
    for name in ("soft_cross_entropy", "hidden_state_mse", "patience_mse"):
        np.testing.assert_allclose(weighted[name], alone[name], 1e-5)


def test_losses_of_a_head_are_scaled_in_float16():
    scaled = in_policy(model("multiple_choice"), "mixed_float16")
    scaled.compile("adamw", loss="mse")
    assert isinstance(scaled.optimizer, keras.optimizers.LossScaleOptimizer)
    same = in_policy(scaled, "float32")
    assert same.dtype_policy.name == "float32"


def test_padding_changes_no_logits_of_tokens():
    tagger = model("tokens", num_classes=3)
    x = batch(4, length=4)
    padded = {
        name: np.pad(array, [(0, 0), (0, 2)]) for name, array in x.items()
    }
    np.testing.assert_allclose(tagger(padded)[:, :4], tagger(x), atol=1e-5)
    assert x["token_ids"].max() < VOCABULARY_SIZE
