"""Saves models as Hugging Face checkpoints, which transformers loads.

Everything that differs between families is in their `CheckpointFormat`, from
which kdkit also reads checkpoints: a name that is read is the name that is
written.
"""

import json
import math
import pathlib
import warnings

import keras
import numpy as np

from kdkit.errors import UsageError, unknown
from kdkit.io.files import write_text
from kdkit.models.families import ALL_FAMILIES, family_of
from kdkit.models.families.checkpoints import HEAD_CLASSES
from kdkit.models.heads import (
    Head,
    add_head,
    backbone_of,
    classifier_head_kind,
    find_head,
    language_model,
)
from kdkit.models.hugging_face import (
    OUTPUT_TABLE,
    THIRDS,
    WEIGHTS,
    Tensors,
    copy_head,
    head_layers,
    load_weights,
    read_checkpoint,
    tensor_names,
    write_tensors,
)
from kdkit.models.places import find
from kdkit.models.saving import SAMPLES, count_differences
from kdkit.models.tokenizer_files import (
    CONFIG,
    SEGMENTS,
    WHOLE,
    save_vocabulary,
)
from kdkit.models.tokenizer_kinds import as_tokenizer
from kdkit.models.variants import block_settings

PROBLEM_TYPES = (
    "single_label_classification",
    "multi_label_classification",
    "regression",
)
SPECIAL_MAP = "special_tokens_map.json"
# The class that takes everything from `tokenizer.json`, since transformers 4.
TOKENIZER_CLASS = "PreTrainedTokenizerFast"


def require_hugging_face(model) -> None:
    """Raises an error for a model that is not the same in transformers.

    Args:
        model: `keras.Model`.

    Raises:
        UsageError: (a `ValueError`) with what differs.
    """
    backbone = backbone_of(model)
    family = family_of(backbone)
    form = family and family.checkpoints
    if form is None:
        known = [one.title for one in ALL_FAMILIES.values() if one.checkpoints]
        name = family.title if family else type(backbone).__name__
        raise unknown("family of Hugging Face checkpoints", name, known)
    epsilon = block_settings(backbone).layer_norm_epsilon
    if form.epsilon[0] is None and not math.isclose(epsilon, form.epsilon[1]):
        raise UsageError(
            f"In transformers a {family.title} has the layer_norm_epsilon "
            f"{form.epsilon[1]:g}. Received: {epsilon:g}."
        )
    others = getattr(backbone, "layer_norm_epsilon", epsilon)
    if not math.isclose(epsilon, others):
        raise UsageError(
            f"In transformers a {family.title} has one epsilon. Received: "
            f"{epsilon:g} for queries and keys, {others:g} elsewhere."
        )
    activation = getattr(model, "activation", None)
    if activation not in (None, keras.activations.linear):
        raise UsageError(
            "In transformers the outputs are logits. Received: a classifier "
            f"with the activation {activation.__name__!r}."
        )
    head_model = find_head(model)
    if head_model is not None and "token_ids" in head_model.input:
        raise UsageError(
            "In transformers no head has candidate classes for each token."
        )


def save_hugging_face(
    model,
    tokenizer,
    path,
    class_names: tuple[str, ...] | None = None,
    problem_type: str | None = None,
) -> None:
    """Writes a model as a Hugging Face checkpoint directory.

    transformers loads it with `AutoModelForSequenceClassification`,
    `AutoModelForTokenClassification`, `AutoModelForMultipleChoice` or
    `AutoModelForCausalLM`, and with `AutoTokenizer`. It returns the same
    logits, without softmax. An encoder alone loads with `AutoModel`.

    Args:
        model: a classifier of texts or tokens from `kdkit.models.add_head`, a
            multiple choice on a BERT or ALBERT, a GPT-2, or an encoder without
            a head, in a family whose checkpoints kdkit reads.
        tokenizer: the model's `kdkit.models.Tokenizer` or keras-hub's, or
            `None` to write no tokenizer.
        path: string or path of the directory. It is created.
        class_names: tuple of different strings, one for each logit. Defaults
            to `None`: `LABEL_0` and so on.
        problem_type: string or `None`. One of `PROBLEM_TYPES`, by which
            transformers chooses its loss. Defaults to `None`: regression for a
            single logit, otherwise classification.

    Raises:
        UsageError: (a `ValueError`) if transformers has no such model, or the
            names do not fit. Nothing is written.
    """
    require_hugging_face(model)
    if tokenizer is not None:
        own, tokenizer = tokenizer, as_tokenizer(tokenizer)
        count = count_differences(own, tokenizer)
        if count:
            warnings.warn(
                f"{count} of {len(SAMPLES)} difficult sample texts have other "
                f"ids in transformers than in {type(own).__name__}. Train with "
                "a tokenizer from kdkit.models.load_tokenizer.",
                stacklevel=2,
            )
    config = _config(model, tokenizer, class_names, problem_type)
    tensors = _tensors(model, config)
    path = pathlib.Path(path)
    path.mkdir(parents=True, exist_ok=True)
    write_json(path / "config.json", config)
    write_tensors(path / WEIGHTS, tensors)
    if tokenizer is not None:
        _save_tokenizer(model, tokenizer, path)


