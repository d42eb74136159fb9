"""Builds students from a preset, a configuration or a teacher's blocks."""

import dataclasses
import operator
from collections.abc import Mapping, Sequence

import numpy as np
from keras import ops

from kdkit import models
from kdkit.errors import UsageError, unknown
from kdkit.models.bilstm import build_bilstm
from kdkit.models.embedders import with_encoder
from kdkit.models.families import ALL_FAMILIES, family_of
from kdkit.models.families.family import blocks_of
from kdkit.models.heads import Head, add_head, backbone_of
from kdkit.models.sizes import PRESETS, BertConfig, BilstmConfig, MassConfig
from kdkit.models.tokenizer_kinds import as_tokenizer
from kdkit.models.variants import keras_hub_backbone

NOT_SIZES = ("dropout", "tied_output", "family")
FAMILY_SIZES = ("embedding_dim", "num_key_value_heads")


def student(preset_or_config, num_classes=None, teacher=None, **settings):
    """Builds a student with random weights.

    Args:
        preset_or_config: string, a key of `kdkit.models.PRESETS`; or a
            `kdkit.models.BertConfig`, `kdkit.models.BilstmConfig` or
            `kdkit.models.MassConfig`; or a dict of a `BertConfig`'s fields.
        num_classes: int or `None`. Width of the logits (1 for regression).
            `None` for the teacher's number or, without a teacher, for the
            backbone only. Defaults to `None`.
        teacher: `keras_hub.models.TextClassifier`, or a
            `kdkit.models.LoadedModel` with one, or `None`. The student gets its
            vocabulary size, its number of classes and a preprocessor that
            returns the same ids, so that `kdkit.Distiller` takes texts. Like
            any keras-hub model with a preprocessor, the student's own `fit` and
            `predict` then take texts only. Defaults to `None`.
        **settings: fields of the configuration that replace the preset's,
            such as `vocabulary_size=1000` or `family="distil_bert"`; and
            `dtype`, the Keras dtype policy.

    Returns:
        The family's keras-hub classifier, such as a
        `keras_hub.models.BertTextClassifier`, whose output is logits, without
        preprocessor unless the teacher has a tokenizer; or its
        backbone, such as a `keras_hub.models.BertBackbone`. For a
        `BilstmConfig`, and for an ELECTRA, for which keras-hub has no
        classifier, a functional `keras.Model`. For a `MassConfig` a
        `kdkit.models.MassBackbone`, which is not a classifier.

    Raises:
        UsageError: (a `ValueError`) if the preset or the family is unknown, or
            a size is invalid.

    Example:

    >>> model = kdkit.models.student(
    ...     "tinybert_4_layer_en_uncased", vocabulary_size=100, num_classes=2
    ... )
    >>> model.backbone.hidden_dim
    312
    """
    dtype = settings.pop("dtype", None)
    source = getattr(teacher, "model", teacher)  # of a `LoadedModel`
    if source is not None:
        num_classes = num_classes or getattr(source, "num_classes", None)
        encoder = backbone_of(source)
        if family := family_of(encoder):
            size = family.size(encoder, "vocabulary_size")
            settings = {"vocabulary_size": size, **settings}
    config = student_config(preset_or_config, **settings)
    if isinstance(config, BilstmConfig):
        return build_bilstm(config, num_classes, dtype)
    if isinstance(config, MassConfig):
        # Imported with its package: the class needs Keras, the sizes do not.
        return models.MassBackbone(**dataclasses.asdict(config), dtype=dtype)
    family = ALL_FAMILIES[config.family]
    sizes = dataclasses.asdict(config)
    del sizes["family"]
    backbone = family.backbone(**family.constructor_sizes(sizes), dtype=dtype)
    if num_classes is None:
        return backbone
    model = add_head(backbone, Head("sequence", num_classes))
    if teacher is not None and hasattr(model, "preprocessor"):
        owner = getattr(source, "preprocessor", None) or teacher
        model.preprocessor = _preprocessor(model.preprocessor_cls, owner)
    return model


def _preprocessor(cls, owner):
    """Returns a preprocessor with the tokenizer of another, or of a model."""
    if isinstance(owner, cls):
        return owner
    tokenizer = getattr(owner, "tokenizer", None)
    if tokenizer is None:
        return None
    settings = {
        name: getattr(owner, name, None)
        for name in ("sequence_length", "truncate")
    }
    given = {name: one for name, one in settings.items() if one is not None}
    return cls(tokenizer, **given)


