"""Sentences and pairs that the options name, for encoder-decoders."""

from kdkit import models
from kdkit.cli.options import absolute
from kdkit.cli.options import given_flags
from kdkit.cli.options import located
from kdkit.errors import UsageError
from kdkit.models import PRESETS
from kdkit.models import MassConfig
from kdkit.training.sentence_settings import PairSettings
from kdkit.training.sentence_settings import SentenceSettings

# Of texts that are no sentences.
FOR_OTHERS = ("one_document", "detokenizer")


def trains_encoder_decoder(options) -> bool:
    """Whether what `kdkit pretrain` trains is an encoder-decoder."""
    if options.pairs is not None or options.languages is not None:
        return True
    if options.student in PRESETS:
        return isinstance(PRESETS[options.student].config, MassConfig)
    place = absolute(options.model or options.teacher)
    return place is not None and models.has_encoder_decoder(place)


def sentence_settings(options) -> SentenceSettings | PairSettings:
    """The sentences, or the pairs, to learn from.

    Raises:
        UsageError: if both are named, or options of running text are.
    """
    if (options.pairs is None) == (options.corpus is None):
        raise UsageError(
            "An encoder-decoder is pretrained on sentences, --corpus, and "
            "fine-tuned on pairs, --pairs. Expected one of them. Received: "
            f"{'both' if options.pairs else 'neither'}."
        )
    text, unread = "--corpus", "pair_columns"
    if options.pairs is not None:
        text, unread = "--pairs", "column"
    foreign = given_flags(options, (*FOR_OTHERS, unread))
    if foreign:
        raise UsageError(
            f"{', '.join(foreign)}: not of the {text} of an encoder-decoder. "
            "Leave it out."
        )
    same = {
        "languages": tuple(options.languages or ()),
        "held_out": tuple(map(absolute, options.held_out or ())),
    }
    if options.corpus is not None:
        files = tuple(map(absolute, options.corpus))
        return SentenceSettings(files=files, column=options.column, **same)
    return PairSettings(
        files=tuple(map(absolute, options.pairs)),
        columns=tuple(options.pair_columns or ()),
        **same,
    )


def check_sides(options, sides) -> None:
    """Refuses a side of --pairs that is in another language in --corpus.

    Args:
        options: the parsed options of a verb that takes both.
        sides: list of two strings, or `None`. The languages of --pairs.

    Raises:
        UsageError: with the file and both languages.
    """
    if not (options.corpus and sides):
        return
    known = dict(
        zip(map(located, options.corpus), options.languages, strict=False)
    )
    for file, side in zip(options.pairs, sides, strict=False):
        language = known.get(located(file), side)
        if language != side:
            raise UsageError(
                "--languages begin with that of the source and have that of "
                f"the target next. Received: {' '.join(options.languages)}, by "
                f"which {file} is {language!r} in --corpus and {side!r} in "
                "--pairs. Name the files of --corpus in that order."
            )
