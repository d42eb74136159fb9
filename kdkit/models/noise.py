"""Noise on the weights of a model, to see how much of it the model bears."""

import contextlib

import numpy as np

from kdkit.errors import UsageError

SCALES = ("mean", "mean_magnitude")


@contextlib.contextmanager
def perturbed(model, sigma: float, seed: int, scale: str = "mean"):
    r"""Adds Gaussian noise to every weight matrix while the block runs.

    $$\theta^l_i + s(\theta^l) \, \mathcal{N}(0, \sigma^2)$$

    for each parameter $i$ of each trainable weight $l$ with two or more axes:
    kernels and embeddings, not the scales of layer normalisation, and no bias,
    those of attention included, which Keras keeps as one row for each head.
    LightPAFF (Song et al., 2020, section 6.2) writes the average of the matrix
    for $s$. Weights of both signs nearly cancel in it, so that the noise is
    small and a matrix with a mean near 0 gets none; `"mean_magnitude"` takes
    the average of $|\theta^l_i|$, which is a matrix's size.

    Args:
        model: `keras.Model`. It has its own weights back after the block.
        sigma: float. Standard deviation σ of the noise, 0 or more.
        seed: int. Seed of the noise. Models of the same layers get the same
            draws.
        scale: string, `"mean"` or `"mean_magnitude"`. Defaults to `"mean"`.

    Yields:
        The model.

    Raises:
        UsageError: (a `ValueError`) for a negative σ, another scale, or a model
            without weight matrices.
    """
    if not sigma >= 0 or not np.isfinite(sigma):
        raise UsageError(
            "`sigma` must be a finite number of 0 or more. "
            f"Received: sigma={sigma}."
        )
    if scale not in SCALES:
        raise UsageError(
            f"`scale` must be one of {SCALES}. Received: scale={scale!r}."
        )
    matrices = [
        weight
        for weight in model.trainable_weights
        if len(weight.shape) > 1 and weight.name != "bias"
    ]
    if not matrices:
        raise UsageError(
            "Noise is added to trainable weight matrices. Received: "
            f"{model.name!r} with none."
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
    """What σ is a multiple of."""
    if scale == "mean_magnitude":
        matrix = np.abs(matrix)
    return matrix.mean(dtype="float64")
