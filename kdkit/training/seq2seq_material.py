"""Sentences and pairs as the material of a stage, for encoder-decoders."""

import dataclasses
import functools
import logging
from collections.abc import Callable

import numpy as np

from kdkit.data import WHOLE
from kdkit.data import EncodedSentences
from kdkit.data import SpanMasker
from kdkit.data import encode_sentences
from kdkit.data import join_sentences
from kdkit.data import pair_batches
from kdkit.data import pair_evaluation_batches
from kdkit.data import span_batches
from kdkit.data import span_evaluation_batches
from kdkit.errors import UsageError
from kdkit.models import TokenizerPair
from kdkit.models import languages_of
from kdkit.models import tokenizers_of_sides
from kdkit.training.material import TokenMaterial
from kdkit.training.material import sum_over_tokens
from kdkit.training.sentence_settings import PairSettings
from kdkit.training.sentence_settings import SentenceSettings

_log = logging.getLogger(__name__)

READ = ("encoder_token_ids", "encoder_padding_mask")
# Of a batch of evaluation, whose logits are as wide as the vocabulary.
EVALUATION_TOKENS = 2048


@dataclasses.dataclass(frozen=True)
class HeldOutSentences:
    """Sentences to measure on, each with a span hidden.

    Args:
        sentences: `kdkit.data.EncodedSentences`.
        masker: `kdkit.data.SpanMasker`.
    """

    sentences: EncodedSentences
    masker: SpanMasker

    def __len__(self):
        return len(self.sentences)

    @property
    def num_truncated(self) -> int:
        """How many sentences were cut."""
        return self.sentences.num_truncated

    def batches(self):
        """Returns all of them, always with the same spans."""
        return span_evaluation_batches(
            self.sentences, self.masker, EVALUATION_TOKENS
        )


@dataclasses.dataclass(frozen=True)
class HeldOutPairs:
    """Pairs to measure on.

    Args:
        sources: `kdkit.data.EncodedSentences`.
        targets: `kdkit.data.EncodedSentences`, as many.
    """

    sources: EncodedSentences
    targets: EncodedSentences

    def __len__(self):
        return len(self.sources)

    @property
    def num_truncated(self) -> int:
        """How many texts were cut, on both sides."""
        return self.sources.num_truncated + self.targets.num_truncated

    def rows(self, count: int):
        """Returns the first pairs as tuples of int arrays without padding.

        The target is without its end, which is never read.
        """
        rows = min(count, len(self))
        return [
            (
                self.sources.padded(np.array([row]))[0],
                self.targets.padded(np.array([row]))[0, :-1],
            )
            for row in range(rows)
        ]

    def batches(self, features=None):
        """Returns all of them, always in the same batches.

        Args:
            features: as in `Material.validation_batches`.
        """
        return pair_evaluation_batches(
            self.sources, self.targets, EVALUATION_TOKENS, features
        )


@dataclasses.dataclass(frozen=True)
class Seq2SeqMaterial(TokenMaterial):
    """What an encoder-decoder learns to write, and what it is measured on.

    Args:
        batches: callable of `max_tokens`, `seed`, `first_epoch` and
            `first_step`, and of pairs of `features`. Returns endless batches
            and the number of them in an epoch.
        held_out: `HeldOutSentences` or `HeldOutPairs`.
    """

    batches: Callable
    held_out: HeldOutSentences | HeldOutPairs

    def training_batches(
        self,
        stage,
        seed,
        first_epoch,
        features=None,
        shares=WHOLE,
        first_step=0,
    ):
        kept = {} if features is None else {"features": features}
        batches, steps_per_epoch = self.batches(
            max_tokens=stage.batch_tokens,
            seed=seed,
            first_epoch=first_epoch,
            first_step=first_step,
            **kept,
        )
        return shares.of_batches(batches), steps_per_epoch

    def validation_batches(self, stage, features=None, shares=WHOLE):
        kept = {} if features is None else {"features": features}
        return shares.of_batches(self.held_out.batches(**kept))

    def evaluate(self, predict, logs):
        """Perplexity and accuracy of the tokens that the decoder predicts."""
        return {
            "split": "held_out",
            "examples": len(self.held_out),
            "metrics": token_metrics(predict, self._held_out_batches),
            "agreement": None,
        }

    @functools.cached_property
    def _held_out_batches(self):
        return self.held_out.batches()


def token_metrics(predict, batches) -> dict:
    """Returns the perplexity and accuracy of what a decoder predicts.

    Perplexity is exp of the mean negative log-likelihood in nats, over all
    predicted tokens; `token_accuracy` the share of them that gets the highest
    logit. The decoder has read the true tokens before each.

    Args:
        predict: callable from a dict batch to logits of shape `(batch_size,
            decoder_length, vocabulary_size)`.
        batches: as `kdkit.data.pair_evaluation_batches` makes them.

    Raises:
        RunError: if the loss is not finite.
    """
    sums = sum_over_tokens(predict, batches)
    return {"perplexity": sums.perplexity(), "token_accuracy": sums.accuracy}


