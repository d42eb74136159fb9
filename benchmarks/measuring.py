"""What the benchmarks share: rows to work on, and fair turns."""

import statistics
import time

import keras
import numpy as np

from kdkit.backends import tf


def random_batch(batch_size, sequence_length, vocabulary_size):
    """Full-length rows of random tokens with random labels."""
    rng = np.random.default_rng(0)
    shape = (batch_size, sequence_length)
    inputs = {
        "token_ids": rng.integers(0, vocabulary_size, shape, dtype="int32"),
        "segment_ids": np.zeros(shape, "int32"),
        "padding_mask": np.ones(shape, "int32"),
    }
    labels = rng.integers(0, 2, batch_size, dtype="int32")
    return keras.tree.map_structure(tf.constant, (inputs, labels))


def compiled_forward(model, inputs):
    """A forward pass as XLA compiles it, as a function without arguments."""
    forward = tf.function(
        lambda batch: model(batch, training=False), jit_compile=True
    )
    return lambda: forward(inputs).numpy()


def median_seconds(work, rounds):
    """Runs functions in turn, round by round, after two rounds unmeasured.

    Args:
        work: dict from name to function.
        rounds: int.

    Returns:
        A dict from name to the median time of a run, in seconds.
    """
    seconds = {name: [] for name in work}
    for run in work.values():  # compiles
        run()
        run()
    for _ in range(rounds):
        for name, run in work.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(all_) for name, all_ in seconds.items()}
