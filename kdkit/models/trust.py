"""What the files of a model may say, checked before they are loaded.

Keras and keras-hub read safely what they know: no pickles, no lambdas, no links
in HDF5 files. What is refused here beside that are classes of other packages,
files outside of the model's directory, and sizes that the weights do not have,
for which memory would be taken before anything else is found wrong: by what
configs name, then by counting the weights of what they describe.
"""

import contextlib
import functools
import math
import pathlib
import random
import threading
import zipfile
import zlib

import keras

from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.io.hdf5 import hdf5_problem
from kdkit.io.reading import MAX_JSON_BYTES
from kdkit.io.reading import check_links
from kdkit.io.reading import parse_json
from kdkit.io.reading import read_json
from kdkit.models.hugging_face_config import is_convertible
from kdkit.models.hugging_face_config import read_checkpoint_config
from kdkit.models.recovery import check_digests
from kdkit.models.recovery import way_to_restore

# What keras-hub reads of a directory beside weights and vocabularies.
CONFIGS = (
    "config.json",
    "task.json",
    "preprocessor.json",
    "tokenizer.json",
    "decoder_tokenizer.json",
)
OF_MODELS = ("config.json", "task.json")
SHARDS = ("model.weights.json", "model.safetensors.index.json")
HDF5 = ".h5"
OF_WEIGHTS = ("model.weights.h5", "task.weights.h5")  # unless in shards
WEIGHTS = (HDF5, ".safetensors")
PACKAGES = ("keras", "keras_hub", "keras_nlp", "kdkit", "builtins")
# Layers of Keras that hold code or files of other programs.
REFUSED = (
    "__lambda__",
    "FlaxLayer",
    "JaxLayer",
    "Lambda",
    "TFSMLayer",
    "TorchModuleWrapper",
)
ASSETS = ("vocabulary", "merges", "proto")  # of tokenizers: files beside them
VOCABULARIES = ("vocab", "vocabulary", "label2id")  # of Hugging Face, too
MAX_LAYERS = 1000
SLACK = 1 << 26  # numbers that a model may have beyond the bytes of its files
EXPANSION = 100  # of a member of an archive over its stored size
ROWS = ("vocabulary_size", "vocab_size", "input_dim", "max_sequence_length")
ROWS += ("max_position_embeddings", "n_positions", "intermediate_dim", "units")
WIDTHS = ("embedding_dim", "embedding_size", "hidden_dim", "hidden_size")
WIDTHS += ("output_dim", "dim", "n_embd")
# What zipfile raises: cut off, names in no encoding, encrypted, unknown ways.
OF_ARCHIVES = (
    EOFError, OSError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
DEPTHS = ("num_layers", "num_hidden_layers", "n_layer", "n_layers")
GROUPS = ("num_groups", "num_hidden_groups")  # of layers that share weights


def check_directory(path: pathlib.Path, is_built: bool = True) -> None:
    """Checks the files of a preset or of a Hugging Face checkpoint.

    Args:
        path: `pathlib.Path` of a directory.
        is_built: bool. Whether the model is made. `False` for its tokenizer
            alone, which may be kept without weights. Defaults to `True`.

    Raises:
        UsageError: (a `ValueError`) if a file of it lies outside, a config is
            damaged, names a class of another package or a layer that holds
            code, or is of a model larger than its weights; if a file is not
            what kdkit wrote, where it noted that; or if weights in HDF5
            cannot be opened.
    """
    _check_links(path)
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
        check_config(config, path / name, num_bytes)
    loaded = set(OF_WEIGHTS)
    for name in SHARDS:
        if (path / name).is_file():
            index = read_json(
                path / name, "a list of files of weights", _outside
            )
            loaded |= set(_shards(index))
    check_digests(path)
    if is_built:
        # What else lies there is nobody's weights, whatever it is called.
        files = [path / name for name in loaded if name.endswith(HDF5)]
        _check_weights(path, *sorted(filter(pathlib.Path.is_file, files)))
    for name, config in configs.items():
        if name in OF_MODELS and not is_built:
            count = None
        elif name == "config.json" and is_convertible(config):
            count = number_of_weights(
                functools.partial(_described, config, path)
            )
        elif "config" in config:
            count = number_of_weights_of(config)
        else:
            count = None
        _check_count(count, path / name, num_bytes)


def _described(config, path):
    """The backbone that a checkpoint's config asks for."""
    return read_checkpoint_config(config, path).build()


def check_archive(path: pathlib.Path) -> None:
    """Checks a `.keras` file as `check_directory` does a directory.

    Args:
        path: `pathlib.Path`.

    Raises:
        UsageError: (a `ValueError`) likewise; and if it is no archive or a
            part of it would grow beyond all measure.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename: info for info in archive.infolist()}
            problem = _of_members(members)
            if problem is None:
                content = archive.read("config.json")
    except OF_ARCHIVES as error:
        problem = str(error) or type(error).__name__
    if problem is None:
        try:
            config = parse_json(content)
        except UsageError as error:
            problem = f"config.json: {error}"
    if problem is not None:
        raise UsageError(
            f"{path} is damaged or no model of Keras: {problem}. "
            f"{way_to_restore(path)}"
        )
    weights = members.get("model.weights.h5")
    num_bytes = weights.file_size if weights else 0
    check_config(config, path, num_bytes)
    if weights:
        _check_weights(path, (path, weights.filename))
    _check_count(number_of_weights_of(config), path, num_bytes)


def check_config(config: dict, where, num_bytes: int) -> None:
    """Checks what a config says.

    Args:
        config: dict, as JSON has it.
        where: path or string, for the error.
        num_bytes: int. Of the weights that go with it.

    Raises:
        UsageError: (a `ValueError`) as `check_directory`.
    """
    problems = []
    level = [config]
    while level:
        below = []
        for entry in level:
            if isinstance(entry, dict):
                problems += _of_object(entry)
                problems += _of_sizes(entry, num_bytes)
                below += [
                    value
                    for name, value in entry.items()
                    if name not in VOCABULARIES or not _is_of_ids(value)
                ]
            elif isinstance(entry, list):
                below += entry
        level = below
    _refuse(where, problems)


def _check_weights(where, *files):
    problem = hdf5_problem(*files)
    if problem is not None:
        raise UsageError(
            f"{where} cannot be loaded: its weights cannot be opened "
            f"({problem}). {way_to_restore(where)}"
        )


def _check_count(count, where, num_bytes):
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
            f"{where} is refused: {'; '.join(dict.fromkeys(problems[:5]))}. "
            "Expected a model of layers of Keras and keras-hub with its "
            "weights. Load only models of people that you trust."
        )


@contextlib.contextmanager
def loading(source):
    """Says in one line why Keras or keras-hub cannot load something.

    Args:
        source: path or string, for the message.

    Raises:
        UsageError: (a `ValueError`) in the place of what they raise.
    """
    try:
        yield
    except (UsageError, RunError):
        raise
    except Exception as error:  # they raise many kinds
        raise UsageError(
            f"{source} cannot be loaded: {first_sentence(error)}. Is it whole, "
            "and of these versions of Keras and keras-hub? Restore it from a "
            "copy, or make it again."
        ) from error


def first_sentence(error: Exception) -> str:
    """What a library says is wrong, without the list of what there is."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    sentence = lines[0].partition(". ")[0].rstrip(".:")
    return sentence if len(sentence) < 300 else f"{sentence[:300]}..."


def _check_links(path):
    """Refuses files that are elsewhere, but for those of a download's cache."""
    root = path.resolve()
    others = []
    if root.parent.name == "snapshots":  # of Hugging Face: links to blobs
        others.append(root.parent.parent / "blobs")
    check_links(path, *others)


def _outside(index):
    """What is wrong with a list of files of weights."""
    if not isinstance(index.get("weight_map"), dict):
        return "it has no 'weight_map'"
    for name in _shards(index):
        if not isinstance(name, str) or not _is_plain(name):
            return f"{shortened(name)} is no file of this directory"
    return None


def _shards(index):
    """The files that a list of files of weights names."""
    for entry in index["weight_map"].values():
        yield from entry if isinstance(entry, list) else [entry]


def _is_plain(name):
    """Whether a name is one of a file, not a way to another place."""
    return name not in ("", ".", "..") and not set(name) & set("/\\\0")


def _of_members(members):
    """What is wrong with the parts of an archive."""
    for name, info in members.items():
        parts = pathlib.PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts or "\\" in name:
            return f"its part {shortened(name)} lies outside of it"
        if info.file_size > EXPANSION * info.compress_size + (1 << 20):
            return (
                f"its part {shortened(name)} grows from {info.compress_size} "
                f"to {info.file_size} bytes"
            )
    if "config.json" not in members:
        return "it has no config.json"
    if members["config.json"].file_size > MAX_JSON_BYTES:
        return f"its config.json has more than {MAX_JSON_BYTES} bytes"
    return None


def _is_of_ids(value):
    """Whether a dict is a vocabulary, where "units" is a word with its id."""
    return isinstance(value, dict) and all(
        isinstance(number, int) for number in value.values()
    )


def _of_object(entry):
    """What is wrong with a dict that may stand for an object."""
    name, config = entry.get("class_name"), entry.get("config")
    module, registered = entry.get("module"), entry.get("registered_name")
    if name is None:
        return
    if not isinstance(name, str) or not isinstance(module, str | None):
        yield f"a class of the name {shortened(name)}"
    elif name in REFUSED:
        yield f"a {name}, which holds code or files of other programs"
    elif not (_is_known(module) or _is_registered(registered)):
        yield f"{shortened(name)} of the package {shortened(module)}"
    if isinstance(config, dict) and str(name).endswith("Tokenizer"):
        for asset in ASSETS:
            # A long one is the vocabulary itself.
            if isinstance(config.get(asset), str) and len(config[asset]) < 2048:
                yield f"{asset} in the file {shortened(config[asset])}"


def _is_known(module):
    return module is None or module.split(".")[0] in PACKAGES


def _is_registered(name):
    return (
        isinstance(name, str)
        and keras.saving.get_registered_object(name) is not None
    )


def _of_sizes(entry, num_bytes):
    """What is wrong with the sizes of a model or of a layer."""
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
        # Queries, keys, values, what attention puts out, and two of the MLP.
        if depth * width * (4 * width + 2 * inner) > num_bytes + SLACK:
            yield (
                f"{depth} layers of width {width} and {inner}, more numbers "
                f"than its {num_bytes} bytes of weights hold"
            )


def number_of_weights(build) -> int | None:
    """Builds a model without the values of its weights and counts these.

    In a `keras.StatelessScope` variables have shapes alone; Keras lists them to
    give them values later, a list for each thread. Here a thread of its own
    makes them, and its list ends with it.

    Args:
        build: callable that returns a Keras object, or lists and dicts of them.

    Returns:
        int, or `None` where it cannot be built so: what is wrong with it is
        told when it is loaded.
    """
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


def number_of_weights_of(config) -> int | None:
    """As `number_of_weights`, for a config as Keras writes it.

    Args:
        config: dict, as JSON has it.
    """
    return number_of_weights(
        lambda: keras.saving.deserialize_keras_object(_not_compiled(config))
    )


def _not_compiled(value):
    """A config without optimisers and states, which are made with values."""
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
    if "backbone" in value:  # of a task of keras-hub, which compiles itself
        value["compile"] = False
    return value
