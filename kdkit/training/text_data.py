"""Reads and encodes a run's text, and returns it as a data source."""

import logging

import numpy as np

from kdkit import models
from kdkit.data import (
    MaskedRows,
    Masker,
    Masking,
    PackedCorpus,
    PackedRows,
    PairRows,
    SpanMasker,
    SpanRows,
    encode_sentences,
    join_sentences,
    open_packed,
    pack,
    pack_stream,
)
from kdkit.errors import UsageError
from kdkit.models.heads import is_causal
from kdkit.training.data_settings import CorpusSettings
from kdkit.training.sentence_settings import PairSettings, SentenceSettings
from kdkit.training.sources import (
    MaskedSource,
    NextTokenSource,
    PlainTextSource,
    SentenceSource,
    TextSource,
)

_log = logging.getLogger(__name__)

READ = ("encoder_token_ids", "encoder_padding_mask")


def require_readable(settings, model) -> None:
    """Requires text in a form that the model can read."""
    is_running = isinstance(settings, CorpusSettings)
    if is_running and settings.one_document and not is_causal(model):
        raise UsageError(
            "one_document is for decoders. Received: one_document=True and an "
            "encoder."
        )


def require_vocabulary(
    settings: SentenceSettings | PairSettings, tokenizer
) -> None:
    """Requires a vocabulary that fits the text."""
    if tokenizer.languages and not settings.languages:
        raise UsageError(
            "The vocabulary has language tokens. Expected some of "
            f"{', '.join(tokenizer.languages)} as --languages."
        )
    is_pairs = isinstance(settings, PairSettings)
    for language in settings.sides if is_pairs else settings.languages:
        tokenizer.language_token_id(language)


def is_masked(settings, model) -> bool:
    """Returns whether tokens of the text are masked for a model."""
    return (
        isinstance(settings, CorpusSettings)
        and not is_causal(model)
        and models.backbone_of(model) is not model
    )


def load_text(settings, tokenizer, directory, model) -> TextSource:
    """Reads and encodes the text of a run."""
    if not isinstance(settings, CorpusSettings):
        held_out = load_sentences(settings, tokenizer, is_held_out=True)
        train = load_sentences(settings, tokenizer, is_held_out=False)
        what = "pairs" if isinstance(train, PairRows) else "sentences"
        _log.info(
            f"{what}: {len(train)} to train on, {len(held_out)} held out; "
            f"{train.num_truncated} truncated to {settings.sequence_length} "
            "tokens.",
        )
        return SentenceSource(train, held_out)
    parts = {}
    for name in ("train", "held_out"):
        parts[name] = open_packed(directory / name) or _pack(
            settings, tokenizer, directory / name, model
        )
    _log.info(
        f"corpus: {parts['train'].num_texts} texts in {len(parts['train'])} "
        f"sequences of {settings.sequence_length} tokens to train on, "
        f"{len(parts['held_out'])} sequences held out.",
    )
    return packed_source(model, tokenizer, settings.masking, **parts)


def _pack(settings, tokenizer, directory, model):
    """Packs the training or held-out text into a directory of that name."""
    is_held_out = directory.name == "held_out"
    texts = settings.texts(is_held_out)
    if not is_causal(model):
        return pack(texts, tokenizer, settings.sequence_length, directory)
    return pack_stream(
        texts,
        tokenizer,
        settings.sequence_length,
        directory,
        one_document=settings.one_document,
        num_words=settings.num_words() if is_held_out else None,
    )


def packed_source(
    model,
    tokenizer,
    masking: Masking,
    held_out: PackedCorpus,
    train: PackedCorpus | None = None,
) -> TextSource:
    """Returns packed text as the source that a model needs."""
    if is_causal(model):
        return NextTokenSource(
            train and PackedRows(train),
            PackedRows(held_out, counts_once=True),
            model.output_shape[-1],
            held_out.num_words,
        )
    if models.backbone_of(model) is model:
        return PlainTextSource(
            train and PackedRows(train), PackedRows(held_out)
        )
    masker = Masker(masking, tokenizer)
    return MaskedSource(
        train and MaskedRows(train, masker), MaskedRows(held_out, masker)
    )


def load_sentences(
    settings: SentenceSettings | PairSettings, tokenizer, is_held_out: bool
) -> SpanRows | PairRows:
    """Reads and encodes sentences or pairs for an encoder-decoder."""
    if isinstance(settings, PairSettings):
        pairs = zip(*settings.pairs(is_held_out), strict=True)
        sides = zip(pairs, settings.sides, strict=True)
        return PairRows(
            *(
                encode_sentences(
                    texts, tokenizer, settings.sequence_length, language
                )
                for texts, language in sides
            )
        )
    sentences = join_sentences(
        *(
            encode_sentences(
                texts, tokenizer, settings.sequence_length, language
            )
            for language, texts in settings.parts(is_held_out)
        )
    )
    return SpanRows(sentences, SpanMasker(settings.spans, tokenizer))


def other_sources(batches):
    """Yields batches of pairs in which each target has another's source."""
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