def load_saved_hugging_face(path: pathlib.Path):
    """Returns the model in a directory that `save_hugging_face` wrote.

    It is built from the files alone, to compare it with the model that was
    saved. `kdkit.models.load_classifier` also loads the tokenizer.

    Args:
        path: `pathlib.Path` of the directory.

    Returns:
        `keras.Model`.
    """
    place = find(path)
    checkpoint = read_checkpoint(place)
    backbone = checkpoint.build()
    with Tensors(path) as tensors:
        load_weights(backbone, checkpoint, tensors)
    if checkpoint.family.is_decoder:
        return language_model(backbone)
    (name,) = place.config["architectures"]
    for kind, suffix in HEAD_CLASSES.items():
        if name.endswith(suffix):
            head = Head(kind, len(place.config["id2label"]))
            model = add_head(backbone, head)
            copy_head(place, model, head)
            return model
    return backbone


def _config(model, tokenizer, class_names, problem_type):
    """Returns the entries of `config.json`."""
    backbone = backbone_of(model)
    family = family_of(backbone)
    form = family.checkpoints
    settings = block_settings(backbone)
    values = {"model_type": form.model_type}
    for size, (name, _) in form.sizes.items():
        values[name] = getattr(backbone, size)
    if tokenizer is not None:
        special = _special_tokens(tokenizer, family)
        for name in ("bos", "eos", "pad"):
            if name in special:
                number = int(tokenizer.token_to_id(special[name]))
                values[f"{name}_token_id"] = number
    if form.positions_follow_padding:
        values.setdefault("pad_token_id", 1)  # transformers' default
        positions, _ = form.sizes["max_sequence_length"]
        values[positions] += values["pad_token_id"] + 1
    if form.has_one_segment:
        values["type_vocab_size"] = 1
    dropout = float(backbone.get_config()["dropout"])
    for name in (form.dropout[0], *form.same_dropouts):
        values[name] = dropout
    values[form.activation[0]] = settings.activation
    if form.epsilon[0] is not None:
        values[form.epsilon[0]] = settings.layer_norm_epsilon
    values.setdefault("tie_word_embeddings", True)
    values["dtype"] = values["torch_dtype"] = "float32"
    if family.is_decoder:
        return {
            "architectures": [f"{family.class_name}{form.language_model}"],
            **values,
        }
    if model is backbone:
        return {"architectures": [f"{family.class_name}Model"], **values}
    kind = classifier_head_kind(model)
    num_classes = model.output_shape[-1]
    if class_names is None:
        class_names = [f"LABEL_{number}" for number in range(num_classes)]
    if len(set(class_names)) != num_classes or len(class_names) != num_classes:
        raise UsageError(
            f"Expected {num_classes} different names of classes. Received: "
            f"class_names={tuple(class_names)}."
        )
    values["id2label"] = {str(n): name for n, name in enumerate(class_names)}
    values["label2id"] = {name: n for n, name in enumerate(class_names)}
    if kind == "sequence":
        usual = "regression" if num_classes == 1 else PROBLEM_TYPES[0]
        values["problem_type"] = problem_type or usual
    name = f"{family.class_name}{HEAD_CLASSES[kind]}"
    return {"architectures": [name], **values}


