"""Loads models and their tokenizers from files, directories or presets."""

import dataclasses
import itertools
import pathlib

import keras
import keras_hub

from kdkit.errors import UsageError, shortened
from kdkit.io.reading import read_json
from kdkit.models.architectures import preprocessor_length
from kdkit.models.backbones import hugging_face_config, load_backbone
from kdkit.models.conventions import PLAIN, Conventions
from kdkit.models.families import ALL_FAMILIES, family_of
from kdkit.models.heads import (
    Head,
    add_head,
    classifier_head_kind,
    join,
    require_activation,
    without_plain_encoder,
)
from kdkit.models.hugging_face_config import (
    expected_pad_id,
    is_convertible,
    is_hugging_face,
)
from kdkit.models.hugging_face_files import WHOLE
from kdkit.models.hugging_face_weights import copy_head
from kdkit.models.library_errors import first_sentence, loading
from kdkit.models.places import (
    ARMS,
    HEAD_FILE,
    LABELS_FILE,
    TOKENIZER_DIRECTORY,
    static_folder,
    task_class,
)
from kdkit.models.saving import saved_length
from kdkit.models.tokenizers import (
    checked_tokenizer,
    load_preset_tokenizer,
    load_saved_tokenizer,
    read_whole_tokenizer,
    with_saved_rules,
)
from kdkit.models.variants import (
    saved_settings,
    with_settings,
)
from kdkit.models.vocabularies import read_byte_pairs, read_word_pieces

