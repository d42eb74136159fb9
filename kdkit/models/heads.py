"""Heads: layers on an encoder that compute the logits for a kind of task.

Sentence classifiers and language models are keras-hub's own task models, except
for ELECTRA, which has none there. The other heads are functional models of
standard layers, named by their kind, on a backbone that is one layer of the
whole model. Taps, distillation, saving and export treat such a model like any
other.
"""

import contextlib
import dataclasses
from collections.abc import Mapping

import numpy as np

from kdkit.backends import with_policy
from kdkit.errors import unknown
from kdkit.late import keras, keras_hub, ops
from kdkit.models.families import family_of, find_backbone
from kdkit.taps.names import SENTENCE_EMBEDDING
from kdkit.weights import TABLE, layers_at_their_start

HEADS = ("sequence", "multiple_choice", "tokens")
EXCLUDED = -1e4  # logit of a class that is not a candidate; fits float16


@dataclasses.dataclass(frozen=True)
class Head:
    """The head that a task needs.

    Args:
        kind: string. `"sequence"`: one row of logits per sequence.
            `"multiple_choice"`: one logit for each of `num_classes` consecutive
            sequences, joined to one row. `"tokens"`: one row of logits per
            position.
        num_classes: int. Width of the logits.
        class_names: tuple of strings or `None`. The names of the classes.
        candidates: dict or `None`. For `"tokens"`, from a token to the numbers
            of its possible classes. The other logits for that token are
            -10,000. Tokens that are not in the dict can have any class.

    Raises:
        UsageError: (a `ValueError`) if the kind is unknown.
    """

    kind: str
    num_classes: int
    class_names: tuple[str, ...] | None = None
    candidates: Mapping[str, tuple[int, ...]] | None = None

    def __post_init__(self):
        if self.kind not in HEADS:
            raise unknown("kind of head", self.kind, HEADS)


def add_head(backbone, head: Head, tokenizer=None):
    """Adds a head with random weights to an encoder.

    Args:
        backbone: an encoder from a known family. The head uses its dropout.
        head: `Head`.
        tokenizer: a tokenizer, needed for a head with `candidates`.

    Returns:
        For `"sequence"` the family's keras-hub classifier without
        preprocessor, if there is one, else a functional `keras.Model`. The
        logits have the shapes `(batch_size, num_classes)`, `(batch_size /
        num_classes, num_classes)` for `"multiple_choice"`, and `(batch_size,
        sequence_length, num_classes)` for `"tokens"`.
    """
    dropout = backbone.get_config()["dropout"]
    classifier = family_of(backbone).classifier
    if head.kind == "sequence" and classifier is not None:
        return classifier(
            backbone, num_classes=head.num_classes, dropout=dropout
        )
    return join(backbone, _head_model(backbone, head, dropout, tokenizer))


def language_model(backbone):
    """Adds a language-modelling head to a backbone.

    On an encoder: a dense layer as wide as the encoder, GELU, layer
    normalization, and the transposed token embeddings with a bias (Devlin et
    al., 2018). On a decoder or an encoder-decoder: only the transposed token
    embeddings (Radford et al., 2019). The backbone is not copied: training the
    language model trains the backbone.

    Args:
        backbone: a `kdkit.models.MassBackbone`, or a backbone from a known
            family except ELECTRA, which has another pretraining task.

    Returns:
        The family's keras-hub model without preprocessor. A
        `keras_hub.models.MaskedLM` has logits of shape `(batch_size,
        num_predictions, vocabulary_size)` for the input `mask_positions`. A
        `keras_hub.models.CausalLM` has logits of shape `(batch_size,
        sequence_length, vocabulary_size)` for the token after each token, and
        so has a `kdkit.models.MassSeq2SeqLM` for its decoder's tokens.
    """
    family = family_of(backbone)
    if family is None:
        return backbone.language_model()
    return (family.masked_lm or family.causal_lm)(backbone)


def is_causal(model) -> bool:
    """Whether a language model predicts the next token, not masked ones."""
    return isinstance(model, keras_hub.models.CausalLM)


def is_encoder_decoder(model) -> bool:
    """Whether a language model writes one text from another."""
    return isinstance(model, keras_hub.models.Seq2SeqLM)


@contextlib.contextmanager
def frozen_pooler(backbone):
    """Excludes an encoder's pooler from training inside the block.

    Language modelling does not use the pooler, and Keras warns about weights
    without gradient.

    Args:
        backbone: a keras-hub backbone, with or without a pooler.
    """
    pooler = getattr(backbone, "pooled_dense", None)
    if pooler is None:
        yield
        return
    was_trainable, pooler.trainable = pooler.trainable, False
    try:
        yield
    finally:
        pooler.trainable = was_trainable


