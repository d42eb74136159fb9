"""Loading models with their tokenizers from where people keep them."""

import dataclasses
import json
import pathlib

import keras
import keras_hub

from kdkit.errors import UsageError

WHERE = (
    "a kdkit run directory, a keras-hub preset directory, a Hugging Face "
    "checkpoint directory, a .keras file, or the name of a keras-hub preset "
    "such as 'bert_base_en_uncased'"
)

SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """A model and the tokenizer that goes with it.

    Args:
        model: `keras.Model`. A classifier whose outputs are logits.
        tokenizer: a `keras_hub.tokenizers.Tokenizer`, or `None` where the file
            has none.
        has_trained_head: bool. Whether the classifier's head came with the
            weights. `False` for a pretrained encoder, whose head is random.
    """

    model: object
    tokenizer: object
    has_trained_head: bool


def load_classifier(source, num_classes) -> LoadedModel:
    """Loads a text classifier, or puts a new head on an encoder.

    Args:
        source: string or path. A kdkit run directory (its `student/`, or of a
            teacher's run its `teacher/`), a keras-hub preset directory, a
            Hugging Face checkpoint directory, a `.keras` file, or the name of
            a keras-hub preset, which is then downloaded.
        num_classes: int. Width of the logits that the task needs.

    Raises:
        UsageError: (a `ValueError`) if nothing is found there, it is no text
            classifier, or it has another number of classes.
    """
    path = pathlib.Path(source)
    if path.suffix == ".keras":
        loaded = _load_keras_file(path)
    elif path.exists():
        loaded = _load_directory(find_preset_directory(path), num_classes)
    else:
        loaded = _load_named_preset(str(source), num_classes)
    _check_num_classes(loaded.model, num_classes, source)
    return loaded


def load_encoder(source, load_weights=True):
    """Loads an encoder without its head.

    Args:
        source: string or path, as in `load_classifier`, but no `.keras` file.
        load_weights: bool. `False` for the sizes alone, which costs little.
            Defaults to `True`.

    Returns:
        A `keras_hub.models.BertBackbone` and its tokenizer.

    Raises:
        UsageError: (a `ValueError`) if nothing is found there.
    """
    path = pathlib.Path(source)
    place = str(find_preset_directory(path)) if path.exists() else str(source)
    try:
        backbone = keras_hub.models.Backbone.from_preset(
            place, load_weights=load_weights
        )
        tokenizer = keras_hub.tokenizers.BertTokenizer.from_preset(place)
    except Exception as error:  # keras-hub raises many kinds, offline or not
        raise UsageError(
            f"No encoder could be loaded from {source!r}: {error}. Expected "
            f"{WHERE}."
        ) from error
    return backbone, tokenizer


def load_tokenizer(source):
    """Loads the tokenizer of a run, a preset directory or a vocabulary.

    Args:
        source: string or path. A `.txt` file holds one word piece a line; it
            is taken as lower-cased unless a piece has a capital letter.

    Raises:
        UsageError: (a `ValueError`) if there is none.
    """
    path = pathlib.Path(source)
    if path.suffix == ".txt" and path.is_file():
        return _wordpiece_tokenizer(path)
    path = find_preset_directory(path)
    return keras_hub.tokenizers.BertTokenizer.from_preset(str(path))


def _wordpiece_tokenizer(path):
    """A tokenizer from a file of word pieces."""
    pieces = path.read_text(encoding="utf-8").splitlines()
    missing = [piece for piece in SPECIAL_PIECES if piece not in pieces]
    if missing:
        raise UsageError(
            f"{path} is no vocabulary of a BERT. Expected one word piece a "
            f"line, {', '.join(SPECIAL_PIECES)} among them. Missing: "
            f"{', '.join(missing)}."
        )
    ordinary = set(pieces) - set(SPECIAL_PIECES)
    is_cased = any(
        piece != piece.lower()
        for piece in ordinary
        if not (piece.startswith("[") and piece.endswith("]"))
    )
    return keras_hub.tokenizers.BertTokenizer(pieces, lowercase=not is_cased)


