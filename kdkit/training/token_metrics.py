"""Materials whose labels are tokens, and how well these are predicted."""

import dataclasses
import math

import keras

from kdkit.backends import tf
from kdkit.errors import RunError


@dataclasses.dataclass(frozen=True)
class TokenSums:
    """Sums over the predicted tokens of a text.

    Args:
        loss: float. Of −log p(token), in nats.
        correct: float. Of the tokens that get the highest logit.
        total: float. Of all that are predicted.
    """

    loss: float
    correct: float
    total: float

    @property
    def accuracy(self) -> float:
        """The share of tokens that get the highest logit."""
        return self.correct / self.total

    def perplexity(self, count: float | None = None) -> float:
        """exp of the loss over a count, that of the tokens unless given."""
        if count is None:
            count = self.total
        return math.exp(min(self.loss / count, 700.0))


class TokenMaterial:
    """What materials share whose labels are tokens of the text itself."""

    primary_metric = "perplexity"
    larger_is_better = False
    training_metrics = ()
    pad_token_id = None

    @property
    def label_loss(self):
        # The mean over the tokens that count, however many a row has.
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )

    def labeled_only(self):
        return self  # no row is without labels


def sum_over_tokens(predict, batches) -> TokenSums:
    """Sums up what a model says of the tokens that count.

    Args:
        predict: callable from a dict batch to logits of shape `(batch_size,
            length, vocabulary_size)`.
        batches: iterable of `(x, y, sample_weight)`: what `predict` takes,
            `int32` tokens and weights of shape `(batch_size, length)`.

    Raises:
        RunError: if the loss is not finite.
    """
    loss = correct = total = 0.0
    for x, labels, weights in batches:
        logits = tf.cast(predict(x), "float32")
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        is_right = tf.argmax(logits, -1, "int32") == labels
        loss += float(tf.reduce_sum(weights * losses))
        correct += float(tf.reduce_sum(weights * tf.cast(is_right, "float32")))
        total += float(tf.reduce_sum(weights))
    if not math.isfinite(loss):
        raise RunError(
            "The loss on the held-out text is not finite: the model has "
            "diverged. Train it with a smaller learning_rate."
        )
    return TokenSums(loss, correct, total)
