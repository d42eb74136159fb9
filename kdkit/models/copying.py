"""Students that are made of an encoder's own blocks."""

from kdkit.models.heads import Head
from kdkit.models.heads import add_head
from kdkit.models.heads import backbone_of
from kdkit.models.initialization import initialize_from_teacher
from kdkit.models.variants import keras_hub_backbone


def student_of_blocks(encoder, layers, num_classes=None):
    """Builds a student out of an encoder's embeddings and chosen blocks.

    All sizes but the depth are the encoder's. The activation is keras-hub's
    own, also where the encoder's is another, so that the student's preset is
    the same model without kdkit. A head, if wanted, is random.

    Args:
        encoder: a backbone of a known family, or a task model around one.
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
