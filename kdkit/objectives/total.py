"""The loss of an epoch, made of what its terms were."""

import keras


class TotalLoss(keras.metrics.Mean):
    """The mean of what layers add to a loss, and the sum of its other terms.

    Each term is a mean over what counts for it: rows, tokens, or the pairs of
    attention. The mean of the steps' losses would not be their sum: a row of a
    batch with few tokens would count for more than others, and the value would
    be another one in another order of the rows.

    Args:
        terms: callable that returns the weighted sum of the other terms so far.
    """

    def __init__(self, terms):
        super().__init__(name="loss")
        self._terms = terms

    def result(self):
        """Returns a scalar tensor."""
        return super().result() + self._terms()
