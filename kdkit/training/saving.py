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

    Raises:
        UsageError: (a `ValueError`) for other numbers.
    """

    checkpoint_minutes: float = 10.0
    keep_checkpoints: int = 1

    def __post_init__(self):
        problems = [
            f"{name} must be at least {least}, received {value}"
            for name, least, value in (
                ("checkpoint_minutes", 0, self.checkpoint_minutes),
                ("keep_checkpoints", 1, self.keep_checkpoints),
            )
            if not value >= least
        ]
        if problems:
            raise UsageError(f"Wrong settings: {'; '.join(problems)}.")

    @classmethod
    def of(cls, settings) -> "Saving":
        """Returns that of the settings of a run."""
        return cls(*(getattr(settings, name) for name in FREE))


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
