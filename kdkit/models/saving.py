"""Saves classifiers so that they load without kdkit.

keras-hub loads the preset, but ignores `kdkit.json`.
"""

import functools
import json
import math
import pathlib
import zipfile

from kdkit.io.files import staged, write_text
from kdkit.models.families import family_of
from kdkit.models.heads import (
    backbone_of,
    find_head,
)
from kdkit.models.places import HEAD_FILE, LABELS_FILE
from kdkit.models.tokenizer_kinds import (
    as_tokenizer,
    to_keras_hub,
)
from kdkit.models.variants import (
    as_keras_hub,
    load_extras,
    save_extras,
    save_settings,
    settings_note,
)

SLACK = 1 << 18  # bytes of configs
LENGTH = "sequence_length"  # the entry of `kdkit.json`
METADATA, CONFIG = "metadata.json", "config.json"
SHARED_OBJECT = "shared_object_id"
NO_DATE = "1980-01-01@00:00:00"  # the earliest date in ZIP


def save_preset(model, tokenizer, path, sequence_length, head=None):
    """Writes a classifier as a keras-hub preset directory.

    The directory loads without kdkit. A text classifier loads with
    `keras_hub.models.TextClassifier.from_preset`, including its tokenizer. For
    other kinds, the directory contains the encoder and the tokenizer as
    presets, and the head in `head.keras`: a functional model from the encoder's
    outputs (and the token ids, for heads with candidates) to logits. With
    `batch`, a dict of tensors:

    ```python
    encoder = keras_hub.models.Backbone.from_preset(path)
    head = keras.models.load_model(f"{path}/head.keras")
    states = {**batch, **encoder(batch)}
    logits = head({name: states[name] for name in head.input})
    ```

    Args:
        model: a classifier from `kdkit.models.add_head`.
        tokenizer: the encoder's `kdkit.models.Tokenizer`, or keras-hub's.
        path: string or path of the directory.
        sequence_length: int. Length to which the preprocessor pads and
            truncates.
        head: `Head` or `None`. Its class names and candidates are written to
            `labels.json`. Defaults to `None`.

    Raises:
        UsageError: (a `ValueError`) if the tokenizer does not fit the model.
    """
    path = pathlib.Path(path)
    head_model = find_head(model)
    if head_model is None:
        save_task(model, tokenizer, path, sequence_length)
    else:
        save_plain_encoder(backbone_of(model), tokenizer, path)
        head_model.save(path / HEAD_FILE)
        save_extras(path, **{LENGTH: sequence_length})
    if head is not None:
        save_labels(head, path / LABELS_FILE)
    forget_process(path)


def save_encoder(backbone, tokenizer, path):
    """Writes an encoder and its tokenizer as a keras-hub preset directory.

    Without kdkit it loads with `keras_hub.models.Backbone.from_preset`, or in a
    task model with a new head.

    Args:
        backbone: a keras-hub backbone.
        tokenizer: the encoder's `kdkit.models.Tokenizer`, or keras-hub's.
        path: string or path of the directory.

    Raises:
        UsageError: (a `ValueError`) if the tokenizer does not fit the model.
    """
    save_plain_encoder(backbone, tokenizer, path)
    forget_process(path)


def save_plain_encoder(backbone, tokenizer, path):
    """Does the same as `save_encoder`, with the date of saving."""
    plain = to_keras_hub(tokenizer, family_of(backbone))
    as_keras_hub(backbone).save_to_preset(str(path))
    plain.save_to_preset(str(path))
    save_extra_files(backbone, tokenizer, plain, path)


def save_task(model, tokenizer, path, sequence_length):
    """Writes a keras-hub task model as a preset."""
    plain = to_keras_hub(tokenizer, family_of(model.backbone))
    # A copy, because a saved compiled model includes its optimizer.
    copy = as_keras_hub(model)
    copy.preprocessor = type(model).preprocessor_cls(
        plain, sequence_length=sequence_length
    )
    copy.save_to_preset(str(path))
    save_extras(path, **{LENGTH: sequence_length})
    save_extra_files(model, tokenizer, plain, path)


def save_extra_files(model, tokenizer, plain, path):
    """Writes what keras-hub's part of a preset lacks, and a note about it."""
    tokenizer = as_tokenizer(tokenizer)
    tokenizer.save_assets(path)
    save_settings(model, path)
    note = tokenizer_note(tokenizer, plain)
    save_readme(path, note, settings_note(model))


