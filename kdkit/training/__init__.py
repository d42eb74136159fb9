"""Training: data sources, and the training of stages."""

from kdkit.late_names import late_names

_DEFINED_IN = {"make_label_loss": "optimizers", "make_optimizer": "optimizers"}
__all__ = list(_DEFINED_IN)

__getattr__, __dir__ = late_names(__name__, _DEFINED_IN)
