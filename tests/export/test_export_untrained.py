"""The export of a head that no objective trained is reported."""

import pathlib
import re
import warnings

import keras
import pytest
from kit.helpers import batch, bert, cross_entropy, labels

import kdkit
from kdkit.export import to_litert, to_saved_model
from kdkit.export.verification import warn_untrained_layers
from kdkit.late import tf
from kdkit.weights import untrained_weights

README = pathlib.Path(__file__).parents[2] / "README.md"


def hidden_states():
    return kdkit.Objective(kdkit.losses.HiddenStateMSE(), tap="hidden_states")


def logits():
    return kdkit.Objective(kdkit.losses.SoftCrossEntropy(), tap="logits")


def fresh(backbone=None, output="pooled_output", **dense):
    """A model whose encoder is loaded and whose head is as it begins."""
    backbone = backbone or bert(1, num_classes=None)
    inputs = backbone.input
    states = backbone(inputs)[output]
    if output == "sequence_output":
        states = states[:, 0]
    head = keras.layers.Dense(3, name="logits", **dense)
    return keras.Model(inputs, head(states))


def train(student, *objectives):
    model = kdkit.Distiller(bert(2, seed=1), student, list(objectives))
    model.compile(optimizer=keras.optimizers.Adam(1e-3), run_eagerly=True)
    model.fit(batch(), verbose=0)
    return student


def untrained(student):
    """The warnings of an export, whose file is not written."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_untrained_layers(student, batch())
    return [str(one.message) for one in caught]


def test_a_head_without_any_gradient_is_warned_of(tmp_path):
    student = train(fresh(), hidden_states())
    (text,) = untrained(student)
    assert "Never trained: 'logits' of" in text
    assert "objective on the logits" in text
    for export, name in (
        (to_litert, "student.tflite"),
        (to_saved_model, "student"),
    ):
        with pytest.warns(UserWarning, match="Never trained.*logits") as found:
            export(student, tmp_path / name)
        assert found[0].filename == __file__


def test_a_later_stage_trains_the_head():
    student = train(fresh(), hidden_states())
    train(student, logits())
    assert not untrained(student)


def test_a_head_trained_by_fit_is_not_warned_of():
    student = train(fresh(), hidden_states())
    student.compile("adam", cross_entropy(), run_eagerly=True)
    student.fit(batch(), labels(), verbose=0)
    assert not untrained(student)


def test_a_loaded_head_is_not_warned_of():
    student = train(bert(1), hidden_states())  # none of its biases is zero
    assert not untrained(student)


@pytest.mark.parametrize("was_fit", [False, True])
def test_a_head_without_bias_is_known_by_its_gradient(was_fit):
    student = train(fresh(use_bias=False), hidden_states())
    if was_fit:
        student.compile("adam", cross_entropy(), run_eagerly=True)
        student.fit(batch(), labels(), verbose=0)
    assert bool(untrained(student)) != was_fit


def test_layers_that_the_output_does_not_need_are_not_named():
    backbone = bert(1, num_classes=None)
    pooler = backbone.pooled_dense
    pooler.bias.assign(keras.ops.zeros_like(pooler.bias))
    student = train(fresh(backbone, "sequence_output"), logits())
    assert untrained_weights(student)  # the pooler's
    assert not untrained(student)


def test_the_example_of_the_readme_trains_the_head(tmp_path):
    """It compiles no loss on labels, so the objectives alone must do it."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.S)
    (block,) = [block for block in blocks if "kdkit.Distiller(" in block]
    names = {
        "kdkit": kdkit,
        "teacher": bert(2, hidden_dim=12, seed=1),
        "student": fresh(),
    }
    names["train"] = names["dev"] = tf.data.Dataset.from_tensors(batch())
    with warnings.catch_warnings():
        # Keras' own, on data that is no array.
        warnings.filterwarnings("ignore", "`shuffle=True` was passed")
        exec(block, names)
        path = tmp_path / "student.tflite"
        to_litert(names["student"], path, precision="int8")
    assert path.is_file()
