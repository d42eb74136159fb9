"""Loads models and their tokenizers from files, directories or presets."""

import dataclasses
import pathlib
import warnings

import keras
import keras_hub

from kdkit.errors import UsageError, unknown
from kdkit.io.reading import read_json
from kdkit.models.architectures import preprocessor_length
from kdkit.models.backbones import load_backbone, require_preset
from kdkit.models.conventions import PLAIN, Conventions
from kdkit.models.families import ALL_FAMILIES, family_of
from kdkit.models.heads import Head, add_head, join
from kdkit.models.hugging_face import (
    checkpoint_family,
    copy_head,
    is_hugging_face,
)
from kdkit.models.places import (
    ARMS,
    HEAD_FILE,
    LABELS_FILE,
    TOKENIZER_DIRECTORY,
    num_classes_at,
    static_folder,
    task_class,
)
from kdkit.models.saving import saved_length
from kdkit.models.tokenizer import Tokenizer
from kdkit.models.tokenizer_files import (
    WHOLE,
    load_saved_tokenizer,
    read_static_tokenizer,
    read_tokenizer,
    read_vocabulary,
)
from kdkit.models.tokenizer_kinds import as_tokenizer
from kdkit.models.variants import saved_settings, with_settings

OPTIMIZER = "Skipping variable loading for optimizer"  # Keras' warning


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """A model and the tokenizer that goes with it.

    model: `keras.Model`. A classifier whose outputs are logits.
    tokenizer: `kdkit.models.Tokenizer`, or `None` if the file has none.
    has_trained_head: bool. Whether the classifier's head was loaded with
        the weights. `False` for a pretrained encoder, whose head is random.
    languages: tuple of two strings or `None`s. The source and the target
        language that an encoder-decoder was trained on, if known.
    sequence_length: int or `None`. The maximum number of tokens that the
        model was saved for, on each side of an encoder-decoder, if known.
    num_other_classes: int or `None`. The number of classes that a Hugging
        Face checkpoint was fine-tuned on, if its head was not loaded
        because that number differs.
    conventions: `kdkit.models.Conventions` of an embedder.
    """

    model: object
    tokenizer: object
    has_trained_head: bool
    languages: tuple[str | None, str | None] = (None, None)
    sequence_length: int | None = None
    num_other_classes: int | None = None
    conventions: Conventions = PLAIN


def load_classifier(source, num_classes) -> LoadedModel:
    """Loads a classifier, or adds a new head to an encoder.

    The encoder must be from a family that kdkit knows. Hugging Face checkpoints
    are read as in `kdkit.models.load_encoder`. The head of a checkpoint that
    was fine-tuned on the same number of classes is copied (see
    `kdkit.models.hugging_face`).

    Args:
        source: string or path. A kdkit run directory (the run's `student/` or
            `student.keras`, or a teacher run's `teacher/`), a keras-hub preset
            directory, a Hugging Face checkpoint directory, a `.keras` file, or
            the name of a keras-hub preset, which is then downloaded.
        num_classes: int, width of a text classifier's logits; or the `Head`
            that the task needs.

    Raises:
        UsageError: (a `ValueError`) if a directory contains no model, the
            encoder's family is unknown, or the head has another number of
            classes or other class names.
    """
    head = num_classes
    if not isinstance(head, Head):
        head = Head("sequence", num_classes)
    path = _run_file(pathlib.Path(source))
    if path.suffix == ".keras":
        loaded = _load_keras_file(path)
    elif path.exists():
        path = find_preset_directory(path)
        loaded = _load_directory(path, head)
    else:
        loaded = _put_head_on(str(source), head)
    require_num_classes(loaded.model.output_shape[-1], head, source)
    if loaded.has_trained_head:
        folder = path.parent if path.suffix == ".keras" else path
        require_class_names(folder / LABELS_FILE, head)
    return loaded


def load_reranker(source) -> LoadedModel:
    """Loads a cross-encoder: a classifier of pairs of texts with one score.

    Args:
        source: string or path, as in `kdkit.models.load_classifier`. The
            classifier has one logit, as for regression and in
            sentence-transformers' cross-encoders, or two classes.

    Raises:
        UsageError: (a `ValueError`) if its head was not trained, or has more
            than two classes.
    """
    num_classes = num_classes_at(source) or 1
    loaded = load_classifier(source, num_classes)
    if not loaded.has_trained_head or num_classes > 2:
        raise UsageError(
            f"{source} is not a cross-encoder. Expected a trained head of one "
            f"score or two classes. Received: {num_classes} classes, "
            f"has_trained_head={loaded.has_trained_head}."
        )
    return dataclasses.replace(loaded, num_other_classes=None)


