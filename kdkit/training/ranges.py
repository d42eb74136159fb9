"""The numbers that settings can have."""

import dataclasses
import math
from collections.abc import Mapping

from kdkit.errors import UsageError


def too_small(settings, least: Mapping[str, float]) -> list[str]:
    """Returns what is wrong with the numbers of settings, as texts.

    Those that are not finite are wrong too. `None` is not, where a number
    needs not be set.

    Args:
        settings: a dataclass.
        least: mapping from names of fields to the least that they may be.
    """
    defaults = {
        field.name: field.default for field in dataclasses.fields(settings)
    }
    problems = []
    for name, lowest in least.items():
        value = getattr(settings, name)
        may_be_none = defaults[name] is None
        if (may_be_none and value is None) or lowest <= value < math.inf:
            continue
        problems.append(
            f"{name} must be {'null or ' * may_be_none}"
            f"{'finite and ' * isinstance(value, float)}at least {lowest}, "
            f"received {value}"
        )
    return problems


def check_text_numbers(settings) -> None:
    """Refuses impossible numbers in the settings of running text.

    Args:
        settings: `CorpusSettings`, `SentenceSettings` or `PairSettings`.

    Raises:
        UsageError: (a `ValueError`) with all of them.
    """
    problems = too_small(settings, {"max_texts": 1, "sequence_length": 3})
    if settings.held_out_every < 2:
        problems.append(
            "held_out_every must be at least 2, or nothing is left to train "
            f"on, received {settings.held_out_every}"
        )
    if problems:
        raise UsageError(f"Settings of text: {'; '.join(problems)}.")