def join(backbone, head_model):
    """Returns the functional model of an encoder followed by a head."""
    states = {**backbone.input, **_named(backbone(backbone.input))}
    pooler = getattr(backbone, "pooled_dense", None)
    if pooler is not None and "pooled_output" not in head_model.input:
        pooler.trainable = False  # it gets no gradient there
    logits = head_model({name: states[name] for name in head_model.input})
    model = keras.Model(backbone.input, logits)
    model.dtype_policy = backbone.dtype_policy
    return model


def in_policy(model, name: str):
    """Returns the model, or a copy that computes in another precision.

    Args:
        model: an encoder, a classifier, an embedder or a masked language
            model.
        name: string. Such as `"mixed_bfloat16"`.
    """
    copy = with_policy(model, name)
    ours, theirs = (
        getattr(backbone_of(one), "pooled_dense", None) for one in (copy, model)
    )
    if ours is not None:
        ours.trainable = theirs.trainable  # not in the config
    return copy


def backbone_of(model):
    """Returns the encoder in a model, or the model itself without one."""
    return find_backbone(model) or model


def find_head(model):
    """Returns the head as its own model, `None` for other classifiers."""
    return named_layer(model, *HEADS)


def head_or_pooling(model):
    """Returns the part after the encoder as its own model, if it is one."""
    return named_layer(model, *HEADS, SENTENCE_EMBEDDING)


def named_layer(model, *names):
    """Returns a model's layer with one of the names, `None` without one."""
    for layer in getattr(model, "layers", ()):
        if layer.name in names:
            return layer
    return None


def classifier_head_kind(model) -> str:
    """Returns the kind of a classifier's head, one of `HEADS`."""
    head_model = find_head(model)
    if head_model is not None:
        return head_model.name
    return "tokens" if len(model.output_shape) == 3 else "sequence"


def untrained_head(model) -> list[str]:
    """Returns the paths of layers in a classifier's head that were not trained.

    Such a layer's bias is zero for all classes, as at the start. In
    `"multiple_choice"` the bias of the only logit has no gradient, so the
    function only finds heads in which no layer was trained.

    Args:
        model: `keras.Model`. Without a known encoder the result is empty.
    """
    if family_of(backbone_of(model)) is None:
        return []
    return layers_at_their_start(_head_weights(model))


def copy_head(student, teacher) -> None:
    """Copies a classifier's head to one with the same head and width.

    Args:
        student: `keras.Model`, the result of `add_head`.
        teacher: `keras.Model`, a classifier around an encoder.
    """
    for weight, copied in zip(
        _head_weights(student), _head_weights(teacher), strict=True
    ):
        weight.assign(copied)


def _head_weights(model):
    encoder = {id(weight) for weight in backbone_of(model).weights}
    return [weight for weight in model.weights if id(weight) not in encoder]


def _named(outputs):
    """Returns a backbone's outputs by name, also if there is only one."""
    return (
        outputs if isinstance(outputs, dict) else {"sequence_output": outputs}
    )


def _head_model(backbone, head, dropout, tokenizer):
    """Returns the layers of a head as their own model."""
    is_choice, is_tokens = (
        head.kind == kind for kind in ("multiple_choice", "tokens")
    )
    name, shape = "sequence_output", (None, backbone.hidden_dim)
    if not is_tokens and "pooled_output" in _named(backbone.output):
        name, shape = "pooled_output", shape[1:]
    state = keras.Input(shape, name=name)
    inputs = {name: state}
    if not is_tokens and len(shape) == 2:
        state = state[:, 0]
    logits = keras.layers.Dense(
        1 if is_choice else head.num_classes, name="logits"
    )(keras.layers.Dropout(dropout)(state))
    if is_choice:
        logits = ops.reshape(logits, (-1, head.num_classes))
    if head.candidates is not None:
        token_ids = keras.Input((None,), dtype="int32", name="token_ids")
        inputs["token_ids"] = token_ids
        table = _candidate_table(head, tokenizer)
        lookup = keras.layers.Embedding(
            *table.shape, trainable=False, name=TABLE
        )
        allowed = lookup(ops.minimum(token_ids, len(table) - 1))
        lookup.set_weights([table])
        logits = ops.where(ops.greater(allowed, 0.5), logits, EXCLUDED)
    return keras.Model(inputs, logits, name=head.kind)


def _candidate_table(head, tokenizer):
    """Returns ones for the classes that a token can have."""
    ids = {piece: i for i, piece in enumerate(tokenizer.get_vocabulary())}
    known = {
        ids[piece]: list(classes)
        for piece, classes in head.candidates.items()
        if piece in ids
    }
    table = np.ones((max(known, default=-1) + 2, head.num_classes), "float32")
    for token_id, classes in known.items():
        table[token_id] = 0.0
        table[token_id, classes] = 1.0
    return table
