"""Tables, pictures and one HTML report from the records of runs.

None of these modules needs Keras or TensorFlow.
"""

from kdkit.reporting.comparison import comparison_table, group_by_seed
from kdkit.reporting.page import (
    markdown_tables,
    print_report,
    render_comparison,
    render_report,
    write_comparison,
    write_report,
)
from kdkit.reporting.plots import (
    plot_learning_curves,
    plot_losses,
    plot_metric,
    plot_values,
)
from kdkit.reporting.records import RunRecords, read_run
from kdkit.reporting.summary import verdict
from kdkit.reporting.trade_off import outcome_pictures, plot_trade_off

__all__ = [
    "RunRecords",
    "comparison_table",
    "group_by_seed",
    "markdown_tables",
    "outcome_pictures",
    "plot_learning_curves",
    "plot_losses",
    "plot_metric",
    "plot_trade_off",
    "plot_values",
    "print_report",
    "read_run",
    "render_comparison",
    "render_report",
    "verdict",
    "write_comparison",
    "write_report",
]
