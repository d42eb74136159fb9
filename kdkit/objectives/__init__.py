"""Objectives: one term of the distillation loss each."""

from kdkit.objectives.binding import bind
from kdkit.objectives.objective import Objective
from kdkit.objectives.teachers import Teachers
from kdkit.objectives.terms import Terms
from kdkit.objectives.weights import label_weights

__all__ = [
    "Objective",
    "Teachers",
    "Terms",
    "bind",
    "label_weights",
]
