"""Distillation: the `Distiller`, its objectives, layer maps and checks.

Names are imported when they are first used: objectives are data, which recipes
hold before Keras is imported.
"""

from kdkit.late_names import late_names

_DEFINED_IN = {
    "Checks": "checks",
    "Comparison": "comparison",
    "Distiller": "distiller",
    "Objective": "objective",
    "Projection": "objective",
    "Teachers": "terms",
    "Terms": "terms",
    "TotalLoss": "terms",
    "as_tuple": "binding",
    "bind": "binding",
    "check_labels": "binding",
    "check_taken_apart": "binding",
    "entry_of_teacher": "binding",
    "label_count": "binding",
    "label_term": "binding",
    "label_weights": "weights",
    "mean_label_loss": "binding",
    "sum_over_replicas": "binding",
    "weights_of_labels": "binding",
}
__all__ = list(_DEFINED_IN)

__getattr__, __dir__ = late_names(__name__, _DEFINED_IN)
