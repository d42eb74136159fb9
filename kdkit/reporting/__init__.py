"""Tables, pictures and one HTML report from the records of runs.

None of these modules needs Keras or TensorFlow, but for model cards.
"""

from kdkit.reporting.page import print_report, render_report, write_report
from kdkit.reporting.plots import (
    plot_losses,
    plot_metric,
    plot_trade_off,
    plot_values,
)
from kdkit.reporting.records import RunRecords, read_run
from kdkit.reporting.results import comparison_table, group_by_seed
from kdkit.reporting.words import verdict

__all__ = [
    "RunRecords",
    "comparison_table",
    "group_by_seed",
    "plot_losses",
    "plot_metric",
    "plot_trade_off",
    "plot_values",
    "print_report",
    "read_run",
    "render_report",
    "verdict",
    "write_report",
]
