"""Running text as the material of a stage: causal language modelling."""

import dataclasses
import functools

from kdkit.data import WHOLE
from kdkit.data import PackedCorpus
from kdkit.data import next_token_evaluation_batches
from kdkit.data import next_token_training_batches
from kdkit.training.token_metrics import TokenMaterial
from kdkit.training.token_metrics import sum_over_tokens

# Logits of evaluation that are there at one time, over batch, positions and
# vocabulary: 256 MB.
LOGITS_AT_ONCE = 2**26


@dataclasses.dataclass(frozen=True)
class CausalMaterial(TokenMaterial):
    """Packed text of which every token is predicted from those before it.

    Args:
        train: `kdkit.data.PackedCorpus` as `kdkit.data.pack_stream` makes it.
        held_out: `kdkit.data.PackedCorpus`, likewise.
        vocabulary_size: int. Width of the logits.
    """

    train: PackedCorpus
    held_out: PackedCorpus
    vocabulary_size: int

    def training_batches(
        self,
        stage,
        seed,
        first_epoch,
        features=None,
        shares=WHOLE,
        first_step=0,
    ):
        batches, steps_per_epoch = next_token_training_batches(
            self.train,
            stage.batch_size,
            seed,
            first_epoch,
            first_step,
            features,
        )
        return shares.of_batches(batches), steps_per_epoch

    def validation_batches(self, stage, features=None, shares=WHOLE):
        return shares.of_batches(
            batches_of_all_tokens(self.held_out, self.vocabulary_size, features)
        )

    def evaluate(self, predict, logs):
        """Perplexity and accuracy of every token of the text held out."""
        return {
            "split": "held_out",
            "examples": len(self.held_out),
            "metrics": next_token_metrics(
                predict, self._held_out_batches, self.held_out.num_words
            ),
            "agreement": None,
        }

    @functools.cached_property
    def _held_out_batches(self):
        return batches_of_all_tokens(self.held_out, self.vocabulary_size)


def batches_of_all_tokens(
    rows: PackedCorpus, vocabulary_size: int, features=None
):
    """Returns batches to evaluate on, of as many rows as memory allows.

    Args:
        rows: `kdkit.data.PackedCorpus` as `kdkit.data.pack_stream` makes it.
        vocabulary_size: int. Width of the logits.
        features: as in `kdkit.data.next_token_evaluation_batches`.
    """
    per_row = rows.sequence_length * vocabulary_size
    together = max(1, min(16, LOGITS_AT_ONCE // per_row))
    return next_token_evaluation_batches(rows, together, features)


def next_token_metrics(predict, batches, num_words: int | None = None) -> dict:
    """Returns how well a model predicts each token of a text from the left.

    With L the sum over all tokens but the first of −log p(token | the tokens
    before it in its row), in nats: `perplexity` is exp(L / tokens),
    `word_perplexity` exp(L / words), where the words of the text before any
    detokenizer were counted (see `kdkit.data.Corpus.num_words`); that is how
    models with different vocabularies compare (Radford et al., 2019, section
    3.1). `next_token_accuracy` is the share of tokens with the highest logit.
    What is before a token are all tokens of its row, from `stride` tokens less
    than a whole row on to a whole row, fewer at the beginning of the text.

    Args:
        predict: callable from a dict batch to logits of shape `(batch_size,
            sequence_length, vocabulary_size)`.
        batches: as `batches_of_all_tokens` returns them.
        num_words: int or `None`. Words of the text, `None` where they were not
            counted. Defaults to `None`.

    Raises:
        RunError: if the loss is not finite.
    """
    sums = sum_over_tokens(predict, batches)
    metrics = {
        "perplexity": sums.perplexity(),
        "next_token_accuracy": sums.accuracy,
    }
    if num_words:
        metrics["word_perplexity"] = sums.perplexity(num_words)
    return metrics
