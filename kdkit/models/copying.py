"""Students that are made of an encoder's own blocks."""

from kdkit.errors import UsageError
from kdkit.models.heads import Head
from kdkit.models.heads import add_head
from kdkit.models.heads import backbone_of
from kdkit.models.initialization import initialize_from_teacher
from kdkit.models.variants import keras_hub_backbone

RULES = ("first", "spread")


def choose_blocks(rule, num_blocks, num_copied) -> tuple[int, ...]:
    """Names the blocks of an encoder that a shallower one starts from.

    - `"first"`: the first ones, as in Patient KD.
    - `"spread"`: from the first to the last, evenly, as in DistilBERT, where
      of 12 blocks the six are 1, 3, 5, 8, 10 and 12.

    Args:
        rule: string. One of the names above.
        num_blocks: int. Blocks of the encoder.
        num_copied: int. Blocks of the student.

    Returns:
        Tuple of ints, counted from 1.

    Raises:
        UsageError: (a `ValueError`) if the rule is unknown or the student has
            no blocks or more than the encoder.

    >>> choose_blocks("first", num_blocks=12, num_copied=3)
    (1, 2, 3)
    >>> choose_blocks("spread", num_blocks=6, num_copied=3)
    (1, 3, 6)
    """
    if rule not in RULES:
        raise UsageError(
            f"Unknown choice of blocks. Expected one of {RULES}. Received: "
            f"{rule!r}."
        )
    if not 1 <= num_copied <= num_blocks:
        raise UsageError(
            f"A student of an encoder's own blocks has 1 to {num_blocks} of "
            f"them here. Received: {num_copied} blocks."
        )
    if rule == "first":
        return tuple(range(1, num_copied + 1))
    if num_copied == 1:
        return (1,)
    # i (N - 1) / (M - 1) to the nearest integer, halves down, plus 1.
    gaps = num_copied - 1
    return tuple(
        -((gaps - 2 * index * (num_blocks - 1)) // (2 * gaps)) + 1
        for index in range(num_copied)
    )


def student_of_blocks(encoder, layers, num_classes=None):
    """Builds a student out of an encoder's embeddings and chosen blocks.

    All sizes but the depth are the encoder's. The activation is keras-hub's
    own, also where the encoder's is another, so that the student's preset is
    the same model without kdkit. A head, if wanted, is random.

    Args:
        encoder: a backbone of a family in `kdkit.families.FAMILIES`, or a task
            model around one.
        layers: sequence of ints. The encoder's blocks, counted from 1, in the
            order of the student's.
        num_classes: int or `None`. Width of the logits; `None` for the encoder
            alone. Defaults to `None`.

    Returns:
        The family's classifier without preprocessor, or its backbone.

    Raises:
        UsageError: (a `ValueError`) if a layer is out of range.

    References:
     - [Sun et al., 2019](https://arxiv.org/abs/1908.09355), section 4.2
     - [Sanh et al., 2019](https://arxiv.org/abs/1910.01108), section 3
    """
    source = backbone_of(encoder)
    backbone = keras_hub_backbone(source, num_layers=len(layers))
    initialize_from_teacher(backbone, source, layers)
    if num_classes is None:
        return backbone
    return add_head(backbone, Head("sequence", num_classes))
