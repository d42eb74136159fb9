"""The loss of an epoch, made of what its terms were."""

import keras


class TotalLoss(keras.metrics.Mean):
    """The mean of what layers add to a loss, and the sum of its other terms.

    Each term is a mean over what counts for it: rows, tokens, or the pairs of
    attention. The mean of the steps' losses would not be their sum: a row of a
    batch with few tokens would count for more than others, and the value would
    be another one in another order of the rows.

    Args:
        trackers: list of `keras.metrics.Mean`, one for each term.
        weights: list of floats, the weights of the terms in the loss.
    """

    def __init__(self, trackers, weights):
        super().__init__(name="loss")
        # The model tracks their variables; a list would be tracked here too.
        self._terms = lambda: zip(trackers, weights, strict=True)

    def update_all(self, values, counts, extra, batch_size) -> None:
        """Updates the means of the terms, and that of what layers add.

        Args:
            values: list of scalars, one for each term; what is more is ignored.
            counts: list of scalars, how much each value counts.
            extra: scalar. What layers add.
            batch_size: int or scalar. How much that counts.
        """
        for (tracker, _), value, count in zip(
            self._terms(), values, counts, strict=False
        ):
            tracker.update_state(value, sample_weight=count)
        self.update_state(extra, sample_weight=batch_size)

    def result(self):
        """Returns a scalar tensor."""
        return super().result() + sum(
            weight * tracker.result() for tracker, weight in self._terms()
        )
