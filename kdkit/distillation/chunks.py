"""Sums over the logits of a vocabulary, some positions at a time.

TensorFlow's own gradient of a loop keeps what every turn of it made.
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import keras
from keras import ops

from kdkit.backends import on_tensorflow
from kdkit.backends import tf
from kdkit.taps import FactoredLogits


class ChunkTerm(NamedTuple):
    """A term of the loss on logits.

    Attributes:
        sums: callable of (target, logits, weights) with a first axis of
            positions, which returns Σ weight × value and Σ weight.
        target: `FactoredLogits` of a teacher; or a tensor of shape
            `(batch_size, sequence_length, ...)`, such as labels, or a teacher's
            logits that were kept.
        weights: tensor of shape `(batch_size, sequence_length)`.
        coefficient: callable of Σ weight, which returns what Σ weight × value
            is multiplied by in the loss.
    """

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
    """Returns the sums of terms on logits that are never all there.

    A loop over chunks of positions makes the logits of teachers and student,
    adds up, and forgets them. Sums and gradient are those of all logits at
    once, up to rounding. On TensorFlow the same loop makes the gradient; on
    other backends the gradient makes the logits once more.

    Args:
        terms: list of `ChunkTerm`, at least one.
        student: `FactoredLogits`.
        chunk_size: int. Positions, over rows and their lengths, at one time.
        scale: float or scalar tensor. What the loss is multiplied by before its
            gradient is taken, so that half precision can hold that. `None`
            where no gradient is taken. Defaults to `None`.

    Returns:
        Tuple of two lists of scalars, one a term: Σ weight × value, which has
        a gradient, and Σ weight.
    """
    width = student.states.shape[-1]
    batch_size, length = ops.shape(student.states)[:2]
    num_positions = batch_size * length
    num_chunks = -(-num_positions // chunk_size)
    padding = num_chunks * chunk_size - num_positions

    def chunks(tensor, last_axis=()):
        """Chunks of positions on a new first axis; zeros behind the last."""
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

    def sums_of(states, targets, weights, embeddings):
        """The numerators and the denominators of one chunk."""
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
        """What the loss, scaled, multiplies the numerators by."""
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
            sums_of, *tensors, None if scale is None else coefficients
        )
    else:
        tops, bottoms = _scan(sums_of, *tensors)
    count = len(terms)
    return ops.unstack(tops, num=count), ops.unstack(bottoms, num=count)


def _scan(sums_of, states, targets, weights, embeddings):
    """Adds up over chunks, of which the gradient keeps no logits.

    Args:
        sums_of, states, targets, weights, embeddings: as in
            `loop_over_chunks`.
    """
    forgetful = keras.remat(sums_of)

    def add(sums, chunk):
        found = forgetful(*chunk, embeddings)
        return tuple(map(ops.add, sums, found)), None

    nothing = ops.zeros(len(weights), dtype="float32")
    sums, _ = ops.scan(add, (nothing, nothing), (states, targets, weights))
    return sums


def loop_over_chunks(
    sums_of, states, targets, weights, embeddings, coefficients
):
    """Adds up over chunks, and makes the gradient in the same turns.

    So each chunk's logits are made once. What a turn needs for that is what the
    loss multiplies the first sums by.

    Args:
        sums_of: callable of a chunk of states, the chunks of all targets, those
            of all weights, and the embeddings, which returns Σ weight × value
            and Σ weight, both of shape `(num_terms,)`.
        states: tensor of shape `(num_chunks, chunk_size, hidden_dim)`.
        targets: list of tensors, one a term, whose first axes are likewise.
        weights: list of tensors of shape `(num_chunks, chunk_size)`.
        embeddings: tensor of shape `(vocabulary_size, hidden_dim)`.
        coefficients: callable of the second sums, which returns what the loss
            multiplies the first ones by, of shape `(num_terms,)`; or `None`
            where no gradient is asked for.

    Returns:
        Tuple of the two sums. The first has a gradient in the states and the
        embeddings, for a loss that is Σ coefficient × sum or a multiple of it.
    """
    num_chunks = tf.shape(states)[0]
    nothing = tf.zeros(len(weights))

    def sums_of_number(number, chunk, embeddings):
        return sums_of(
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
        top, bottom = sums_of_number(number, states[number], embeddings)
        return tops + top, bottoms + bottom

    def add_bottoms(number, bottoms):
        # Depends on no logits, so that a graph makes none.
        _, bottom = sums_of_number(number, states[number], embeddings)
        return (bottoms + bottom,)

    if coefficients is None:
        return loop(add_sums, nothing, nothing)
    (bottoms,) = loop(add_bottoms, nothing)
    factors = tf.stop_gradient(coefficients(bottoms))
    # So that nothing of the turns is kept for a gradient of them.
    fixed_states, fixed = map(tf.stop_gradient, (states, embeddings))

    def add(number, tops, to_states, to_embeddings):
        chunk = fixed_states[number]
        with tf.GradientTape() as tape:
            tape.watch((chunk, fixed))
            top, _ = sums_of_number(number, chunk, fixed)
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
    # Of a loss that is a multiple of Σ factor × top, the slope is the same one.
    along = tf.math.divide_no_nan(factors, tf.reduce_sum(tf.square(factors)))
    return tf.stop_gradient(tops) + slope * along, bottoms


def _nothing_with_gradient(values, gradient):
    """Returns 0, whose gradient in the values is what is given.

    `tf.custom_gradient` would do, but TensorFlow keeps what it is given, with
    the step around it and all weights in that, until the process ends.
    """
    values, gradient = (
        tf.reshape(tf.cast(one, "float32"), (-1,)) for one in (values, gradient)
    )
    product = tf.tensordot(values, tf.stop_gradient(gradient), 1)
    return product - tf.stop_gradient(product)
