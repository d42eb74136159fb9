"""Saving classifiers so that they load where kdkit is not installed."""

import json
import math
import pathlib

from kdkit.files import write_text
from kdkit.models.file_digests import HEAD_FILE
from kdkit.models.file_digests import write_digests
from kdkit.models.heads import backbone_of
from kdkit.models.heads import head_model_of
from kdkit.models.plain_encoder import needs_plain_encoder
from kdkit.models.plain_encoder import with_plain_encoder
from kdkit.models.preset_readme import save_readme
from kdkit.models.preset_readme import tokenizer_note
from kdkit.models.preset_tokenizers import save_rules
from kdkit.models.ruled_tokenizers import plain_tokenizer
from kdkit.models.tokens import family_tokenizer

LABELS_FILE = "labels.json"  # what the logits stand for
SLACK = 1 << 18  # bytes of configs


def save_preset(model, tokenizer, path, sequence_length, head=None):
    """Writes a classifier as a keras-hub preset directory.

    It loads where kdkit is not installed. That of a text classifier loads with
    `keras_hub.models.TextClassifier.from_preset`, tokenizer included. That of
    another kind holds the encoder and the tokenizer as presets and the head in
    `head.keras`, a functional model from the encoder's outputs (and, for
    heads with candidates, the token ids) to logits. For `batch`, a dict of
    tensors:

    ```python
    encoder = keras_hub.models.Backbone.from_preset(path)
    head = keras.models.load_model(f"{path}/head.keras")
    states = {**batch, **encoder(batch)}
    logits = head({name: states[name] for name in head.input})
    ```

    `digests.json` has the digests of its files, by which kdkit notices one that
    is damaged.

    Args:
        model: a classifier as `kdkit.models.add_head` returns it.
        tokenizer: the keras-hub tokenizer that goes with the encoder, or
            another of word pieces for an encoder that reads those.
        path: string or path of the directory.
        sequence_length: int. Length that the preprocessor pads and cuts to.
        head: `Head` or `None`. Its class names and candidates are written to
            `labels.json`. Defaults to `None`.

    Raises:
        UsageError: (a `ValueError`) if the tokenizer is none for the model.
    """
    path = pathlib.Path(path)
    head_model = head_model_of(model)
    if head_model is None:
        _save_task(model, tokenizer, path, sequence_length)
    else:
        _save_encoder(backbone_of(model), tokenizer, path)
        head_model.save(path / HEAD_FILE)
    if head is not None:
        save_labels(head, path / LABELS_FILE)
    write_digests(path)


def save_encoder(backbone, tokenizer, path):
    """Writes an encoder and its tokenizer as a keras-hub preset directory.

    It loads with `keras_hub.models.Backbone.from_preset`, or in a task model
    with a new head, where kdkit is not installed.

    Args:
        backbone: a keras-hub backbone.
        tokenizer: the tokenizer of its family, or another of word pieces for a
            backbone that reads those.
        path: string or path of the directory.

    Raises:
        UsageError: (a `ValueError`) if the tokenizer is none for the model.
    """
    _save_encoder(backbone, tokenizer, path)
    write_digests(path)


def _save_encoder(backbone, tokenizer, path):
    tokenizer = family_tokenizer(backbone, tokenizer)
    backbone.save_to_preset(str(path))
    plain_tokenizer(tokenizer).save_to_preset(str(path))
    save_rules(tokenizer, path)
    save_readme(path, tokenizer_note(tokenizer))


def _save_task(model, tokenizer, path, sequence_length):
    tokenizer = family_tokenizer(model, tokenizer)
    # A copy, since what is saved of a compiled model includes its optimiser.
    copy = type(model).from_config(model.get_config())
    copy.set_weights(model.get_weights())
    if needs_plain_encoder(copy):
        copy = with_plain_encoder(copy)
    copy.preprocessor = type(model).preprocessor_cls(
        plain_tokenizer(tokenizer), sequence_length=sequence_length
    )
    copy.save_to_preset(str(path))
    save_rules(tokenizer, path)
    save_readme(path, tokenizer_note(tokenizer))


def stored_size(model) -> int:
    """Returns how many bytes the files of a model need, and a little more.

    Args:
        model: `keras.Model`. Its optimizer counts, if it has one.
    """
    optimizer = getattr(model, "optimizer", None)
    variables = [*model.variables, *getattr(optimizer, "variables", ())]
    numbers = sum(math.prod(variable.shape) for variable in variables)
    # Of 4 bytes; HDF5 keeps a page or less of each variable's name and shape.
    return 4 * numbers + 4096 * len(variables) + SLACK


def save_labels(head, file) -> None:
    """Writes what the logits of a head stand for, where they have names."""
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
