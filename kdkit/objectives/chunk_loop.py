"""The loop over chunks in TensorFlow, with a gradient of its own.

TensorFlow's own gradient of a loop keeps what every turn of it made.
"""

from kdkit.backends import tf


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