def forget_process(path) -> None:
    """Removes the traces of the saving process from a saved model.

    These are the time of saving, and the memory addresses by which Keras
    identifies objects that several layers share, such as the initializers of an
    LSTM. Equal models are then equal files, also for the teacher cache, which
    identifies its teacher by them.

    Args:
        path: string or path of a preset directory or of a `.keras` file that no
            other process reads yet.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        metadata = path / METADATA
        if metadata.is_file():
            values = _without_date(json.loads(metadata.read_text("utf-8")))
            write_text(metadata, json.dumps(values, indent=4))
        for file in path.glob("*.keras"):
            forget_process(file)
        return
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    for name, changed in (
        (METADATA, _without_date),
        (CONFIG, functools.partial(_without_addresses, numbers={})),
    ):
        values = changed(json.loads(contents[name]))
        contents[name] = json.dumps(values).encode("utf-8")
    with staged(path) as partial, zipfile.ZipFile(partial, "w") as archive:
        for name, content in contents.items():
            member = zipfile.ZipInfo(name)
            member.external_attr = 0o600 << 16
            archive.writestr(member, content)


def saved_length(directory) -> int | None:
    """Returns the sequence length that a model was saved with, if known."""
    length = load_extras(directory).get(LENGTH)
    return length if type(length) is int and length > 0 else None


def _without_date(metadata):
    if "date_saved" in metadata:
        return {**metadata, "date_saved": NO_DATE}
    return metadata


def _without_addresses(config, numbers):
    """Returns the config with shared objects numbered by first occurrence."""
    if isinstance(config, list):
        return [_without_addresses(value, numbers) for value in config]
    if not isinstance(config, dict):
        return config
    return {
        key: numbers.setdefault(value, len(numbers))
        if key == SHARED_OBJECT
        else _without_addresses(value, numbers)
        for key, value in config.items()
    }


def stored_size(model) -> int:
    """Returns an upper bound for the bytes of a model's files.

    Args:
        model: `keras.Model`. Its optimizer counts, if it has one.
    """
    optimizer = getattr(model, "optimizer", None)
    variables = [*model.variables, *getattr(optimizer, "variables", ())]
    numbers = sum(math.prod(variable.shape) for variable in variables)
    # 4 bytes per number; HDF5 needs at most a page per variable for its name.
    return 4 * numbers + 4096 * len(variables) + SLACK


def save_labels(head, file) -> None:
    """Writes the names of a head's classes, if they have names."""
    if head.class_names is None:
        return
    labels = {"classes": list(head.class_names)}
    if head.candidates is not None:
        labels["candidates"] = {
            piece: [head.class_names[number] for number in classes]
            for piece, classes in head.candidates.items()
        }
    text = json.dumps(labels, ensure_ascii=False, indent=1)
    write_text(pathlib.Path(file), f"{text}\n")


README = "README.md"
HEAD = """# Loading this preset without kdkit

keras-hub loads this preset where kdkit is not installed. It does not read
`kdkit.json` and `kdkit_tokenizer.json`, which `kdkit.models.load_encoder` and
kdkit's other loaders apply. Without kdkit this differs:
"""
# Plain English, then texts that tokenizers are known to treat differently.
SAMPLES = (
    "The film is a charming and often affecting journey.",
    "It's slow -- very, very slow.",
    "Shares rose $1.20, or 3.5 percent, to $35.40 on Friday.",
    "I loved it!!!<br /><br />10/10, would watch again :)",
    "A man in an orange hat starring at something.",
    "Visit https://example.org/a_b?c=1 or write to me@example.org.",
    "An amélie-like café scene, naïve but touching.",
    "Not good\u00a0at\u00a0all.",
    "Ein Mann läuft über die Straße.",
    "Zwei Männer grüßen sich vor einem großen weißen Haus.",
    "Un garçon et une fille jouent près de la forêt.",
    "L'élève a très bien réussi à Noël.",
    "El niño come una piña en São Paulo.",
    "“Curly quotes” – and a dash… or two",
    "It costs 5 € or £4, that is ½ of 10 ₣.",
    "soft\u00adhyphen, zero\u200bwidth and a mark\ufeff",
    "東京タワー is in 東京.",
    "Привет, мир!",
    "So funny 😂😂 👍🏽",
    "e\u0301crit with a combining accent, ﬁnd with a ligature",
)


def save_readme(directory, *notes: str) -> None:
    """Writes the notes into a preset's README, as a list."""
    points = [f"- {note}\n" for note in notes if note]
    if points:
        text = HEAD + "\n" + "".join(points)
        write_text(pathlib.Path(directory) / README, text)


def count_differences(tokenizer, other) -> int:
    """Counts the sample texts to which two tokenizers give other ids."""
    if tokenizer is other:
        return 0
    texts = list(SAMPLES)
    pairs = zip(tokenizer(texts), other(texts), strict=True)
    return sum(list(one) != list(another) for one, another in pairs)


def tokenizer_note(tokenizer, plain) -> str:
    """Returns a note on the texts that get other token ids without kdkit."""
    count = count_differences(tokenizer, plain)
    if not count:
        return ""
    return (
        f"keras-hub's `{type(plain).__name__}` splits some texts differently: "
        f"{count} of {len(SAMPLES)} sample texts, most of them difficult, get "
        "other token ids, so that the model's outputs for them differ."
    )
