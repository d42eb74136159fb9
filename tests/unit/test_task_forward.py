"""The forward pass that measures: `kdkit.data.stream.make_forward`."""

import numpy as np
from kit.encoders import encoder
from kit.helpers import batch

from kdkit.data.stream import make_forward


def test_evaluation_leaves_out_dropout_and_inputs_that_the_model_lacks():
    """Keras itself would take segments for tokens."""
    model, x = encoder("distil_bert", dropout=0.5), batch()
    own = {name: x[name] for name in model.input}
    x["segment_ids"] = 1 - x["padding_mask"]
    np.testing.assert_allclose(
        make_forward(model)(x), model(own, training=False), rtol=1e-4
    )
