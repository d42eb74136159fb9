"""The base class of the distillation losses: weighting and reduction."""

import inspect

from kdkit.errors import UsageError, unknown
from kdkit.late import ops

LARGEST_LOGIT = 1e30  # in effect infinite, but 0 times it is 0
# Taps with the model's own width. A projection can map one width to another.
STATE_TAPS = (
    "embedding_output",
    "pooled_output",
    "sentence_embedding",
    "hidden_states",
    "cls_states",
)
_LOSSES = {}


def register_loss(name: str):
    """Registers a `DistillationLoss` under a name, as a class decorator.

    The name identifies the loss in recipes, in configuration files, in `--set`
    and in a saved `kdkit.Distiller`.

    Args:
        name: string, such as `"soft_cross_entropy"`.

    Returns:
        A decorator, which returns the class.

    Raises:
        UsageError: (a `ValueError`) if another class already has this name.

    Example:

    >>> @kdkit.losses.register_loss("hidden_state_l1")
    ... class HiddenStateL1(kdkit.losses.DistillationLoss):
    ...     def __init__(self, name="hidden_state_l1"):
    ...         super().__init__(name=name)
    ...
    ...     def call(self, teacher, student):
    ...         return keras.ops.mean(keras.ops.abs(teacher - student), axis=-1)
    >>> kdkit.losses.get_loss("hidden_state_l1").name
    'hidden_state_l1'
    """

    def register(cls):
        known = _LOSSES.get(name)
        if known is not None and known.__qualname__ != cls.__qualname__:
            raise UsageError(
                f"The loss name {name!r} is taken by {known.__name__}. "
                f"Expected another one for {cls.__name__}."
            )
        _LOSSES[name] = cls
        return cls

    return register


def registered_losses() -> dict[str, type["DistillationLoss"]]:
    """Returns the classes of all registered losses, by name."""
    return dict(_LOSSES)


def get_loss(identifier) -> "DistillationLoss":
    """Returns the loss for a name or a configuration.

    Args:
        identifier: `DistillationLoss`, returned unchanged; string, the name
            of a registered loss; or dict with that name under `"name"` and
            the loss's arguments.

    Raises:
        UsageError: (a `ValueError`) if no loss has this name, or if the loss
            does not have one of the arguments.

    Example:

    >>> loss = kdkit.losses.get_loss({"name": "logit_mse"})
    >>> float(loss([[1.0, 0.0]], [[0.0, 0.0]]))
    0.5
    """
    if isinstance(identifier, DistillationLoss):
        return identifier
    arguments = dict(identifier) if isinstance(identifier, dict) else {}
    name = arguments.pop("name", identifier)
    if name not in _LOSSES:
        raise unknown("loss", name, _LOSSES)
    known = set(inspect.signature(_LOSSES[name]).parameters) - {"name"}
    for argument in arguments:
        if argument not in known:
            raise unknown(f"argument of {name}", argument, known)
    return _LOSSES[name](**arguments)


