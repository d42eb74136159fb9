"""The result of a check: its outcome, the facts, the advice."""

import dataclasses
import io
import logging

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from kdkit.errors import RunError, printable

_log = logging.getLogger(__name__)
OK, NOTE, WARNING, RUINS = "ok", "note", "warning", "ruins the run"
OUTCOMES = (OK, NOTE, WARNING, RUINS)


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


class Findings(list):
    """The rows of a table, in the order of the checks.

    Args:
        rows: iterable of `Finding`. Defaults to none.
    """

    def add(self, finding: Finding | None) -> None:
        """Appends a finding, if there is one."""
        if finding is not None:
            self.append(finding)

    @property
    def ruinous(self) -> "Findings":
        """The findings because of which a run is refused."""
        return Findings(one for one in self if one.outcome == RUINS)

    def count(self, outcome: str) -> int:
        """Returns the number of findings with an outcome."""
        return sum(one.outcome == outcome for one in self)


def worst(*outcomes: str) -> str:
    """Returns the most severe of some outcomes."""
    return max(outcomes, key=OUTCOMES.index)


def mildest(*outcomes: str) -> str:
    """Returns the least severe of some outcomes."""
    return min(outcomes, key=OUTCOMES.index)


def share(part: float, whole: float) -> str:
    """Returns a share in percent, with more digits if it is small."""
    percent = 100 * part / whole if whole else 0.0
    if percent == 0:
        return "0 %"
    return f"{percent:.1f} %" if percent >= 1 else f"{percent:.2g} %"


STYLES = {OK: "green", NOTE: "cyan", WARNING: "yellow", RUINS: "bold red"}
CHECK_WIDTH = max(map(len, OUTCOMES))  # of the first two columns


def findings_table(findings: list[Finding]) -> Table:
    """Returns a table with one row per finding, the advice below the facts.

    Characters that a terminal would interpret are escaped.

    Args:
        findings: list of `Finding`.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("check", width=CHECK_WIDTH)
    table.add_column("outcome", width=CHECK_WIDTH)
    table.add_column("found, and what to do", overflow="fold")
    for finding in findings:
        cell = Text(printable(finding.found))
        if finding.advice:
            cell.append(f"\n→ {printable(finding.advice)}", style="italic")
        table.add_row(
            Text(printable(finding.check)),
            Text(finding.outcome, style=STYLES[finding.outcome]),
            cell,
        )
    return table


def verdict(findings: Findings) -> str:
    """Returns the number of checks with each outcome, in one line.

    >>> verdict(Findings([Finding("disk", RUINS, ""), Finding("ids", OK, "")]))
    '1 ok, 1 ruins the run (disk).'
    """
    counts = [
        f"{count} {_in_number(outcome, count)}"
        for outcome in OUTCOMES
        if (count := findings.count(outcome))
    ]
    named = ", ".join(dict.fromkeys(one.check for one in findings.ruinous))
    return f"{', '.join(counts)}{f' ({named})' if named else ''}."


def print_findings(
    findings: Findings,
    all_rows: bool = True,
    console: Console | None = None,
) -> None:
    """Prints the table and the verdict.

    Args:
        findings: `Findings`.
        all_rows: bool. `False` to print only findings that need action:
            warnings and those that ruin the run. Defaults to `True`.
        console: optional `rich.console.Console`. Defaults to one that writes
            to the standard output.
    """
    console = console or Console(highlight=False)
    console.print(findings_and_verdict(findings, all_rows))


def findings_and_verdict(findings: Findings, all_rows: bool = True) -> Group:
    """Returns what `print_findings` prints; its arguments are those."""
    shown = [
        one for one in findings if all_rows or one.outcome in (WARNING, RUINS)
    ]
    tables = [findings_table(shown)] if shown else []
    return Group(*tables, Text(printable(f"doctor: {verdict(findings)}")))


def decide(findings: Findings, force: bool) -> None:
    """Logs the findings before a run, and stops the run if one is an error."""
    # Errors are also shown where messages are not.
    level = logging.ERROR if findings.ruinous else logging.INFO
    table = findings_and_verdict(findings, all_rows=False)
    lines = io.StringIO()
    Console(file=lines, highlight=False).print(table)
    message = lines.getvalue().removesuffix("\n")
    _log.log(level, message, extra={"renderable": table})
    if not findings.ruinous:
        return
    named = ", ".join(dict.fromkeys(one.check for one in findings.ruinous))
    if not force:
        raise RunError(
            f"The run would be ruined: {named}, see above. Nothing was "
            "trained. Fix it, or continue with --force."
        )
    _log.warning(f"doctor: continuing in spite of {named}, by --force.")


def _in_number(outcome, count):
    """Returns an outcome in singular or plural."""
    if count == 1 or outcome == OK:
        return outcome
    return "ruin the run" if outcome == RUINS else f"{outcome}s"
