"""Looks up whether a path or a name can be a model, without Keras."""

import logging
import pathlib
import re

from kdkit.errors import UsageError
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
        if str(entry.get("type")).endswith(".StaticEmbedding"):
            return path / pathlib.PurePath(str(entry.get("path"))).name
    return None


def _modules(path):
    """Returns the objects in `modules.json`, none without the file."""
    file, what = path / MODULES, "the list of a model's parts"
    entries = read_json(file, what, kind=list) if file.is_file() else []
    return [entry for entry in entries if isinstance(entry, dict)]


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
    return any(
        str(entry.get("type")).endswith(".Dense") for entry in _modules(path)
    )


def reject_cross_encoder(source) -> None:
    """Raises an error for a cross-encoder, which returns no vectors."""
    if is_cross_encoder(source):
        raise UsageError(
            f"{source} is a cross-encoder, which scores pairs of texts. "
            "Expected a sentence encoder, which returns vectors. To learn from "
            "scores, use the recipe reranker_to_embedder."
        )


def require_pooling(source, pooling: str | None) -> None:
    """Raises an error for a directory that does not describe its pooling.

    `kdkit.models.load_embedder` raises it too. This check takes milliseconds.

    Args:
        source: string or path, as in `kdkit.models.load_embedder`.
        pooling: string or `None`. The pooling that the user chose, if any.

    Raises:
        UsageError: (a `ValueError`) for a cross-encoder, and if there is no
            description and no choice.
    """
    path = pathlib.Path(source)
    reject_cross_encoder(source)
    if pooling is not None or not path.is_dir():
        return
    is_described = has_embedder(path)
    if not is_described:
        file = config_file(path)
        is_run = (path / "metrics.jsonl").is_file()
        if file is None or (is_run and file.parent == path):
            return  # there is no model yet: its loader has a better error
    if (path / MODULES).is_file():
        is_described = static_folder(path) is not None or any(
            str(entry.get("type")).endswith(".Pooling")
            and (path / str(entry.get("path")) / "config.json").is_file()
            for entry in _modules(path)
        )
    if not is_described:
        raise undescribed_pooling(source)


def undescribed_pooling(source) -> UsageError:
    """Returns the error for a directory that does not describe its pooling."""
    return UsageError(
        f"{source} has no description of its pooling. Expected an embedder "
        "saved by kdkit, or a sentence-transformers directory with the folder "
        "of the module Pooling and its config.json. If the model's card "
        "describes the pooling, pass --pooling mean, cls or max (in Python "
        "pooling='mean')."
    )


def task_class(path: pathlib.Path) -> str:
    """Returns the class of a preset's task model; empty without a task."""
    if not (path / "task.json").is_file():
        return ""
    task = read_json(path / "task.json", "the config of a model")
    return str(task.get("class_name", ""))


def class_names_at(source) -> tuple[str, ...] | None:
    """Returns the names of a classifier's classes, in their order.

    They are in `labels.json` of a preset or a run, or `id2label` of a Hugging
    Face checkpoint. Names such as `LABEL_0` do not count.

    Args:
        source: string or path, as in `kdkit.models.load_classifier`.

    Returns:
        Tuple of strings; `None` if the classes have no names.

    Raises:
        UsageError: (a `ValueError`) if these files are damaged.
    """
    path = pathlib.Path(source)
    if path.is_file():
        path = path.parent
    for folder in (*map(path.joinpath, ARMS), path):
        if (folder / LABELS_FILE).is_file():
            labels = read_json(folder / LABELS_FILE, "the names of classes")
            names = labels.get("classes")
            return tuple(map(str, names)) if isinstance(names, list) else None
    file = path / "config.json"
    if not file.is_file():
        return None
    config = read_json(file, "the config of a model")
    names, classes = config.get("id2label"), config.get("architectures")
    if not isinstance(names, dict) or not any(
        str(name).endswith(SUFFIX)
        for name in (classes if isinstance(classes, list) else ())
    ):
        return None
    try:
        ordered = [str(names[key]) for key in sorted(names, key=int)]
    except ValueError:
        return None
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
    classes = config.get("architectures")
    return isinstance(classes, list) and not any(
        str(name).endswith(SUFFIX) for name in classes
    )


def num_classes_at(source) -> int | None:
    """Returns the number of a classifier's logits, by its files."""
    file = config_file(source)
    if file is None:
        return None
    if task_class(file.parent).endswith("TextClassifier"):
        task = read_json(file.parent / "task.json", "the config of a model")
        config = task.get("config")
        found = config.get("num_classes") if isinstance(config, dict) else None
        return found if type(found) is int else None
    config = read_json(file, "the config of a model")
    classes = config.get("architectures")
    if not any(
        str(name).endswith(SUFFIX)
        for name in (classes if isinstance(classes, list) else ())
    ):
        return None
    labels = config.get("id2label")
    return len(labels) if isinstance(labels, dict) else 2  # the default


def require_reranker(source) -> None:
    """Raises an error for a directory without a cross-encoder.

    `kdkit.models.load_reranker` raises it too. This check takes milliseconds.

    Args:
        source: string or path, as in `kdkit.models.load_reranker`.

    Raises:
        UsageError: (a `ValueError`) for an embedder, an encoder without a
            head, and a classifier of more than two classes.
    """
    expected = (
        "Expected a cross-encoder: a classifier of pairs of texts with one "
        "score or two classes"
    )
    if has_embedder(source):
        raise UsageError(
            f"{source} is a sentence encoder, which returns vectors. "
            f"{expected}. To learn from vectors, use the recipe "
            "sentence_embedding."
        )
    if is_encoder_alone(source):
        raise UsageError(
            f"{source} is an encoder without a head. {expected}. Fine-tune it "
            "with kdkit train-teacher, for example on --task stsb."
        )
    count = num_classes_at(source)
    if count is not None and count > 2:
        raise UsageError(
            f"{source} has {count} classes. {expected}. Pass another "
            "teacher, such as a run of kdkit train-teacher on --task stsb."
        )
