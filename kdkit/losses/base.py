"""What all distillation losses share: weights in, one masked mean out."""

import inspect

from keras import ops

from kdkit.errors import UsageError

LARGEST_LOGIT = 1e30  # as good as infinite, and 0 times it is 0
# Taps of a model's own width, where a projection can bridge two widths.
STATE_TAPS = (
    "embedding_output",
    "pooled_output",
    "hidden_states",
    "cls_states",
)
_LOSSES = {}


def register_loss(name: str):
    """Registers a `DistillationLoss` under a name, as a class decorator.

    Recipes, configuration files and `--set` use the name, and a saved
    `kdkit.Distiller` finds the class by it.

    Args:
        name: string, such as `"soft_cross_entropy"`.

    Returns:
        A decorator, which returns the class.

    Raises:
        UsageError: (a `ValueError`) if another class has the name.

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
                f"A loss named {name!r} exists already. Expected a new name. "
                f"Received: {cls.__name__}, and {known.__name__} has the name."
            )
        _LOSSES[name] = cls
        return cls

    return register


def get_loss(identifier) -> "DistillationLoss":
    """Returns the loss that a name or a configuration describes.

    Args:
        identifier: string, the name of a registered loss; or dict with that
            `"name"` and the arguments of the loss.

    Raises:
        UsageError: (a `ValueError`) if no loss has the name, or it has no such
            argument.

    Example:

    >>> loss = kdkit.losses.get_loss({"name": "logit_mse"})
    >>> float(loss([[1.0, 0.0]], [[0.0, 0.0]]))
    0.5
    """
    if isinstance(identifier, DistillationLoss):
        return identifier
    arguments = dict(identifier) if isinstance(identifier, dict) else {}
    name = arguments.pop("name", identifier)
    if not isinstance(name, str) or name not in _LOSSES:
        raise UsageError(
            f"Unknown loss. Expected one of {sorted(_LOSSES)}. Received: "
            f"{name!r}. Register a loss of your own with "
            "`kdkit.losses.register_loss`."
        )
    known = set(inspect.signature(_LOSSES[name]).parameters) - {"name"}
    unknown = sorted(set(arguments) - known)
    if unknown:
        raise UsageError(
            f"Unknown arguments of loss {name!r}: {', '.join(unknown)}. Valid "
            f"here: {', '.join(sorted(known)) or 'none'}."
        )
    try:
        return _LOSSES[name](**arguments)
    except TypeError as error:
        raise UsageError(
            f"Wrong arguments of loss {name!r}: {error}. Received: {arguments}."
        ) from error


class DistillationLoss:
    r"""Base class of the losses between a teacher's and a student's tensors.

    A subclass implements `call(teacher, student)`, which returns unreduced
    values. Calling the loss reduces them to

    $$\frac{\sum_i w_i v_i}{\sum_i w_i}$$

    so that what has weight 0 (padding, say) does not count in the denominator
    either. With no weight anywhere the loss is 0, not NaN. All arithmetic is
    in the loss' `dtype`, float32 by default, also when the models compute in
    half precision.

    Args:
        name: string. The name of the loss, and by default of its objective.
        dtype: string. The dtype of the computation. Defaults to `"float32"`.

    Call arguments:
        teacher: Tensor. The teacher's output.
        student: Tensor of the same shape, unless the subclass says otherwise.
        sample_weight: Tensor of shape `(batch_size,)`, of shape
            `(batch_size, sequence_length)` for values with a position axis,
            or broadcastable to the values. Defaults to 1 everywhere.

    Returns:
        A scalar tensor.

    Raises:
        UsageError: (a `ValueError`) if the shapes of teacher and student, or
            of `sample_weight`, do not fit.
    """

    # The taps that it compares, as `kdkit.taps.TAPS` names them; any if None.
    taps = None
    # Of the teacher's classes so many stand for themselves; all if None.
    top_k = None
    # Whether positions of padding count, of which a cache keeps nothing.
    counts_padding = False
    # The least number of classes in the logits that it compares.
    min_classes = 1
    # Whether equal tensors have values above 0, as in cross-entropies.
    has_entropy = False

    def __init__(self, name, dtype="float32"):
        self.name = name
        self.dtype = dtype

    def __call__(self, teacher, student, sample_weight=None):
        numerator, denominator = self.sums(teacher, student, sample_weight)
        return safe_divide(numerator, denominator)

    def sums(self, teacher, student, sample_weight=None):
        """Returns $\\sum w v$ and $\\sum w$, which add up over replicas."""
        teacher = ops.convert_to_tensor(teacher, dtype=self.dtype)
        student = ops.convert_to_tensor(student, dtype=self.dtype)
        if sample_weight is not None:
            sample_weight = ops.convert_to_tensor(
                sample_weight, dtype=self.dtype
            )
        return self.weighted_sums(teacher, student, sample_weight)

    def excess_sums(self, teacher, student, sample_weight=None):
        """As `sums`, with the teacher's entropy subtracted from the values.

        A student equal to the teacher has 0, and the gradient is the same. Of
        losses without an entropy they are the same sums.
        """
        numerator, denominator = self.sums(teacher, student, sample_weight)
        if not self.has_entropy:
            return numerator, denominator
        # Where a logit is infinite its term is 0, not 0 times infinity.
        teacher = ops.clip(
            ops.convert_to_tensor(teacher, dtype=self.dtype),
            -LARGEST_LOGIT,
            LARGEST_LOGIT,
        )
        entropy, _ = self.sums(teacher, teacher, sample_weight)
        return numerator - ops.stop_gradient(entropy), denominator

    def weighted_sums(self, teacher, student, sample_weight):
        """The two sums, for tensors already in the dtype of the loss."""
        check_same_shape(teacher, student, self.name)
        return self.reduce(self.call(teacher, student), sample_weight)

    def reduce(self, values, sample_weight):
        """Returns the two sums of values.

        Args:
            values: Tensor, as `call` returns it.
            sample_weight: `None` or tensor, as for `sums`.
        """
        if sample_weight is None:
            weights = ops.ones_like(values)
        else:
            weights = self.expand_weights(sample_weight, values)
            weights = ops.broadcast_to(weights, ops.shape(values))
        return ops.sum(values * weights), ops.sum(weights)

    def expand_weights(self, sample_weight, values):
        """Gives the weights the rank of the values, trailing axes of 1.

        Raises:
            UsageError: if the weights have more axes than the values.
        """
        return append_axes(sample_weight, len(values.shape), self.name)

    def get_config(self):
        return {"name": self.name}

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    @classmethod
    def from_setting(cls, value):
        """Returns the loss of a configuration file, see `get_loss`."""
        return get_loss(value)

    def to_setting(self) -> dict:
        """Returns the loss as `get_loss` reads it: its name and arguments."""
        for name, cls in _LOSSES.items():
            if cls is type(self):
                arguments = self.get_config()
                del arguments["name"]
                return {"name": name, **arguments}
        raise UsageError(
            f"{type(self).__name__} has no name to be saved by. Decorate the "
            'class with `@kdkit.losses.register_loss("its_name")`.'
        )

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


def append_axes(sample_weight, rank, loss_name):
    """Gives `sample_weight` a rank by axes of length 1 at its end.

    Appends them where they are missing, and drops them where there are too
    many, as Keras does with weights of shape `(batch_size, 1)`.
    """
    missing = rank - len(sample_weight.shape)
    surplus = sample_weight.shape[rank:]
    if any(size != 1 for size in surplus):
        raise UsageError(
            f"`sample_weight` has more axes than the values of {loss_name!r}. "
            f"Expected at most {rank}. Received: sample_weight of shape "
            f"{tuple(sample_weight.shape)}. For an output without a position "
            "axis pass one weight per example, of shape (batch_size,)."
        )
    shape = ops.shape(sample_weight)[:rank]
    return ops.reshape(sample_weight, (*shape, *([1] * missing)))


def check_same_shape(teacher, student, loss_name):
    """Raises a `UsageError` where broadcasting would hide a mistake."""
    if len(teacher.shape) != len(student.shape) or any(
        teacher_size != student_size
        for teacher_size, student_size in zip(
            teacher.shape, student.shape, strict=True
        )
        if teacher_size is not None and student_size is not None
    ):
        raise UsageError(
            f"{loss_name!r} compares tensors of the same shape. Received: "
            f"teacher of shape {tuple(teacher.shape)}, student of shape "
            f"{tuple(student.shape)}."
        )


def safe_divide(numerator, denominator):
    """Divides, and returns 0 where nothing counts."""
    nothing = ops.equal(denominator, 0)
    return ops.where(
        nothing,
        ops.zeros_like(numerator),
        numerator / ops.where(nothing, ops.ones_like(denominator), denominator),
    )


def reject_parity(parity, known):
    """Raises a `UsageError` unless `parity` is `None` or `known`."""
    if parity not in (None, known):
        raise UsageError(
            "Invalid value for argument `parity`. Expected None (the paper's "
            f"equation) or {known!r} (the authors' code). Received: "
            f"parity={parity!r}."
        )
