"""Tasks: data, labels and metrics of GLUE and of generated sentiment."""

from kdkit.tasks.agreement import agreement
from kdkit.tasks.registry import TASKS
from kdkit.tasks.registry import get_task
from kdkit.tasks.task import Task

__all__ = ["TASKS", "Task", "agreement", "get_task"]
