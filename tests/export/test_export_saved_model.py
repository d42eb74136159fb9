import numpy as np
import pytest
import tensorflow as tf
from kit.helpers import large_except

from kdkit import export


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
