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
    POOLER,
    WEIGHTS,
    copy_head,
    head_layers,
    kernel_shape,
    load_backbone,
    tensor_names,
    write_tensors,
)
from kdkit.models.places import CONFIG, TOKENIZER_CONFIG, find
from kdkit.models.tokenizer import ROLES
from kdkit.models.tokenizer_files import SEGMENTS, WHOLE, save_vocabulary
from kdkit.models.tokenizer_kinds import (
    SAMPLES,
    as_tokenizer,
    count_differences,
)
from kdkit.models.variants import block_settings

SINGLE_LABEL = "single_label_classification"
# The class that takes everything from `tokenizer.json`, since transformers 4.
TOKENIZER_CLASS = "PreTrainedTokenizerFast"


def _require_same_logits(model, family):
    """Raises an error for a model that is not the same in transformers."""
    backbone, form = backbone_of(model), family and family.checkpoints
    if form is None:
        known = [one.title for one in ALL_FAMILIES.values() if one.checkpoints]
        name = family.title if family else type(backbone).__name__
        raise unknown("family of Hugging Face checkpoints", name, known)
    name, expected = form.epsilon
    epsilon = block_settings(backbone).layer_norm_epsilon
    if name is not None:  # Qwen's queries and keys may have another one here
        expected = getattr(backbone, "layer_norm_epsilon", epsilon)
    if not math.isclose(epsilon, expected):
        raise UsageError(
            f"In transformers a {family.title} has one epsilon, {expected:g}. "
            f"Received: layer_norm_epsilon={epsilon:g} in its blocks."
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
        problem_type: string or `None`. By it transformers chooses its loss:
            `"single_label_classification"`, `"multi_label_classification"` or
            `"regression"`. Defaults to `None`: regression for a single logit,
            otherwise classification.

    Raises:
        UsageError: (a `ValueError`) if transformers has no such model, or the
            names do not fit. Nothing is written.
    """
    _require_same_logits(model, family_of(backbone_of(model)))
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
    path = pathlib.Path(path)
    path.mkdir(parents=True, exist_ok=True)
    write_json(path / CONFIG, config)
    write_tensors(path / WEIGHTS, _tensors(model, config))
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
    backbone = load_backbone(place)
    if family_of(backbone).is_decoder:
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
    family, settings = family_of(backbone), block_settings(backbone)
    form = family.checkpoints
    values = {"model_type": form.model_type, "tie_word_embeddings": True}
    for size, (name, _) in form.sizes.items():
        values[name] = getattr(backbone, size)
    for name in ("bos", "eos", "pad"):
        token = getattr(tokenizer, f"{name}_token", None)
        if token is not None:
            values[f"{name}_token_id"] = tokenizer.token_to_id(token)
    if form.positions_follow_padding:
        values.setdefault("pad_token_id", 1)  # transformers' default
        positions, _ = form.sizes["max_sequence_length"]
        values[positions] += values["pad_token_id"] + 1
    if form.has_one_segment:
        values["type_vocab_size"] = 1
    dropout = float(backbone.get_config()["dropout"])
    values |= dict.fromkeys((form.dropout[0], *form.same_dropouts), dropout)
    values[form.activation[0]] = settings.activation
    if form.epsilon[0] is not None:
        values[form.epsilon[0]] = settings.layer_norm_epsilon
    values["dtype"] = values["torch_dtype"] = "float32"
    ending = "Model"
    if family.is_decoder:
        ending = form.language_model
    elif model is not backbone:
        kind, num_classes = classifier_head_kind(model), model.output_shape[-1]
        ending = HEAD_CLASSES[kind]
        values |= _labels(class_names, num_classes)
        if kind == "sequence":
            usual = "regression" if num_classes == 1 else SINGLE_LABEL
            values["problem_type"] = problem_type or usual
    return {"architectures": [f"{family.class_name}{ending}"], **values}


def _labels(class_names, num_classes):
    """Returns the names of classes by number, and the reverse."""
    numbers = range(num_classes)
    if class_names is None:
        class_names = list(map("LABEL_{}".format, numbers))
    label2id = dict(zip(class_names, numbers, strict=False))
    if len(label2id) != num_classes or len(class_names) != num_classes:
        raise UsageError(
            f"Expected {num_classes} different names of classes. Received: "
            f"class_names={tuple(class_names)}."
        )
    id2label = {str(number): name for name, number in label2id.items()}
    return {"id2label": id2label, "label2id": label2id}


def _tensors(model, config):
    """Returns a checkpoint's tensors by name."""
    backbone = backbone_of(model)
    family = family_of(backbone)
    form = family.checkpoints
    # transformers writes the base model's tensors without a prefix.
    prefix = "" if model is backbone else f"{form.prefix}."
    skipped = config["pad_token_id"] + 1 if form.positions_follow_padding else 0
    names = tensor_names(backbone, form, prefix)
    parts = {}  # one, or the queries', keys' and values'
    for variable in backbone.weights:
        value = _tensor(variable, form.weights, skipped)
        parts.setdefault(names[variable.path], []).append(value)
    found = {name: np.concatenate(one, axis=-1) for name, one in parts.items()}
    if form.has_one_segment:
        name = f"{prefix}embeddings.token_type_embeddings.weight"
        found[name] = np.zeros((1, backbone.hidden_dim))
    if not (family.is_decoder or model is backbone):
        kind = classifier_head_kind(model)
        for path, name in names.items():
            if kind == "tokens" and path.startswith(f"{POOLER}/"):
                del found[name]  # transformers has no pooler there
        names = form.head_layers(kind)
        for layer, dense in head_layers(model, names).items():
            kernel, bias = map(keras.ops.convert_to_numpy, dense.weights)
            found[f"{names[layer]}.weight"] = kernel.T
            found[f"{names[layer]}.bias"] = bias
    return found


def _tensor(variable, layout, skipped):
    """Returns a variable in the shape of a checkpoint's tensor."""
    value, path = keras.ops.convert_to_numpy(variable), variable.path
    if "position_embedding" in path:
        value = np.pad(value, ((skipped, 0), (0, 0)))
    if path.endswith("/kernel"):
        value = value.reshape(kernel_shape(variable))
        value = value.T if layout.is_transposed else value
    elif path.endswith("/bias"):
        value = value.reshape(-1)
    elif path.endswith(OUTPUT_TABLE):
        value = value.T
    return value


def _save_tokenizer(model, tokenizer, path):
    """Writes the tokenizer's files."""
    backbone = backbone_of(model)
    family = family_of(backbone)
    tokenizer.rust.save(str(path / WHOLE))
    save_vocabulary(tokenizer, path)
    names = ["input_ids", SEGMENTS, "attention_mask"]
    has_segments = "num_segments" in family.checkpoints.sizes
    if tokenizer.num_segments == 1 or not has_segments:
        names.remove(SEGMENTS)
    settings = {
        "tokenizer_class": TOKENIZER_CLASS,
        "model_max_length": family.num_positions(backbone),
        "model_input_names": names,
        "padding_side": "right",
        "truncation_side": tokenizer.side,
        "clean_up_tokenization_spaces": False,
    }
    for role, token in tokenizer.tokens.items():
        settings |= {f"{name}_token": token for name in ROLES[role]}
    write_json(path / TOKENIZER_CONFIG, settings)


def write_json(file, values) -> None:
    """Writes a JSON value as transformers does, with an indent of 2."""
    text = json.dumps(values, ensure_ascii=False, indent=2)
    write_text(file, f"{text}\n")
