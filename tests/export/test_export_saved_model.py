import numpy as np
import pytest
import tensorflow as tf
from helpers import large_except

from kdkit import export
from kdkit.export import saved_model


@pytest.mark.parametrize("name", large_except(["bert", "lstm"], "bert"))
def test_to_saved_model_serves_named_int32_inputs_of_any_shape(
    name, tmp_path, make_batch, logits, request
):
    model = request.getfixturevalue(name)
    report = export.to_saved_model(model, tmp_path / "model")
    loaded = tf.saved_model.load(report.file)
    opened = export.open_file(report.file)
    assert set(opened.input_names) == set(model.input)
    assert opened.sequence_length is None
    for shape in [(3, 8), (1, 21)]:
        batch = make_batch(*shape)
        inputs = {name: batch[name].astype("int32") for name in model.input}
        np.testing.assert_allclose(
            loaded.serve(inputs), logits(model, batch), atol=1e-4
        )
        np.testing.assert_allclose(
            opened(batch), logits(model, batch), atol=1e-4
        )


def test_a_saved_model_may_contain_a_tokenizer(tmp_path, monkeypatch):
    used = []

    class Operations:
        def __getattr__(self, name):
            used.append(name)

    monkeypatch.setattr(saved_model, "tf_text", Operations())
    module = tf.Module()
    module.number = tf.Variable(0.0)
    tf.saved_model.save(module, str(tmp_path))
    with pytest.raises(KeyError):  # it has no signature
        export.open_file(tmp_path)
    assert used  # TensorFlow now has tensorflow-text's operations
