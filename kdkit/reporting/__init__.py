"""What a run came to: tables, pictures and one HTML report from its records.

Nothing here needs Keras or TensorFlow.
"""

from kdkit.reporting.comparison import markdown_overview
from kdkit.reporting.comparison import plot_learning_curves
from kdkit.reporting.comparison import without_arms
from kdkit.reporting.curve_plots import plot_losses
from kdkit.reporting.curve_plots import plot_metric
from kdkit.reporting.html import render_report
from kdkit.reporting.html import write_report
from kdkit.reporting.keeping import keep_records
from kdkit.reporting.latency_plot import plot_latency
from kdkit.reporting.records import RunRecords
from kdkit.reporting.records import read_run
from kdkit.reporting.results import group_by_seed
from kdkit.reporting.results import markdown_results
from kdkit.reporting.results import markdown_table
from kdkit.reporting.results import replace_results
from kdkit.reporting.summary import verdict
from kdkit.reporting.terminal import print_report
from kdkit.reporting.terminal import terminal_table
from kdkit.reporting.trade_off import plot_trade_off
from kdkit.reporting.value_plot import plot_noise
from kdkit.reporting.value_plot import plot_values

__all__ = [
    "RunRecords",
    "group_by_seed",
    "keep_records",
    "markdown_overview",
    "markdown_results",
    "markdown_table",
    "plot_latency",
    "plot_learning_curves",
    "plot_losses",
    "plot_metric",
    "plot_noise",
    "plot_trade_off",
    "plot_values",
    "print_report",
    "read_run",
    "render_report",
    "replace_results",
    "terminal_table",
    "verdict",
    "without_arms",
    "write_report",
]
