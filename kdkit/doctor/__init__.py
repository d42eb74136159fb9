"""The doctor: checks of what a run has built, before it trains.

A check is one function of an `Examined` run. `examine` calls all of them.
"""

from kdkit.doctor.checks import examine
from kdkit.doctor.examined import Examined
from kdkit.doctor.findings import (
    OK,
    OUTCOMES,
    RUINS,
    WARNING,
    Finding,
    print_findings,
    require_sound,
    ruinous,
)

__all__ = [
    "OK",
    "OUTCOMES",
    "RUINS",
    "WARNING",
    "Examined",
    "Finding",
    "examine",
    "print_findings",
    "require_sound",
    "ruinous",
]
