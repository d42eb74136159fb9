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
import tokenizers
from tokenizers import normalizers

from kdkit.errors import UsageError, unknown
from kdkit.models.conventions import PLAIN
from kdkit.models.embedders import (
    DenseSettings,
    Pooling,
    dense_layers,
    make_embedder,
    pooling_of,
)
from kdkit.models.heads import backbone_of
from kdkit.models.hugging_face import WEIGHTS, Tensors, write_tensors
from kdkit.models.hugging_face_saving import save_hugging_face, write_json
from kdkit.models.places import (
    MODULES,
    TOKENIZER_CONFIG,
    TRANSFORMER_FILES,
    Place,
    find,
)
from kdkit.models.presets import load_encoder
from kdkit.models.static import (
    is_static_embedder,
    make_static_embedder,
    set_token_vectors,
    token_vectors,
)
from kdkit.models.tokenizer import Tokenizer
from kdkit.models.tokenizer_files import WHOLE, read_static_tokenizer
from kdkit.models.tokenizer_kinds import as_tokenizer

PACKAGE = "sentence_transformers."
KINDS = ("StaticEmbedding", "Transformer", "Pooling", "Dense", "Normalize")
STATIC, TRANSFORMER, POOLING, DENSE, NORMALIZE = KINDS
ORDER = re.compile(
    rf"{TRANSFORMER}( {POOLING})?( {DENSE})*( {NORMALIZE})?"
    rf"|{STATIC}( {NORMALIZE})?"
)
# The earlier names of the pooling modes, in the order of their vectors.
MODE_FIELDS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
DENSE_ACTIVATIONS = {"Tanh": "tanh", "Identity": "linear"}
TORCH_ACTIVATIONS = {
    "tanh": "torch.nn.modules.activation.Tanh",
    "linear": "torch.nn.modules.linear.Identity",
}
VECTOR = "sentence_embedding"
TABLE = "embedding.weight"  # of a `StaticEmbedding`
OTHER_TABLE = "embeddings"  # in files of model2vec
MAPPING, SCALES = "mapping", "weights"  # model2vec's tables with shared rows
NUM_AROUND = 2  # tokens around a text, which sentence-transformers leaves out
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


@dataclasses.dataclass(frozen=True)
class Module:
    """A part of an embedder in a sentence-transformers directory."""

    kind: str
    path: pathlib.Path
    config: dict


def load_sentence_transformer(place: Place, pooling) -> tuple:
    """Loads an embedder from a sentence-transformers directory.

    Returns its model, its tokenizer and the length of texts, if known.
    """
    transformer, *others = _read_modules(place)
    normalizes = any(module.kind == NORMALIZE for module in others)
    if transformer.kind == STATIC:
        return _load_static(transformer.path, normalizes)
    dense = [_read_dense(module) for module in others if module.kind == DENSE]
    described = _pooling_mode(others) or pooling
    if described is None:
        raise undescribed_pooling(place.path)
    if isinstance(described, str):
        settings = [settings for settings, _ in dense]
        described = Pooling(described, normalizes, settings)
    backbone, tokenizer = load_encoder(transformer.path, needs_pooler=False)
    model = make_embedder(backbone, described)
    for layer, (_, arrays) in zip(dense_layers(model), dense, strict=True):
        layer.set_weights(arrays)
    tokenizer = _with_lower_case(tokenizer, transformer.config)
    return model, tokenizer, _sequence_length(transformer, backbone)


def _load_static(path, normalize):
    """Loads a static embedder from the folder of a `StaticEmbedding`."""
    tokenizer, length = read_static_tokenizer(path / WHOLE)
    with Tensors(path) as tensors:
        table = tensors.read(TABLE if TABLE in tensors else OTHER_TABLE)
        if MAPPING in tensors:
            table = table[tensors.integers(MAPPING)]
        if SCALES in tensors:
            table = table * tensors.read(SCALES)[:, np.newaxis]
    model = make_static_embedder(tokenizer, table.shape[1], normalize)
    set_token_vectors(model, table, tokenizer, sif=None)
    return model, tokenizer, length


def undescribed_pooling(source) -> UsageError:
    """Returns the error for a directory that does not describe its pooling."""
    return UsageError(
        f"{source} does not describe its pooling. If the model's card does, "
        "pass --pooling mean, cls or max (in Python pooling='mean')."
    )


