"""When a run saves where it stands, and what it keeps: no part of results."""

import dataclasses

from kdkit.errors import UsageError

# Fields of settings that a run may go on with other values of, also those of
# the runs in it.
FREE = ("checkpoint_minutes", "keep_checkpoints")
# What stands there for the record: these runs have their own settings.
RECORDED = ("steps_before",)


@dataclasses.dataclass(frozen=True)
class Saving:
    """When checkpoints are made, and which are kept.

    Args:
        checkpoint_minutes: float, at least 0. The time between two checkpoints
            within an epoch; 0 for one after each step. Defaults to `10.0`.
        keep_checkpoints: int, at least 1. How many of the last epochs are kept.
            Defaults to `1`.
    """

    checkpoint_minutes: float = 10.0
    keep_checkpoints: int = 1

    @classmethod
    def of(cls, settings) -> "Saving":
        """Returns that of the settings of a run."""
        return cls(*(getattr(settings, name) for name in FREE))


def check_saving(settings) -> None:
    """Checks what the settings of a run say about checkpoints.

    Raises:
        UsageError: (a `ValueError`) if it is impossible.
    """
    problems = []
    if not settings.checkpoint_minutes >= 0:
        problems.append(
            "checkpoint_minutes must be at least 0, received "
            f"{settings.checkpoint_minutes}"
        )
    if settings.keep_checkpoints < 1:
        problems.append(
            "keep_checkpoints must be at least 1, received "
            f"{settings.keep_checkpoints}"
        )
    if problems:
        raise UsageError(f"Wrong settings: {'; '.join(problems)}.")


def without_free(settings):
    """Returns the settings of a run, as a dict, without what may differ.

    Args:
        settings: dict, list or value, as `kdkit.settings.to_dict` makes them.
    """
    if isinstance(settings, dict):
        return {
            name: without_free(value)
            for name, value in settings.items()
            if name not in FREE + RECORDED
        }
    if isinstance(settings, list):
        return [without_free(value) for value in settings]
    return settings
