"""Objectives: one term of the distillation loss each."""

from kdkit.objectives.binding import bind
from kdkit.objectives.objective import Objective

__all__ = ["Objective", "bind"]