def _tensors(model, config):
    """Returns a checkpoint's tensors by name, float32."""
    backbone = backbone_of(model)
    family = family_of(backbone)
    form = family.checkpoints
    layout = form.weights
    # transformers writes the base model's tensors without a prefix.
    prefix = "" if model is backbone else f"{form.prefix}."
    found = {}
    skipped = 0
    if form.positions_follow_padding:
        skipped = config["pad_token_id"] + 1
    names = tensor_names(backbone, form, prefix)
    for variable in backbone.weights:
        name = names[variable.path]
        value = _tensor(variable, layout, skipped)
        layer = variable.path.split("/")[-2]
        if layout.joined is not None and layout.joined in name:
            found.setdefault(name, dict.fromkeys(THIRDS))[layer] = value
        else:
            found[name] = value
    for name, value in found.items():
        if isinstance(value, dict):
            found[name] = np.concatenate(list(value.values()), axis=-1)
    if form.has_one_segment:
        name = f"{prefix}embeddings.token_type_embeddings.weight"
        found[name] = np.zeros((1, backbone.hidden_dim), "float32")
    if not (family.is_decoder or model is backbone):
        kind = classifier_head_kind(model)
        names = form.head_layers(kind)
        if kind == "tokens":  # transformers has no pooler there
            pooler = layout.parts.get("pooled_dense")
            for leaf in ("weight", "bias"):
                found.pop(f"{prefix}{pooler}.{leaf}", None)
        for layer, dense in head_layers(model, names).items():
            found[f"{names[layer]}.weight"] = _array(dense.kernel).T
            found[f"{names[layer]}.bias"] = _array(dense.bias)
    return {name: np.ascontiguousarray(one) for name, one in found.items()}


def _tensor(variable, layout, skipped):
    """Returns a variable in the shape of a checkpoint's tensor."""
    value = _array(variable)
    path = variable.path
    if "position_embedding" in path and skipped:
        rows = np.zeros((skipped, value.shape[-1]), "float32")
        value = np.concatenate([rows, value])
    if path.endswith("/kernel"):
        is_output = "attention_output" in path
        num_inputs = value.ndim - 1 if is_output else 1
        rows = math.prod(value.shape[:num_inputs])
        value = value.reshape(rows, -1)
        value = value.T if layout.is_transposed else value
    elif path.endswith("/bias"):
        value = value.reshape(-1)
    elif path.endswith(OUTPUT_TABLE):
        value = value.T
    return value


def _array(variable):
    return np.asarray(keras.ops.convert_to_numpy(variable), "float32")


def _special_tokens(tokenizer, family):
    """Returns the special tokens by their names in transformers."""
    names = family.checkpoints.special_tokens
    found = {
        name: getattr(tokenizer, f"{name}_token") for name in (*names, "unk")
    }
    return {name: token for name, token in found.items() if token is not None}


def _save_tokenizer(model, tokenizer, path):
    """Writes the tokenizer's files."""
    family = family_of(backbone_of(model))
    special = _special_tokens(tokenizer, family)
    tokenizer.rust.save(str(path / WHOLE))
    save_vocabulary(tokenizer, path)
    tokens = {f"{name}_token": token for name, token in special.items()}
    write_json(path / SPECIAL_MAP, tokens)
    names = ["input_ids", SEGMENTS, "attention_mask"]
    has_segments = "num_segments" in family.checkpoints.sizes
    if tokenizer.num_segments == 1 or not has_segments:
        names.remove(SEGMENTS)
    settings = {
        "tokenizer_class": TOKENIZER_CLASS,
        "model_max_length": family.num_positions(backbone_of(model)),
        "model_input_names": names,
        "padding_side": "right",
        "truncation_side": tokenizer.side,
        "clean_up_tokenization_spaces": False,
        **tokens,
    }
    write_json(path / CONFIG, settings)


def write_json(file, values) -> None:
    """Writes a JSON value as transformers does, with an indent of 2."""
    text = json.dumps(values, ensure_ascii=False, indent=2)
    write_text(file, f"{text}\n")
