"""Noise on a model's weights, to measure how robust the model is."""

import contextlib

import numpy as np

from kdkit.errors import UsageError

SCALES = ("mean", "mean_magnitude")


@contextlib.contextmanager
def perturbed(model, sigma: float, seed: int, scale: str = "mean"):
    r"""Adds Gaussian noise to every weight matrix inside the block.

    $$\theta^l_i + s(\theta^l) \, \mathcal{N}(0, \sigma^2)$$

    for each parameter $i$ of each trainable weight $l$ with two or more axes:
    kernels and embeddings, but not the scales of layer normalization and not
    biases. Biases of attention are excluded too, although Keras stores them as
    one row per head. LightPAFF (Song et al., 2020, section 6.2) uses the
    matrix's average for $s$. Positive and negative weights nearly cancel there,
    so the noise is small, and a matrix with a mean near 0 gets none.
    `"mean_magnitude"` uses the average of $|\theta^l_i|$, the matrix's size.

    Args:
        model: `keras.Model`. After the block it has its original weights again.
        sigma: float. Standard deviation σ of the noise, 0 or more.
        seed: int. Seed of the noise. Models with the same layers get the same
            random numbers.
        scale: string, `"mean"` or `"mean_magnitude"`. Defaults to `"mean"`.

    Yields:
        The model.

    Raises:
        UsageError: (a `ValueError`) for a negative σ, an unknown scale, or a
            model without weight matrices.
    """
    if not sigma >= 0 or not np.isfinite(sigma):
        raise UsageError(
            "`sigma` must be a finite number of 0 or more. "
            f"Received: sigma={sigma}. Pass for example 1.0."
        )
    if scale not in SCALES:
        raise UsageError(
            f"Unknown `scale`. Expected one of {SCALES}. Received: "
            f"scale={scale!r}."
        )
    matrices = [
        weight
        for weight in model.trainable_weights
        if len(weight.shape) > 1 and weight.name != "bias"
    ]
    if not matrices:
        raise UsageError(
            "Noise needs trainable weight matrices. Received: model "
            f"{model.name!r} with none. Make its layers trainable."
        )
    originals = [weight.numpy() for weight in matrices]
    try:
        for number, original in enumerate(originals):
            generator = np.random.default_rng([seed, number])
            draws = generator.standard_normal(original.shape, dtype="float32")
            noise = np.float32(sigma * _size(original, scale)) * draws
            matrices[number].assign(original + noise)
        yield model
    finally:
        for weight, original in zip(matrices, originals, strict=True):
            weight.assign(original)


def _size(matrix, scale):
    """Returns the number that σ is multiplied by."""
    if scale == "mean_magnitude":
        matrix = np.abs(matrix)
    return matrix.mean(dtype="float64")
