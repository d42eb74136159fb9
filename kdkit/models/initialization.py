"""Starting a student from chosen layers of its teacher."""

import operator
from collections.abc import Sequence

from kdkit.errors import UsageError
from kdkit.models.families import FAMILIES
from kdkit.models.families import blocks_of
from kdkit.models.families import family_of
from kdkit.models.heads import backbone_of

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

    Student block m starts as teacher block `layers[m - 1]`, as in Patient KD
    (the first k blocks) and DistilBERT (every other one). The student's head
    stays random.

    The families may differ where the student's layers all have a counterpart:
    a DistilBERT starts from a BERT, whose segment embeddings and pooler are
    left out, as DistilBERT's authors do.

    Args:
        student: a backbone of a known family, such as
            `keras_hub.models.BertBackbone`, or a task model around one.
        teacher: likewise, of the student's width and vocabulary.
        layers: sequence of ints. Teacher blocks, counted from 1, one per
            student block.

    Returns:
        The student.

    Raises:
        UsageError: (a `ValueError`) if a block is out of range, the number of
            layers is not the student's, sizes differ, the student has layers
            that the teacher lacks, or blocks of the student that share their
            weights, as ALBERT's, were to start from different ones. The
            student is then unchanged.

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
    """What is wrong with the choice of layers."""
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
    """Sizes that both have and that differ."""
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
    """Pairs of a student layer and the teacher's for it, and what is wrong."""
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
                f"teacher blocks {layers[first - 1]} and {layers[number - 1]} "
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
    """A backbone's layers beside its blocks, by the families' names."""
    found = {}
    for name, path in family_of(backbone).parts.items():
        if hasattr(backbone, path.split(".")[0]):
            found[name] = operator.attrgetter(path)(backbone)
    return found
