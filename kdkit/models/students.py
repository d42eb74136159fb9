"""Builds students from a preset, a configuration or a teacher's blocks."""

import dataclasses
import operator
from collections.abc import Mapping, Sequence

import numpy as np
from keras import ops

from kdkit import models
from kdkit.errors import UsageError
from kdkit.models.bilstm import build_bilstm
from kdkit.models.embedders import require_embedder, with_encoder
from kdkit.models.families import ALL_FAMILIES, FAMILIES, blocks_of, family_of
from kdkit.models.heads import Head, add_head, backbone_of
from kdkit.models.sizes import (
    PRESETS,
    BertConfig,
    BilstmConfig,
    MassConfig,
    require_model_memory,
)
from kdkit.models.token_ids import preprocessor_tokenizer, vocabulary_by_id
from kdkit.models.tokenizers import convert_tokenizer, family_tokenizer
from kdkit.models.variants import keras_hub_backbone

MAX_LAYERS = 1000
NOT_COUNTED = ("dropout", "tied_output")
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
        backbone, such as a `keras_hub.models.BertBackbone`. keras-hub has no
        classifier for ELECTRA, so ELECTRA gets BERT's. For a `BilstmConfig` a
        functional `keras.Model`. For a `MassConfig` a
        `kdkit.models.MassBackbone`, which is not a classifier.

    Raises:
        UsageError: (a `ValueError`) if the preset or a setting is unknown, a
            size is invalid, or the weights do not fit in the machine's memory.

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
        settings = {**_vocabulary(source), **settings}
    config = student_config(preset_or_config, **settings)
    require_model_memory(config)
    if isinstance(config, BilstmConfig):
        if num_classes is None:
            raise UsageError(
                "A BiLSTM student is a classifier. Expected its number of "
                "classes. Received: num_classes=None. Pass num_classes."
            )
        return build_bilstm(config, num_classes, dtype)
    if isinstance(config, MassConfig):
        if num_classes is not None:
            raise UsageError(
                "An encoder-decoder writes text and has no classes. Received: "
                f"num_classes={num_classes}. Use an encoder, such as a BERT."
            )
        # Imported with its package: the class needs Keras, the sizes do not.
        return models.MassBackbone(**dataclasses.asdict(config), dtype=dtype)
    family = ALL_FAMILIES[config.family]
    backbone = family.backbone(**_constructor_sizes(config), dtype=dtype)
    if num_classes is None:
        return backbone
    model = add_head(backbone, Head("sequence", num_classes))
    if teacher is not None:
        model.preprocessor = _shared_preprocessor(teacher, source, model)
    return model


def _vocabulary(teacher):
    """Returns the setting of a teacher's vocabulary size, if it is known."""
    backbone = backbone_of(teacher)
    family = family_of(backbone)
    if family is None:
        return {}
    return {"vocabulary_size": family.size(backbone, "vocabulary_size")}


def _shared_preprocessor(loaded, teacher, student):
    """Returns the teacher's preprocessor, or the student's class of it."""
    theirs = getattr(teacher, "preprocessor", None)
    cls = type(student).preprocessor_cls
    if isinstance(theirs, cls):
        return theirs
    tokenizer = getattr(loaded, "tokenizer", preprocessor_tokenizer(theirs))
    if tokenizer is None:
        return None
    settings = {
        name: getattr(theirs or loaded, name, None)
        for name in ("sequence_length", "truncate")
    }
    tokenizer = convert_tokenizer(family_of(student.backbone), tokenizer)
    return cls(
        tokenizer,
        **{name: one for name, one in settings.items() if one is not None},
    )


