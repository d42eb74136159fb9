"""The result of a check: its outcome, the facts, the advice."""

import collections
import dataclasses
import io
import logging

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from kdkit.errors import RunError, printable

_log = logging.getLogger(__name__)
OK, WARNING, RUINS = OUTCOMES = ("ok", "warning", "ruins the run")
STYLES = {OK: "green", WARNING: "yellow", RUINS: "bold red"}
PLURALS = {OK: "ok", WARNING: "warnings", RUINS: "ruin the run"}


@dataclasses.dataclass(frozen=True)
class Finding:
    """One row of the doctor's table.

    Args:
        check: string. The name of the check.
        outcome: string, one of `OUTCOMES`.
        found: string. The facts, with numbers.
        advice: string. The advice; empty if no action is needed. Defaults to
            `""`.
    """

    check: str
    outcome: str
    found: str
    advice: str = ""


def outcome_of(part: float, warned: float, ruinous: float) -> str:
    """Returns the outcome for a share: a warning, or worse, from a limit on."""
    if part < warned:
        return OK
    return WARNING if part < ruinous else RUINS


def share(part: float, whole: float) -> str:
    """Returns a share in percent, with more digits if it is small."""
    percent = 100 * part / whole if whole else 0.0
    return f"{percent:.1f} %" if percent >= 1 else f"{percent:.2g} %"


def ruinous(findings: list[Finding]) -> str:
    """Returns the names of the checks because of which a run is refused."""
    names = [one.check for one in findings if one.outcome == RUINS]
    return ", ".join(dict.fromkeys(names))


def print_findings(findings: list[Finding]) -> None:
    """Prints a table with a row for each finding, and their numbers."""
    Console(highlight=False).print(_shown(findings, OUTCOMES))


def require_sound(findings: list[Finding], force: bool) -> None:
    """Logs what needs action, and refuses a run that would be ruined.

    Args:
        findings: list of `Finding`.
        force: bool. Whether to continue in spite of them.

    Raises:
        RunError: if a finding ruins the run, without `force`.
    """
    named, shown = ruinous(findings), _shown(findings, (WARNING, RUINS))
    lines = io.StringIO()
    Console(file=lines, highlight=False).print(shown)
    # Errors are also shown where messages are not.
    level = logging.ERROR if named else logging.INFO
    message = lines.getvalue().removesuffix("\n")
    _log.log(level, message, extra={"renderable": shown})
    if named and not force:
        raise RunError(
            f"The run would be ruined: {named}, see above. Nothing was "
            "trained. Fix it, or continue with --force."
        )
    if named:
        _log.warning(f"doctor: continuing in spite of {named}, by --force.")


def _shown(findings, outcomes):
    """Returns a table of the findings with some outcomes, and all numbers."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    width = max(map(len, OUTCOMES))
    table.add_column("check", width=width)
    table.add_column("outcome", width=width)
    table.add_column("found, and what to do", overflow="fold")
    for one in findings:
        if one.outcome in outcomes:
            cell = Text(printable(one.found))
            if one.advice:
                cell.append(f"\n→ {printable(one.advice)}", style="italic")
            outcome = Text(one.outcome, style=STYLES[one.outcome])
            table.add_row(Text(printable(one.check)), outcome, cell)
    counts = collections.Counter(one.outcome for one in findings)
    numbers = ", ".join(
        f"{counts[one]} {one if counts[one] == 1 else PLURALS[one]}"
        for one in OUTCOMES
        if counts[one]
    )
    named = ruinous(findings)
    total = Text(f"doctor: {numbers}{f' ({named})' if named else ''}.")
    return Group(*([table] if table.rows else []), total)
