"""The report as a table in the terminal."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kdkit.reporting.formatting import DOES_NOT_APPLY
from kdkit.reporting.formatting import NOT_RUN
from kdkit.reporting.notes import run_notes
from kdkit.reporting.records import RunRecords
from kdkit.reporting.summary import run_title
from kdkit.reporting.summary import verdict
from kdkit.reporting.tables import KERAS
from kdkit.reporting.tables import cell_text
from kdkit.reporting.tables import latency_settings
from kdkit.reporting.tables import row_label
from kdkit.reporting.tables import table_columns
from kdkit.reporting.tables import table_rows


def terminal_table(records: RunRecords) -> Table:
    """Returns the comparison of a run's models as a table for `rich`.

    Args:
        records: `RunRecords`, see `read_run`.

    Returns:
        A `rich.table.Table` that fits 80 columns for a task with one metric.
    """
    columns = [column for column in table_columns(records) if not column.detail]
    rows = table_rows(records)
    settings = latency_settings(rows)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    table.add_column("", overflow="fold")
    for column in columns:
        title = column.short or column.title
        heading = Text(f"{title}\n{column.unit}".rstrip())
        cells = [cell_text(column, row.values[column.key]) for row in rows]
        width = max(map(len, [*title.split(), *cells]))
        table.add_column(heading, justify="right", min_width=width)
    for index, row in enumerate(rows):
        first_of_arm = row.label == KERAS
        if first_of_arm and index:
            table.add_section()
        label = Text(f" {row_label(row.label, row.setting, settings)}")
        if first_of_arm:
            label = Text(records.called(row.arm), style="bold")
        cells = (
            cell_text(column, row.values[column.key]) for column in columns
        )
        table.add_row(label, *(_styled(text) for text in cells))
    return table


def print_report(records: RunRecords, console: Console | None = None) -> None:
    """Prints a run's title, table, verdict and notes.

    Args:
        records: `RunRecords`, see `read_run`.
        console: optional `rich.console.Console`. Defaults to one that writes
            to the standard output.
    """
    console = console or Console(highlight=False)
    console.print(Text(run_title(records), style="bold"))
    console.print(terminal_table(records))
    console.print(Text(verdict(records)))
    for note in run_notes(records):
        console.print(Text(f"- {note}", style="dim"))


def _styled(text):
    return Text(text, style="dim" if text in (NOT_RUN, DOES_NOT_APPLY) else "")
