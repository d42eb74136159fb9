"""What a model that was loaded must be, and be for, before it is used."""

import itertools

from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.models.backbones import hugging_face_config
from kdkit.models.families import ALL_FAMILIES
from kdkit.models.families import family_of
from kdkit.models.heads import head_kind_of
from kdkit.models.hugging_face_config import expected_pad_id
from kdkit.models.hugging_face_config import is_convertible
from kdkit.models.hugging_face_config import is_hugging_face
from kdkit.reading import read_json


def check_family(backbone, source):
    """Refuses encoders of which kdkit knows no family."""
    if family_of(backbone) is None:
        raise UsageError(
            f"The encoder in {source} is a {type(backbone).__name__}. "
            "Expected one of "
            f"{[family.backbone.__name__ for family in ALL_FAMILIES.values()]}."
        )


def check_convertible(path):
    """Refuses Hugging Face checkpoints of types that kdkit does not read."""
    config = read_json(path / "config.json", "the config of a model")
    if is_hugging_face(config) and not is_convertible(config):
        expected = [
            family.checkpoints.model_type
            for family in ALL_FAMILIES.values()
            if family.checkpoints
        ]
        raise UsageError(
            f"{path} holds a Hugging Face checkpoint of type "
            f"{shortened(config['model_type'])}, which kdkit does not read. "
            f"Expected one of {sorted(expected)}. Use a keras-hub preset of "
            "it, if there is one."
        )


def check_pad_id(tokenizer, path):
    """Refuses a RoBERTa whose tokenizer pads with another id than it skips.

    Args:
        tokenizer: a keras-hub tokenizer, or `None`.
        path: `pathlib.Path` of what it was loaded from.
    """
    config = hugging_face_config(path)
    expected = None if config is None else expected_pad_id(config)
    received = getattr(tokenizer, "pad_token_id", None)
    if None not in (expected, received) and expected != received:
        raise UsageError(
            f"{path / 'config.json'}: 'pad_token_id' is {expected}, and the "
            f"tokenizer pads with {received}. Expected the same id, from which "
            "the model counts positions. Correct one of them."
        )


def check_embeddings(tokenizer, backbone, source):
    """Refuses a tokenizer with ids that the encoder has no embeddings for.

    A GPU reads another row for such an id, without an error.

    Args:
        tokenizer: a keras-hub tokenizer, a `kdkit.models.TokenizerPair`, or
            `None`.
        backbone: a backbone of a known family.
        source: string or path. Where both are.

    Raises:
        UsageError: (a `ValueError`) if there are any.
    """
    size = family_of(backbone).size(backbone, "vocabulary_size")
    pieces = getattr(tokenizer, "vocabulary_size", lambda: 0)()
    if pieces > size:
        more = [tokenizer.id_to_token(number) for number in range(size, pieces)]
        raise UsageError(
            f"The tokenizer in {source} has more tokens than the model has "
            f"embeddings. Expected at most {size}. Received: {pieces}, the "
            f"last ones {shortened(more[:5])}. Remove the tokens from the "
            "tokenizer, or give the model embeddings for them, in transformers "
            "by model.resize_token_embeddings(len(tokenizer))."
        )


def check_head(model, head, source):
    """Refuses a model whose logits are not what the task needs."""
    kind = head_kind_of(model)
    if kind != head.kind:
        raise UsageError(
            f"The model in {source} has a head of kind {kind!r} and the task "
            f"needs {head.kind!r}. Use a model that was fine-tuned on this "
            "task, or an encoder without a head."
        )
    check_num_classes(model.output_shape[-1], head, source)


def check_num_classes(received, head, source):
    """Refuses a model of another number of classes than the task's.

    Args:
        received: int or `None`. The model's, `None` where that is not known.
        head: `kdkit.models.Head` that the task needs.
        source: string or path. Where the model is.

    Raises:
        UsageError: (a `ValueError`) if it has another number.
    """
    if received not in (None, head.num_classes):
        raise UsageError(
            f"The model in {source} has {received} classes and the task has "
            f"{head.num_classes}. Use a model that was fine-tuned on this task."
        )


def _names_are_texts(labels):
    names = labels.get("classes")
    if isinstance(names, list) and all(isinstance(one, str) for one in names):
        return None
    return "expected a list of names as 'classes'"


def check_class_names(file, head):
    """Refuses a model whose logits stand for something else."""
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
            f"The classes in {file} are not the task's: "
            f"{'; '.join(different[:5])}. Use the data that the model was "
            "trained on, or a model of this task."
        )
