"""Models that no family of kdkit knows: CNNs, LSTMs, subclassed models."""

import keras
import numpy as np
import pytest
from keras import layers, ops
from kit.backend import not_on_jax
from kit.helpers import batch, batch_logs, bert, cross_entropy

import kdkit
from kdkit import losses, taps

IMAGES = np.random.default_rng(0).normal(size=(6, 4, 4, 3)).astype("float32")
LABELS = np.arange(6) % 3
TOKENS = np.array([[1, 2, 3, 0], [4, 0, 0, 0], [5, 6, 0, 0]])
pytestmark = pytest.mark.usefixtures("eager")
KINDS = ("functional", "sequential", "subclassed")


def stack(width, dropout=0.0):
    return [
        layers.Conv2D(width, 3, padding="same", name="conv"),
        layers.Dropout(dropout, seed=1, name="dropout"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(3, name="head"),
    ]


@keras.saving.register_keras_serializable("any_model")
class Network(keras.Model):
    """A subclassed model."""

    def __init__(self, width, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.parts = stack(width, dropout)

    def call(self, x, training=None):
        for layer in self.parts:
            is_dropout = isinstance(layer, layers.Dropout)
            x = layer(x, training=training) if is_dropout else layer(x)
        return x

    def get_config(self):
        return {**super().get_config(), "width": self.width}


def image_model(kind, width, dropout=0.0):
    if kind == "subclassed":
        model = Network(width, dropout)
        model(IMAGES[:1])
        return model
    model = keras.Sequential([keras.Input((4, 4, 3)), *stack(width, dropout)])
    if kind == "functional":
        return keras.Model(model.inputs[0], model.outputs[0])
    return model


def layer_objective(tap="layer:conv", **arguments):
    return kdkit.Objective(losses.HiddenStateMSE(), tap=tap, **arguments)


@keras.saving.register_keras_serializable("any_model")
def pooled(outputs):
    return ops.mean(outputs["conv"], axis=(1, 2))


@pytest.mark.parametrize("kind", KINDS)
def test_logits_layers_labels_and_metrics_train_together(kind, tmp_path):
    teacher, student = image_model(kind, 5), image_model(kind, 2)
    kernel = next(one for one in student.layers if one.name == "conv").kernel
    before = kernel.numpy()
    objectives = [
        kdkit.Objective(losses.SoftCrossEntropy()),
        layer_objective(("layer:conv", "layer:dropout"), projection="shared"),
        layer_objective(pooled, projection="shared", name="pooled"),
    ]
    distiller = kdkit.Distiller(teacher, student, objectives, 0.5)
    distiller.compile("adam", cross_entropy(), metrics=["accuracy"])
    data = (IMAGES, LABELS)
    history = distiller.fit(*data, 3, verbose=0, validation_data=data).history
    names = {"accuracy", "hidden_state_mse", "val_soft_cross_entropy"}
    assert names < {*history}
    assert not np.allclose(before, kernel.numpy())
    assert distiller.predict(IMAGES, verbose=0).shape == (6, 3)
    distiller.save(tmp_path / "distiller.keras")
    restored = keras.models.load_model(tmp_path / "distiller.keras")
    restored.attach_teacher(teacher)
    found, expected = (
        one.evaluate(*data, verbose=0) for one in (restored, distiller)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_layers_see_the_dropout_of_the_logits(kind):
    model = image_model(kind, 3, dropout=0.5)
    run = taps.tapped(model, ["logits", "layer:dropout"])
    outputs = run(IMAGES, training=True)
    dropped = ops.convert_to_numpy(outputs["layer:dropout"])
    head, conv = model.get_layer("head"), model.get_layer("conv")
    assert (dropped == 0).mean() > 0.2
    np.testing.assert_allclose(
        head(dropped.mean(axis=(1, 2))), outputs["logits"], atol=1e-5
    )
    assert "call" not in vars(conv)


def test_layers_of_different_names_and_functions_are_pairs():
    teacher, student = (
        image_model("functional", 3),
        image_model("sequential", 2),
    )
    objectives = [
        layer_objective(("layer:head", "logits"), name="heads"),
        layer_objective(pooled, projection="shared", name="pooled"),
        kdkit.Objective(
            losses.HiddenStateCosine(),
            tap=("layer:conv", lambda outputs: outputs["dropout"]),
            projection="per_layer",
        ),
    ]
    distiller = kdkit.Distiller(teacher, student, objectives)
    names = [layer.name for layer in distiller.projections]
    assert names == ["pooled_projection", "hidden_state_cosine_projection_0"]
    distiller.compile("sgd")
    logs = distiller.evaluate(IMAGES, return_dict=True, verbose=0)
    logits = (model.predict(IMAGES, verbose=0) for model in (teacher, student))
    expected = np.mean(np.subtract(*logits) ** 2)
    np.testing.assert_allclose(logs["heads"], expected, rtol=1e-5)


def test_layers_inside_other_models_have_paths():
    inner = image_model("functional", 3)
    twin = keras.Sequential([layers.Conv2D(3, 1, name="conv")], name="twin")
    inputs = keras.Input((4, 4, 3))
    model = keras.Model(inputs, inner(twin(inputs)))
    with pytest.raises(ValueError, match="twin/conv"):
        taps.tapped(model, ["layer:conv"])
    run = taps.tapped(model, ["layer:twin/conv", "layer:dropout"])
    assert run(IMAGES)["layer:dropout"].shape == (6, 4, 4, 3)


class Classifier(keras.Model):
    """A subclassed model around a backbone of keras-hub."""

    def __init__(self):
        super().__init__()
        self.backbone = bert(num_classes=None)
        self.head = layers.Dense(3)

    def call(self, x):
        inputs = {name: x[name] for name in self.backbone.input}
        return self.head(self.backbone(inputs)["pooled_output"])


@not_on_jax
def test_a_subclassed_model_has_the_taps_of_its_backbone():
    model, x = Classifier(), batch()
    logits, own = model(x), model.backbone(x)
    last = "layer:transformer_layer_1"
    outputs = taps.tapped(model, ["logits", "hidden_states", last])(x)
    np.testing.assert_array_equal(outputs["logits"], logits)
    for state in (outputs["hidden_states"][-1], outputs[last]):
        np.testing.assert_array_equal(state, own["sequence_output"])


def text_model(width):
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Embedding(8, 4, mask_zero=True),
            layers.LSTM(width, return_sequences=True, name="states"),
            layers.LSTM(width, name="last"),
            layers.Dense(2),
        ]
    )


def test_masks_of_keras_layers_count():
    tap = "layer:states"
    models = text_model(3), text_model(3)
    distiller = kdkit.Distiller(*models, layer_objective(tap))
    distiller.compile()
    teacher, student = (
        ops.convert_to_numpy(taps.tapped(model, [tap])(TOKENS)[tap])
        for model in models
    )
    squares = np.square(teacher - student).mean(axis=-1)[TOKENS > 0]
    value = batch_logs(distiller, TOKENS)["loss"]
    assert value == pytest.approx(squares.mean(), rel=1e-5)


def tagger(width):
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Embedding(8, 4, mask_zero=True),
            layers.LSTM(width, return_sequences=True),
            layers.Dense(3),
        ]
    )


