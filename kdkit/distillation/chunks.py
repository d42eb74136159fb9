"""Sums over the logits of a large vocabulary, computed chunk by chunk.

The gradient of a loop that TensorFlow derives itself would hold the logits of
all chunks in memory; the loop here computes the gradient chunk by chunk too.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from kdkit.backends import on_tensorflow
from kdkit.late import tf
from kdkit.losses.base import safe_divide
from kdkit.steps import sum_over_replicas


class ChunkTerm(NamedTuple):
    """A term of the loss on logits."""

    sums: (
        Callable  # of a target, logits and weights, as `DistillationLoss.sums`
    )
    target: Any
    embeddings: Any  # of a target that is `FactoredLogits.states`, or `None`
    weights: Any  # per position
    total_weight: Any  # the denominator of the term's mean
    factor: float  # of the mean in the loss


def chunked_sums(terms, student, chunk_size, scale=None):
    """Returns the sums of terms on logits, never with all logits in memory.

    Args:
        terms: list of `ChunkTerm`.
        student: `kdkit.taps.FactoredLogits`.
        chunk_size: int. How many positions have logits at a time.
        scale: scalar, the factor of the loss in the gradient, or `None` if
            there is no gradient.
    """
    if not terms:
        return []
    batch_size, length = ops.shape(student.states)[:2]
    num_positions = batch_size * length
    num_chunks = -(-num_positions // chunk_size)
    padding = num_chunks * chunk_size - num_positions

    def chunks(tensor):
        """Splits positions into chunks on a new first axis; pads with zeros."""
        last_axes = tensor.shape[2:]
        flat = ops.reshape(tensor, (num_positions, *last_axes))
        added = [(0, padding)] + [(0, 0)] * len(last_axes)
        padded = ops.pad(flat, added)
        return ops.reshape(padded, (num_chunks, chunk_size, *last_axes))

    def chunk_tops(states, given, embeddings):
        """Returns the numerators of one chunk."""
        logits = ops.matmul(states, ops.transpose(embeddings))
        tops = []
        for term, (target, weights) in zip(terms, given, strict=True):
            if term.embeddings is not None:
                target = ops.matmul(target, ops.transpose(term.embeddings))
            top, bottom = term.sums(target, logits, weights)
            total = safe_divide(top, bottom) * ops.sum(weights)
            tops.append(ops.cast(total, "float32"))
        return ops.stack(tops)

    given = []
    for term in terms:
        weights = ops.cast(term.weights, "float32")
        given.append((chunks(term.target), chunks(weights)))
    tensors = (
        chunks(student.states),
        given,
        ops.convert_to_tensor(student.embeddings),
        ops.zeros(len(terms), dtype="float32"),
    )
    bottoms = [term.total_weight for term in terms]
    if scale is None:
        tops = _sum(chunk_tops, *tensors)
    elif not on_tensorflow():
        # The gradient computes the logits a second time.
        tops = _scan(keras.remat(chunk_tops), *tensors)
    else:
        totals = ops.stack(sum_over_replicas(bottoms))
        factors = ops.convert_to_tensor([term.factor for term in terms])
        factors = safe_divide(scale * factors, totals)
        tops = _loop(chunk_tops, *tensors, factors)
    return list(zip(ops.unstack(tops), bottoms, strict=True))


def _sum(chunk_tops, states, given, embeddings, nothing):
    """Adds up over chunks, without a gradient."""

    def add(number, tops):
        chunk = keras.tree.map_structure(
            lambda tensor: tensor[number], (states, given)
        )
        return number + 1, tops + chunk_tops(*chunk, embeddings)

    # ops.scan needs a known number of chunks in a TensorFlow graph.
    _, tops = ops.while_loop(
        lambda number, _: number < ops.shape(states)[0], add, (0, nothing)
    )
    return tops


def _scan(chunk_tops, states, given, embeddings, nothing):
    """Adds up over chunks, for JAX and PyTorch."""

    def add(tops, chunk):
        return tops + chunk_tops(*chunk, embeddings), None

    tops, _ = ops.scan(add, nothing, (states, given))
    return tops


def _loop(chunk_tops, states, given, embeddings, nothing, factors):
    """Adds up over chunks, and computes the gradient in the same iterations."""
    # Without this, TensorFlow would save every iteration for the gradient.
    fixed = tf.stop_gradient(embeddings)
    parts = keras.tree.map_structure(tf.stop_gradient, (states, given))

    def add(number, tops, to_states, to_embeddings):
        chunk, rest = keras.tree.map_structure(
            lambda tensor: tensor[number], parts
        )
        sources = (chunk, fixed)
        with tf.GradientTape() as tape:
            tape.watch(sources)
            more = chunk_tops(chunk, rest, fixed)
        to_chunk, to_rows = tape.gradient(
            more, sources, output_gradients=factors
        )
        return (
            number + 1,
            tops + more,
            to_states.write(number, to_chunk),
            to_embeddings + tf.cast(to_rows, "float32"),
        )

    num_chunks = tf.shape(states)[0]
    to_states = tf.TensorArray(
        states.dtype, num_chunks, element_shape=states.shape[1:]
    )
    to_embeddings = tf.zeros(embeddings.shape)
    _, tops, to_states, to_embeddings = tf.while_loop(
        lambda number, *_: number < num_chunks,
        add,
        (0, nothing, to_states, to_embeddings),
        parallel_iterations=1,
    )
    slope = _nothing_with_gradient(states, to_states.stack())
    slope += _nothing_with_gradient(embeddings, to_embeddings)
    # A loss that is a multiple of Σ factor × top has the same slope.
    along = tf.math.divide_no_nan(factors, tf.reduce_sum(tf.square(factors)))
    return tf.stop_gradient(tops) + slope * along


def _nothing_with_gradient(values, gradient):
    """Returns 0, with the given gradient with respect to `values`.

    `tf.custom_gradient` would never free what its function refers to.
    """
    gradient = tf.stop_gradient(tf.cast(gradient, "float32"))
    values = tf.cast(values, "float32")
    # Also 0 where a loss scale was too large for float16.
    nothing = values - tf.stop_gradient(values)
    return tf.reduce_sum(tf.math.multiply_no_nan(gradient, nothing))