def student_config(preset_or_config, **settings):
    """Returns the checked configuration that `student` builds.

    Args:
        preset_or_config: as in `student`.
        **settings: fields of the configuration that replace the preset's.

    Returns:
        `BertConfig`, `BilstmConfig` or `MassConfig`.

    Raises:
        UsageError: as in `student`.
    """
    config = preset_or_config
    if isinstance(config, str):
        if config not in PRESETS:
            raise unknown("student", config, PRESETS)
        config = PRESETS[config].config
    if isinstance(config, Mapping):
        config = BertConfig(**{**config, **settings})
    else:
        config = dataclasses.replace(config, **settings)
    _require_possible(config)
    return config


def _require_possible(config):
    """Raises an error for sizes that would silently give another model."""
    sizes = dataclasses.asdict(config)
    for name, value in sizes.items():
        is_size = isinstance(value, int) and value > 0
        if name not in NOT_SIZES and value is not None and not is_size:
            raise UsageError(
                f"{name} must be an integer above 0. Received: {value!r}."
            )
    if sizes.get("num_texts", 1) > 2:
        raise UsageError(
            f"num_texts must be 1 or 2. Received: {config.num_texts}."
        )
    if isinstance(config, BertConfig):
        if config.family not in ALL_FAMILIES:
            raise unknown("family", config.family, ALL_FAMILIES)
        for name in FAMILY_SIZES:
            if sizes[name] and not ALL_FAMILIES[config.family].takes(name):
                raise UsageError(
                    f"A {config.family} has no {name}. Received: "
                    f"{sizes[name]!r}."
                )
    heads, groups = sizes.get("num_heads", 1), sizes.get("num_key_value_heads")
    if sizes.get("hidden_dim", heads) % heads or heads % (groups or 1):
        raise UsageError(
            "num_heads must divide hidden_dim, and num_key_value_heads divide "
            f"num_heads. Received: {config}."
        )


def copy_blocks(encoder, layers, num_classes=None, dropout=None):
    """Builds a student from an encoder's embeddings and chosen blocks.

    All sizes except the depth are the encoder's. The activation is always
    keras-hub's own, so that the student's preset is the same model without
    kdkit. The head, if any, is random.

    Args:
        encoder: a backbone from a known family, or a task model around one.
        layers: sequence of ints. The encoder's blocks, counted from 1, in the
            student's order.
        num_classes: int or `None`. Width of the logits; `None` for only the
            encoder. Defaults to `None`.
        dropout: float or `None`. The student's dropout; `None` for the
            encoder's. Defaults to `None`.

    Returns:
        The family's classifier without preprocessor, or its backbone.

    Raises:
        UsageError: (a `ValueError`) if a layer is out of range.

    References:
     - [Sun et al., 2019](https://arxiv.org/abs/1908.09355), section 4.2
     - [Sanh et al., 2019](https://arxiv.org/abs/1910.01108), section 3
    """
    source = backbone_of(encoder)
    sizes = {} if dropout is None else {"dropout": dropout}
    backbone = keras_hub_backbone(source, num_layers=len(layers), **sizes)
    initialize_from_teacher(backbone, source, layers)
    if num_classes is None:
        return backbone
    return add_head(backbone, Head("sequence", num_classes))


def dropped_layers(embedder, layers, dropout=None):
    """Builds an embedder from chosen blocks of another one.

    The new embedder has the pooling, the embeddings and the chosen blocks of
    the given one, with their weights, as in `copy_blocks`.

    Args:
        embedder: `keras.Model`, the result of `kdkit.models.make_embedder` or
            the model of `kdkit.models.load_embedder`.
        layers: sequence of ints. The blocks, counted from 1, in the new order.
        dropout: float or `None`. The dropout of the new embedder; `None` for
            that of the given one. A student that learns vectors needs none.
            Defaults to `None`.

    Returns:
        An embedder with vectors of the same width.

    Raises:
        UsageError: (a `ValueError`) if a layer is out of range.

    Example:

    ```python
    student = kdkit.models.dropped_layers(teacher, [1, 3, 6])
    ```
    """
    return with_encoder(
        embedder, copy_blocks(embedder, layers, dropout=dropout)
    )


