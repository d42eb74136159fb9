"""Objectives: one term of the distillation loss each."""

from kdkit.objectives.binding import as_tuple
from kdkit.objectives.binding import bind
from kdkit.objectives.binding import entry_of_teacher
from kdkit.objectives.checks import Checks
from kdkit.objectives.comparison import Comparison
from kdkit.objectives.labels import check_labels
from kdkit.objectives.labels import check_taken_apart
from kdkit.objectives.labels import label_count
from kdkit.objectives.labels import label_term
from kdkit.objectives.labels import mean_label_loss
from kdkit.objectives.labels import weights_of_labels
from kdkit.objectives.objective import Objective
from kdkit.objectives.replicas import sum_over_replicas
from kdkit.objectives.teachers import Teachers
from kdkit.objectives.terms import Terms
from kdkit.objectives.total import TotalLoss
from kdkit.objectives.weights import label_weights

__all__ = [
    "Checks",
    "Comparison",
    "Objective",
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
