"""Reads the outputs of a model's layers while the model runs, and their shapes.

Any Keras model will do, also a subclassed one, which has no graph: while the
model runs, each layer in question records the result of its `call`. So there
is one forward pass, and the outputs see the same dropout as the logits.

Keras keeps the mask of a tensor in an attribute or, for tensors of JAX, in a
table. The function that reads both is private;
tests/numbers/test_any_model.py pins it.
"""

import contextlib
import functools
import threading

import keras
from keras.src.backend.common.masking import get_keras_mask

from kdkit.errors import UsageError, unknown
from kdkit.taps import private
from kdkit.taps.names import LAYER, is_layer_tap, tap_name

# Sizes for axes of any size, where a backend needs numbers.
_ANY_SIZES = (4, 5)
OUTPUT = "output"  # the key of the model's own output in `output_specs`
_lock = threading.Lock()
_thread = threading.local()


class LayerTaps:
    """The outputs of layers, of one model and some taps."""

    def __init__(self, model, taps):
        self._taps = {}
        for tap in filter(is_layer_tap, taps):
            known = self._taps.setdefault(tap_name(tap), tap)
            if known is not tap and known != tap:
                raise UsageError(
                    f"Two functions are taps of the name {tap_name(tap)!r}. "
                    "Define each with `def` and its own name."
                )
        self._paths = layer_paths(model) if self._taps else {}
        names = [tap for tap in self._taps.values() if not callable(tap)]
        self._found = {
            tap: find_layer(self._paths, tap.removeprefix(LAYER))
            for tap in names
        }
        # A function may read any layer.
        reads_all = len(names) < len(self._taps)
        self._layers = [*(self._paths if reads_all else self._found).values()]

    def run(self, function):
        """The result of a function that runs the model, and the taps."""
        if not self._taps:
            return function(), {}
        with _recorded(self._layers) as record:
            result = function()
        outputs = LayerOutputs(self._paths, record)
        taps = {}
        for name, tap in self._taps.items():
            if callable(tap):
                taps[name] = tap(outputs)
            else:
                taps[name] = outputs.single_tensor(self._found[tap])
        return result, taps


class LayerOutputs:
    """The outputs of all layers of a model, by name: `outputs["block_3"]`."""

    def __init__(self, paths, record):
        self._paths = paths
        self._record = record

    def __getitem__(self, name):
        return self._once(find_layer(self._paths, name))

    def single_tensor(self, layer):
        """Returns the only tensor in a layer's output."""
        (tensor,) = keras.tree.flatten(self._once(layer))
        return tensor

    def _once(self, layer):
        found = self._record[id(layer)]
        if len(found) != 1:
            raise UsageError(
                f"Layer {layer.name!r} runs {len(found)} times in a forward "
                "pass, so that its output is ambiguous."
            )
        return found[0]


def layer_paths(model) -> dict:
    """Returns all layers inside a model by path, such as `"encoder/dense"`."""
    paths, seen = {}, {id(model)}

    def visit(layer, prefix):
        for inner in private.sublayers(layer):
            if id(inner) not in seen:
                seen.add(id(inner))
                paths.setdefault(prefix + inner.name, inner)
                visit(inner, f"{prefix}{inner.name}/")

    visit(model, "")
    return paths


def find_layer(paths, name):
    """Returns the layer with a name, or a path where several have it."""
    if name in paths:
        return paths[name]
    found = [path for path in paths if path.endswith(f"/{name}")]
    if len(found) != 1:
        raise unknown("layer", name, found or paths)
    return paths[found[0]]


@contextlib.contextmanager
def _recorded(layers):
    """Yields a dict from a layer's `id` to the results of its calls."""
    record = {id(layer): [] for layer in layers}
    records = vars(_thread).setdefault("records", [])
    with _lock:
        for layer in layers:
            _listen(layer)
    records.append(record)
    try:
        yield record
    finally:
        records.remove(record)
        with _lock:
            for layer in layers:
                _stop_listening(layer)


def _listen(layer):
    """Lets a layer's `call` add its results to the records of its thread."""
    replaced = vars(layer).get("call")
    if not hasattr(replaced, "num_users"):
        call = layer.call

        @functools.wraps(call)
        def listening(*args, **kwargs):
            result = call(*args, **kwargs)
            for record in vars(_thread).get("records", ()):
                if id(layer) in record:
                    record[id(layer)].append(result)
            return result

        listening.num_users = 0
        listening.replaced = replaced
        vars(layer)["call"] = listening
    vars(layer)["call"].num_users += 1


def _stop_listening(layer):
    listening = vars(layer)["call"]
    listening.num_users -= 1
    if listening.num_users:
        return
    if listening.replaced is None:
        del vars(layer)["call"]
    else:
        vars(layer)["call"] = listening.replaced


class _Run(keras.Layer):
    """A function as a layer, so that Keras can run it symbolically."""

    def __init__(self, function):
        super().__init__(name="symbolic_run")
        self._function = function
        self.built = True

    def call(self, inputs):
        return self._function(inputs)


def output_specs(model, taps=()) -> dict:
    """Returns the shapes of a model's output and of layer taps."""
    inputs = symbolic_inputs(model)
    layers = LayerTaps(model, taps)

    def run(x):
        output, taps = layers.run(lambda: model(x, training=False))
        return {**taps, OUTPUT: output}

    symbolic = _Run(run)
    try:
        return symbolic.compute_output_spec(inputs)
    except Exception:  # JAX cannot compare an unknown length with a limit
        return _specs_of_sizes(symbolic, inputs)


def _specs_of_sizes(symbolic, inputs):
    """The same specs from two symbolic runs on inputs of known sizes."""
    first, second = (
        symbolic.compute_output_spec(
            keras.tree.map_structure(
                lambda one, size=size: keras.KerasTensor(
                    [axis or size for axis in one.shape], one.dtype
                ),
                inputs,
            )
        )
        for size in _ANY_SIZES
    )
    return keras.tree.map_structure(_common_spec, first, second)


def _common_spec(first, second):
    shape = [
        size if size == other else None
        for size, other in zip(first.shape, second.shape, strict=True)
    ]
    return keras.KerasTensor(shape, first.dtype)


def keras_mask(tensor):
    """Returns the mask that Keras' layers pass on with a tensor, or `None`.

    Such masks begin at `Embedding(mask_zero=True)` and `Masking`.
    """
    return get_keras_mask(tensor)


def has_graph(model) -> bool:
    """Whether a model is functional, or sequential and built."""
    try:
        return model.outputs is not None
    except (AttributeError, ValueError):
        return False


def symbolic_inputs(model):
    """Returns `KerasTensor`s for a model's inputs."""
    if has_graph(model):
        # A sequential model has no `input` before its first call.
        is_sequential = isinstance(model, keras.Sequential)
        return model.inputs[0] if is_sequential else model.input
    return _with_any_batch(model.get_build_config()["input_shape"])


def _with_any_batch(shape):
    if isinstance(shape, dict):
        return {name: _with_any_batch(one) for name, one in shape.items()}
    if shape and isinstance(shape[0], list | tuple):
        return [_with_any_batch(one) for one in shape]
    return keras.KerasTensor((None, *shape[1:]))
