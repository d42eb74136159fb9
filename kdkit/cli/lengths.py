"""How long the rows of a run on text are, where that was not said."""

import dataclasses

from kdkit.models.places import config_file
from kdkit.reading import read_json
from kdkit.training.data_settings import counting_padding
from kdkit.training.data_settings import with_one_length
from kdkit.training.run_settings import DistillSettings
from kdkit.training.run_settings import PretrainSettings

FIELD = "corpus.sequence_length"
BUCKETS = "data.num_buckets"
POSITIONS = "max_sequence_length"


def with_rows_that_fit(settings: PretrainSettings, options) -> PretrainSettings:
    """The settings with rows that each model has positions for, unless set.

    Args:
        settings: `PretrainSettings`.
        options: the parsed options, with `set`.
    """
    if any(field.startswith(f"{FIELD}=") for field in options.set):
        return settings
    longest = settings.corpus.sequence_length
    known = [length for length in _positions(settings) if length is not None]
    if longest <= min(known, default=longest):
        return settings
    print(
        f"Rows have {min(known)} tokens at most, as many as there are "
        f"positions, not {longest}. Set others by --set {FIELD}=N.",
        flush=True,
    )
    corpus = dataclasses.replace(settings.corpus, sequence_length=min(known))
    return dataclasses.replace(settings, corpus=corpus)


def with_batches_that_fit(
    settings: DistillSettings, options
) -> DistillSettings:
    """The settings with batches of one length for losses that count padding.

    Args:
        settings: `DistillSettings`.
        options: the parsed options, with `set`.
    """
    if any(field.startswith(f"{BUCKETS}=") for field in options.set):
        return settings
    names = counting_padding(settings.stages)
    if not names:
        return settings
    print(
        f"Every batch is padded to {settings.data.sequence_length} tokens, "
        f"since {', '.join(names)} count padding. Set another number of "
        f"lengths by --set {BUCKETS}=N.",
        flush=True,
    )
    return with_one_length(settings)


def _positions(settings):
    """Those of the model and of its teacher, `None` where they do not show."""
    model = settings.model
    yield model.num_positions
    for place in (model.checkpoint, model.copy_from, settings.teacher):
        if place is not None:
            yield saved_size(place, POSITIONS)


def saved_size(place, *names) -> int | None:
    """Returns a size of the model in a directory from its `config.json`.

    Args:
        place: string. Where the model is.
        names: strings. What the size is called: in keras-hub, in Hugging Face
            checkpoints.

    Returns:
        Int, `None` where the file does not have it.
    """
    file = config_file(place)
    if file is None:
        return None
    config = read_json(file, "the config of a model")
    for entries in (config.get("config"), config):
        for name in names if isinstance(entries, dict) else ():
            if type(entries.get(name)) is int:
                return entries[name]
    return None
