"""Learnable projections from the student's width to the teacher's."""

import dataclasses

import keras

from kdkit.errors import UsageError

SHARING = ("shared", "per_layer")


@dataclasses.dataclass(frozen=True)
class Projection:
    """How an objective maps student states to the teacher's width.

    TinyBERT's matrices W_e and W_h. The layers are trained with the student
    and thrown away with the distiller.

    Args:
        sharing: string. `"shared"` for one dense layer over all pairs of an
            objective, as in the authors' code; `"per_layer"` for one per pair.
        use_bias: bool. Whether the layers have a bias: the authors' code has,
            the paper's equations have not. Defaults to `True`.

    Raises:
        UsageError: if `sharing` is unknown.
    """

    sharing: str
    use_bias: bool = True

    def __post_init__(self):
        if self.sharing not in SHARING:
            raise UsageError(
                "Invalid value for argument `projection`. Expected None, one "
                f"of {SHARING} or a kdkit.projections.Projection. Received: "
                f"{self.sharing!r}."
            )

    def build(self, name, student_dim, teacher_dim, pairs, dtype=None):
        """Returns the built dense layers, by student layer index.

        Args:
            name: string. Prefix of the layers' names.
            student_dim: int. Width of the student's states.
            teacher_dim: int. Width of the teacher's states.
            pairs: iterable of ints. The student layer indices that are
                projected.
            dtype: dtype or policy of the layers. Defaults to Keras' own.
        """

        def dense(suffix):
            layer = keras.layers.Dense(
                teacher_dim,
                use_bias=self.use_bias,
                dtype=dtype,
                name=f"{name}_projection{suffix}",
            )
            layer.build((None, student_dim))
            return layer

        if self.sharing == "shared":
            shared = dense("")
            return {index: shared for index in pairs}
        return {index: dense(f"_{index}") for index in pairs}


def get_projection(projection) -> Projection | None:
    """Returns the `Projection` that a name, a dict or `None` stands for."""
    if projection is None or isinstance(projection, Projection):
        return projection
    if isinstance(projection, dict):
        return Projection(**projection)
    return Projection(projection)
