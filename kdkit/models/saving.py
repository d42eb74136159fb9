"""Saves models of all kinds so that they load without kdkit.

keras-hub loads the presets, but ignores `kdkit.json`. Keras loads the other
files.
"""

import dataclasses
import itertools
import json
import math
import pathlib
import re
import zipfile
from collections.abc import Iterable

import keras
import keras_hub

from kdkit.io.files import write_text
from kdkit.models.conventions import PLAIN, Conventions
from kdkit.models.embedders import is_embedder, standalone_pooling
from kdkit.models.families import family_of, find_backbone
from kdkit.models.heads import Head, head_or_pooling
from kdkit.models.mass import MassBackbone
from kdkit.models.places import (
    CARD,
    EMBEDDER,
    HEAD_FILE,
    LABELS_FILE,
    MODEL_FILE,
)
from kdkit.models.tokenizer_kinds import (
    SAMPLES,
    as_tokenizer,
    count_differences,
    to_keras_hub,
)
from kdkit.models.variants import as_keras_hub, extra_settings

SLACK = 1 << 18  # bytes of configs
LENGTH, LANGUAGES = "sequence_length", "languages"  # entries of `kdkit.json`
METADATA = "metadata.json"
NO_DATE = "1980-01-01@00:00:00"  # the earliest date in ZIP
README = "README.md"
COMPARED = 1000  # texts whose ids are compared with keras-hub's


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """A model and what belongs to it, to save it or as it was loaded.

    model: `keras.Model`. A classifier whose outputs are logits, a language
        model, an embedder or an encoder.
    tokenizer: `kdkit.models.Tokenizer`, or keras-hub's; `None` if the file has
        none.
    has_trained_head: bool. Whether the model's head was loaded with the
        weights. `False` for a pretrained encoder, whose head is random.
        Defaults to `True`.
    languages: tuple of two strings or `None`s. The source and the target
        language that an encoder-decoder was trained on, if known.
    sequence_length: int or `None`. The maximum number of tokens that the
        model was saved for, on each side of an encoder-decoder, if known.
    conventions: `kdkit.models.Conventions` of an embedder.
    head: `kdkit.models.Head` of a classifier, if it is known.
    """

    model: object
    tokenizer: object
    has_trained_head: bool = True
    languages: tuple[str | None, str | None] = (None, None)
    sequence_length: int | None = None
    conventions: Conventions = PLAIN
    head: Head | None = None


def save_model(
    loaded: LoadedModel, path, texts: Iterable[str] | None = None
) -> None:
    """Writes a model of any kind and its tokenizer as a directory.

    `load_model` loads the directory. It also loads without kdkit: a text
    classifier with `keras_hub.models.TextClassifier.from_preset`, an embedder
    with `TextEmbedder`, a language model with `MaskedLM` or `CausalLM`, each
    with its tokenizer, and their encoders with `keras_hub.models.Backbone`.
    Other heads and poolings, for which keras-hub has no class, are in
    `head.keras` next to the encoder's preset: a functional model from the
    encoder's outputs (and inputs, if it has such) to the model's. With `batch`,
    a dict of tensors:

    ```python
    encoder = keras_hub.models.Backbone.from_preset(path)
    head = keras.models.load_model(f"{path}/head.keras")
    states = encoder(batch)
    if not isinstance(states, dict):
        states = {"sequence_output": states}
    states = {**batch, **states}
    outputs = head({name: states[name] for name in head.input})
    ```

    A BiLSTM and a static embedder are `model.keras` alone. Only MASS needs
    kdkit to load.

    Args:
        loaded: `LoadedModel`. Its `sequence_length` is the length to which the
            preset's preprocessor pads and truncates. The names and candidates
            of its `head` are written to `labels.json`.
        path: string or path of the directory.
        texts: iterable of strings, such as a run's dev texts. For the first
            1,000, a README states how many get other token ids without kdkit.
            Defaults to `None`: a few difficult samples.

    Raises:
        UsageError: (a `ValueError`) if the tokenizer does not fit the model.
    """
    path = pathlib.Path(path)
    path.mkdir(parents=True, exist_ok=True)
    model, tokenizer = loaded.model, loaded.tokenizer
    part, head, plain = model, head_or_pooling(model), None
    backbone = find_backbone(model)
    family = family_of(backbone)
    if family is None and not isinstance(backbone, MassBackbone):
        # A copy, because a saved compiled model includes its optimizer.
        copy = keras.models.clone_model(model)
        copy.set_weights(model.get_weights())
        copy.save(path / MODEL_FILE)
    else:
        if family is not None and tokenizer is not None:
            plain = to_keras_hub(tokenizer, family)
        is_task = isinstance(model, keras_hub.models.TextEmbedder)
        if is_task and type(plain) is not family.tokenizer:
            head = standalone_pooling(model)
        if head is not None:
            head.save(path / HEAD_FILE)
            part = backbone
        _save_preset(part, plain, loaded.sequence_length, path)
    if tokenizer is not None:
        tokenizer = as_tokenizer(tokenizer)
        tokenizer.save_assets(path)
    settings = extra_settings(part)
    card = {
        "kind": EMBEDDER if is_embedder(model) else None,
        LENGTH: loaded.sequence_length,
        LANGUAGES: loaded.languages if any(loaded.languages) else None,
        **settings,
    }
    card = {name: value for name, value in card.items() if value is not None}
    write_text(path / CARD, f"{json.dumps(card, indent=1)}\n")
    if loaded.head is not None:
        save_labels(loaded.head, path / LABELS_FILE)
    if loaded.conventions != PLAIN:
        loaded.conventions.save(path)
    _save_readme(path, tokenizer, plain, settings, texts)
    _forget_process(path)


