"""Looks up whether a path or a name can be a model, without Keras."""

import logging
import pathlib
import re

from kdkit.io.reading import read_json

_log = logging.getLogger(__name__)

# The tokenizer's directory in runs whose models are files.
TOKENIZER_DIRECTORY = "tokenizer"
KAGGLE, HUGGING_FACE = "kaggle://", "hf://"  # where models are uploaded
HEAD_FILE, POOLING_FILE = "head.keras", "sentence_embedding.keras"
LABELS_FILE = "labels.json"  # the names of the classes
MODULES = "modules.json"  # the parts of a sentence-transformers model
# Its kind, prompts and similarity.
SETTINGS = "config_sentence_transformers.json"
# The settings of its transformer, named by the version that wrote them.
TRANSFORMER_FILES = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "albert", "xlm-roberta")
)
UNNAMED = re.compile(r"LABEL_\d+")  # of classes in Hugging Face checkpoints
# The directories of models in a run.
ARMS = ("student", "teacher", "encoder", "decoder", "encoder_decoder")
# The end of class names for Hugging Face checkpoints that classify texts.
SUFFIX = "ForSequenceClassification"


def config_file(source) -> pathlib.Path | None:
    """Returns the path of a model's `config.json` in a run or a directory."""
    path = pathlib.Path(source)
    files = [folder / "config.json" for folder in map(path.joinpath, ARMS)]
    found = [file for file in (*files, path / "config.json") if file.is_file()]
    return found[0] if found else None


def has_embedder(source) -> bool:
    """Returns whether a directory describes an embedder, by its files.

    Args:
        source: string or path of a model, as in `kdkit.models.load_embedder`.
            An encoder without pooling is none, and nor is a missing path.
    """
    path = pathlib.Path(source)
    return not is_cross_encoder(path) and any(
        (folder / MODULES).is_file()
        or (folder / POOLING_FILE).is_file()
        or task_class(folder).endswith("TextEmbedder")
        for folder in (path, *map(path.joinpath, ARMS))
    )


def is_cross_encoder(source) -> bool:
    """Returns whether a directory says that it is a cross-encoder."""
    said = {}
    for name in (*TRANSFORMER_FILES, SETTINGS):
        file = pathlib.Path(source, name)
        said |= read_json(file, "a model's settings") if file.is_file() else {}
    return (
        said.get("model_type") == "CrossEncoder"
        or said.get("transformer_task") == "sequence-classification"
    )


def static_folder(path: pathlib.Path) -> pathlib.Path | None:
    """Returns the folder of a directory's `StaticEmbedding`, if it has one."""
    for entry in _modules(path):
        if entry["type"].endswith(".StaticEmbedding"):
            return path / entry["path"]
    return None


def _modules(path):
    """Returns the objects in `modules.json`, none without the file."""
    file, what = path / MODULES, "the list of a model's parts"
    return read_json(file, what, kind=list) if file.is_file() else []


def may_have_dense(source) -> bool:
    """Returns whether dense layers may follow an embedder's pooling.

    The width of its vectors is then not that of its encoder.

    Args:
        source: string or path, as for `has_embedder`.
    """
    path = pathlib.Path(source)
    folders = (path, *map(path.joinpath, ARMS))
    if any((folder / POOLING_FILE).is_file() for folder in folders):
        return True
    return any(entry["type"].endswith(".Dense") for entry in _modules(path))


def task_class(path: pathlib.Path) -> str:
    """Returns the class of a preset's task model; empty without a task."""
    if not (path / "task.json").is_file():
        return ""
    task = read_json(path / "task.json", "the config of a model")
    return task.get("class_name", "")


def class_names_at(source) -> tuple[str, ...] | None:
    """Returns the names of a classifier's classes, in their order.

    They are in `labels.json` of a preset or a run, or `id2label` of a Hugging
    Face checkpoint. Names such as `LABEL_0` do not count.

    Args:
        source: string or path, as in `kdkit.models.load_classifier`.

    Returns:
        Tuple of strings; `None` if the classes have no names.
    """
    path = pathlib.Path(source)
    if path.is_file():
        path = path.parent
    for folder in (*map(path.joinpath, ARMS), path):
        if (folder / LABELS_FILE).is_file():
            labels = read_json(folder / LABELS_FILE, "the names of classes")
            return tuple(labels["classes"])
    file = path / "config.json"
    if not file.is_file():
        return None
    config = read_json(file, "the config of a model")
    names = config.get("id2label")
    if names is None or not _is_classifier(config):
        return None
    ordered = [names[key] for key in sorted(names, key=int)]
    return None if any(map(UNNAMED.fullmatch, ordered)) else tuple(ordered)


def is_encoder_alone(source) -> bool:
    """Whether a source is an encoder without a head."""
    file = config_file(source)
    if file is None:
        return False
    if any((file.parent / name).is_file() for name in ("task.json", HEAD_FILE)):
        return False
    config = read_json(file, "the config of a model")
    if "registered_name" in config:
        return True
    has_names = config.get("architectures") is not None
    return has_names and not _is_classifier(config)


def num_classes_at(source) -> int | None:
    """Returns the number of a classifier's logits, by its files."""
    file = config_file(source)
    if file is None:
        return None
    if task_class(file.parent).endswith("TextClassifier"):
        task = read_json(file.parent / "task.json", "the config of a model")
        return task["config"]["num_classes"]
    config = read_json(file, "the config of a model")
    if not _is_classifier(config):
        return None
    return len(config.get("id2label") or range(2))  # two is the default


def _is_classifier(config):
    """Whether a Hugging Face checkpoint classifies texts."""
    classes = config.get("architectures") or ()
    return any(name.endswith(SUFFIX) for name in classes)
