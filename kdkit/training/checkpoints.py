"""Checkpoints of a stage: one safetensors file for each position.

`RUN/checkpoints/ARM/STAGE/` contains the newest position, with the model's
weights, the optimizer's variables, the sums of the metrics and the states of
random generators. It also contains the weights of the best epoch, and in the
end only the stage's final weights. The keys of a file are numbers, because the
paths of Keras' variables are not unique. The metadata contains these paths, the
position and a checksum. A file gets its name when it is complete.
"""

import dataclasses
import hashlib
import itertools
import json
import math
import pathlib
import re

import numpy as np
import safetensors

from kdkit.errors import RunError
from kdkit.io.files import staged
from kdkit.late import tf
from kdkit.models.hugging_face import write_tensors
from kdkit.training.callbacks import SEED_STATE

SUFFIX = ".safetensors"
HEADER = "kdkit"  # the key of the metadata


@dataclasses.dataclass(frozen=True)
class Position:
    """A position from which a stage can continue."""

    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    best_epoch: int | None = None
    best_value: float | None = None
    best_loss: float | None = None
    # Of the final weights: the checksum of the last epoch's checkpoint.
    last: str | None = None

    @property
    def name(self) -> str:
        """The name of the position's checkpoint."""
        if self.last is not None:
            return "final"
        within = f"-step-{self.step}" if self.step else ""
        return f"epoch-{self.epoch}{within}"


Values = list[tuple[str, np.ndarray]]  # the paths of variables, their values


def running_values(trainer) -> Values:
    """Returns the metrics and seeds of each replica, after a step."""
    return _values(_running(trainer), _replicas)


def assign_running(trainer, values: Values) -> None:
    """Assigns what `running_values` returned for such a model."""
    _assign(_running(trainer), values, _replicas)


def _running(trainer):
    """The variables of the metrics, then the seeds."""
    seeds = (one for one in trainer.variables if one.name == SEED_STATE)
    return [*trainer.metrics_variables, *seeds]


def _lasting(trainer):
    """The weights, then the optimizer's variables."""
    return [*trainer.weights, *trainer.optimizer.variables]


def _replicas(variable):
    """The variable of each replica."""
    strategy = tf.distribute.get_strategy()
    value = variable.value
    if isinstance(value, tf.distribute.DistributedValues):
        strategy = value.distribute_strategy
    return strategy.experimental_local_results(value)


def _values(variables, parts=lambda variable: [variable]):
    """The paths of variables, and their values in one or in all replicas."""
    return [
        (variable.path, np.stack([part.numpy() for part in parts(variable)]))
        for variable in variables
    ]


def _assign(variables, values, parts=lambda variable: [variable]):
    """Assigns values to the variables of the same paths, in their order."""
    paths = [path for path, _ in values]
    expected = [variable.path for variable in variables]
    for one, other in itertools.zip_longest(expected, paths):
        if one != other:
            raise RunError(
                "The checkpoint is of a model with other variables. Expected: "
                f"{one}. Received: {other}."
            )
    for variable, (_, value) in zip(variables, values, strict=True):
        for part, one in zip(parts(variable), value, strict=True):
            part.assign(one)


def write(file: pathlib.Path, values: Values, position: Position) -> None:
    """Writes a checkpoint under its name when it is complete."""
    header = {
        "position": dataclasses.asdict(position),
        "paths": [path for path, _ in values],
    }
    arrays = {str(key): array for key, (_, array) in enumerate(values)}
    header["checksum"] = _checksum(header, arrays)
    with staged(file) as partial:
        write_tensors(partial, arrays, {HEADER: json.dumps(header)}, dtype=None)


def read(file: pathlib.Path) -> tuple[Position, Values, str]:
    """Returns a checkpoint's position, values and checksum."""
    try:
        with safetensors.safe_open(file, framework="np") as content:
            header = json.loads(content.metadata()[HEADER])
            keys = map(str, range(len(content.keys())))
            arrays = {key: content.get_tensor(key) for key in keys}
        checksum = header.pop("checksum")
        is_whole = checksum == _checksum(header, arrays)
    except (safetensors.SafetensorError, LookupError, TypeError, ValueError):
        is_whole = False
    if not is_whole:
        raise RunError(
            f"{file} does not match its checksum. Remove the folder "
            f"{file.parent}, and the same command repeats this stage."
        )
    values = [*zip(header["paths"], arrays.values(), strict=True)]
    return Position(**header["position"]), values, checksum