def _save_preset(part, plain, sequence_length, path):
    """Writes a task or a backbone of keras-hub, and its tokenizer."""
    copy = as_keras_hub(part)  # without an optimizer
    is_task = isinstance(part, keras_hub.models.Task)
    if is_task and plain is not None:
        copy.preprocessor = type(part).preprocessor_cls(
            plain, sequence_length=sequence_length
        )
    copy.save_to_preset(str(path))
    if not is_task and plain is not None:
        plain.save_to_preset(str(path))


def _save_readme(path, tokenizer, plain, settings, texts):
    """Writes what differs without kdkit, if anything does."""
    what = "difficult sample texts" if texts is None else "texts of its run"
    texts = list(
        itertools.islice(SAMPLES if texts is None else texts, COMPARED)
    )
    differences = []
    count = count_differences(tokenizer, plain, texts) if plain else 0
    if count:
        differences.append(f"{count} of {len(texts)} {what} get other ids")
    if settings:
        extras = ", ".join(f"{key}={one}" for key, one in settings.items())
        differences.append(f"keras-hub's classes have no {extras}")
    if differences:
        write_text(
            path / README,
            "# Without kdkit, this preset differs\n\n"
            f"In keras-hub, {' and '.join(differences)}.\n"
            "`kdkit.models.load_model(path)` loads it exactly.\n",
        )


def save_embedder(model, tokenizer, path, sequence_length, conventions=PLAIN):
    """Writes an embedder and its tokenizer as a directory, as `save_model`.

    Args:
        model: an embedder, see `kdkit.models.make_embedder`.
        tokenizer: the encoder's `kdkit.models.Tokenizer`, or keras-hub's.
        path: string or path of the directory.
        sequence_length: int. The length to which texts are truncated.
        conventions: `kdkit.models.Conventions`. Defaults to no prompts and the
            cosine.

    Raises:
        UsageError: (a `ValueError`) if the tokenizer does not fit the model.
    """
    loaded = LoadedModel(
        model,
        tokenizer,
        sequence_length=sequence_length,
        conventions=conventions,
    )
    save_model(loaded, path)


def _forget_process(path):
    """Removes the traces of the saving process from a saved model.

    These are the time of saving, and the memory addresses by which Keras
    identifies objects that several layers share, such as the initializers of an
    LSTM. Equal models are then equal files, also for the teacher cache, which
    identifies its teacher by them.
    """
    for file in path.glob(METADATA):
        write_text(file, _without_process(file.read_text("utf-8")))
    for file in path.glob("*.keras"):
        with zipfile.ZipFile(file) as archive:
            contents = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in contents.items():
                if name.endswith(".json"):
                    content = _without_process(content.decode("utf-8"))
                member = zipfile.ZipInfo(name)
                member.external_attr = 0o600 << 16
                archive.writestr(member, content)


def _without_process(text):
    """Returns JSON of Keras without its date and with numbered objects."""
    numbers = {}

    def numbered(found):
        number = numbers.setdefault(found[2], len(numbers))
        return f"{found[1]}{number}"

    text = re.sub(r'("date_saved": )"[^"]*"', rf'\1"{NO_DATE}"', text)
    return re.sub(r'("shared_object_id": )(\d+)', numbered, text)


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