def _read_modules(place):
    """Returns the parts of an embedder, a list of `Module`."""
    path, modules = place.path, []
    for entry in place.modules:
        package, _, kind = entry["type"].rpartition(".")
        if not package.startswith(PACKAGE) or kind not in KINDS:
            raise unknown(f"module in {path / MODULES}", entry["type"], KINDS)
        part = find(path / entry["path"].removeprefix("."))
        config = part.settings if kind == TRANSFORMER else part.config
        modules.append(Module(kind, part.path, config))
    kinds = [module.kind for module in modules]
    if not ORDER.fullmatch(" ".join(kinds)):
        raise UsageError(
            f"The modules in {path / MODULES} are in another order. Expected "
            f"{', '.join(KINDS[1:])}, with any number of Dense, or {STATIC}, "
            f"{NORMALIZE}. Received: {', '.join(kinds) or 'none'}."
        )
    for module in modules:
        _require_supported(module)
    return modules


def _require_supported(module):
    """Raises an error for a field that changes the vectors in another way."""
    for name, expected in REQUIRED.get(module.kind, {}).items():
        value = module.config.get(name)
        if value not in (None, expected):
            raise UsageError(
                f"The module {module.kind} in {module.path} has "
                f"{name}={value!r}. Expected {expected!r}."
            )


def _pooling_mode(modules):
    """Returns the mode of a pooling, `None` if it is not described."""
    configs = [module.config for module in modules if module.kind == POOLING]
    if not any(configs):
        return None
    (config,) = configs
    modes = config.get("pooling_mode")
    if modes is None:
        fields = MODE_FIELDS.items()
        modes = [mode for name, mode in fields if config.get(name)] or ["mean"]
    # Several modes are joined to one vector, which `Pooling` refuses.
    return modes if isinstance(modes, str) else "+".join(modes)


def _read_dense(module):
    """Returns the settings and the weights of a dense layer."""
    config = module.config
    name = str(config.get("activation_function", "Tanh")).rpartition(".")[2]
    if name not in DENSE_ACTIVATIONS:
        raise unknown(f"activation in {module.path}", name, DENSE_ACTIVATIONS)
    settings = DenseSettings(
        config["out_features"],
        config.get("bias", True),
        DENSE_ACTIVATIONS[name],
    )
    names = ["linear.weight", "linear.bias"][: 1 + settings.use_bias]
    with Tensors(module.path) as tensors:
        return settings, [tensors.read(name).T for name in names]


def _with_lower_case(tokenizer, config):
    """Returns a tokenizer that lower-cases texts if the config requires it."""
    if config.get("do_lower_case") is not True:
        return tokenizer
    if tokenizer.lowercase:
        return tokenizer
    rust = tokenizers.Tokenizer.from_str(tokenizer.rust.to_str())
    steps = [rust.normalizer] if rust.normalizer is not None else []
    rust.normalizer = normalizers.Sequence([normalizers.Lowercase(), *steps])
    return Tokenizer(
        rust, tokenizer.tokens, tokenizer.side, tokenizer.num_segments
    )


def _sequence_length(transformer, backbone):
    """Returns the largest number of tokens that the embedder reads."""
    length = transformer.config.get("max_seq_length")
    if length is None:
        length = (
            find(transformer.path)
            .read(TOKENIZER_CONFIG)
            .get("model_max_length")
        )
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
        tokenizer: the encoder's `kdkit.models.Tokenizer`, or keras-hub's.
        path: string or path of the directory. It is created.
        sequence_length: int. The length to which texts are truncated. `None`
            for a static embedder that has no length.
        conventions: `kdkit.models.Conventions`. Defaults to no prompts and the
            cosine.

    Raises:
        UsageError: (a `ValueError`) if transformers has no such encoder.

    Example:

    ```python
    kdkit.models.save_sentence_transformer(student, tokenizer, "student/", 128)
    embedder = sentence_transformers.SentenceTransformer("student/")
    ```
    """
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
        _save_static(model, as_tokenizer(tokenizer), place, sequence_length)
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
        sizes = {"word_embedding_dimension": width}
        folder(POOLING, **sizes, **modes, include_prompt=True)
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


def _save_static(model, tokenizer, path, sequence_length):
    """Writes the folder of a `StaticEmbedding`."""
    if tokenizer.tokens and sequence_length is not None:
        sequence_length = max(sequence_length - NUM_AROUND, 1)
    write_json(path / WHOLE, tokenizer.to_json(sequence_length))
    write_tensors(path / WEIGHTS, {TABLE: token_vectors(model)})


def _save_dense(layer, file):
    """Writes a dense layer's weights with PyTorch's names and shapes."""
    tensors = {
        f"linear.{name}": keras.ops.convert_to_numpy(value).T
        for name, value in zip(("weight", "bias"), layer.weights, strict=False)
    }
    write_tensors(file, tensors)