def find_preset_directory(path: pathlib.Path) -> pathlib.Path:
    """Returns the preset inside a run directory, or the directory itself."""
    if not path.is_dir():
        raise UsageError(f"{path} is not a directory. Expected {WHERE}.")
    for name in ("student", "teacher", "encoder"):
        if (path / name / "config.json").is_file():
            return path / name
    if (path / "metrics.jsonl").is_file():
        raise UsageError(
            f"The run in {path} has no model yet. Expected student/, teacher/ "
            "or encoder/ in it. Finish the run by giving its command again."
        )
    if not (path / "config.json").is_file():
        raise UsageError(
            f"No model found in {path}. Expected {WHERE}. Received a "
            f"directory with: {sorted(item.name for item in path.iterdir())}."
        )
    return path


def task_class(path: pathlib.Path) -> str:
    """The class of the task model in a preset directory; empty without one."""
    if not (path / "task.json").is_file():
        return ""
    return json.loads((path / "task.json").read_text())["class_name"]


def _load_keras_file(path):
    if not path.is_file():
        raise UsageError(f"No such file: {path}. Expected {WHERE}.")
    model = keras.models.load_model(path, compile=False)
    preprocessor = getattr(model, "preprocessor", None)
    return LoadedModel(model, getattr(preprocessor, "tokenizer", None), True)


def _load_directory(path, num_classes):
    """Loads a keras-hub or a Hugging Face directory."""
    has_head = task_class(path).endswith("TextClassifier")
    return _from_preset(str(path), None if has_head else num_classes)


def _load_named_preset(name, num_classes):
    try:
        return _from_preset(name, num_classes)
    except UsageError:
        raise
    except Exception as error:  # keras-hub raises many kinds, offline or not
        raise UsageError(
            f"No model {name!r}: there is no such file or directory, and "
            f"keras-hub could not load a preset of this name ({error}). "
            f"Expected {WHERE}."
        ) from error


def _from_preset(source, num_classes):
    """Loads a classifier; `num_classes` is `None` if its head is saved."""
    if num_classes is None:
        model = keras_hub.models.TextClassifier.from_preset(source)
    else:
        backbone = keras_hub.models.Backbone.from_preset(source)
        if not isinstance(backbone, keras_hub.models.BertBackbone):
            raise UsageError(
                f"The encoder in {source} is a {type(backbone).__name__}. "
                "Expected a BertBackbone."
            )
        tokenizer = keras_hub.tokenizers.BertTokenizer.from_preset(source)
        model = keras_hub.models.BertTextClassifier(
            backbone, num_classes=num_classes
        )
        return LoadedModel(model, tokenizer, has_trained_head=False)
    tokenizer = model.preprocessor.tokenizer
    model.preprocessor = None
    return LoadedModel(model, tokenizer, has_trained_head=True)


def _check_num_classes(model, num_classes, source):
    received = model.output_shape[-1]
    if received != num_classes:
        raise UsageError(
            f"The model in {source} has {received} classes and the task has "
            f"{num_classes}. Use a model that was fine-tuned on this task."
        )


def save_preset(model, tokenizer, path, sequence_length):
    """Writes a classifier as a keras-hub preset directory.

    The directory loads with `keras_hub.models.TextClassifier.from_preset`,
    tokenizer included, where kdkit is not installed.

    Args:
        model: `keras_hub.models.BertTextClassifier`.
        tokenizer: `keras_hub.tokenizers.BertTokenizer`.
        path: string or path of the directory.
        sequence_length: int. Length that the preprocessor pads and cuts to.
    """
    # A copy, since what is saved of a compiled model includes its optimiser.
    copy = type(model).from_config(model.get_config())
    copy.set_weights(model.get_weights())
    copy.preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        tokenizer, sequence_length=sequence_length
    )
    copy.save_to_preset(str(path))
