"""Running text as the material of a stage: masked-language modelling."""

import dataclasses
import functools
import logging

from kdkit import models
from kdkit.data import WHOLE
from kdkit.data import Masker
from kdkit.data import PackedCorpus
from kdkit.data import masked_evaluation_batches
from kdkit.data import masked_training_batches
from kdkit.data import next_token_evaluation_batches
from kdkit.data import next_token_training_batches
from kdkit.data import open_packed
from kdkit.data import pack
from kdkit.data import pack_stream
from kdkit.data import plain_evaluation_batches
from kdkit.data import plain_training_batches
from kdkit.errors import UsageError
from kdkit.training.data_settings import CorpusSettings
from kdkit.training.material import TokenMaterial
from kdkit.training.material import sum_over_tokens

_log = logging.getLogger(__name__)

EVALUATION_BATCH_SIZE = 16  # logits are as wide as the vocabulary


@dataclasses.dataclass(frozen=True)
class CorpusMaterial(TokenMaterial):
    """Packed text, masked anew in every epoch.

    Args:
        train: `kdkit.data.PackedCorpus`.
        held_out: `kdkit.data.PackedCorpus`.
        masker: `kdkit.data.Masker`.
    """

    train: PackedCorpus
    held_out: PackedCorpus
    masker: Masker

    def training_batches(
        self,
        stage,
        seed,
        first_epoch,
        features=None,
        shares=WHOLE,
        first_step=0,
    ):
        # Masks are drawn for whole batches: those of one device.
        batches, steps_per_epoch = masked_training_batches(
            self.train,
            self.masker,
            stage.batch_size,
            seed,
            first_epoch,
            first_step,
        )
        return shares.of_batches(batches), steps_per_epoch

    def validation_batches(self, stage, features=None, shares=WHOLE):
        return shares.of_batches(self._held_out_batches)

    def evaluate(self, predict, logs):
        """Perplexity and accuracy at masked tokens that are always the same."""
        return {
            "split": "held_out",
            "examples": len(self.held_out),
            "metrics": masked_metrics(predict, self._held_out_batches),
            "agreement": None,
        }

    @functools.cached_property
    def _held_out_batches(self):
        return masked_evaluation_batches(
            self.held_out, self.masker, EVALUATION_BATCH_SIZE
        )


@dataclasses.dataclass(frozen=True)
class PlainTextMaterial:
    """Packed text as it stands, for stages that compare encoders.

    Args:
        train: `kdkit.data.PackedCorpus`.
        held_out: `kdkit.data.PackedCorpus`.
    """

    train: PackedCorpus
    held_out: PackedCorpus
    primary_metric = "loss"
    larger_is_better = False
    label_loss = None
    training_metrics = ()
    pad_token_id = None

    def labeled_only(self):
        return self

    def training_batches(
        self,
        stage,
        seed,
        first_epoch,
        features=None,
        shares=WHOLE,
        first_step=0,
    ):
        batches, steps_per_epoch = plain_training_batches(
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
            plain_evaluation_batches(
                self.held_out,
                EVALUATION_BATCH_SIZE,
                features,
            )
        )

    def evaluate(self, predict, logs):
        """The losses on text that is held out."""
        return {
            "split": "held_out",
            "examples": len(self.held_out),
            "metrics": {
                name.removeprefix("val_"): float(value)
                for name, value in logs.items()
                if name.startswith("val_")
            },
            "agreement": None,
        }


def masked_metrics(predict, batches) -> dict:
    """Returns how well a model predicts masked tokens.

    Perplexity is exp of the mean negative log-likelihood in nats, over all
    predicted tokens of the rows; `masked_accuracy` the share of them that gets
    the highest logit.

    Args:
        predict: callable from a dict batch to logits of shape `(batch_size,
            num_predictions, vocabulary_size)`.
        batches: as `kdkit.data.masked_evaluation_batches` makes them, with the
            same tokens masked each time.

    Raises:
        UsageError: if no token can be masked.
        RunError: if the loss is not finite.
    """
    sums = sum_over_tokens(predict, batches)
    if not sums.total:
        raise UsageError(
            "No token of the text can be masked: the vocabulary spells none of "
            "its words. Use text of the model's language."
        )
    return {
        "perplexity": sums.perplexity(),
        "masked_accuracy": sums.accuracy,
    }


def check_readable(settings, model) -> None:
    """Refuses text in a form that a model does not read.

    Args:
        settings: `CorpusSettings`, `SentenceSettings` or `PairSettings`.
        model: what is trained on it.

    Raises:
        UsageError: if an encoder is to read lines of one document, or the text
            is not of sentences for an encoder-decoder and for no other.
    """
    is_running = isinstance(settings, CorpusSettings)
    if is_running == models.is_encoder_decoder(model):
        raise UsageError(
            "Sentences and pairs are for encoder-decoders, running text is for "
            f"encoders and decoders. Received: {type(settings).__name__} and a "
            f"{type(model).__name__}."
        )
    if is_running and settings.one_document and not models.is_causal(model):
        raise UsageError(
            "Lines of one document are for decoders. Received: one_document="
            "True, and an encoder, whose rows are texts one after the other. "
            "Leave it out."
        )


def is_masked(settings, model) -> bool:
    """Whether tokens of the text are masked for a model.

    Args:
        settings: as in `check_readable`.
        model: likewise.
    """
    return (
        isinstance(settings, CorpusSettings)
        and not models.is_causal(model)
        and models.backbone_of(model) is not model
    )


def load_corpus(settings: CorpusSettings, tokenizer, directory, model):
    """Packs the text into a directory, or opens what was packed there.

    Args:
        settings: `CorpusSettings`.
        tokenizer: the model's keras-hub tokenizer.
        directory: `pathlib.Path`.
        model: what is trained on it.

    Returns:
        `CausalMaterial` for a `keras_hub.models.CausalLM`, `CorpusMaterial` for
        a `keras_hub.models.MaskedLM`, `PlainTextMaterial` for an encoder alone.

    Raises:
        UsageError: if a file is missing or malformed, or there is too little
            text.
    """
    parts = {}
    for name in ("train", "held_out"):
        parts[name] = open_packed(directory / name) or _pack(
            settings, tokenizer, directory / name, model
        )
    _log.info(
        f"corpus: {parts['train'].num_texts} texts in {len(parts['train'])} "
        f"rows of {settings.sequence_length} tokens to train on, "
        f"{len(parts['held_out'])} rows held out.",
    )
    if models.is_causal(model):
        return CausalMaterial(**parts, vocabulary_size=model.output_shape[-1])
    if models.backbone_of(model) is model:
        return PlainTextMaterial(**parts)
    return CorpusMaterial(**parts, masker=Masker(settings.masking, tokenizer))


def _pack(settings, tokenizer, directory, model):
    """Packs the text of a part, which the directory is named after."""
    is_held_out = directory.name == "held_out"
    texts = settings.texts(is_held_out)
    if not models.is_causal(model):
        return pack(texts, tokenizer, settings.sequence_length, directory)
    return pack_stream(
        texts,
        tokenizer,
        settings.sequence_length,
        directory,
        one_document=settings.one_document,
        num_words=settings.num_words() if is_held_out else None,
    )


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
