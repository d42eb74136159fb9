"""What a run came to: tables, pictures and one HTML report from its records.

Nothing here needs Keras or TensorFlow.
"""

from kdkit.late_names import late_names

_DEFINED_IN = {
    "RunRecords": "records",
    "group_by_seed": "results",
    "keep_records": "keeping",
    "markdown_overview": "comparison",
    "markdown_results": "results",
    "markdown_table": "results",
    "plot_latency": "latency_plot",
    "plot_learning_curves": "comparison",
    "plot_losses": "curve_plots",
    "plot_metric": "curve_plots",
    "plot_noise": "value_plot",
    "plot_trade_off": "trade_off",
    "plot_values": "value_plot",
    "print_report": "terminal",
    "read_run": "records",
    "render_report": "html",
    "replace_results": "results",
    "terminal_table": "terminal",
    "verdict": "summary",
    "without_arms": "comparison",
    "write_report": "html",
}
__all__ = list(_DEFINED_IN)

__getattr__, __dir__ = late_names(__name__, _DEFINED_IN)
