"""Distillation: the `Distiller`, its objectives and layer maps.

Names are imported when they are first used, because recipes hold objectives
before Keras is imported.
"""

from kdkit.late_names import late_names

_DEFINED_IN = {
    "Distiller": "distiller",
    "Objective": "objective",
    "Projection": "objective",
    "compared_layers": "comparison",
    "label_count": "labels",
    "teacher_entries": "comparison",
    "teacher_entry": "comparison",
}
__all__ = list(_DEFINED_IN)

__getattr__, __dir__ = late_names(__name__, _DEFINED_IN)
