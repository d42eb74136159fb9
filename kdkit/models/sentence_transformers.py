"""Reads and writes the directories of sentence-transformers.

`modules.json` lists the parts of an embedder: a transformer, a pooling, dense
layers, a normalization. Each part has a folder with a config. A setting is
followed, rejected by name, or does not change the vectors.
"""

import dataclasses
import pathlib
import re

import keras
import numpy as np

from kdkit.errors import UsageError, shortened
from kdkit.io.reading import read_json
from kdkit.models.conventions import PLAIN
from kdkit.models.embedders import (
    DenseSettings,
    Pooling,
    dense_layers,
    make_embedder,
    pooling_of,
    require_embedder,
)
from kdkit.models.families import FAMILIES
from kdkit.models.heads import backbone_of
from kdkit.models.hugging_face_config import is_convertible, is_hugging_face
from kdkit.models.hugging_face_files import CONFIG
from kdkit.models.hugging_face_saving import save_hugging_face, write_json
from kdkit.models.hugging_face_weights import WEIGHTS, Tensors, write_tensors
from kdkit.models.loading import LoadedModel, load_encoder
from kdkit.models.places import MODULES, TRANSFORMER_FILES, undescribed_pooling
from kdkit.models.ruled_tokenizers import with_rules
from kdkit.models.sizes import POOLINGS
from kdkit.models.static import is_static_embedder
from kdkit.models.static_files import load_static_module, save_static_module
from kdkit.models.text_rules import TextRules, tokenizer_rules

# The encoder may be in the directory itself. No name begins with a point.
FOLDER = re.compile(r"(\w[\w.-]{0,200})?", re.ASCII)
PACKAGE = "sentence_transformers."
STATIC, TRANSFORMER, POOLING, DENSE, NORMALIZE = (
    "StaticEmbedding",
    "Transformer",
    "Pooling",
    "Dense",
    "Normalize",
)
ORDER = (TRANSFORMER, POOLING, DENSE, NORMALIZE)
# The earlier names of the pooling modes, in the order of their vectors.
MODE_FIELDS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
WIDTH_FIELDS = ("embedding_dimension", "word_embedding_dimension")
DENSE_ACTIVATIONS = {"Tanh": "tanh", "Identity": "linear"}
TORCH_ACTIVATIONS = {
    "tanh": "torch.nn.modules.activation.Tanh",
    "linear": "torch.nn.modules.linear.Identity",
}
VECTOR = "sentence_embedding"
# Fields of modules with only one supported value, `None` included.
REQUIRED = {
    TRANSFORMER: {
        "transformer_task": "feature-extraction",
        "module_output_name": "token_embeddings",
    },
    POOLING: {"include_prompt": True},
    DENSE: {
        "module_input_name": VECTOR,
        "module_output_name": VECTOR,
        "use_residual": False,
    },
    NORMALIZE: {"module_input_name": VECTOR, "module_output_name": VECTOR},
}
KNOWN = "a model of Transformer, Pooling, Dense and Normalize, or a static one"


@dataclasses.dataclass(frozen=True)
class Module:
    """A part of an embedder in a sentence-transformers directory."""

    kind: str
    path: pathlib.Path
    config: dict | None


def load_sentence_transformer(path, pooling=None) -> LoadedModel:
    """Loads an embedder from a sentence-transformers directory."""
    path = pathlib.Path(path)
    modules = read_modules(path)
    transformer, *others = modules
    if transformer.kind == STATIC:
        loaded = load_static_module(transformer.path, normalize=bool(others))
        require_same_pooling(pooling, pooling_of(loaded.model), path)
        return loaded
    described = read_pooling(path, others)
    if described is None:
        if pooling is None:
            raise undescribed_pooling(path)
        if isinstance(pooling, str):
            kinds = {module.kind for module in others}
            pooling = Pooling(
                pooling,
                normalize=NORMALIZE in kinds,
                dense=_dense_settings(others),
            )
        described = pooling
    require_same_pooling(pooling, described, path)
    _require_known_architecture(transformer.path)
    backbone, tokenizer = load_encoder(transformer.path, needs_pooler=False)
    _require_width(others, backbone.hidden_dim)
    weights = _dense_weights(others, described, backbone.hidden_dim)
    model = make_embedder(backbone, described)
    for layer, arrays in zip(dense_layers(model), weights, strict=True):
        layer.set_weights(arrays)
    tokenizer = _with_lower_case(tokenizer, transformer.config or {})
    length = _sequence_length(transformer, backbone)
    return LoadedModel(model, tokenizer, True, sequence_length=length)


