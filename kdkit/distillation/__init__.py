"""Distillation: the `Distiller`, its objectives, layer maps and checks."""

from kdkit.distillation.binding import as_tuple
from kdkit.distillation.binding import bind
from kdkit.distillation.binding import check_labels
from kdkit.distillation.binding import check_taken_apart
from kdkit.distillation.binding import entry_of_teacher
from kdkit.distillation.binding import label_count
from kdkit.distillation.binding import label_term
from kdkit.distillation.binding import mean_label_loss
from kdkit.distillation.binding import sum_over_replicas
from kdkit.distillation.binding import weights_of_labels
from kdkit.distillation.checks import Checks
from kdkit.distillation.comparison import Comparison
from kdkit.distillation.distiller import Distiller
from kdkit.distillation.objective import Objective
from kdkit.distillation.objective import Projection
from kdkit.distillation.terms import Teachers
from kdkit.distillation.terms import Terms
from kdkit.distillation.terms import TotalLoss
from kdkit.distillation.weights import label_weights

__all__ = [
    "Checks",
    "Comparison",
    "Distiller",
    "Objective",
    "Projection",
    "Teachers",
    "Terms",
    "TotalLoss",
    "as_tuple",
    "bind",
    "check_labels",
    "check_taken_apart",
    "entry_of_teacher",
    "label_count",
    "label_term",
    "label_weights",
    "mean_label_loss",
    "sum_over_replicas",
    "weights_of_labels",
]