WHERE = (
    "a kdkit run directory, a keras-hub preset directory, a Hugging Face "
    "checkpoint directory, a .keras file, or the name of a keras-hub preset "
    "such as 'bert_base_en_uncased'"
)


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """A model and the tokenizer that goes with it.

    model: `keras.Model`. A classifier whose outputs are logits.
    tokenizer: a `keras_hub.tokenizers.Tokenizer`, or `None` if the file
        has none.
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
    `kdkit.models.hugging_face_weights`).

    Args:
        source: string or path. A kdkit run directory (the run's `student/` or
            `student.keras`, or a teacher run's `teacher/`), a keras-hub preset
            directory, a Hugging Face checkpoint directory, a `.keras` file, or
            the name of a keras-hub preset, which is then downloaded.
        num_classes: int, width of a text classifier's logits; or the `Head`
            that the task needs.

    Raises:
        UsageError: (a `ValueError`) if there is no model, its encoder's family
            is unknown, or its head has another kind, number of classes or
            class names.
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
        loaded = _load_named_preset(str(source), head)
    require_head(loaded.model, head, source)
    if loaded.has_trained_head:
        folder = path.parent if path.suffix == ".keras" else path
        require_class_names(folder / LABELS_FILE, head)
    return loaded


def load_encoder(source, load_weights=True, needs_pooler=True):
    """Loads an encoder without its head.

    Hugging Face checkpoints of BERT, DistilBERT, RoBERTa, XLM-RoBERTa, ALBERT
    and GPT-2 are read field by field of their `config.json`. The encoder
    computes the same as in transformers, or an error names the unsupported
    field.

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
        UsageError: (a `ValueError`) if there is no encoder, or a checkpoint
            needs something that keras-hub's models do not compute.
    """
    path = pathlib.Path(source)
    place = str(source)
    if path.exists():
        directory = find_preset_directory(path)
        if holds_plain_encoder(directory):
            classifier = load_task(str(directory))
            return classifier.model.backbone, classifier.tokenizer
        require_convertible(directory)
        place = str(directory)
    try:
        return _load_backbone(place, load_weights, needs_pooler)
    except UsageError:
        raise
    except Exception as error:  # keras-hub raises many kinds, offline or not
        raise UsageError(
            f"No encoder could be loaded from {source!r}: "
            f"{first_sentence(error)}. Expected {WHERE}."
        ) from error


def load_tokenizer(source):
    """Loads the tokenizer from a run, a preset directory or a vocabulary.

    Args:
        source: string or path. A `.txt` file contains one word piece per line;
            texts are lower-cased if no piece has a capital letter. A `.json`
            file is a byte-pair vocabulary with its merges next to it, as in
            `kdkit.models.byte_pair_files`.

    Raises:
        UsageError: (a `ValueError`) if there is no tokenizer.
    """
    path = pathlib.Path(source)
    if path.suffix == ".txt" and path.is_file():
        return read_word_pieces(path)
    if path.suffix == ".json":
        return read_byte_pairs(path)
    if path.is_file():
        raise UsageError(
            f"{path} is not a tokenizer. Expected word pieces, one per line "
            "(.txt), byte pairs with the merges next to them (.json), a run or "
            f"a preset directory. Received: a file that ends in {path.suffix!r}"
            ". Pass one of these, or rename the file."
        )
    if (path / TOKENIZER_DIRECTORY).is_dir():
        return load_saved_tokenizer(path / TOKENIZER_DIRECTORY)
    if static := static_folder(path):
        return read_whole_tokenizer(static / WHOLE)
    path = find_preset_directory(path)
    if (path / TOKENIZER_DIRECTORY).is_dir():  # of a static embedder
        return load_saved_tokenizer(path / TOKENIZER_DIRECTORY)
    is_plain = holds_plain_encoder(path)
    require_convertible(path)
    with loading(path):
        if is_plain:
            classifier = keras_hub.models.TextClassifier.from_preset(
                str(path), load_weights=False
            )
            tokenizer = classifier.preprocessor.tokenizer
            tokenizer = with_saved_rules(tokenizer, path)
        else:
            tokenizer = load_preset_tokenizer(path)
    return checked_tokenizer(tokenizer, path)


def find_preset_directory(path: pathlib.Path) -> pathlib.Path:
    """Returns the preset inside a run directory, or the directory itself."""
    if not path.is_dir():
        raise UsageError(f"{path} is not a directory. Expected {WHERE}.")
    for name in ARMS:
        if (path / name / "config.json").is_file():
            return path / name
    if (
        not (path / "config.json").is_file()
        or (path / "metrics.jsonl").is_file()
    ):
        raise UsageError(
            f"No model found in {path}. Expected {WHERE}. Received a "
            f"directory with: {sorted(item.name for item in path.iterdir())}."
        )
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
    if not path.is_file():
        raise UsageError(f"No such file: {path}. Expected {WHERE}.")
    with loading(path):
        model = keras.models.load_model(path, compile=False, safe_mode=True)
        require_activation(model)
    preprocessor = getattr(model, "preprocessor", None)
    tokenizer = getattr(preprocessor, "tokenizer", None)
    tokenizer = checked_tokenizer(tokenizer, path)
    if tokenizer is None and (path.parent / TOKENIZER_DIRECTORY).is_dir():
        tokenizer = load_tokenizer(path.parent)
    length = preprocessor_length(preprocessor)
    return LoadedModel(model, tokenizer, True, sequence_length=length)


def _load_directory(path, head):
    """Loads a keras-hub or a Hugging Face directory."""
    if task_class(path).endswith("TextClassifier"):
        return load_task(str(path))
    require_convertible(path)
    if (path / HEAD_FILE).is_file():
        with loading(path):
            backbone, tokenizer = _load_backbone(str(path))
            head_model = keras.models.load_model(
                path / HEAD_FILE, compile=False, safe_mode=True
            )
            model = join(backbone, head_model)
        return LoadedModel(model, tokenizer, True)
    try:
        loaded = _put_head_on(str(path), head)
        there = copy_head(path, loaded.model, head.kind, head.class_names)
        if there == head.num_classes:
            return dataclasses.replace(loaded, has_trained_head=True)
        return dataclasses.replace(loaded, num_other_classes=there)
    except UsageError:
        raise
    except Exception as error:  # keras-hub raises many kinds
        raise UsageError(
            f"keras-hub could not load the encoder in {path} with its "
            f"tokenizer: {first_sentence(error)}. Expected {WHERE}. "
            "Received a directory with: "
            f"{sorted(item.name for item in path.iterdir())}."
        ) from error


def _load_named_preset(name, head):
    try:
        return _put_head_on(name, head)
    except UsageError:
        raise
    except Exception as error:  # keras-hub raises many kinds, offline or not
        raise UsageError(
            f"No model {name!r}: there is no such file or directory, and "
            "keras-hub could not load a preset with this name: "
            f"{first_sentence(error)}. "
            f"Expected {WHERE}."
        ) from error


def load_task(source, task=None) -> LoadedModel:
    """Loads a keras-hub task model, including its head."""
    with loading(source):
        task = keras_hub.models.TextClassifier if task is None else task
        model = task.from_preset(source)
        tokenizer = getattr(model.preprocessor, "tokenizer", None)
        length = saved_length(source) or preprocessor_length(model.preprocessor)
        model.preprocessor = None
        model = without_plain_encoder(model)
        model = with_settings(model, saved_settings(source))
        require_activation(model)
    require_family(model.backbone, source)
    tokenizer = checked_tokenizer(tokenizer, source)
    tokenizer = with_saved_rules(tokenizer, source)
    return LoadedModel(model, tokenizer, True, sequence_length=length)


def _put_head_on(source, head):
    """Loads an encoder and adds a new head."""
    backbone, tokenizer = _load_backbone(source)
    model = add_head(backbone, head, tokenizer)
    return LoadedModel(model, tokenizer, has_trained_head=False)


def _load_backbone(source, load_weights=True, needs_pooler=True):
    """Loads an encoder with the tokenizer that belongs to it."""
    backbone = load_backbone(source, load_weights, needs_pooler)
    require_family(backbone, source)
    tokenizer = checked_tokenizer(load_preset_tokenizer(source), source)
    require_pad_id(tokenizer, pathlib.Path(source))
    require_embeddings(tokenizer, backbone, source)
    return backbone, tokenizer


def require_family(backbone, source):
    """Raises an error for encoders from unknown families."""
    if family_of(backbone) is None:
        raise UsageError(
            f"The encoder in {source} is a {type(backbone).__name__}, which "
            "kdkit does not know. Expected one of "
            f"{[family.backbone.__name__ for family in ALL_FAMILIES.values()]}."
        )


def require_convertible(path):
    """Raises an error for Hugging Face checkpoints of unsupported types."""
    config = read_json(path / "config.json", "the config of a model")
    if is_hugging_face(config) and not is_convertible(config):
        expected = [
            family.checkpoints.model_type
            for family in ALL_FAMILIES.values()
            if family.checkpoints
        ]
        raise UsageError(
            f"{path} is a Hugging Face checkpoint of type "
            f"{shortened(config['model_type'])}, which kdkit does not read. "
            f"Expected one of {sorted(expected)}. Use a keras-hub preset of "
            "this model, if there is one."
        )


def require_pad_id(tokenizer, path):
    """Raises an error if a RoBERTa's tokenizer pads with another id."""
    config = hugging_face_config(path)
    expected = None if config is None else expected_pad_id(config)
    received = getattr(tokenizer, "pad_token_id", None)
    if None not in (expected, received) and expected != received:
        raise UsageError(
            f"{path / 'config.json'}: 'pad_token_id' is {expected}, but the "
            f"tokenizer pads with {received}. Expected the same id, because "
            "the model counts positions from it. Correct one of them."
        )