def student_config(preset_or_config, **settings):
    """Returns the checked configuration that `student` builds.

    Args:
        preset_or_config: as in `student`.
        **settings: fields of the configuration that replace the preset's.

    Returns:
        `BertConfig`, `BilstmConfig` or `MassConfig`.

    Raises:
        UsageError: as in `student`. One message lists all errors.
    """
    kind, fields = _kind_and_fields(preset_or_config)
    fields |= settings
    known = {field.name: field for field in dataclasses.fields(kind)}
    problems = [
        f"unknown setting {name!r}, valid are {sorted(known)}"
        for name in sorted(set(fields) - set(known))
    ]
    problems += [
        f"{name!r} is missing"
        for name, field in known.items()
        if name not in fields and field.default is dataclasses.MISSING
    ]
    if not problems:
        config = kind(**fields)
        problems = _impossible_sizes(config)
    if problems:
        raise UsageError(f"The student cannot be built: {'; '.join(problems)}.")
    return config


def _kind_and_fields(preset_or_config):
    """Returns a configuration's class and its fields."""
    config = preset_or_config
    if isinstance(config, str) and config in PRESETS:
        config = PRESETS[config].config
    if isinstance(config, BertConfig | BilstmConfig | MassConfig):
        return type(config), dataclasses.asdict(config)
    if isinstance(config, Mapping):
        return BertConfig, dict(config)
    raise UsageError(
        f"Unknown student preset. Expected one of {sorted(PRESETS)}. "
        f"Received: {preset_or_config!r}."
    )


def _constructor_sizes(config):
    """Returns the sizes as arguments of the family's backbone."""
    sizes = dataclasses.asdict(config)
    return ALL_FAMILIES[sizes.pop("family")].constructor_sizes(sizes)


def _impossible_sizes(config):
    """Returns errors about a configuration, as a list of strings."""
    if isinstance(config, BilstmConfig):
        sizes = dataclasses.asdict(config)
        problems = _not_above_zero(sizes)
        if config.num_texts not in (1, 2):
            problems.append(
                f"num_texts must be 1 or 2, received {config.num_texts!r}"
            )
        return problems
    if isinstance(config, MassConfig):
        problems = _not_above_zero(dataclasses.asdict(config))
        return problems or _unbuildable(config)
    if config.family not in ALL_FAMILIES:
        return [
            f"family must be one of {sorted(ALL_FAMILIES)}, received "
            f"{config.family!r}"
        ]
    family = ALL_FAMILIES[config.family]
    foreign = [
        f"{name} does not exist in family {config.family!r}, received "
        f"{getattr(config, name)!r}"
        for name in FAMILY_SIZES
        if getattr(config, name) is not None and not family.takes(name)
    ]
    problems = foreign or _not_above_zero(_constructor_sizes(config))
    return problems or _unbuildable(config)


def _unbuildable(config):
    """Returns errors about heads that do not fit and about too many layers."""
    problems = [
        f"{name} must be at most {MAX_LAYERS}, received {depth}"
        for name, depth in dataclasses.asdict(config).items()
        if name.endswith("num_layers") and depth > MAX_LAYERS
    ]
    if config.hidden_dim % config.num_heads:
        problems.append(
            f"num_heads must divide hidden_dim, received hidden_dim="
            f"{config.hidden_dim}, num_heads={config.num_heads}"
        )
    groups = getattr(config, "num_key_value_heads", None)
    if groups and config.num_heads % groups:
        problems.append(
            f"num_key_value_heads must divide num_heads, received "
            f"num_key_value_heads={groups}, num_heads={config.num_heads}"
        )
    return problems


def _not_above_zero(sizes):
    """Returns errors about sizes that are not above 0, and about dropout."""
    problems = [
        f"{name} must be an integer above 0, received {value!r}"
        for name, value in sizes.items()
        if name not in NOT_COUNTED
        and not (isinstance(value, int) and value > 0)
    ]
    if not 0 <= sizes["dropout"] < 1:
        problems.append(
            f"dropout must be in [0, 1), received {sizes['dropout']!r}"
        )
    return problems


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
        UsageError: (a `ValueError`) if the model is not an embedder, or a
            layer is out of range.

    Example:

    ```python
    student = kdkit.models.dropped_layers(teacher, [1, 3, 6])
    ```
    """
    require_embedder(embedder)
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

    Raises:
        UsageError: (a `ValueError`) if the encoder's family cannot use the
            tokenizer.

    References:
     - [Gee et al., 2022](https://aclanthology.org/2022.emnlp-industry.41/)
    """
    require_embedder(embedder)
    source = backbone_of(embedder)
    family_tokenizer(source, own_tokenizer)  # raises if it does not fit
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
    ids = {token: id for id, token in enumerate(vocabulary_by_id(tokenizer))}
    own = vocabulary_by_id(own_tokenizer)
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