def require_same_pooling(pooling, described: Pooling, source) -> None:
    """Raises an error if a given pooling is not the described one."""
    if pooling in (None, described, described.mode):
        return
    raise UsageError(
        f"The embedder in {source} has another pooling than the given one. "
        f"Expected {described}. Received: {pooling!r}. Omit the pooling."
    )


def read_modules(path: pathlib.Path) -> list[Module]:
    """Reads the parts of an embedder from `modules.json`."""
    what = "the list of a sentence-transformers model's parts"
    entries = read_json(path / MODULES, what, _modules_error, kind=list)
    modules = []
    for entry in entries:
        kind = entry["type"].rpartition(".")[2]
        known = (STATIC, *ORDER)
        if not entry["type"].startswith(PACKAGE) or kind not in known:
            raise UsageError(
                f"{path / MODULES} has the module {shortened(entry['type'])}. "
                f"Expected one of {known}, because kdkit computes no other. "
                f"Use {KNOWN}."
            )
        folder = path / entry["path"].removeprefix(".")
        names = ("config.json",)
        if kind == TRANSFORMER:
            names = TRANSFORMER_FILES
        modules.append(Module(kind, folder, _read_config(folder, names)))
    _require_order(path, [module.kind for module in modules])
    for module in modules:
        _require_supported(module)
    return modules


def _modules_error(entries):
    """Returns the error in a list of modules, or `None`."""
    for entry in entries:
        if not (
            isinstance(entry, dict)
            and isinstance(entry.get("type"), str)
            and isinstance(entry.get("path"), str)
        ):
            return "expected objects with 'type' and 'path'"
        if entry["path"] != "." and not FOLDER.fullmatch(entry["path"]):
            return f"{shortened(entry['path'])} is not a folder's name"
    return None


def _read_config(folder, names):
    for name in names:
        if (folder / name).is_file():
            return read_json(folder / name, "the config of a module")
    return None


def _require_order(path, kinds):
    if kinds in ([STATIC], [STATIC, NORMALIZE]):
        return
    places = [ORDER.index(kind) for kind in kinds if kind != STATIC]
    once = [kind for kind in kinds if kind != DENSE]
    if (
        not kinds
        or kinds[0] != TRANSFORMER
        or STATIC in kinds
        or places != sorted(places)
        or len(once) > len(set(once))
    ):
        raise UsageError(
            f"{path / MODULES} has its modules in an order that kdkit does not "
            f"compute. Expected {', '.join(ORDER)}, with any number of Dense, "
            f"or {STATIC}, {NORMALIZE}. "
            f"Received: {', '.join(kinds) or 'none'}. Use {KNOWN}."
        )


def _require_supported(module):
    """Raises an error for a field that changes the vectors in another way."""
    for name, expected in REQUIRED.get(module.kind, {}).items():
        value = (module.config or {}).get(name)
        if value not in (None, expected):
            raise UsageError(
                f"The module {module.kind} in {module.path} has "
                f"{name}={shortened(value)}. Expected {expected!r}, because "
                "kdkit computes nothing else. Use another model."
            )