def with_vocabulary(embedder, tokenizer, own_tokenizer):
    """Returns an embedder with another vocabulary, and the same layers.

    A token that `tokenizer` has, too, starts from its vector. Another token
    starts from the mean of the vectors of the tokens that `tokenizer` splits
    its text into.

    Args:
        embedder: `keras.Model`, such as the result of `dropped_layers`.
        tokenizer: the embedder's tokenizer.
        own_tokenizer: the new embedder's tokenizer.

    Returns:
        An embedder with a copy of all other weights.

    References:
     - [Gee et al., 2022](https://aclanthology.org/2022.emnlp-industry.41/)
    """
    tokenizer, own_tokenizer = map(as_tokenizer, (tokenizer, own_tokenizer))
    source = backbone_of(embedder)
    size = own_tokenizer.vocabulary_size()
    backbone = keras_hub_backbone(source, vocabulary_size=size)
    family = family_of(source)
    table = family.token_embedding(source).embeddings
    own_table = family.token_embedding(backbone).embeddings
    for weight, copied in zip(backbone.weights, source.weights, strict=True):
        if weight is not own_table:
            weight.assign(copied)
    own_table.assign(
        _token_vectors(ops.convert_to_numpy(table), tokenizer, own_tokenizer)
    )
    return with_encoder(embedder, backbone)


def _token_vectors(table, tokenizer, own_tokenizer):
    """Returns the vectors for another vocabulary, see `with_vocabulary`."""
    ids = {token: id for id, token in enumerate(tokenizer.get_vocabulary())}
    own = own_tokenizer.get_vocabulary()
    vectors = np.zeros((len(own), table.shape[1]), table.dtype)
    roles = ("pad_token_id", "start_token_id", "end_token_id")
    known = {
        getattr(own_tokenizer, role): getattr(tokenizer, role) for role in roles
    }
    texts = {}
    for number, token in enumerate(own):
        if number in known or token in ids:
            vectors[number] = table[known.get(number, ids.get(token))]
        else:
            texts[number] = token.removeprefix("##").strip("▁Ġ")
    pieces = tokenizer(list(texts.values()))
    for number, one in zip(texts, pieces, strict=True):
        vectors[number] = table[one].mean(axis=0) if len(one) else 0
    return vectors


def initialize_from_teacher(student, teacher, layers: Sequence[int]):
    """Copies the teacher's embeddings, chosen blocks and pooler.

    Student block m becomes a copy of teacher block `layers[m - 1]`, as in
    Patient KD (the first k blocks) and DistilBERT (every other block). The
    student's head stays random.

    The families may differ if each of the student's layers has a counterpart.
    For example a DistilBERT can start from a BERT; BERT's segment embeddings
    and pooler are not copied, as in DistilBERT's own code.

    Args:
        student: a backbone from a known family, such as
            `keras_hub.models.BertBackbone`, or a task model around one.
        teacher: the same, with the student's width and vocabulary.
        layers: sequence of ints. Teacher blocks, counted from 1, one per
            student block.

    Returns:
        The student.

    Raises:
        UsageError: (a `ValueError`) if a block is out of range, the number of
            layers is not the student's, or student blocks that share their
            weights, as in ALBERT, would copy different blocks.

    Example:

    ```python
    kdkit.models.initialize_from_teacher(student, teacher, layers=[1, 2, 3])
    ```

    References:
     - [Sun et al., 2019](https://arxiv.org/abs/1908.09355), section 4.2
     - [Sanh et al., 2019](https://arxiv.org/abs/1910.01108), section 3
    """
    target = backbone_of(student)
    source = backbone_of(teacher)
    blocks, teacher_blocks = blocks_of(target), blocks_of(source)
    if len(layers) != len(blocks) or not all(
        1 <= layer <= len(teacher_blocks) for layer in layers
    ):
        raise UsageError(
            f"Expected {len(blocks)} layers, which count from 1 to "
            f"{len(teacher_blocks)}. Received: {list(layers)}."
        )
    counterparts = _parts(source)
    pairs = [
        (layer, counterparts[name]) for name, layer in _parts(target).items()
    ]
    chosen = {}
    for number, block in enumerate(blocks, start=1):
        teacher_block = teacher_blocks[layers[number - 1] - 1]
        earlier = chosen.setdefault(id(block), teacher_block)
        if earlier is not teacher_block:
            raise UsageError(
                f"Student block {number} shares its weights with an earlier "
                f"one, which is a copy of another layer in {list(layers)}."
            )
        pairs.append((block, teacher_block))
    wrong = [
        layer.name for layer, other in pairs if _sizes(layer) != _sizes(other)
    ]
    if wrong:
        raise UsageError(f"Layers have other sizes in the teacher: {wrong}.")
    for layer, counterpart in pairs:
        layer.set_weights(counterpart.get_weights())
    return student


def _sizes(layer):
    return [weight.shape for weight in layer.weights]


def _parts(backbone):
    """Returns a backbone's layers outside its blocks, by name."""
    return {
        name: operator.attrgetter(path)(backbone)
        for name, path in family_of(backbone).parts.items()
        if hasattr(backbone, path.split(".")[0])
    }
