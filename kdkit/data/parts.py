"""Batches in parts: fewer rows at a time, one update for all of them."""

from kdkit.backends import tf
from kdkit.data.ahead import made_ahead


def in_parts(batches: "tf.data.Dataset", num_parts: int) -> "tf.data.Dataset":
    """Returns every batch as so many batches of fewer rows, in their order.

    An optimiser with `gradient_accumulation_steps=num_parts` makes one update
    of each, from the mean of the gradients of the parts.

    Args:
        batches: endless `tf.data.Dataset` as `training_batches` makes it. The
            first axis of its tensors are rows, or as many sequences for each
            row.
        num_parts: int. Parts of a batch. They differ by one row at most; of a
            batch with fewer rows than parts some rows come again, so that no
            part is empty.
    """

    def parts_of(*batch):
        batch = batch if len(batch) > 1 else batch[0]
        num_rows = tf.reduce_min(
            [tf.shape(tensor)[0] for tensor in tf.nest.flatten(batch)]
        )

        def part(number):
            start = number * num_rows // num_parts
            end = tf.maximum((number + 1) * num_rows // num_parts, start + 1)

            def rows(tensor):
                per_row = tf.shape(tensor)[0] // num_rows
                return tensor[start * per_row : end * per_row]

            return tf.nest.map_structure(rows, batch)

        return tf.data.Dataset.range(num_parts, output_type="int32").map(part)

    return made_ahead(
        batches.flat_map(parts_of).apply(
            tf.data.experimental.assert_cardinality(
                tf.data.experimental.INFINITE_CARDINALITY
            )
        )
    )