def read_pooling(path: pathlib.Path, modules) -> Pooling | None:
    """Reads the pooling of an embedder."""
    kinds = {module.kind: module for module in modules}
    if POOLING not in kinds or kinds[POOLING].config is None:
        return None
    config = kinds[POOLING].config
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [
            mode for name, mode in MODE_FIELDS.items() if config.get(name)
        ] or ["mean"]
    modes = [modes] if isinstance(modes, str) else modes
    if not isinstance(modes, list) or len(modes) != 1:
        raise UsageError(
            f"{kinds[POOLING].path} joins the poolings {shortened(modes)} to "
            f"one vector. Expected a single one of {POOLINGS}. Use another "
            "model."
        )
    if modes[0] not in POOLINGS:
        raise UsageError(
            f"{kinds[POOLING].path} has the pooling {shortened(modes[0])}, "
            f"which kdkit does not compute. Expected one of {POOLINGS}. Use "
            "another model."
        )
    return Pooling(modes[0], NORMALIZE in kinds, _dense_settings(modules))


def _dense_settings(modules):
    return tuple(
        _one_dense(module) for module in modules if module.kind == DENSE
    )


def _one_dense(module):
    """Returns the `DenseSettings` of a module."""
    config = module.config or {}
    name = str(config.get("activation_function", "Tanh")).rpartition(".")[2]
    if name not in DENSE_ACTIVATIONS:
        raise UsageError(
            f"The dense layer in {module.path} has the activation {name!r}. "
            f"Expected one of {sorted(DENSE_ACTIVATIONS)}. Use another model."
        )
    units, use_bias = config.get("out_features"), config.get("bias", True)
    if type(units) is not int or units < 1 or type(use_bias) is not bool:
        raise UsageError(
            f"The config of the dense layer in {module.path} is damaged. "
            "Expected a whole number above 0 as 'out_features' and a boolean "
            f"as 'bias'. Received: {shortened(units)}, {shortened(use_bias)}. "
            "Restore it from a copy."
        )
    return DenseSettings(units, use_bias, DENSE_ACTIVATIONS[name])


def _dense_weights(modules, pooling, width):
    """Returns the weights of the dense layers, whose sizes are then known."""
    modules = [module for module in modules if module.kind == DENSE]
    found = []
    for settings, module in zip(pooling.dense, modules, strict=True):
        if not (module.path / WEIGHTS).is_file():
            raise UsageError(
                f"The dense layer in {module.path} has no {WEIGHTS}. kdkit "
                "does not open pickles, because these can run code. If you "
                "trust the model, convert it in Python with "
                "sentence_transformers.SentenceTransformer("
                f"{str(module.path.parent)!r}).save_pretrained(DIRECTORY)."
            )
        names = ["linear.weight", *["linear.bias"] * settings.use_bias]
        with Tensors(module.path) as tensors:
            found.append([tensors.read(name).T for name in names])
        expected = [(width, settings.units), (settings.units,)][: len(names)]
        received = [one.shape for one in found[-1]]
        if received != expected:
            raise UsageError(
                f"The weights in {module.path} do not fit its config. Expected "
                f"the shapes {expected}. Received: {received}. Restore the "
                "folder from a copy."
            )
        width = settings.units
    return found


def _require_known_architecture(path):
    """Raises an error that names an architecture which keras-hub lacks."""
    file = path / "config.json"
    if not file.is_file():
        return  # the loader names the files
    config = read_json(file, "the config of a model")
    if is_hugging_face(config) and not is_convertible(config):
        names = [
            family.title for family in FAMILIES.values() if family.checkpoints
        ]
        raise UsageError(
            f"The encoder in {path} is of type "
            f"{shortened(config['model_type'])}, which kdkit does not compute. "
            f"Expected one of {', '.join(names)}. Use an embedder with such an "
            "encoder, for example all-MiniLM-L6-v2 instead of "
            "all-mpnet-base-v2."
        )


def _require_width(modules, width):
    for module in modules:
        if module.kind == POOLING and module.config:
            given = [module.config.get(name) for name in WIDTH_FIELDS]
            if {*map(str, given)} - {str(None), str(width)}:
                raise UsageError(
                    f"The pooling in {module.path} is for another width. "
                    f"Expected the encoder's {width}. Received: "
                    f"{shortened(given)}. Restore the model from a copy."
                )


