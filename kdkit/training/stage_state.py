"""What is kept of a stage, in its `state.json`."""

import dataclasses
import pathlib

from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.own_digest import fits_own_digest
from kdkit.own_digest import with_own_digest
from kdkit.own_digest import without_digest
from kdkit.reading import read_json
from kdkit.settings import from_dict
from kdkit.settings import to_dict
from kdkit.training.run_directory import write_json

STATE = "state.json"


@dataclasses.dataclass(frozen=True)
class Position:
    """Where a stage can go on.

    Args:
        epoch: int. The number of finished epochs.
        step: int. Steps of the next one that are done. Defaults to `0`.
        seconds: float. The time that they took. Defaults to `0.0`.
        best_epoch: int or `None`. The epoch with the best dev metric so far.
        best_value: float or `None`. That metric.
    """

    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    best_epoch: int | None = None
    best_value: float | None = None

    @property
    def name(self) -> str:
        """The name of its checkpoint.

        >>> Position(2).name, Position(2, step=30).name
        ('epoch-2', 'epoch-2-step-30')
        """
        within = f"-step-{self.step}" if self.step else ""
        return f"epoch-{self.epoch}{within}"

    def __str__(self):
        """As people say it.

        >>> print(Position(2)), print(Position(2, step=30))
        after epoch 2
        after step 30 of epoch 3
        (None, None)
        """
        if self.step:
            return f"after step {self.step} of epoch {self.epoch + 1}"
        return f"after epoch {self.epoch}"


@dataclasses.dataclass(frozen=True)
class StageState:
    """What is kept of a stage. `state.json` is written last, so it is true.

    Args:
        kept: tuple of `Position`s with a checkpoint, the newest last.
        digests: dict from the name of a checkpoint to the digest of its file.
        is_finished: bool. Whether the stage is done.
    """

    kept: tuple[Position, ...] = ()
    digests: dict[str, str] = dataclasses.field(default_factory=dict)
    is_finished: bool = False

    @property
    def newest(self) -> Position:
        """Where the stage stands; at its beginning if nothing is kept."""
        return self.kept[-1] if self.kept else Position()


def write_state(file: pathlib.Path, state: StageState) -> None:
    """Writes a `state.json`, with its own digest.

    Args:
        file: `pathlib.Path`. What is there is replaced.
        state: `StageState`.

    Raises:
        RunError: where the disk does not take it.
    """
    write_json(file, with_own_digest(to_dict(state)))


def read_state(file: pathlib.Path) -> StageState:
    """Returns what is in a `state.json`.

    One of a version that wrote no digest in it is read as it stands.

    Args:
        file: `pathlib.Path`.

    Raises:
        UsageError: (a `ValueError`) if it is none.
        RunError: if it is not what was written.
    """
    values = read_json(file, "the state of a stage", _of_state)
    if not fits_own_digest(values):
        raise RunError(
            f"Cannot go on with {file}: its content is not what was written, "
            f"by its own digest. {made_again(file.parent)}"
        )
    return from_dict(StageState, _state_alone(values))


def made_again(folder: pathlib.Path) -> str:
    """Says how a stage is made again, of whose files one is damaged.

    Args:
        folder: `pathlib.Path` of its checkpoints.
    """
    return (
        f"Remove the folder {folder}, and the same command makes this stage "
        "again from its beginning."
    )


def _state_alone(values):
    return without_digest(values)


def _of_state(values):
    """What is wrong with the state of a stage, or `None`."""
    rest = _state_alone(values)
    try:
        from_dict(StageState, rest)
    except UsageError as error:
        return str(error).removesuffix(".")
    return None
