"""Where a dense layer's product is rounded: `kdkit.quantization.places`."""

import keras
import numpy as np

from kdkit.quantization.places import DenseLayer


def test_a_product_is_rounded_after_an_activation_that_its_file_fuses():
    values = np.random.default_rng(0).normal(size=(5, 4)).astype("float32")
    for activation, fused in (("relu", True), ("tanh", False)):
        dense = keras.layers.Dense(3, activation=activation)
        dense.build((None, 4))
        found = []
        DenseLayer(dense).run(
            values,
            dense.kernel,
            lambda product, found=found: found.append(product) or product,
        )
        expected = values @ dense.kernel.numpy()
        if fused:
            expected = np.maximum(expected, 0)
        np.testing.assert_allclose(*found, expected, atol=1e-6)
