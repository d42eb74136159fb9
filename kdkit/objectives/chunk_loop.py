"""The loop over chunks in TensorFlow, with a gradient of its own.

TensorFlow's own gradient of a loop keeps what every turn of it made.
"""

from kdkit.backends import tf


def loop_over_chunks(sums_of, states, targets, weights, embeddings):
    """Adds up over chunks; the gradient makes each of them once more.

    Args:
        sums_of: callable of a chunk of states, the chunks of all targets, those
            of all weights, and the embeddings, which returns Σ weight × value
            and Σ weight, both of shape `(num_terms,)`.
        states: tensor of shape `(num_chunks, chunk_size, hidden_dim)`.
        targets: list of tensors, one a term, whose first axes are likewise.
        weights: list of tensors of shape `(num_chunks, chunk_size)`.
        embeddings: tensor of shape `(vocabulary_size, hidden_dim)`.

    Returns:
        Tuple of the two sums, of which the first has a gradient in the states
        and the embeddings.
    """
    num_chunks = tf.shape(states)[0]

    def sums_of_number(number, chunk, embeddings):
        return sums_of(
            chunk,
            [target[number] for target in targets],
            [weight[number] for weight in weights],
            embeddings,
        )

    @tf.custom_gradient
    def total(states, embeddings):
        def add(number, tops, bottoms):
            top, bottom = sums_of_number(number, states[number], embeddings)
            return number + 1, tops + top, bottoms + bottom

        nothing = tf.zeros(len(weights))
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
                    top, _ = sums_of_number(number, chunk, embeddings)
                to_chunk, more = tape.gradient(
                    top, (chunk, embeddings), output_gradients=of_tops
                )
                return (
                    number + 1,
                    to_states.write(number, to_chunk),
                    to_embeddings + tf.cast(more, "float32"),
                )

            gathered = tf.TensorArray(
                states.dtype, num_chunks, element_shape=states.shape[1:]
            )
            _, to_states, to_embeddings = tf.while_loop(
                lambda number, *_: number < num_chunks,
                add,
                (0, gathered, tf.zeros(tf.shape(embeddings))),
                parallel_iterations=1,
            )
            return to_states.stack(), tf.cast(to_embeddings, embeddings.dtype)

        return (tops, bottoms), gradient

    return total(states, embeddings)