class DistillationLoss:
    r"""Base class for losses that compare a teacher's and a student's tensors.

    A subclass implements `call(teacher, student)`, which returns unreduced
    values. Calling the loss reduces them to

    $$\frac{\sum_i w_i v_i}{\sum_i w_i}$$

    Elements with weight 0, such as padding, are therefore not counted in the
    denominator either. If all weights are 0, the loss is 0 and not NaN. All
    arithmetic uses the loss's `dtype`, float32 by default, even when the
    models compute in half precision.

    Args:
        name: string. The name of the loss. An objective without a name of
            its own uses it too.
        dtype: string. The dtype of the computation. Defaults to `"float32"`.

    Call arguments:
        teacher: Tensor. The teacher's output.
        student: Tensor of the same shape, except where a subclass documents
            another shape.
        sample_weight: Tensor of shape `(batch_size,)`, of shape
            `(batch_size, sequence_length)` for values with a position axis,
            or broadcastable to the values. Defaults to 1 everywhere.

    Returns:
        A scalar tensor.

    Raises:
        UsageError: (a `ValueError`) if the shape of `student` does not fit the
            shape of `teacher`, or `call` returns fewer values than one per
            example.
    """

    # The names in `kdkit.taps.TAPS` that this loss fits. `None`: all taps.
    taps = None
    # How many of the teacher's classes are compared one by one. `None`: all.
    top_k = None
    # Whether padded positions count. The teacher cache does not store them.
    counts_padding = False
    # Whether teacher and student must have the same width.
    needs_same_width = True
    # The smallest number of classes that the logits may have.
    min_classes = 1
    # Whether the loss of equal tensors is above 0, as for cross-entropies.
    has_entropy = False

    def __init__(self, name, dtype="float32"):
        self.name = name
        self.dtype = dtype

    def __call__(self, teacher, student, sample_weight=None):
        numerator, denominator = self.sums(teacher, student, sample_weight)
        return safe_divide(numerator, denominator)

    def sums(
        self, teacher, student, sample_weight=None, subtract_entropy=False
    ):
        """Returns $\\sum w v$ and $\\sum w$, which add up over replicas.

        Args:
            teacher, student, sample_weight: as in a call of the loss.
            subtract_entropy: bool. Whether to subtract the loss of two equal
                teachers, so that a student equal to the teacher has the value
                0. The gradient does not change. Without effect for losses
                without an entropy. Defaults to `False`.
        """
        teacher = ops.convert_to_tensor(teacher, dtype=self.dtype)
        student = ops.convert_to_tensor(student, dtype=self.dtype)
        if sample_weight is not None:
            sample_weight = ops.convert_to_tensor(
                sample_weight, dtype=self.dtype
            )
        top, bottom = self.weighted_sums(teacher, student, sample_weight)
        if subtract_entropy and self.has_entropy:
            # An infinite logit adds 0 to the entropy, not 0 times infinity.
            teacher = ops.clip(teacher, -LARGEST_LOGIT, LARGEST_LOGIT)
            entropy, _ = self.weighted_sums(teacher, teacher, sample_weight)
            top -= ops.stop_gradient(entropy)
        return top, bottom

    def weighted_sums(self, teacher, student, sample_weight):
        """Returns the two sums for tensors already in the loss's dtype."""
        require_same_shape(teacher, student, self.name)
        values = self.call(teacher, student)
        require_values_per_example(values, student, self.name)
        return self.reduce(values, sample_weight)

    def reduce(self, values, sample_weight):
        """Returns the sums of the weighted values and of the weights.

        Args:
            values: Tensor, the result of `call`.
            sample_weight: Tensor or `None`, as in `sums`.
        """
        if sample_weight is None:
            weights = ops.ones_like(values)
        else:
            weights = self.expand_weights(sample_weight, values)
            weights = ops.broadcast_to(weights, ops.shape(values))
        return ops.sum(values * weights), ops.sum(weights)

    def expand_weights(self, sample_weight, values):
        """Adds axes of length 1 until the weights have the values' rank."""
        return append_axes(sample_weight, len(values.shape))

    def get_config(self):
        return {"name": self.name}

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    def to_setting(self) -> dict:
        """Returns the loss as a dict that `get_loss` reads."""
        names = {cls: name for name, cls in _LOSSES.items()}
        return {**self.get_config(), "name": names[type(self)]}

    def __eq__(self, other):
        return (
            type(other) is type(self)
            and other.get_config() == self.get_config()
        )

    def __hash__(self):
        return hash((type(self), tuple(sorted(self.get_config()))))

    def __repr__(self):
        arguments = ", ".join(
            f"{name}={value!r}"
            for name, value in self.get_config().items()
            if name != "name"
        )
        return f"{type(self).__name__}({arguments})"


def append_axes(sample_weight, rank):
    """Reshapes `sample_weight` to `rank` axes."""
    missing = rank - len(sample_weight.shape)
    shape = ops.shape(sample_weight)[:rank]
    return ops.reshape(sample_weight, (*shape, *([1] * missing)))


def require_same_shape(teacher, student, loss_name):
    """Raises a `UsageError` for shapes that would otherwise be broadcast."""
    sizes = zip(teacher.shape, student.shape, strict=False)
    if len(teacher.shape) != len(student.shape) or any(
        theirs != ours and None not in (theirs, ours) for theirs, ours in sizes
    ):
        raise UsageError(
            f"The loss {loss_name!r} compares tensors of the same shape. "
            f"Received: teacher {tuple(teacher.shape)}, student "
            f"{tuple(student.shape)}."
        )


def require_values_per_example(values, student, loss_name):
    """Raises a `UsageError` for a loss that has already reduced its values."""
    shape = tuple(values.shape)
    size, batch_size = shape[0] if shape else 1, student.shape[0]
    if not student.shape or (shape and size in (None, batch_size)):
        return
    raise UsageError(
        f"The loss {loss_name!r} reduces its values over the batch, so that "
        "padding and sample weights would not count. Expected the shape "
        f"({batch_size}, ...), received {shape}."
    )


def safe_divide(numerator, denominator):
    """Divides, and returns 0 where the denominator is 0."""
    nothing = ops.equal(denominator, 0)
    return ops.where(
        nothing,
        ops.zeros_like(numerator),
        numerator / ops.where(nothing, ops.ones_like(denominator), denominator),
    )


def validate_parity(parity, known):
    """Raises a `UsageError` unless `parity` is `None` or `known`."""
    if parity not in (None, known):
        raise unknown("parity", parity, (known, None))