def load_encoder(source, load_weights=True, needs_pooler=True):
    """Loads an encoder without its head.

    Hugging Face checkpoints of BERT, DistilBERT, RoBERTa, XLM-RoBERTa,
    ALBERT, GPT-2 and Qwen 3 are read field by field of their `config.json`.
    The encoder computes the same as in transformers, or an error names the
    unsupported field.

    Args:
        source: string or path, as in `load_classifier`, but not a `.keras`
            file.
        load_weights: bool. `False` to load only the sizes, which is fast.
            Defaults to `True`.
        needs_pooler: bool. Whether to warn if a Hugging Face checkpoint has no
            pooler, so that the encoder's is random. Defaults to `True`.

    Returns:
        Tuple of a backbone from a family in
        `kdkit.models.families.ALL_FAMILIES`, and its tokenizer.

    Raises:
        UsageError: (a `ValueError`) if a directory contains no model, or a
            checkpoint needs something that keras-hub's models do not compute.
    """
    path = pathlib.Path(source)
    place = str(source)
    if path.exists():
        directory = find_preset_directory(path)
        require_convertible(directory)
        place = str(directory)
    return _load_backbone(place, load_weights, needs_pooler)


def load_tokenizer(source) -> Tokenizer:
    """Loads the tokenizer from a run, a preset directory or a vocabulary.

    Args:
        source: string or path. A `.txt` file contains one word piece per line;
            texts are lower-cased if no piece has a capital letter. A `.json`
            file is a byte-pair vocabulary with its merges next to it, as in
            `kdkit.models.byte_pair_files`.

    Raises:
        UsageError: (a `ValueError`) if a directory contains no model.
    """
    path = pathlib.Path(source)
    if path.suffix in (".txt", ".json"):
        return read_vocabulary(path)
    if (path / TOKENIZER_DIRECTORY).is_dir():
        return load_saved_tokenizer(path / TOKENIZER_DIRECTORY)
    if static := static_folder(path):
        return read_static_tokenizer(static / WHOLE)[0]
    path = find_preset_directory(path)
    if (path / TOKENIZER_DIRECTORY).is_dir():  # of a static embedder
        return load_saved_tokenizer(path / TOKENIZER_DIRECTORY)
    require_convertible(path)
    return _preset_tokenizer(path)


def _preset_tokenizer(source):
    """Loads the tokenizer of a preset or a checkpoint."""
    path = pathlib.Path(source)
    config = path / "config.json"
    if config.is_file():
        family = checkpoint_family(read_json(config, "the config of a model"))
        if family is not None:
            return read_tokenizer(path, family)
    saved = load_saved_tokenizer(path)
    if saved is not None:
        return saved
    made = keras_hub.tokenizers.Tokenizer.from_preset(str(source))
    # The papers' uncased models strip accents, and keras-hub's presets do not.
    return as_tokenizer(made) if path.is_dir() else as_tokenizer(made, None)


def find_preset_directory(path: pathlib.Path) -> pathlib.Path:
    """Returns the preset inside a run directory, or the directory itself."""
    for name in ARMS:
        if (path / name / "config.json").is_file():
            return path / name
    if (
        not (path / "config.json").is_file()
        or (path / "metrics.jsonl").is_file()
    ):
        raise UsageError(f"No model found in {path}.")
    return path


def model_files(source) -> pathlib.Path | None:
    """Returns the file or the directory from which a model is loaded.

    Args:
        source: string or path, as in `load_classifier`.

    Returns:
        `pathlib.Path`, or `None` for the name of a preset.

    Raises:
        UsageError: (a `ValueError`) if a directory contains no model.
    """
    path = _run_file(pathlib.Path(source))
    if path.is_dir():
        return find_preset_directory(path)
    return path if path.exists() else None


def _run_file(path):
    """Returns a run's `.keras` file if it has one, or the path itself."""
    is_preset = any((path / name / "config.json").is_file() for name in ARMS)
    files = [path / f"{name}.keras" for name in ARMS]
    found = [file for file in files if file.is_file()]
    return found[0] if found and not is_preset else path


def _load_keras_file(path):
    model = keras.models.load_model(path, compile=False, safe_mode=True)
    preprocessor = getattr(model, "preprocessor", None)
    tokenizer = getattr(preprocessor, "tokenizer", None)
    if tokenizer is not None:
        tokenizer = as_tokenizer(tokenizer)
    elif (path.parent / TOKENIZER_DIRECTORY).is_dir():
        tokenizer = load_tokenizer(path.parent)
    length = preprocessor_length(preprocessor)
    return LoadedModel(model, tokenizer, True, sequence_length=length)


