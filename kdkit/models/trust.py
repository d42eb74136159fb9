"""Checks the files of an untrusted model before they are loaded.

Keras and keras-hub read their own formats safely: no pickles, no lambdas, no
links in HDF5 files. The checks here additionally reject classes from other
packages, files outside of the model's directory, and sizes that do not fit the
weights, for which Keras would allocate memory before it finds any other error.
Sizes are checked first by the numbers in the configs, then by counting the
weights of the described model.
"""

import contextlib
import functools
import math
import pathlib
import random
import threading
import warnings
import zipfile
import zlib

import keras

from kdkit.errors import RunError, UsageError, shortened
from kdkit.io.hdf5 import hdf5_problem
from kdkit.io.reading import MAX_JSON_BYTES, parse_json, read_json
from kdkit.models.hugging_face_config import (
    is_convertible,
    read_checkpoint_config,
)
from kdkit.models.recovery import require_intact_files, way_to_restore

# The configs that keras-hub reads from a directory.
CONFIGS = (
    "config.json",
    "task.json",
    "preprocessor.json",
    "tokenizer.json",
    "decoder_tokenizer.json",
)
MODEL_CONFIGS = ("config.json", "task.json")
SHARDS = ("model.weights.json", "model.safetensors.index.json")
HDF5 = ".h5"
WEIGHT_FILES = ("model.weights.h5", "task.weights.h5")  # without shards
WEIGHTS = (HDF5, ".safetensors")
PACKAGES = ("keras", "keras_hub", "keras_nlp", "kdkit", "builtins")
# Keras layers that contain code or files from other programs.
REFUSED = (
    "__lambda__",
    "FlaxLayer",
    "JaxLayer",
    "Lambda",
    "TFSMLayer",
    "TorchModuleWrapper",
)
ASSETS = ("vocabulary", "merges", "proto")  # tokenizer files next to configs
VOCABULARIES = ("vocab", "vocabulary", "label2id")  # Hugging Face's too
MAX_LAYERS = 1000
SLACK = 1 << 26  # how many numbers a model may have beyond its files' bytes
EXPANSION = 100  # limit for an archive member's size over its stored size
ROWS = ("vocabulary_size", "vocab_size", "input_dim", "max_sequence_length")
ROWS += ("max_position_embeddings", "n_positions", "intermediate_dim", "units")
WIDTHS = ("embedding_dim", "embedding_size", "hidden_dim", "hidden_size")
WIDTHS += ("output_dim", "dim", "n_embd")
# Errors from zipfile: truncated, invalid names, encrypted, unknown compression.
ARCHIVE_ERRORS = (
    EOFError, OSError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
DEPTHS = ("num_layers", "num_hidden_layers", "n_layer", "n_layers")
GROUPS = ("num_groups", "num_hidden_groups")  # layers that share weights
OPTIMIZER = "Skipping variable loading for optimizer"  # Keras' warning


def require_safe_directory(path: pathlib.Path, is_built: bool = True) -> None:
    """Checks the files of a preset or of a Hugging Face checkpoint."""
    num_bytes = sum(
        file.stat().st_size
        for file in path.iterdir()
        if file.suffix in WEIGHTS and file.is_file()
    )
    configs = {
        name: read_json(path / name, "the config of a model")
        for name in CONFIGS
        if (path / name).is_file()
    }
    for name, config in configs.items():
        require_safe_config(config, path / name, num_bytes)
    loaded = set(WEIGHT_FILES)
    for name in SHARDS:
        if (path / name).is_file():
            index = read_json(
                path / name, "a list of files of weights", _outside
            )
            loaded |= set(_shards(index))
    require_intact_files(path)
    if is_built:
        # Other files in the directory are not loaded, whatever their name.
        files = [path / name for name in loaded if name.endswith(HDF5)]
        _require_readable_weights(
            path, *sorted(filter(pathlib.Path.is_file, files))
        )
    for name, config in configs.items():
        if name in MODEL_CONFIGS and not is_built:
            count = None
        elif name == "config.json" and is_convertible(config):
            count = count_weights(functools.partial(_described, config, path))
        elif "config" in config:
            count = count_config_weights(config)
        else:
            count = None
        _require_count(count, path / name, num_bytes)


def _described(config, path):
    """Returns the backbone that a checkpoint's config describes."""
    return read_checkpoint_config(config, path).build()


def require_safe_archive(path: pathlib.Path) -> None:
    """Checks a `.keras` file as `require_safe_directory` checks a directory."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename: info for info in archive.infolist()}
            problem = _members_error(members)
            if problem is None:
                content = archive.read("config.json")
    except ARCHIVE_ERRORS as error:
        problem = str(error) or type(error).__name__
    if problem is None:
        try:
            config = parse_json(content)
        except UsageError as error:
            problem = f"config.json: {error}"
    if problem is not None:
        raise UsageError(
            f"{path} is damaged or not a Keras model: {problem}. "
            f"{way_to_restore(path)}"
        )
    weights = members.get("model.weights.h5")
    num_bytes = weights.file_size if weights else 0
    require_safe_config(config, path, num_bytes)
    if weights:
        _require_readable_weights(path, (path, weights.filename))
    _require_count(count_config_weights(config), path, num_bytes)


def require_safe_config(config: dict, where, num_bytes: int) -> None:
    """Checks the classes and sizes in a config."""
    problems = []
    level = [config]
    while level:
        below = []
        for entry in level:
            if isinstance(entry, dict):
                problems += _object_errors(entry)
                problems += _size_errors(entry, num_bytes)
                below += [
                    value
                    for name, value in entry.items()
                    if name not in VOCABULARIES or not _is_vocabulary(value)
                ]
            elif isinstance(entry, list):
                below += entry
        level = below
    _refuse(where, problems)


def _require_readable_weights(where, *files):
    problem = hdf5_problem(*files)
    if problem is not None:
        raise UsageError(
            f"{where} cannot be loaded: its weights cannot be opened "
            f"({problem}). {way_to_restore(where)}"
        )


def _require_count(count, where, num_bytes):
    if count is not None and count > num_bytes + SLACK:
        _refuse(
            where,
            [
                f"a model of {count} weights, more numbers than its "
                f"{num_bytes} bytes of weights hold"
            ],
        )


def _refuse(where, problems):
    if problems:
        raise UsageError(
            f"{where} is rejected: {'; '.join(dict.fromkeys(problems[:5]))}. "
            "Expected a model with layers from Keras and keras-hub, and its "
            "weights. Only load models from people that you trust."
        )


@contextlib.contextmanager
def loading(source):
    """Converts errors from Keras and keras-hub to one line."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", OPTIMIZER)
            yield
    except (UsageError, RunError):
        raise
    except Exception as error:  # they raise many kinds
        raise UsageError(
            f"{source} cannot be loaded: {first_sentence(error)}. Expected a "
            "complete model for the installed versions of Keras and keras-hub. "
            "Restore it from a copy, or save it again."
        ) from error


