"""What a step leaves that is in no weight: sums of metrics, random states."""

import dataclasses
import pathlib

import h5py
import numpy as np

from kdkit.backends import tf
from kdkit.errors import RunError
from kdkit.errors import shortened
from kdkit.training.callbacks import SEED_STATE

GROUP = "kdkit_running_state"  # beside what Keras writes into a file of weights


@dataclasses.dataclass(frozen=True)
class RunningState:
    """The metrics of an epoch so far, and the states of random generators.

    Args:
        values: tuple of arrays, one for each variable, whose first axis are
            the replicas.
    """

    values: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, trainer) -> "RunningState":
        """Reads it from a compiled model that made a step."""
        return cls(
            tuple(
                np.stack([part.numpy() for part in _parts(variable)])
                for variable in _variables(trainer)
            )
        )

    def restore(self, trainer) -> None:
        """Gives it to a model whose variables are made.

        On another number of devices the first one gets the sums.

        Raises:
            RunError: if the model has other variables.
        """
        variables = _variables(trainer)
        shapes = [value.shape[1:] for value in self.values]
        expected = [tuple(variable.shape) for variable in variables]
        if shapes != expected:
            raise RunError(
                "The checkpoint is of a model with other metrics or random "
                f"layers. Expected variables of shapes {expected}. Received: "
                f"{shapes}. Go on with the version of kdkit and Keras that "
                "wrote it."
            )
        for variable, values in zip(variables, self.values, strict=True):
            parts = _parts(variable)
            if len(parts) != len(values):
                values = _divided(values, len(parts), _is_seed(variable))
            for part, value in zip(parts, values, strict=True):
                part.assign(value)

    def write(self, file) -> None:
        """Adds it to a file of weights.

        Args:
            file: path of an HDF5 file.
        """
        with h5py.File(file, "a") as content:
            group = content.create_group(GROUP)
            for number, value in enumerate(self.values):
                group.create_dataset(str(number), data=value)

    @classmethod
    def read(cls, file) -> "RunningState":
        """Returns what `write` added to a file.

        Raises:
            RunError: if it is not there as it was written.
        """
        try:
            size = pathlib.Path(file).stat().st_size
            with h5py.File(file, "r") as content:
                group = _within(content, GROUP)
                parts = [
                    _within(group, str(number)) for number in range(len(group))
                ]
                # What says that it is larger would take memory for nothing.
                if sum(part.nbytes for part in parts) > size:
                    raise ValueError("it says that it has more than its bytes")
                values = tuple(part[()] for part in parts)
            if not all(
                isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
                for value in values
            ):
                raise ValueError("it has something else than numbers")
        except Exception as error:  # h5py raises many kinds
            raise RunError(
                f"Cannot go on with {file}: it has no state of metrics and "
                f"random layers ({shortened(str(error))}). Remove it, and the "
                "same command goes on from the one before."
            ) from error
        return cls(values)


def _within(group, name):
    """A group or numbers that are in this file, and not in another one."""
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise ValueError(f"{name!r} is not in it, or a link to another place")
    found = group[name]
    if isinstance(found, h5py.Dataset) and (found.external or found.is_virtual):
        raise ValueError(f"{name!r} is a link to another place")
    return found


def _variables(trainer):
    """Metrics first, then seeds, in an order that is always the same."""
    return [
        *trainer.metrics_variables,
        *(variable for variable in trainer.variables if _is_seed(variable)),
    ]


def _is_seed(variable):
    return variable.name == SEED_STATE


def _parts(variable):
    """The variable of each replica."""
    strategy = tf.distribute.get_strategy()
    value = variable.value
    if isinstance(value, tf.distribute.DistributedValues):
        strategy = value.distribute_strategy
    return strategy.experimental_local_results(value)


def _divided(values, count, is_seed):
    """The values of replicas for another number of them."""
    if is_seed:
        return np.repeat(values[:1], count, axis=0)
    divided = np.zeros((count, *values.shape[1:]), values.dtype)
    divided[0] = values.sum(axis=0)
    return divided
