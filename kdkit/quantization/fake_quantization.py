"""Quantisation-aware training, as a callback and as a change of a model."""

import contextlib
import json
import pathlib
from collections.abc import Iterable, Mapping

import keras
from keras import ops

from kdkit.backends import need_tensorflow
from kdkit.errors import UsageError
from kdkit.io.files import write_text
from kdkit.quantization.places import (
    dense_layers,
    embeddings,
    require_quantizable,
)
from kdkit.quantization.precisions import (
    MIN_ROWS,
    SCHEMES,
    require_precision,
)
from kdkit.quantization.rounding import (
    fake_quantize_activations,
    fake_quantize_bias,
    fake_quantize_embeddings,
    fake_quantize_rows,
    fake_quantize_weights,
)
from kdkit.taps import select_inputs

# Where a model holds the `FakeQuantization` with which it rounds.
ATTRIBUTE = "kdkit_quantization"


class FakeQuantization(keras.callbacks.Callback):
    """Trains a model with the rounding of its exported file.

    As a callback of `fit`, it first runs the student on `calibration_data` to
    measure the range of each activation that the file quantises. From then on
    the student's layers round their weights and activations where the file
    does, and gradients pass by the straight-through estimator. The ranges do
    not change during training.

    The student's weights stay in float32, and the model saves as before. It
    rounds until `remove()` is called, so that `evaluate` and `predict` after
    `fit` measure what the file computes. `kdkit.export.to_litert` writes a file
    with the same ranges from such a model.

    Args:
        precision: string. The precision of the file: `"static_int8"`, or
            `"int4"`, whose activations have no fixed ranges.
        calibration_data: iterable of batches of inputs, or of tuples that
            start with one; at least 16 examples in total. The file computes
            with padding up to its sequence length, so batches should have that
            length. Not needed for `"int4"`, or with `ranges`. Defaults to
            `None`.
        ranges: dict from a dense layer's name to the ranges of its inputs and
            of its product, each a minimum and a maximum; the `ranges` of an
            earlier `FakeQuantization`. Defaults to `None`.

    Attributes:
        ranges: dict, `None` before calibration and for `"int4"`.

    Raises:
        UsageError: (a `ValueError`) for an unknown precision, on another
            backend than TensorFlow, with too few calibration data, and for
            models that `apply` does not support.

    Example:

    ```python
    quantization = kdkit.quantization.FakeQuantization(
        "static_int8", calibration_data=train.take(8)
    )
    distiller.fit(train, epochs=3, callbacks=[quantization])
    distiller.evaluate(dev)
    ```
    """

    def __init__(
        self,
        precision: str,
        calibration_data: Iterable | None = None,
        ranges: Mapping[str, tuple] | None = None,
    ):
        super().__init__()
        require_precision(precision)
        need_tensorflow("Quantisation-aware training")
        self.precision = precision
        self._scheme = SCHEMES[precision]
        has_ranges = self._scheme.is_static and ranges is not None
        self.ranges = dict(ranges) if has_ranges else None
        self._calibration_data = calibration_data
        self._replaced = []
        self._rounding = None

    def on_train_begin(self, logs=None):
        """Applies the fake quantisation to the model, or to its student."""
        student = getattr(self.model, "student", self.model)
        if active_quantization(student) is not self:
            self.apply(student)
            # Steps that are already traced do not round.
            self.model.make_train_function(force=True)

    def apply(self, model) -> None:
        """Measures the ranges if there are none, and lets a model round.

        Args:
            model: `keras.Model`. An encoder of a family whose blocks are
                `keras_hub.layers.TransformerEncoder`, with or without a head,
                in float32.

        Raises:
            UsageError: (a `ValueError`) if the model is not supported or
                already quantised, or the ranges are those of another model.
        """
        active = active_quantization(model)
        if active is not None:
            raise UsageError(
                f"Model {model.name!r} already rounds. Call `remove()` first."
            )
        require_quantizable(model)
        layers = dense_layers(model)
        if self._scheme.is_static and self.ranges is None:
            self.ranges = self._measured_ranges(model, layers)
        if self._scheme.is_static and set(self.ranges) != set(layers):
            different = sorted(set(self.ranges) ^ set(layers))
            raise UsageError(
                "The ranges are those of another model: they differ in "
                f"{', '.join(different[:4])}."
            )
        for name, dense in layers.items():
            self._replace(dense.layer, self._rounding_dense(name, dense))
        for layer in embeddings(model).values():
            self._replace(layer, _rounding_embedding(layer))
        vars(model)[ATTRIBUTE] = self
        self._rounding = model
        self._forget_traces()

    def remove(self) -> None:
        """Lets the model compute in full precision again."""
        for model in filter(None, (self.model, self._rounding)):
            model.train_function = None
        self._restore()

    def _restore(self):
        """Does the same, also while a step is running."""
        while self._replaced:
            del vars(self._replaced.pop())["call"]
        if self._rounding is not None:
            self._forget_traces()
            del vars(self._rounding)[ATTRIBUTE]
            self._rounding = None

    def _forget_traces(self):
        """Traced functions would go on as they were traced."""
        for model in filter(None, (self.model, self._rounding)):
            model.test_function = model.predict_function = None

    def ranges_by_path(self, model) -> dict | None:
        """Returns the ranges by the layers' paths, for an exporter.

        Args:
            model: `keras.Model` that the ranges belong to.

        Returns:
            Dict, or `None` for a precision without ranges.
        """
        if self.ranges is None:
            return None
        return {
            dense.layer.path: self.ranges[name]
            for name, dense in dense_layers(model).items()
        }

    def save(self, path: str | pathlib.Path) -> None:
        """Writes precision and ranges to a JSON file.

        Args:
            path: string or path.
        """
        entries = {"precision": self.precision, "ranges": self.ranges}
        write_text(pathlib.Path(path), f"{json.dumps(entries, indent=1)}\n")

    def _replace(self, layer, call):
        vars(layer)["call"] = call
        self._replaced.append(layer)

    def _rounding_dense(self, name, dense):
        """Returns a dense layer's `call` with rounding."""
        scheme = self._scheme
        ranges = self.ranges[name] if scheme.is_static else (None, None)
        of_inputs, of_product = ranges

        def call(inputs, *args, **kwargs):
            matrix = fake_quantize_weights(
                dense.kernel_matrix(), scheme.weight_bits, scheme.block_size
            )
            if not scheme.is_static:
                rows = fake_quantize_rows(inputs, dense.num_input_axes)
                return dense.run(rows, matrix, lambda product: product)
            bias = dense.layer.bias
            if bias is not None and dense.adds_bias_first:
                bias = fake_quantize_bias(bias, matrix, *of_inputs)
            return dense.run(
                fake_quantize_activations(inputs, *of_inputs),
                matrix,
                lambda product: fake_quantize_activations(product, *of_product),
                bias,
            )

        return call

    def _measured_ranges(self, model, layers):
        """Returns the smallest and largest values of the layers' tensors."""
        found = {name: ([0.0, 0.0], [0.0, 0.0]) for name in layers}

        def measuring(name, dense):
            def call(inputs, *args, **kwargs):
                _widen(found[name][0], inputs)
                return dense.run(
                    inputs,
                    dense.kernel_matrix(),
                    lambda product: _widen(found[name][1], product),
                )

            return call

        num_rows = 0
        try:
            for name, dense in layers.items():
                self._replace(dense.layer, measuring(name, dense))
            for batch in self._calibration_data:
                x = batch[0] if isinstance(batch, tuple) else batch
                inputs = select_inputs(model, x)
                num_rows += len(keras.tree.flatten(inputs)[0])
                model(inputs, training=False)
        finally:
            self._restore()
        if num_rows < MIN_ROWS:
            raise UsageError(
                f"Calibration needs at least {MIN_ROWS} examples, received "
                f"{num_rows}."
            )
        return {
            name: tuple(map(tuple, ranges)) for name, ranges in found.items()
        }