@pytest.mark.parametrize("given", [None, np.array([[1.0], [2.0], [0.5]])])
def test_labels_at_masked_positions_do_not_count(given):
    """The labels' loss is a mean over all real ones, in batches of any size."""
    objective = kdkit.Objective(losses.LogitMSE())
    model = kdkit.Distiller(tagger(3), tagger(2), objective, 1.0)
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True,
        reduction="mean_with_sample_weight" if given is not None else "mean",
    )
    model.compile(loss=loss)
    labels = TOKENS % 3
    logs = [
        model.evaluate(
            *(TOKENS, labels, size),
            sample_weight=given,
            verbose=0,
            return_dict=True,
        )["hard_label_loss"]
        for size in (3, 2, 1)
    ]
    scores = ops.log_softmax(model.predict(TOKENS, verbose=0))
    values = -np.take_along_axis(np.asarray(scores), labels[..., None], -1)
    weights = (TOKENS > 0) * (1.0 if given is None else given)
    expected = (values[..., 0] * weights).sum() / weights.sum()
    assert logs == pytest.approx([expected] * 3, rel=1e-5)


def test_features_need_no_logits():
    """Neither a softmax nor feature maps as output are in the way."""
    inputs = keras.Input((4, 4, 3))
    state = layers.Conv2D(2, 1, name="conv", activation="relu")(inputs)
    teacher = keras.Model(inputs, [state, state])
    student = keras.Sequential(
        [keras.Input((4, 4, 3)), layers.Conv2D(2, 1, activation="relu")]
    )
    objective = layer_objective(("layer:conv", "layer:conv2d"))
    student.layers[0].name = "conv2d"
    distiller = kdkit.Distiller(teacher, student, objective)
    distiller.compile("sgd")
    assert distiller.evaluate(IMAGES, verbose=0)


def test_a_layer_that_runs_twice_is_refused():
    inputs = keras.Input((4,))
    twice = layers.Dense(4, name="twice")
    states = layers.LSTM(2, return_state=True, name="lstm")
    last, *_ = states(ops.expand_dims(twice(twice(inputs)), -1))
    model = keras.Model(inputs, layers.Dense(2)(last))
    with pytest.raises(ValueError, match="twice|2 times"):
        taps.tapped(model, ["layer:twice"])
    cell = taps.tapped(model, [lambda outputs: outputs["lstm"][2]])
    assert [*cell(np.ones((3, 4)))] == ["function:<lambda>"]
