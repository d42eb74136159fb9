"""Training: data sources, and the training of stages.

Names are imported when they are first used, so that stages work without the
packages that runs need.
"""

from kdkit.late_names import late_names

_DEFINED_IN = {
    "StudentCheckpoint": "student_checkpoint",
    "run_on_arrays": "arrays",
}
__all__ = list(_DEFINED_IN)

__getattr__, __dir__ = late_names(__name__, _DEFINED_IN)
