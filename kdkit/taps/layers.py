"""Finds the layers of a model by name, and reads their outputs and shapes.

`compute_output_spec` runs a function symbolically. Keras keeps the mask of a
tensor in an attribute or, for tensors of JAX, in a table. These functions are
private; tests/numbers/test_any_model.py pins them.
"""

import operator

import keras
from keras.src import backend

from kdkit.errors import UsageError, unknown
from kdkit.taps import private
from kdkit.taps.names import LAYER, is_layer_tap, tap_name
from kdkit.taps.recording import Method, recorded


class LayerTaps:
    """The taps of a model that are outputs of layers, or functions of these.

    Attributes:
        methods: list of `Method`, whose calls `read` needs.
    """

    def __init__(self, model, taps):
        self._taps = {}
        for tap in filter(is_layer_tap, taps):
            if self._taps.setdefault(tap_name(tap), tap) != tap:
                raise UsageError(
                    f"Two functions are taps of the name {tap_name(tap)!r}. "
                    "Define each with `def` and its own name."
                )
        self._paths = layer_paths(model) if self._taps else {}
        self.methods = []
        for tap in self._taps.values():
            layers = self._paths.values()  # a function may read any layer
            if not callable(tap):
                name = tap.removeprefix(LAYER)
                layers = [find_layer(self._paths, name)]
            self.methods += [Method(layer, "call") for layer in layers]

    def read(self, calls) -> dict:
        """Returns the taps by name, from the recorded calls of a model."""
        outputs = LayerOutputs(self._paths, calls)
        taps = {}
        for name, tap in self._taps.items():
            if not callable(tap):
                tap = operator.itemgetter(tap.removeprefix(LAYER))
            (taps[name],) = keras.tree.flatten(tap(outputs))
        return taps


class LayerOutputs:
    """The outputs of all layers of a model, by name: `outputs["block_3"]`."""

    def __init__(self, paths, calls):
        self._paths = paths
        self._calls = calls

    def __getitem__(self, name):
        method = Method(find_layer(self._paths, name), "call")
        found = [call.output for call in self._calls if call.method == method]
        if len(found) != 1:
            raise UsageError(
                f"Layer {name!r} runs {len(found)} times in a forward pass, so "
                "that its output is ambiguous."
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


def require_one_run(model, methods) -> None:
    """Requires that no gradient runs the methods' layers a second time.

    Tensors inside of a rematerialized layer have no gradient on TensorFlow.
    """
    tapped = {id(method.layer) for method in methods}
    layers = (model, *layer_paths(model).values())
    for outer in filter(private.is_rematerialized, layers):
        if tapped & {id(outer), *map(id, layer_paths(outer).values())}:
            raise UsageError(
                f"Layer {outer.name!r} is rematerialized, so taps inside of it "
                "have no gradient. Build the model outside of "
                "`keras.RematScope`."
            )


def keras_mask(tensor):
    """Returns the mask that Keras' layers pass on with a tensor, or `None`.

    Such masks begin at `Embedding(mask_zero=True)` and `Masking`.
    """
    return backend.get_keras_mask(tensor)


def output_specs(model, taps=()) -> tuple:
    """Returns `KerasTensor`s for a model's output and for its layer taps."""
    layers = LayerTaps(model, taps)
    if has_graph(model) and not layers.methods:
        return model.outputs, {}

    def run(x):
        with recorded(layers.methods) as calls:
            output = model(x, training=False)
        return output, layers.read(calls)

    return backend.compute_output_spec(run, symbolic_inputs(model))


def has_graph(model) -> bool:
    """Whether a model is functional, or sequential and built."""
    return getattr(model, "outputs", None) is not None


def symbolic_inputs(model):
    """Returns `KerasTensor`s for a model's inputs."""
    if has_graph(model):
        # A sequential model has no `input` before its first call.
        is_sequential = isinstance(model, keras.Sequential)
        return model.inputs[0] if is_sequential else model.input
    return keras.tree.map_shape_structure(
        lambda shape: keras.KerasTensor((None, *shape[1:])),
        model.get_build_config()["input_shape"],
    )