def _load_directory(path, head):
    """Loads a keras-hub or a Hugging Face directory."""
    if task_class(path).endswith("TextClassifier"):
        return load_task(str(path))
    require_convertible(path)
    if (path / HEAD_FILE).is_file():
        backbone, tokenizer = _load_backbone(str(path))
        head_model = keras.models.load_model(
            path / HEAD_FILE, compile=False, safe_mode=True
        )
        model = join(backbone, head_model)
        length = saved_length(path)
        return LoadedModel(model, tokenizer, True, sequence_length=length)
    loaded = _put_head_on(str(path), head)
    there = copy_head(path, loaded.model, head.kind, head.class_names)
    if there == head.num_classes:
        return dataclasses.replace(loaded, has_trained_head=True)
    return dataclasses.replace(loaded, num_other_classes=there)


def load_task(source, task=None) -> LoadedModel:
    """Loads a keras-hub task model, including its head."""
    require_preset(source)
    task = keras_hub.models.TextClassifier if task is None else task
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", OPTIMIZER)
        model = task.from_preset(source)
    tokenizer = getattr(model.preprocessor, "tokenizer", None)
    length = saved_length(source) or preprocessor_length(model.preprocessor)
    model.preprocessor = None
    model = with_settings(model, saved_settings(source))
    saved = load_saved_tokenizer(source)
    if saved is None and tokenizer is not None:
        saved = as_tokenizer(tokenizer)
    return LoadedModel(model, saved, True, sequence_length=length)


def _put_head_on(source, head):
    """Loads an encoder and adds a new head."""
    backbone, tokenizer = _load_backbone(source)
    model = add_head(backbone, head, tokenizer)
    return LoadedModel(model, tokenizer, has_trained_head=False)


def _load_backbone(source, load_weights=True, needs_pooler=True):
    """Loads an encoder with the tokenizer that belongs to it."""
    backbone = load_backbone(source, load_weights, needs_pooler)
    tokenizer = _preset_tokenizer(source)
    _require_pad_id(backbone, tokenizer, pathlib.Path(source, "config.json"))
    require_embeddings(tokenizer, backbone, source)
    return backbone, tokenizer


def _require_pad_id(backbone, tokenizer, path):
    """Raises an error if a RoBERTa's positions count from another id."""
    form = family_of(backbone).checkpoints
    if not (form and form.positions_follow_padding and path.is_file()):
        return
    config = read_json(path, "the config of a model")
    expected = config.get("pad_token_id", tokenizer.pad_token_id)
    if is_hugging_face(config) and expected != tokenizer.pad_token_id:
        raise UsageError(
            f"{path}: positions count from pad_token_id={expected}, but the "
            f"tokenizer pads with {tokenizer.pad_token_id}."
        )


def require_convertible(path):
    """Raises an error for Hugging Face checkpoints of unsupported types."""
    config = read_json(path / "config.json", "the config of a model")
    if is_hugging_face(config) and not checkpoint_family(config):
        known = [
            family.checkpoints.model_type
            for family in ALL_FAMILIES.values()
            if family.checkpoints
        ]
        raise unknown("model_type of a checkpoint", config["model_type"], known)


def require_embeddings(tokenizer, backbone, source):
    """Raises an error for token ids without an embedding in the encoder."""
    size = family_of(backbone).size(backbone, "vocabulary_size")
    pieces = tokenizer.vocabulary_size()
    if pieces > size:
        raise UsageError(
            f"The tokenizer in {source} has {pieces} tokens, but the model has "
            f"{size} embeddings."
        )


def require_num_classes(received, head, source):
    """Raises an error if the model's number of classes is not the task's.

    Args:
        received: int or `None`. The model's number, `None` if unknown.
        head: `kdkit.models.Head` that the task needs.
        source: string or path of the model.

    Raises:
        UsageError: (a `ValueError`) if the numbers differ.
    """
    if received not in (None, head.num_classes):
        raise UsageError(
            f"The model in {source} has {received} classes. The task has "
            f"{head.num_classes}."
        )


def require_class_names(file, head):
    """Raises an error if the model's classes have other names."""
    if head.class_names is None or not file.is_file():
        return
    received = read_json(file, "the names of classes")["classes"]
    if received != list(head.class_names):
        raise UsageError(
            f"The classes in {file} are not the task's. Expected "
            f"{list(head.class_names)}. Received: {received}."
        )
