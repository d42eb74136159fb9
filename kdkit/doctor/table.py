"""What the doctor found, in a terminal."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kdkit.doctor.findings import NOTE
from kdkit.doctor.findings import OK
from kdkit.doctor.findings import OUTCOMES
from kdkit.doctor.findings import RUINS
from kdkit.doctor.findings import WARNING
from kdkit.doctor.findings import Finding
from kdkit.doctor.findings import Findings
from kdkit.errors import printable

STYLES = {OK: "green", NOTE: "cyan", WARNING: "yellow", RUINS: "bold red"}
CHECK_WIDTH = max(map(len, OUTCOMES))  # of the first two columns


def findings_table(findings: list[Finding]) -> Table:
    """Returns one row for each finding, what to do below what was found.

    Signs of names and texts that a terminal would obey are spelled out.

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
    """Returns how many checks have which outcome, in a line.

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
    printed: list[Finding] = (),
) -> None:
    """Prints the table and the verdict.

    Args:
        findings: `Findings`.
        all_rows: bool. `False` for what is to be done something about: the
            warnings and what ruins the run. Defaults to `True`.
        console: optional `rich.console.Console`. Defaults to one that writes
            to the standard output.
        printed: list of `Finding`. Warnings that the user has read already,
            which are counted but not printed again. Defaults to none.
    """
    console = console or Console(highlight=False)
    shown = [
        one for one in findings if all_rows or one.outcome in (WARNING, RUINS)
    ]
    new = [one for one in shown if one not in printed]
    if new:
        console.print(findings_table(new))
    line = f"doctor: {verdict(findings)}"
    if len(new) < len(shown):
        line += f" {len(shown) - len(new)} of them printed before."
    console.print(Text(printable(line)))


def _in_number(outcome, count):
    """The outcome as it is said of so many."""
    if count == 1 or outcome == OK:
        return outcome
    return "ruin the run" if outcome == RUINS else f"{outcome}s"
