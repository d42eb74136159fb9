"""Runs: directories, logs, settings, the runner, and chains of runs.

Names are imported when they are first used.
"""

from kdkit.late_names import late_names

_DEFINED_IN = {
    "Pipeline": "pipeline",
    "Step": "pipeline",
    "language_model_pipeline": "pipeline",
}
__all__ = list(_DEFINED_IN)

__getattr__, __dir__ = late_names(__name__, _DEFINED_IN)
