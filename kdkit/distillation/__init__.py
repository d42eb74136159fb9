"""Distillation: the `Distiller`, its objectives, layer maps and checks.

Names are imported when they are first used, because recipes hold objectives
before Keras is imported.
"""

from kdkit.late_names import late_names

_DEFINED_IN = {
    "Checks": "checks",
    "Comparison": "distiller",
    "Distiller": "distiller",
    "Objective": "objective",
    "Projection": "objective",
    "Teachers": "terms",
    "Terms": "terms",
    "TotalLoss": "terms",
    "as_tuple": "binding",
    "bind": "binding",
    "require_labels": "binding",
    "require_chunkable_loss": "binding",
    "teacher_entry": "binding",
    "label_count": "binding",
    "label_term": "binding",
    "label_weights": "weights",
    "mean_label_loss": "binding",
    "sum_over_replicas": "binding",
    "spread_label_weights": "binding",
}
__all__ = list(_DEFINED_IN)

__getattr__, __dir__ = late_names(__name__, _DEFINED_IN)
