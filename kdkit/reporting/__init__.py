"""Tables, pictures and one HTML report from the records of runs.

None of these modules needs Keras or TensorFlow.
"""

from kdkit.late_names import late_names

_DEFINED_IN = {
    "RunRecords": "records",
    "comparison_table": "comparison",
    "group_by_seed": "comparison",
    "markdown_tables": "page",
    "outcome_pictures": "trade_off",
    "plot_learning_curves": "plots",
    "plot_losses": "plots",
    "plot_metric": "plots",
    "plot_trade_off": "trade_off",
    "plot_values": "plots",
    "print_report": "page",
    "read_run": "records",
    "render_comparison": "page",
    "render_report": "page",
    "verdict": "summary",
    "write_comparison": "page",
    "write_report": "page",
}
__all__ = list(_DEFINED_IN)

__getattr__, __dir__ = late_names(__name__, _DEFINED_IN)
