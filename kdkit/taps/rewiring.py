"""Running a model once and returning its taps."""

import keras
from keras import ops

from kdkit.errors import UsageError
from kdkit.models.families import ALL_FAMILIES
from kdkit.models.families import adapters_of
from kdkit.models.families import find_backbone
from kdkit.models.families import stacks_of
from kdkit.taps.attention import AttentionReader
from kdkit.taps.graph import with_states
from kdkit.taps.inputs import padding_masks
from kdkit.taps.inputs import select_inputs
from kdkit.taps.names import CLS_INDEX
from kdkit.taps.names import name_tap
from kdkit.taps.names import split_tap
from kdkit.taps.shape import check_taps
from kdkit.taps.shape import describe
from kdkit.taps.vocabulary import FactoredLogits
from kdkit.taps.vocabulary import output_embeddings


def tapped(model, taps, factor_logits=False):
    """Returns a callable that runs `model` once and returns its taps.

    The callable runs the model's own layers with the model's own weights and
    leaves the model as it is. It is called like the model, as
    `tapped_model(x, training=False)`, inside or outside of a `tf.function`.

    Taps of the whole model: `"logits"`, `"embedding_output"` (what enters the
    first block), `"pooled_output"`.

    Taps per layer, as lists. Of N + 1 tensors, 0 being the embedding output:
    `"hidden_states"`, (batch_size, sequence_length, hidden_dim), and
    `"cls_states"`, (batch_size, hidden_dim). Of N tensors, one per block:
    `"attention_logits"` (QKᵀ/√d before mask and softmax) and
    `"attention_probs"` (after both, before dropout), (batch_size, num_heads,
    query_length, key_length); `"queries"`, `"keys"` and `"values"`,
    (batch_size, sequence_length, num_heads, head_dim). Where blocks share
    their weights, as in ALBERT, each call is a block of its own.

    Of an encoder-decoder: `"logits"`, and with the prefix `encoder_` or
    `decoder_` `"embedding_output"`, `"hidden_states"`, `"attention_logits"`,
    `"attention_probs"`, `"queries"`, `"keys"` and `"values"` of that half, as
    `"encoder_hidden_states"`. `"cross_attention_logits"` and
    `"cross_attention_probs"` are the attention of each block of the decoder to
    what the encoder read, (batch_size, num_heads, decoder_length,
    encoder_length).

    Args:
        model: `keras.Model`. A keras-hub backbone, a task model around one,
            or, for `"logits"` alone, any functional model whose only output
            they are, alone or in a dict. Inputs are identified by name: pass
            them as a dict.
        taps: iterable of strings. What the callable returns.
        factor_logits: bool. Whether `"logits"` is `kdkit.taps.FactoredLogits`
            in place of a tensor as wide as the vocabulary, which a
            `keras_hub.models.CausalLM` allows. Defaults to `False`.

    Returns:
        A callable, which returns a dict by tap name.

    Raises:
        UsageError: (a `ValueError`) if a tap is unknown or the model does not
            have it, as DeBERTa-v3 has none of the attention and RoBERTa no
            pooled output.

    Example:

    ```python
    run = kdkit.taps.tapped(classifier, ["logits", "hidden_states"])
    outputs = run(batch, training=False)
    last_hidden_state = outputs["hidden_states"][-1]
    ```
    """
    return TappedModel(model, taps, factor_logits)


class TappedModel:
    """What `tapped` returns."""

    def __init__(self, model, taps, factor_logits=False):
        self.taps = tuple(dict.fromkeys(taps))
        self.shape = describe(model)
        check_taps(self.taps, self.shape, type(model).__name__)
        self._model = model
        self._stacks = {}
        self._readers = {}
        family = ALL_FAMILIES.get(self.shape.family)
        self._padding_token = family and family.padding_token
        self._embeddings = output_embeddings(model) if factor_logits else None
        if factor_logits or set(self.taps) != {"logits"}:
            backbone = find_backbone(model)
            _check_mask_input(model, backbone)
            self._stacks = stacks_of(backbone)
            parts = adapters_of(backbone)
            reads_cross = any(split_tap(tap)[0] == "cross" for tap in self.taps)
            if reads_cross:
                parts["cross"] = parts["decoder"]
            # Without its head where the logits are to be factors.
            self._model = with_states(
                backbone if factor_logits else model,
                backbone,
                self._stacks,
                reads_cross,
            )
            self._readers = {
                part: AttentionReader(
                    part, blocks, self.taps, backbone.dtype_policy
                )
                for part, blocks in parts.items()
            }

    def __call__(self, x, training=False):
        outputs = self._model(select_inputs(self._model, x), training=training)
        if not self._stacks:
            (logits,) = keras.tree.flatten(outputs)
            return {"logits": logits}
        logits = outputs.get("logits")
        if self._embeddings is not None:
            last = outputs["sequence_output"]
            logits = FactoredLogits(
                last, ops.cast(self._embeddings, last.dtype)
            )
        read = {
            "logits": logits,
            "pooled_output": outputs.get("pooled_output"),
        }
        for part in self._stacks:
            states = list(outputs[name_tap(part, "hidden_states")])
            read[name_tap(part, "embedding_output")] = states[0]
            read[name_tap(part, "hidden_states")] = states
        if "cls_states" in self.taps:
            read["cls_states"] = [
                state[:, CLS_INDEX] for state in read["hidden_states"]
            ]
        for part, read_attention in self._readers.items():
            _, mask = padding_masks(x, part)
            if self._padding_token is not None:
                mask = ops.not_equal(x["token_ids"], self._padding_token)
            read |= read_attention(
                outputs[name_tap(part, "attention_inputs")],
                outputs["cross_sources"] if part == "cross" else None,
                mask,
            )
        return {tap: read[tap] for tap in self.taps}


def _check_mask_input(model, backbone):
    """Raises a `UsageError` if the padding mask would go unseen."""
    received = model.input
    if not isinstance(backbone.input, dict):
        return
    masks = {name for name in backbone.input if name.endswith("padding_mask")}
    if masks and not (isinstance(received, dict) and masks <= set(received)):
        raise UsageError(
            f"Model {model.name!r} must take its inputs as a dict with "
            f"{sorted(masks)}, or its taps would count padding. Received: "
            f"{keras.tree.map_structure(lambda tensor: tensor.name, received)}."
            " Build it as keras.Model({'token_ids': ..., 'padding_mask': ...}, "
            "logits)."
        )
