"""Whether the compiled loss on labels fits a student's logits."""

import functools
import inspect
import warnings

import keras

from kdkit.errors import UsageError

# Losses between distributions over at least two classes.
_OF_DISTRIBUTIONS = (
    "SparseCategoricalCrossentropy",
    "CategoricalCrossentropy",
    "CategoricalFocalCrossentropy",
    "SmoothedCrossEntropy",
)
# Losses on probabilities that have no `from_logits`, and what to use instead.
_WITHOUT_LOGITS = {
    "KLDivergence": "CategoricalCrossentropy",
    "CategoricalGeneralizedCrossEntropy": "SparseCategoricalCrossentropy",
    "Dice": "CategoricalCrossentropy",
    "Tversky": "CategoricalFocalCrossentropy",
}
# The classes of Keras' functions.
_CLASSES = {
    "sparse_categorical_crossentropy": "SparseCategoricalCrossentropy",
    "categorical_crossentropy": "CategoricalCrossentropy",
    "categorical_focal_crossentropy": "CategoricalFocalCrossentropy",
    "binary_crossentropy": "BinaryCrossentropy",
    "binary_focal_crossentropy": "BinaryFocalCrossentropy",
    "kl_divergence": "KLDivergence",
    "categorical_generalized_cross_entropy": (
        "CategoricalGeneralizedCrossEntropy"
    ),
    "dice": "Dice",
    "tversky": "Tversky",
}
_KNOWN = (*_CLASSES.values(), *_OF_DISTRIBUTIONS)


def check_label_loss(loss, num_classes: int | None) -> None:
    """Refuses a compiled loss that would misread the student's logits.

    Args:
        loss: what `compile` takes: string, `keras.losses.Loss`, function, or a
            structure of these.
        num_classes: int or `None`. Width of the student's logits.

    Raises:
        UsageError: if it takes probabilities, or is a softmax over one logit.
    """
    for given in keras.tree.flatten(loss):
        resolved = _resolved(given)
        instead = _on_logits(resolved)
        if instead is not None:
            raise UsageError(
                "The compiled loss takes probabilities, and the student's "
                "output is logits. Expected a loss with from_logits=True. "
                f"Received: loss={_shown(given)}. Pass loss={instead}, and "
                "build the student without softmax or sigmoid at its end."
            )
        if num_classes == 1 and class_name(resolved) in _OF_DISTRIBUTIONS:
            raise UsageError(
                "The compiled loss applies a softmax, which is always 1 over a "
                "single logit, so that nothing would be learned. Expected at "
                "least 2 logits. Received: 1 logit, loss="
                f"{_shown(given)}. Pass loss=keras.losses.BinaryCrossentropy("
                "from_logits=True) for yes or no, or "
                "loss=keras.losses.MeanSquaredError() for scores."
            )


def warn_of_unused_loss() -> None:
    """Warns that a compiled loss has no weight."""
    warnings.warn(
        "The compiled loss is not used, because hard_label_weight is 0. Pass "
        "hard_label_weight=... to Distiller to train on the labels too, or "
        "compile without a loss.",
        stacklevel=3,
    )


def class_name(loss) -> str | None:
    """Returns the name of a loss' class, also of its function's.

    Args:
        loss: string, `keras.losses.Loss` or function.

    >>> class_name("sparse_categorical_crossentropy")
    'SparseCategoricalCrossentropy'
    """
    loss = _function(_resolved(loss))
    if isinstance(loss, keras.losses.Loss):
        return next(
            (
                cls.__name__
                for cls in type(loss).__mro__
                if cls.__name__ in _KNOWN
            ),
            type(loss).__name__,
        )
    name = getattr(loss, "__name__", None)
    return _CLASSES.get(name, name)


def ignored_class(loss) -> int | None:
    """Returns the label that a loss leaves out, `None` if it has none.

    Args:
        loss: string, `keras.losses.Loss` or function.
    """
    if isinstance(loss, keras.losses.Loss):
        return _config(loss).get("ignore_class")
    return getattr(loss, "keywords", {}).get("ignore_class")


def _resolved(loss):
    """The loss object or function of a name."""
    if not isinstance(loss, str):
        return loss
    try:
        return keras.losses.get(loss)
    except ValueError:  # Keras names the loss when the step is made
        return loss


def _on_logits(loss):
    """What to write for a loss on probabilities, `None` for other losses."""
    name = class_name(loss)
    if name in _WITHOUT_LOGITS:
        return f"keras.losses.{_WITHOUT_LOGITS[name]}(from_logits=True)"
    if isinstance(loss, keras.losses.Loss):
        flag = getattr(loss, "from_logits", _config(loss).get("from_logits"))
        takes_probabilities = flag is not None and not flag
    else:
        takes_probabilities = _has_no_logits(loss)
    if not takes_probabilities:
        return None
    if name in _KNOWN:
        return f"keras.losses.{name}(from_logits=True)"
    if isinstance(loss, keras.losses.Loss):
        return f"{name}(from_logits=True)"
    return f"functools.partial({name}, from_logits=True)"


def _has_no_logits(function):
    """Whether a function has an argument `from_logits` that is false."""
    try:
        found = inspect.signature(function).parameters.get("from_logits")
    except (TypeError, ValueError):
        return False
    return (
        found is not None
        and found.default is not inspect.Parameter.empty
        and not found.default
    )


def _function(loss):
    """The function that arguments were bound to, or the loss as it is."""
    while isinstance(loss, functools.partial):
        loss = loss.func
    return loss


def _config(loss):
    """A loss' settings, none where a class of others returns none."""
    try:
        return loss.get_config() or {}
    except NotImplementedError:
        return {}


def _shown(loss):
    """A loss as a person would write it."""
    if isinstance(loss, keras.losses.Loss):
        return f"{type(loss).__name__}()"
    name = getattr(_function(loss), "__name__", None)
    return name if name and not isinstance(loss, str) else repr(loss)
