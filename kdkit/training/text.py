"""Running text and sentences as a source, whose own tokens are the labels."""

import functools
import logging
import math

import keras
import numpy as np

from kdkit import models
from kdkit.config.data import Corpus, Lines, Pairs, Sentences
from kdkit.data import (
    BatchStream,
    FullBatches,
    MaskedRows,
    Masker,
    Masking,
    PackedCorpus,
    PackedRows,
    PairRows,
    SpanMasker,
    SpanRows,
    TokenBatches,
    encode_sentences,
    pack,
    pack_stream,
)
from kdkit.data.packing import open_packed
from kdkit.data.sentences import join_sentences
from kdkit.errors import RunError, UsageError
from kdkit.late import tf
from kdkit.models.heads import is_causal
from kdkit.training.source import Source, measured

_log = logging.getLogger(__name__)

READ = ("encoder_token_ids", "encoder_padding_mask")
# Small, because logits have the vocabulary's size.
FEW = 16
FEW_ROWS, FEW_TOKENS = FullBatches(FEW), TokenBatches(2048)
# The largest number of logits in memory during an evaluation, over batch,
# positions and vocabulary: 256 MB.
LOGITS_AT_ONCE = 2**26


def full_batches(stage) -> FullBatches:
    """Returns the order of packed text to train on."""
    return FullBatches(stage.batch_size)


def text_source(
    train,
    held_out,
    accuracy: str = "token_accuracy",
    order=full_batches,
    held_out_order=FEW_ROWS,
    num_words: int | None = None,
) -> Source:
    """Returns rows whose labels are tokens as a source."""
    batches = functools.cache(BatchStream(held_out, held_out_order).evaluation)

    def evaluate(predict):
        metrics = token_metrics(predict, batches(), accuracy, num_words)
        return measured("held_out", held_out, metrics)

    return Source(
        train,
        held_out,
        order,
        held_out_order,
        evaluate,
        metric="perplexity",
        # The mean over the tokens that count, in all sequences together.
        label_loss=keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        ),
    )


def sentence_source(
    train: SpanRows | PairRows | None, held_out: SpanRows | PairRows
) -> Source:
    """Returns sentences with hidden spans, or pairs."""
    return text_source(
        train,
        held_out,
        order=lambda stage: TokenBatches(stage.batch_tokens),
        held_out_order=FEW_TOKENS,
    )


def token_metrics(
    predict, batches, accuracy: str, num_words: int | None = None
) -> dict:
    """Returns a model's perplexity and accuracy on the tokens that count."""
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
            "diverged."
        )
    metrics = {
        "perplexity": math.exp(min(loss / total, 700.0)),
        accuracy: correct / total,
    }
    if num_words:
        metrics["word_perplexity"] = math.exp(min(loss / num_words, 700.0))
    return metrics


def require_readable(settings: Lines, model) -> None:
    """Requires text in a form that the model can read."""
    if getattr(settings, "one_document", False) and not is_causal(model):
        raise UsageError(
            "one_document is for decoders. Received: one_document=True and an "
            "encoder."
        )


def require_vocabulary(settings: Sentences | Pairs, tokenizer) -> None:
    """Requires a vocabulary that fits the text."""
    if tokenizer.languages and not settings.languages:
        raise UsageError(
            "The vocabulary has language tokens. Expected some of "
            f"{', '.join(tokenizer.languages)} as --languages."
        )
    for language in settings.languages:
        tokenizer.language_token_id(language)


def is_masked(settings: Lines, model) -> bool:
    """Returns whether tokens of the text are masked for a model."""
    return (
        isinstance(settings, Corpus)
        and not is_causal(model)
        and models.backbone_of(model) is not model
    )


def load_text(settings: Lines, tokenizer, directory, model) -> Source:
    """Reads and encodes the text of a run."""
    length = settings.sequence_length
    if not isinstance(settings, Corpus):
        held_out = load_sentences(settings, tokenizer, is_held_out=True)
        train = load_sentences(settings, tokenizer, is_held_out=False)
        what = "pairs" if isinstance(train, PairRows) else "sentences"
        _log.info(
            f"{what}: {len(train)} to train on, {len(held_out)} held out; "
            f"{train.num_truncated} truncated to {length} tokens."
        )
        return sentence_source(train, held_out)
    train, held_out = (
        open_packed(directory / name)
        or pack_text(settings, tokenizer, directory / name, model, is_held_out)
        for name, is_held_out in (("train", False), ("held_out", True))
    )
    _log.info(
        f"corpus: {train.num_texts} texts in {len(train)} sequences of "
        f"{length} tokens to train on, {len(held_out)} sequences held out."
    )
    return packed_source(model, tokenizer, settings.masking, held_out, train)


def pack_text(
    settings: Corpus,
    tokenizer,
    directory,
    model,
    is_held_out: bool,
    stride=None,
) -> PackedCorpus:
    """Packs the text to train or to measure on, as a model reads it."""
    texts, length = settings.texts(is_held_out), settings.sequence_length
    if not is_causal(model):
        return pack(texts, tokenizer, length, directory)
    return pack_stream(
        texts,
        tokenizer,
        length,
        directory,
        stride,
        settings.one_document,
        settings.num_words() if is_held_out else None,
    )


def packed_source(
    model,
    tokenizer,
    masking: Masking,
    held_out: PackedCorpus,
    train: PackedCorpus | None = None,
) -> Source:
    """Returns packed text as the source that a model needs."""
    if is_causal(model):
        train = train and PackedRows(train)
        rows = PackedRows(held_out)
        numbers = rows.sequence_length * model.output_shape[-1]
        return text_source(
            train,
            rows,
            "next_token_accuracy",
            held_out_order=FullBatches(
                min(max(LOGITS_AT_ONCE // numbers, 1), FEW)
            ),
            num_words=held_out.num_words,
        )
    if models.backbone_of(model) is model:  # no labels: encoders are compared
        rows = train and PackedRows(train)
        return Source(rows, PackedRows(held_out), full_batches, FEW_ROWS)
    masker = Masker(masking, tokenizer)
    rows = train and MaskedRows(train, masker)
    return text_source(rows, MaskedRows(held_out, masker), "masked_accuracy")


def load_sentences(
    settings: Sentences | Pairs, tokenizer, is_held_out: bool
) -> SpanRows | PairRows:
    """Reads and encodes sentences or pairs for an encoder-decoder."""

    def encoded(texts, language):
        length = settings.sequence_length
        return encode_sentences(texts, tokenizer, length, language)

    if isinstance(settings, Pairs):
        texts = zip(*settings.pairs(is_held_out), strict=True)
        return PairRows(*map(encoded, texts, settings.sides))
    parts = settings.parts(is_held_out)
    sentences = join_sentences(
        *(encoded(texts, language) for language, texts in parts)
    )
    return SpanRows(sentences, SpanMasker(settings.spans, tokenizer))


def other_sources(batches):
    """Yields batches of pairs in which each target has another's source."""
    before = None
    for inputs, *rest in batches:
        read = {name: np.asarray(inputs[name]) for name in READ}
        moved = before
        if len(read[READ[0]]) > 1:
            moved = {
                name: np.roll(one, 1, axis=0) for name, one in read.items()
            }
        before = {name: one[-1:] for name, one in read.items()}
        if moved is not None:
            yield {**inputs, **moved}, *rest