def _with_lower_case(tokenizer, config):
    """Returns a tokenizer that lower-cases texts if the config requires it."""
    if config.get("do_lower_case") is not True:
        return tokenizer
    rules = tokenizer_rules(tokenizer) or TextRules()
    if rules.lowercase:
        return tokenizer
    steps = ({"type": "Lowercase"}, *rules.normalizer)
    return with_rules(tokenizer, dataclasses.replace(rules, normalizer=steps))


def _sequence_length(transformer, backbone):
    """Returns the largest number of tokens that the embedder reads."""
    length = (transformer.config or {}).get("max_seq_length")
    if length is None:
        file = transformer.path / CONFIG
        tokens = read_json(file, "a tokenizer") if file.is_file() else {}
        length = tokens.get("model_max_length")
    positions = backbone.max_sequence_length
    if type(length) not in (int, float) or length < 1:
        return positions
    return int(min(length, positions))


def save_sentence_transformer(
    model, tokenizer, path, sequence_length, conventions=PLAIN
) -> None:
    """Writes an embedder as a sentence-transformers directory.

    `sentence_transformers.SentenceTransformer(path)` loads it and returns the
    same vectors. `kdkit.models.load_embedder` loads it too.

    Args:
        model: an embedder, see `kdkit.models.make_embedder`, on an encoder from
            a family whose Hugging Face checkpoints kdkit reads.
        tokenizer: the encoder's keras-hub tokenizer.
        path: string or path of the directory. It is created.
        sequence_length: int. The length to which texts are truncated. `None`
            for a static embedder that has no length.
        conventions: `kdkit.models.Conventions`. Defaults to no prompts and the
            cosine.

    Raises:
        UsageError: (a `ValueError`) if the model is not an embedder, or
            transformers has no such encoder.
        RunError: if the written tokenizer does not return the same ids.

    Example:

    ```python
    kdkit.models.save_sentence_transformer(student, tokenizer, "student/", 128)
    embedder = sentence_transformers.SentenceTransformer("student/")
    ```
    """
    require_embedder(model)
    path = pathlib.Path(path)
    backbone, pooling = backbone_of(model), pooling_of(model)
    is_static, folders = is_static_embedder(model), []

    def folder(kind, **config):
        place = path / f"{len(folders)}_{kind}"
        place.mkdir()
        if config:
            write_json(place / "config.json", config)
        folders.append((kind, place.name))
        return place

    if is_static:
        path.mkdir(parents=True, exist_ok=True)
        place = folder(STATIC)
        save_static_module(model, tokenizer, place, sequence_length)
    else:
        save_hugging_face(backbone, tokenizer, path)
        folders.append((TRANSFORMER, ""))
        length = {"max_seq_length": sequence_length, "do_lower_case": False}
        write_json(path / TRANSFORMER_FILES[0], length)
        # The earlier names, which all versions read.
        modes = {
            name: mode == pooling.mode for name, mode in MODE_FIELDS.items()
        }
        width = backbone.hidden_dim
        folder(
            POOLING, **{WIDTH_FIELDS[1]: width}, **modes, include_prompt=True
        )
    for settings, layer in zip(pooling.dense, dense_layers(model), strict=True):
        place = folder(
            DENSE,
            in_features=width,
            out_features=settings.units,
            bias=settings.use_bias,
            activation_function=TORCH_ACTIVATIONS[settings.activation],
        )
        width = settings.units
        _save_dense(layer, place / WEIGHTS)
    if pooling.normalize:
        folder(NORMALIZE)
    modules = [
        {"idx": number, "name": str(number), "path": name, "type": type_}
        for number, (name, type_) in enumerate(
            (name, f"{PACKAGE}models.{kind}") for kind, name in folders
        )
    ]
    write_json(path / MODULES, modules)
    conventions.save(path)


def _save_dense(layer, file):
    """Writes a dense layer's weights with PyTorch's names and shapes."""
    tensors = {
        f"linear.{name}": np.ascontiguousarray(
            np.asarray(keras.ops.convert_to_numpy(value), "float32").T
        )
        for name, value in zip(("weight", "bias"), layer.weights, strict=False)
    }
    write_tensors(file, tensors)