def first_sentence(error: Exception) -> str:
    """Returns the first sentence of a library's error."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    sentence = lines[0].partition(". ")[0].rstrip(".:")
    return sentence if len(sentence) < 300 else f"{sentence[:300]}..."


def _outside(index):
    """Returns the error in a list of weight files, or `None`."""
    if not isinstance(index.get("weight_map"), dict):
        return "it has no 'weight_map'"
    for name in _shards(index):
        if not isinstance(name, str) or not _is_plain(name):
            return f"{shortened(name)} is not a file in this directory"
    return None


def _shards(index):
    """Yields the files in a list of weight files."""
    for entry in index["weight_map"].values():
        yield from entry if isinstance(entry, list) else [entry]


def _is_plain(name):
    """Whether a name is a plain file name, not a path to another place."""
    return name not in ("", ".", "..") and not set(name) & set("/\\\0")


def _members_error(members):
    """Returns the error in an archive's members, or `None`."""
    for name, info in members.items():
        parts = pathlib.PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts or "\\" in name:
            return f"its member {shortened(name)} is outside of it"
        if info.file_size > EXPANSION * info.compress_size + (1 << 20):
            return (
                f"its member {shortened(name)} grows from {info.compress_size} "
                f"to {info.file_size} bytes"
            )
    if "config.json" not in members:
        return "it has no config.json"
    if members["config.json"].file_size > MAX_JSON_BYTES:
        return f"its config.json has more than {MAX_JSON_BYTES} bytes"
    return None


