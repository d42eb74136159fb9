"""Starting a student from chosen layers of its teacher."""

from collections.abc import Sequence

from kdkit.errors import UsageError


def initialize_from_teacher(student, teacher, layers: Sequence[int]):
    """Copies the teacher's embeddings, chosen blocks and pooler.

    Student block m starts as teacher block `layers[m - 1]`, as in Patient KD
    (the first k blocks) and DistilBERT (every other one). The student's head
    stays random.

    Args:
        student: `keras_hub.models.BertBackbone` or a task model around one.
        teacher: likewise, of the student's width and vocabulary.
        layers: sequence of ints. Teacher blocks, counted from 1, one per
            student block.

    Returns:
        The student.

    Raises:
        UsageError: (a `ValueError`) if a block is out of range, the number of
            layers is not the student's, or sizes differ. The student is then
            unchanged.

    Example:

    ```python
    kdkit.models.initialize_from_teacher(student, teacher, layers=[1, 2, 3])
    ```

    References:
     - [Sun et al., 2019](https://arxiv.org/abs/1908.09355), section 4.2
     - [Sanh et al., 2019](https://arxiv.org/abs/1910.01108), section 3
    """
    target = getattr(student, "backbone", student)
    source = getattr(teacher, "backbone", teacher)
    layers = list(layers)
    _check(target, source, layers)
    pairs = [
        (getattr(target, name), getattr(source, name))
        for name in (
            "token_embedding",
            "position_embedding",
            "segment_embedding",
            "embeddings_layer_norm",
            "pooled_dense",
        )
    ]
    pairs += [
        (block, source.transformer_layers[layer - 1])
        for block, layer in zip(target.transformer_layers, layers, strict=True)
    ]
    for target_layer, source_layer in pairs:
        target_layer.set_weights(source_layer.get_weights())
    return student


def _check(student, teacher, layers):
    """Raises one `UsageError` with everything that does not fit."""
    problems = []
    if len(layers) != student.num_layers:
        problems.append(
            f"expected {student.num_layers} layers, one per student block, "
            f"received {layers}"
        )
    outside = [
        layer for layer in layers if not 1 <= layer <= teacher.num_layers
    ]
    if outside:
        problems.append(
            f"layers count from 1 to {teacher.num_layers}, received {outside}"
        )
    for size in (
        "hidden_dim",
        "intermediate_dim",
        "num_heads",
        "vocabulary_size",
        "max_sequence_length",
        "num_segments",
    ):
        received = getattr(student, size), getattr(teacher, size)
        if received[0] != received[1]:
            problems.append(
                f"{size} differs, student {received[0]}, teacher {received[1]}"
            )
    if problems:
        raise UsageError(
            "The student cannot start from the teacher's layers: "
            f"{'; '.join(problems)}. Build the student with the teacher's "
            "sizes, or start it from random weights."
        )
