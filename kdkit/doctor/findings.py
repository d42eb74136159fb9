"""What a check says: its outcome, what was found, what to do."""

import contextlib
import dataclasses

from kdkit.errors import RunError
from kdkit.errors import UsageError

OK, NOTE, WARNING, RUINS = "ok", "note", "warning", "ruins the run"
OUTCOMES = (OK, NOTE, WARNING, RUINS)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One row of the doctor's table.

    Args:
        check: string. What was looked at.
        outcome: string, one of `OUTCOMES`.
        found: string. What was found, in numbers.
        advice: string. What to do; empty where there is nothing to do.
            Defaults to `""`.
    """

    check: str
    outcome: str
    found: str
    advice: str = ""


class Findings(list):
    """The rows of a table, in the order of the checks.

    Args:
        rows: iterable of `Finding`. Defaults to none.
        keeps_mistakes: bool. Whether mistakes in `attempt` become rows, or are
            raised on. Defaults to `True`.
    """

    def __init__(self, rows=(), keeps_mistakes: bool = True):
        super().__init__(rows)
        self._keeps_mistakes = keeps_mistakes

    def add(self, finding: Finding | None) -> None:
        """Appends a finding, if there is one."""
        if finding is not None:
            self.append(finding)

    @contextlib.contextmanager
    def attempt(self, check: str, advice: str = ""):
        """Notes a mistake or a failure in the body as what ruins the run.

        Args:
            check: string. As in `Finding`.
            advice: string. As in `Finding`. Defaults to `""`.
        """
        try:
            yield
        except (UsageError, RunError) as error:
            if not self._keeps_mistakes:
                raise
            # What several checks come upon is told once.
            if all(one.found != str(error) for one in self):
                self.append(Finding(check, RUINS, str(error), advice))

    @property
    def ruinous(self) -> "Findings":
        """Those for which a run is refused."""
        return Findings(one for one in self if one.outcome == RUINS)

    def count(self, outcome: str) -> int:
        """Returns how many have an outcome."""
        return sum(one.outcome == outcome for one in self)


def worst(*outcomes: str) -> str:
    """Returns the gravest of some outcomes.

    >>> worst("ok", "warning", "note")
    'warning'
    """
    return max(outcomes, key=OUTCOMES.index)


def mildest(*outcomes: str) -> str:
    """Returns the least grave of some outcomes.

    >>> mildest("ruins the run", "warning")
    'warning'
    """
    return min(outcomes, key=OUTCOMES.index)


def share(part: float, whole: float) -> str:
    """Returns a share in percent, with more digits where it is small.

    >>> share(1, 3), share(1, 400), share(0, 5)
    ('33.3 %', '0.25 %', '0 %')
    """
    percent = 100 * part / whole if whole else 0.0
    if percent == 0:
        return "0 %"
    return f"{percent:.1f} %" if percent >= 1 else f"{percent:.2g} %"
