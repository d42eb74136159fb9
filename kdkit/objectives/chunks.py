"""Sums over the logits of a vocabulary, some positions at a time.

Written with TensorFlow: what has no gradient by itself and bounded memory in
every backend is a loop with a gradient of its own.
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import tensorflow as tf

from kdkit.taps import FactoredLogits


class ChunkTerm(NamedTuple):
    """A term of the loss on logits.

    Attributes:
        sums: callable of (target, logits, weights) with a first axis of
            positions, which returns Σ weight × value and Σ weight.
        target: `FactoredLogits` of a teacher; or a tensor of shape
            `(batch_size, sequence_length)`, such as labels.
        weights: tensor of shape `(batch_size, sequence_length)`.
    """

    sums: Callable
    target: Any
    weights: Any


def chunked_sums(
    terms: list[ChunkTerm], student: FactoredLogits, chunk_size: int
):
    """Returns the sums of terms on logits that are never all there.

    A loop over chunks of positions makes the logits of teachers and student,
    adds up, and forgets them; the gradient makes them once more. Sums and
    gradient are those of all logits at once, up to rounding.

    Args:
        terms: list of `ChunkTerm`, at least one.
        student: `FactoredLogits`.
        chunk_size: int. Positions, over rows and their lengths, at one time.

    Returns:
        Tuple of two lists of scalars, one a term: Σ weight × value, which has
        a gradient, and Σ weight.
    """
    width = student.states.shape[-1]
    states = tf.reshape(student.states, (-1, width))
    num_positions = tf.shape(states)[0]
    num_chunks = -(-num_positions // chunk_size)
    padding = num_chunks * chunk_size - num_positions

    def chunks(tensor, last_axis=()):
        """Chunks of positions on a new first axis; zeros behind the last."""
        flat = tf.reshape(tensor, (-1, *last_axis))
        padded = tf.pad(flat, [[0, padding], *([[0, 0]] * len(last_axis))])
        return tf.reshape(padded, (num_chunks, chunk_size, *last_axis))

    targets = [
        chunks(term.target.states, (term.target.states.shape[-1],))
        if isinstance(term.target, FactoredLogits)
        else chunks(term.target)
        for term in terms
    ]
    weights = [chunks(tf.cast(term.weights, "float32")) for term in terms]

    def sums_of(number, chunk, embeddings):
        """The numerators and the denominators of one chunk."""
        logits = tf.matmul(chunk, embeddings, transpose_b=True)
        tops, bottoms = [], []
        for term, target, weight in zip(terms, targets, weights, strict=True):
            found = target[number]
            if isinstance(term.target, FactoredLogits):
                found = tf.matmul(
                    found, term.target.embeddings, transpose_b=True
                )
            top, bottom = term.sums(found, logits, weight[number])
            tops.append(tf.cast(top, "float32"))
            bottoms.append(tf.cast(bottom, "float32"))
        return tf.stack(tops), tf.stack(bottoms)

    @tf.custom_gradient
    def total(states, embeddings):
        def add(number, tops, bottoms):
            top, bottom = sums_of(number, states[number], embeddings)
            return number + 1, tops + top, bottoms + bottom

        nothing = tf.zeros(len(terms))
        _, tops, bottoms = tf.while_loop(
            lambda number, *_: number < num_chunks,
            add,
            (0, nothing, nothing),
            parallel_iterations=1,
        )

        def gradient(of_tops, of_bottoms):
            del of_bottoms  # weights are data

            def add(number, to_states, to_embeddings):
                chunk = states[number]
                with tf.GradientTape() as tape:
                    tape.watch((chunk, embeddings))
                    top, _ = sums_of(number, chunk, embeddings)
                to_chunk, more = tape.gradient(
                    top, (chunk, embeddings), output_gradients=of_tops
                )
                return (
                    number + 1,
                    to_states.write(number, to_chunk),
                    to_embeddings + tf.cast(more, "float32"),
                )

            gathered = tf.TensorArray(
                states.dtype, num_chunks, element_shape=(chunk_size, width)
            )
            _, to_states, to_embeddings = tf.while_loop(
                lambda number, *_: number < num_chunks,
                add,
                (0, gathered, tf.zeros(tf.shape(embeddings))),
                parallel_iterations=1,
            )
            return to_states.stack(), tf.cast(to_embeddings, embeddings.dtype)

        return (tops, bottoms), gradient

    tops, bottoms = total(
        chunks(student.states, (width,)),
        tf.convert_to_tensor(student.embeddings),
    )
    return tf.unstack(tops), tf.unstack(bottoms)