def other_sources(batches):
    """Yields batches of pairs in which each target has another's source.

    Perplexity of these is as that of the pairs where a decoder has learned to
    write its language and not to read. A pair that is a batch by itself has the
    source of the pair before it, and is left out where there is none.

    Args:
        batches: as `HeldOutPairs.batches` makes them.
    """
    before = None
    for inputs, *rest in batches:
        read = {name: np.asarray(inputs[name]) for name in READ}
        if len(read[READ[0]]) > 1:
            moved = {
                name: np.roll(one, 1, axis=0) for name, one in read.items()
            }
        else:
            moved = before
        before = {name: one[-1:] for name, one in read.items()}
        if moved is not None:
            yield {**inputs, **moved}, *rest


def check_vocabulary(
    settings: SentenceSettings | PairSettings, tokenizer
) -> None:
    """Refuses text that a vocabulary is not for.

    Args:
        settings: `SentenceSettings` or `PairSettings`.
        tokenizer: `kdkit.models.MassTokenizer` or
            `kdkit.models.TokenizerPair`.

    Raises:
        UsageError: if a language has no token, no language is named where the
            vocabulary has some, or spans are hidden and there are two
            vocabularies.
    """
    is_pair = isinstance(tokenizer, TokenizerPair)
    if is_pair and isinstance(settings, SentenceSettings):
        raise UsageError(
            "The words of a hidden span stand on both sides, so that sentences "
            "need a joint vocabulary. Received: sentences, for a model with "
            "one vocabulary to read by and another to write by. Use --pairs, "
            "or a model with a joint one."
        )
    known = languages_of(tokenizer)
    if known and not settings.languages:
        raise UsageError(
            "The vocabulary has tokens of languages, and none is named for the "
            f"text. Expected some of {', '.join(known)} in --languages. "
            "Received: none."
        )
    if isinstance(settings, PairSettings):
        named = zip(tokenizers_of_sides(tokenizer), settings.sides, strict=True)
    else:
        named = ((tokenizer, language) for language in settings.languages)
    for one, language in named:
        one.language_token_id(language)


def load_seq2seq(
    settings: SentenceSettings | PairSettings, tokenizer
) -> Seq2SeqMaterial:
    """Reads and encodes what an encoder-decoder learns from.

    Args:
        settings: `SentenceSettings`, of which spans are hidden, or
            `PairSettings`, whose targets are predicted.
        tokenizer: `kdkit.models.MassTokenizer`; for pairs it may be a
            `kdkit.models.TokenizerPair`.

    Raises:
        UsageError: if a file is missing or malformed, there is too little text,
            or a language has no token.
    """
    held_out = load_held_out(settings, tokenizer)
    if isinstance(settings, PairSettings):
        sources, targets = _encode_pairs(settings, tokenizer, False)
        batches = functools.partial(pair_batches, sources, targets)
        num_cut = sources.num_truncated + targets.num_truncated
        what = f"pairs: {len(sources)}"
    else:
        sentences = _encode_sentences(settings, tokenizer, False)
        batches = functools.partial(span_batches, sentences, held_out.masker)
        num_cut = sentences.num_truncated
        what = f"sentences: {len(sentences)}"
    _log.info(
        f"{what} to train on, {len(held_out)} held out; {num_cut} cut to "
        f"{settings.sequence_length} tokens.",
    )
    return Seq2SeqMaterial(batches, held_out)


def load_held_out(settings: SentenceSettings | PairSettings, tokenizer):
    """Reads and encodes what an encoder-decoder is measured on.

    Args:
        settings, tokenizer: as in `load_seq2seq`.

    Returns:
        `HeldOutSentences` or `HeldOutPairs`.

    Raises:
        UsageError: as `load_seq2seq` does.
    """
    if isinstance(settings, PairSettings):
        return HeldOutPairs(*_encode_pairs(settings, tokenizer, True))
    return HeldOutSentences(
        _encode_sentences(settings, tokenizer, True),
        SpanMasker(settings.spans, tokenizer),
    )


def _encode_sentences(settings, tokenizer, is_held_out):
    return join_sentences(
        *(
            encode_sentences(
                texts, tokenizer, settings.sequence_length, language
            )
            for language, texts in settings.parts(is_held_out)
        )
    )


def _encode_pairs(settings, tokenizer, is_held_out):
    """The sources and the targets, each in its language and vocabulary."""
    pairs = list(settings.pairs(is_held_out))
    if not pairs:
        raise UsageError("There are no pairs to encode. Received: no lines.")
    return [
        encode_sentences(texts, one, settings.sequence_length, language)
        for texts, one, language in zip(
            zip(*pairs, strict=True),
            tokenizers_of_sides(tokenizer),
            settings.sides,
            strict=True,
        )
    ]