SIZES = (
    "hidden_dim",
    "intermediate_dim",
    "num_heads",
    "num_key_value_heads",
    "vocabulary_size",
    "max_sequence_length",
    "num_segments",
    "embedding_dim",
    "bucket_size",
)


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
            layers is not the student's, sizes differ, the teacher lacks one of
            the student's layers, or student blocks that share their weights,
            as in ALBERT, would copy different blocks. The student is then
            unchanged.

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
    layers = list(layers)
    problems = _families(target, source)
    if not problems:
        problems = _layers(target, source, layers) + _sizes(target, source)
    pairs = []
    if not problems:
        pairs, problems = _pairs(target, source, layers)
    if problems:
        raise UsageError(
            "The student cannot start from the teacher's layers: "
            f"{'; '.join(problems)}. Build the student with the teacher's "
            "sizes, or start it from random weights."
        )
    for target_layer, source_layer in pairs:
        target_layer.set_weights(source_layer.get_weights())
    return student


def _families(target, source):
    return [
        f"the {role} is a {type(backbone).__name__}, expected an encoder of "
        f"one of the families {sorted(FAMILIES)}"
        for role, backbone in (("student", target), ("teacher", source))
        if family_of(backbone) is None
    ]


def _layers(target, source, layers):
    """Returns errors about the choice of layers."""
    problems = []
    num_student, num_teacher = len(blocks_of(target)), len(blocks_of(source))
    if len(layers) != num_student:
        problems.append(
            f"expected {num_student} layers, one per student block, "
            f"received {layers}"
        )
    outside = [layer for layer in layers if not 1 <= layer <= num_teacher]
    if outside:
        problems.append(
            f"layers count from 1 to {num_teacher}, received {outside}"
        )
    return problems


def _sizes(target, source):
    """Returns errors about sizes that both have but that differ."""
    problems = []
    for size in SIZES:
        received = [
            family_of(backbone).size(backbone, size)
            for backbone in (target, source)
        ]
        if None not in received and received[0] != received[1]:
            problems.append(
                f"{size} differs, student {received[0]}, teacher {received[1]}"
            )
    return problems


def _pairs(target, source, layers):
    """Returns pairs of a student's and a teacher's layer, and errors."""
    pairs, problems = [], []
    counterparts = _parts(source)
    for name, layer in _parts(target).items():
        if name in counterparts:
            pairs.append((layer, counterparts[name]))
        else:
            problems.append(
                f"the student's {name} has no counterpart in the "
                f"{type(source).__name__}"
            )
    chosen = {}
    teacher_blocks = blocks_of(source)
    for number, block in enumerate(blocks_of(target), start=1):
        teacher_block = teacher_blocks[layers[number - 1] - 1]
        first, earlier = chosen.setdefault(id(block), (number, teacher_block))
        if first == number:
            pairs.append((block, teacher_block))
        elif earlier is not teacher_block:
            problems.append(
                f"student blocks {first} and {number} share their weights, "
                f"student blocks {first} and {number} share their weights, "
                "do not"
            )
    for layer, counterpart in pairs:
        shapes = [
            (type(one).__name__, [tuple(w.shape) for w in one.weights])
            for one in (layer, counterpart)
        ]
        if shapes[0] != shapes[1]:
            problems.append(
                f"the student's {layer.name} is a {shapes[0][0]} with weights "
                f"{shapes[0][1]}, the teacher's {counterpart.name} a "
                f"{shapes[1][0]} with {shapes[1][1]}"
            )
    return pairs, problems


def _parts(backbone):
    """Returns a backbone's layers outside its blocks, by name."""
    found = {}
    for name, path in family_of(backbone).parts.items():
        if hasattr(backbone, path.split(".")[0]):
            found[name] = operator.attrgetter(path)(backbone)
    return found
