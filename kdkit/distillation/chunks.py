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
from kdkit.taps import FactoredLogits


class ChunkTerm(NamedTuple):
    """A term of the loss on logits."""

    sums: Callable
    target: Any
    weights: Any
    coefficient: Callable


def chunked_sums(
    terms: list[ChunkTerm],
    student: FactoredLogits,
    chunk_size: int,
    scale=None,
):
    """Returns the sums of terms on logits, never with all logits in memory."""
    width = student.states.shape[-1]
    batch_size, length = ops.shape(student.states)[:2]
    num_positions = batch_size * length
    num_chunks = -(-num_positions // chunk_size)
    padding = num_chunks * chunk_size - num_positions

    def chunks(tensor, last_axis=()):
        """Splits positions into chunks on a new first axis; pads with zeros."""
        flat = ops.reshape(tensor, (-1, *last_axis))
        padded = ops.pad(flat, [[0, padding], *([[0, 0]] * len(last_axis))])
        return ops.reshape(padded, (num_chunks, chunk_size, *last_axis))

    targets = [
        chunks(term.target.states, (term.target.states.shape[-1],))
        if isinstance(term.target, FactoredLogits)
        else chunks(term.target, term.target.shape[2:])
        for term in terms
    ]
    weights = [chunks(ops.cast(term.weights, "float32")) for term in terms]

    def chunk_sums(states, targets, weights, embeddings):
        """Returns the numerators and the denominators of one chunk."""
        logits = ops.matmul(states, ops.transpose(embeddings))
        tops, bottoms = [], []
        for term, target, weight in zip(terms, targets, weights, strict=True):
            if isinstance(term.target, FactoredLogits):
                target = ops.matmul(
                    target, ops.transpose(term.target.embeddings)
                )
            top, bottom = term.sums(target, logits, weight)
            tops.append(ops.cast(top, "float32"))
            bottoms.append(ops.cast(bottom, "float32"))
        return ops.stack(tops), ops.stack(bottoms)

    def coefficients(bottoms):
        """Returns the factors of the numerators in the scaled loss."""
        each = ops.unstack(bottoms, num=len(terms))
        return ops.stack(
            [
                scale * term.coefficient(bottom)
                for term, bottom in zip(terms, each, strict=True)
            ]
        )

    tensors = (
        chunks(student.states, (width,)),
        targets,
        weights,
        ops.convert_to_tensor(student.embeddings),
    )
    if on_tensorflow():
        tops, bottoms = loop_over_chunks(
            chunk_sums, *tensors, None if scale is None else coefficients
        )
    else:
        tops, bottoms = _scan(chunk_sums, *tensors)
    count = len(terms)
    return ops.unstack(tops, num=count), ops.unstack(bottoms, num=count)


def _scan(chunk_sums, states, targets, weights, embeddings):
    """Adds up over chunks; the gradient computes the logits a second time."""
    forgetful = keras.remat(chunk_sums)

    def add(sums, chunk):
        found = forgetful(*chunk, embeddings)
        return tuple(map(ops.add, sums, found)), None

    nothing = ops.zeros(len(weights), dtype="float32")
    sums, _ = ops.scan(add, (nothing, nothing), (states, targets, weights))
    return sums


def loop_over_chunks(
    chunk_sums, states, targets, weights, embeddings, coefficients
):
    """Adds up over chunks, and computes the gradient in the same iterations."""
    num_chunks = tf.shape(states)[0]
    nothing = tf.zeros(len(weights))

    def numbered_sums(number, chunk, embeddings):
        return chunk_sums(
            chunk,
            [target[number] for target in targets],
            [weight[number] for weight in weights],
            embeddings,
        )

    def loop(add, *start):
        _, *found = tf.while_loop(
            lambda number, *_: number < num_chunks,
            lambda number, *values: (number + 1, *add(number, *values)),
            (0, *start),
            parallel_iterations=1,
        )
        return found

    def add_sums(number, tops, bottoms):
        top, bottom = numbered_sums(number, states[number], embeddings)
        return tops + top, bottoms + bottom

    def add_bottoms(number, bottoms):
        # Does not depend on the logits, so the graph does not compute them.
        _, bottom = numbered_sums(number, states[number], embeddings)
        return (bottoms + bottom,)

    if coefficients is None:
        return loop(add_sums, nothing, nothing)
    (bottoms,) = loop(add_bottoms, nothing)
    factors = tf.stop_gradient(coefficients(bottoms))
    # Without these, TensorFlow would save every iteration for the gradient.
    fixed_states, fixed = map(tf.stop_gradient, (states, embeddings))

    def add(number, tops, to_states, to_embeddings):
        chunk = fixed_states[number]
        with tf.GradientTape() as tape:
            tape.watch((chunk, fixed))
            top, _ = numbered_sums(number, chunk, fixed)
        to_chunk, more = tape.gradient(
            top, (chunk, fixed), output_gradients=factors
        )
        return (
            tops + top,
            to_states.write(number, to_chunk),
            to_embeddings + tf.cast(more, "float32"),
        )

    gathered = tf.TensorArray(
        states.dtype, num_chunks, element_shape=states.shape[1:]
    )
    tops, to_states, to_embeddings = loop(
        add, nothing, gathered, tf.zeros(tf.shape(embeddings))
    )
    slope = _nothing_with_gradient(states, to_states.stack())
    slope += _nothing_with_gradient(embeddings, to_embeddings)
    # A loss that is a multiple of Σ factor × top has the same slope.
    along = tf.math.divide_no_nan(factors, tf.reduce_sum(tf.square(factors)))
    return tf.stop_gradient(tops) + slope * along, bottoms


def _nothing_with_gradient(values, gradient):
    """Returns 0, with the given gradient with respect to `values`."""
    values, gradient = (
        tf.reshape(tf.cast(one, "float32"), (-1,)) for one in (values, gradient)
    )
    product = tf.tensordot(values, tf.stop_gradient(gradient), 1)
    return product - tf.stop_gradient(product)
