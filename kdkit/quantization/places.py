"""The layers of a model that each precision quantises."""

import dataclasses
import math

import keras
import keras_hub

from kdkit.errors import UsageError
from kdkit.models.families import EncoderBlock, adapters_of, find_backbone
from kdkit.taps.layers import layer_paths

# A file's dense product includes the bias and these, before it is quantised.
FUSED_ACTIVATIONS = (keras.activations.relu, keras.activations.relu6)


@dataclasses.dataclass(frozen=True, eq=False)
class DenseLayer:
    """A dense layer of a transformer, computed part by part."""

    layer: object

    @property
    def num_input_axes(self) -> int:
        """The number of axes of the inputs that the layer sums over."""
        if isinstance(self.layer, keras.layers.Dense):
            return 1
        operands, result = self.layer.equation.split("->")
        _, kernel = operands.split(",")
        return sum(axis not in result for axis in kernel)

    def kernel_matrix(self):
        """Returns the kernel with the shape `(num_inputs, num_units)`."""
        shape = self.layer.kernel.shape
        num_inputs = math.prod(shape[: self.num_input_axes])
        return keras.ops.reshape(self.layer.kernel, (num_inputs, -1))

    @property
    def adds_bias_first(self) -> bool:
        """Whether a file quantises the product after the bias is added."""
        return len(self.layer.kernel.shape) - self.num_input_axes == 1

    def run(self, inputs, matrix, quantize_product, bias=None):
        """Returns the layer's outputs."""
        layer = self.layer
        bias = layer.bias if bias is None else bias
        kernel = keras.ops.reshape(matrix, layer.kernel.shape)
        if isinstance(layer, keras.layers.Dense):
            outputs = keras.ops.matmul(inputs, kernel)
        else:
            outputs = keras.ops.einsum(layer.equation, inputs, kernel)
        adds_first = self.adds_bias_first
        if bias is not None and adds_first:
            outputs = outputs + bias
        is_fused = adds_first and layer.activation in FUSED_ACTIVATIONS
        if is_fused:
            outputs = layer.activation(outputs)
        outputs = quantize_product(outputs)
        if bias is not None and not adds_first:
            outputs = outputs + bias
        if layer.activation is None or is_fused:
            return outputs
        return layer.activation(outputs)


def dense_layers(model) -> dict[str, DenseLayer]:
    """Returns the dense layers of a model by name."""
    kinds = keras.layers.Dense, keras.layers.EinsumDense
    found = _layers_by_name(model, kinds)
    return {name: DenseLayer(layer) for name, layer in found.items()}


def embeddings(model) -> dict:
    """Returns the embeddings of a model by name."""
    return _layers_by_name(model, keras.layers.Embedding)


def _layers_by_name(model, kinds):
    inside = f"{find_backbone(model).name}/"
    return {
        path.removeprefix(inside): layer
        for path, layer in layer_paths(model).items()
        if isinstance(layer, kinds)
    }


def require_quantizable(model) -> None:
    """Requires an encoder in float32 whose layers can be quantised.

    Args:
        model: `keras.Model`.

    Raises:
        UsageError: (a `ValueError`) for other models.
    """
    backbone = find_backbone(model)
    parts = {} if backbone is None else adapters_of(backbone)
    blocks = [adapter for part in parts.values() for adapter in part]
    own = {id(block.block) for block in blocks}
    if not (
        blocks
        and len(own) == len(blocks)
        and all(type(block) is EncoderBlock for block in blocks)
    ):
        shown = model if backbone is None else backbone
        raise UsageError(
            "Quantisation-aware training is for BERT, DistilBERT, ELECTRA, "
            f"RoBERTa and XLM-RoBERTa, received {type(shown).__name__}."
        )
    if isinstance(model, keras_hub.models.MaskedLM):
        raise UsageError("A masked LM cannot be trained with quantisation.")
    if backbone.compute_dtype != "float32":
        raise UsageError(
            "Quantisation-aware training needs a model in float32, received "
            f"{backbone.compute_dtype}."
        )