def require_embeddings(tokenizer, backbone, source):
    """Raises an error for token ids without an embedding in the encoder."""
    size = family_of(backbone).size(backbone, "vocabulary_size")
    pieces = getattr(tokenizer, "vocabulary_size", lambda: 0)()
    if pieces > size:
        more = [tokenizer.id_to_token(number) for number in range(size, pieces)]
        raise UsageError(
            f"The tokenizer in {source} has more tokens than the model has "
            f"embeddings. Expected at most {size}. Received: {pieces}, the "
            f"last ones {shortened(more[:5])}. Remove the tokens from the "
            "tokenizer, or add embeddings to the model, in transformers with "
            "model.resize_token_embeddings(len(tokenizer))."
        )


def require_head(model, head, source):
    """Raises an error for a model whose head does not fit the task."""
    kind = classifier_head_kind(model)
    if kind != head.kind:
        raise UsageError(
            f"The model in {source} has a head of kind {kind!r}. The task "
            f"needs {head.kind!r}. Use a model that was fine-tuned on this "
            "task, or an encoder without a head."
        )
    require_num_classes(model.output_shape[-1], head, source)


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
        names = head.class_names
        listed = "" if names is None else f", {shortened(', '.join(names))}"
        raise UsageError(
            f"The model in {source} has {received} classes. The task has "
            f"{head.num_classes}{listed}. Use a model that was fine-tuned on "
            "this task."
        )


def _names_are_texts(labels):
    names = labels.get("classes")
    if isinstance(names, list) and all(isinstance(one, str) for one in names):
        return None
    return "expected a list of names as 'classes'"


def require_class_names(file, head):
    """Raises an error if the model's classes have other names."""
    if head.class_names is None or not file.is_file():
        return
    received = read_json(file, "the names of classes", _names_are_texts)
    received = received["classes"]
    if received != list(head.class_names):
        different = [
            f"{number}: {theirs}, here {ours}"
            for number, (theirs, ours) in enumerate(
                itertools.zip_longest(
                    map(shortened, received),
                    map(shortened, head.class_names),
                    fillvalue="no name",
                )
            )
            if theirs != ours
        ]
        raise UsageError(
            f"The classes in {file} are not the task's classes: "
            f"{'; '.join(different[:5])}. Use the data that the model was "
            "trained on, or a model for this task."
        )


def holds_plain_encoder(path) -> bool:
    """Whether a preset was saved with its backbone inside a plain model."""
    config = read_json(path / "config.json", "the config of a model")
    return config.get("registered_name") == "Functional"