def active_quantization(model) -> FakeQuantization | None:
    """Returns the fake quantisation with which a model rounds, if it does.

    Args:
        model: `keras.Model`.
    """
    return vars(model).get(ATTRIBUTE)


def rounds_as(model, precision: str) -> bool:
    """Whether a model rounds as its file in this precision does.

    Args:
        model: `keras.Model`.
        precision: string, of a file.
    """
    active = active_quantization(model)
    return active is not None and active.precision == precision


@contextlib.contextmanager
def full_precision(model):
    """Lets a model compute in full precision within a `with` block.

    Args:
        model: `keras.Model`, which may round by `FakeQuantization` or not.
    """
    active = active_quantization(model)
    if active is not None:
        active._restore()
    try:
        yield
    finally:
        if active is not None:
            active.apply(model)


def read_quantization(path: str | pathlib.Path) -> FakeQuantization:
    """Reads the file that `FakeQuantization.save` wrote.

    Args:
        path: string or path.

    Returns:
        A `FakeQuantization` with the saved precision and ranges.
    """
    values = json.loads(pathlib.Path(path).read_text("utf-8"))
    ranges = values["ranges"]
    if ranges is not None:
        ranges = {
            name: tuple(map(tuple, pair)) for name, pair in ranges.items()
        }
    return FakeQuantization(values["precision"], ranges=ranges)


def _rounding_embedding(layer):
    """Returns an embedding's `call` with rounding."""
    call = layer.call

    def rounding(*args, **kwargs):
        rows = call(*args, **kwargs)
        return fake_quantize_embeddings(rows, layer.embeddings)

    return rounding


def _widen(ends, tensor):
    """Lets a range, a list of two floats, contain a tensor's values."""
    ends[0] = min(ends[0], float(ops.min(tensor)))
    ends[1] = max(ends[1], float(ops.max(tensor)))
    return tensor