def _checksum(header, arrays):
    """The checksum of a checkpoint: 16 hexadecimal digits."""
    total = hashlib.sha256(json.dumps(header).encode())
    for array in arrays.values():
        total.update(f"{array.dtype} {array.shape}".encode())
        total.update(np.ravel(array).view("uint8"))
    return total.hexdigest()[:16]


class StageCheckpoints:
    """Saves and restores the training of one stage."""

    def __init__(self, directory: pathlib.Path):
        self._directory = directory
        self.position = Position()
        newest = self._file("final")
        if not newest.exists():
            positions = directory.glob(f"epoch-*{SUFFIX}")
            newest = max(positions, key=_numbers, default=None)
        if newest is not None:
            self.position, *_ = read(newest)

    @property
    def is_finished(self) -> bool:
        """Whether the final weights are saved."""
        return self.position.last is not None

    def save_epoch(
        self,
        trainer,
        student,
        epoch: int,
        running: Values,
        value: float,
        larger_is_better: bool = True,
        loss: float = 0.0,
    ) -> None:
        """Saves a finished epoch, and its weights if it is the best so far."""
        before, sign = self.position, 1 if larger_is_better else -1
        best = before.best_epoch, before.best_value, before.best_loss
        loss = loss if math.isfinite(loss) else math.inf
        is_best = before.best_value is None
        if not is_best:
            known = sign * before.best_value, -before.best_loss
            is_best = (sign * value, -loss) > known
        if is_best:
            # NaN, as for an undefined correlation, is never the best value: the
            # next epoch counts as better, whatever its value.
            best = epoch, value if math.isfinite(value) else None, loss
        position = Position(epoch, 0, 0.0, *best)
        if is_best:
            best = self._file(f"best-{epoch}")
            write(best, _values(student.weights), position)
        self._save(position, [*_values(_lasting(trainer)), *running])

    def save_step(
        self, trainer, step: int, seconds: float, running: Values
    ) -> None:
        """Saves a position within the epoch after the last finished one."""
        position = dataclasses.replace(
            self.position, step=step, seconds=seconds
        )
        self._save(position, [*_values(_lasting(trainer)), *running])

    def restore(self, trainer) -> Values | None:
        """Loads the newest position; returns its running values in an epoch."""
        if self.position == Position():
            return None
        lasting = _lasting(trainer)
        _, values, _ = read(self._file(self.position.name))
        _assign(lasting, values[: len(lasting)])
        return values[len(lasting) :] if self.position.step else None

    def finish(self, student, keep_best: bool) -> None:
        """Assigns the final weights, and saves only these."""
        *_, last = read(self._file(self.position.name))
        if keep_best:
            _, best, _ = read(self._file(f"best-{self.position.best_epoch}"))
            _assign(student.weights, best)
        position = dataclasses.replace(self.position, last=last)
        self._save(position, _values(student.weights))

    def restore_final(self, student) -> None:
        """Loads the weights at the end of the stage."""
        self.position, values, _ = read(self._file("final"))
        _assign(student.weights, values)

    def clean(self) -> None:
        """Removes the files that are not needed any more."""
        needed = {self.position.name}
        if not self.is_finished:
            needed.add(f"best-{self.position.best_epoch}")
        for file in self._directory.glob(f"*{SUFFIX}"):
            if file.name.removesuffix(SUFFIX) not in needed:
                file.unlink()

    def _save(self, position, values):
        """Writes a position and makes it the newest."""
        write(self._file(position.name), values, position)
        self.position = position
        self.clean()

    def _file(self, name):
        return self._directory / f"{name}{SUFFIX}"


def _numbers(file):
    """The epoch and the step in a file's name."""
    return [int(number) for number in re.findall(r"\d+", file.name)]