def _is_vocabulary(value):
    """Whether a dict is a vocabulary, where "units" is a word with its id."""
    return isinstance(value, dict) and all(
        isinstance(number, int) for number in value.values()
    )


def _object_errors(entry):
    """Yields errors in a dict that may describe an object."""
    name, config = entry.get("class_name"), entry.get("config")
    module, registered = entry.get("module"), entry.get("registered_name")
    if name is None:
        return
    if not isinstance(name, str) or not isinstance(module, str | None):
        yield f"a class with the name {shortened(name)}"
    elif name in REFUSED:
        yield f"a {name}, which contains code or files from other programs"
    elif not (_is_known(module) or _is_registered(registered)):
        yield f"{shortened(name)} from the package {shortened(module)}"
    if isinstance(config, dict) and str(name).endswith("Tokenizer"):
        for asset in ASSETS:
            # A long string is the vocabulary itself.
            if isinstance(config.get(asset), str) and len(config[asset]) < 2048:
                yield f"{asset} in the file {shortened(config[asset])}"


def _is_known(module):
    return module is None or module.split(".")[0] in PACKAGES


def _is_registered(name):
    return (
        isinstance(name, str)
        and keras.saving.get_registered_object(name) is not None
    )


def _size_errors(entry, num_bytes):
    """Yields errors in the sizes of a model or a layer."""
    numbers = {
        name: value
        for name, value in entry.items()
        if isinstance(value, int) and not isinstance(value, bool)
    }
    width = min(
        (numbers[name] for name in WIDTHS if name in numbers), default=1
    )
    for name in ROWS:
        if numbers.get(name, 0) * width > num_bytes + SLACK:
            yield (
                f"{name} {numbers[name]} by {width}, more numbers than its "
                f"{num_bytes} bytes of weights hold"
            )
    if width > num_bytes + SLACK:
        yield f"a width of {width}"
    inner = numbers.get("intermediate_dim", numbers.get("intermediate_size", 0))
    for name in DEPTHS:
        depth = numbers.get(name, 0)
        if depth > MAX_LAYERS:
            yield f"{name} {depth}, above {MAX_LAYERS}"
        depth = min(
            [depth, *(numbers[one] for one in GROUPS if one in numbers)]
        )
        # Queries, keys, values, attention output, and two matrices of the MLP.
        if depth * width * (4 * width + 2 * inner) > num_bytes + SLACK:
            yield (
                f"{depth} layers of width {width} and {inner}, more numbers "
                f"than its {num_bytes} bytes of weights hold"
            )


def count_weights(build) -> int | None:
    """Counts a model's weights without allocating their values."""
    counts = []

    def count():
        try:
            with keras.StatelessScope(initialize_variables=False):
                built = keras.tree.flatten(build())
                counts.append(
                    sum(
                        math.prod(variable.shape)
                        for part in built
                        for variable in getattr(part, "weights", ())
                    )
                )
        except Exception:  # Keras and keras-hub raise many kinds
            pass

    state = random.getstate()  # Keras draws seeds of initializers from it
    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    thread.join()
    random.setstate(state)
    return counts[0] if counts else None


def count_config_weights(config) -> int | None:
    """Counts the weights for a Keras config, see `count_weights`."""
    return count_weights(
        lambda: keras.saving.deserialize_keras_object(_not_compiled(config))
    )


def _not_compiled(value):
    """Removes optimizers and states, which would be created with values."""
    if isinstance(value, list):
        return [_not_compiled(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    value = {
        name: _not_compiled(entry)
        for name, entry in value.items()
        if name != "compile_config"
    }
    if "stateful" in value:
        value["stateful"] = False
    if "backbone" in value:  # a keras-hub task, which compiles itself
        value["compile"] = False
    return value
