"""Tasks: their data, heads, labels and metrics, by kind."""

from kdkit.tasks.baseline import Baseline
from kdkit.tasks.embedding_metrics import (
    bitext_metrics,
    cosines,
    nearest,
    pair_metrics,
    retrieval_metrics,
)
from kdkit.tasks.embeddings import embed_texts
from kdkit.tasks.kinds import (
    Kind,
    MultiLabel,
    MultipleChoice,
    Polyphones,
    Regression,
    SingleLabel,
    Tagging,
    majority_accuracy,
)
from kdkit.tasks.metrics import (
    agreement,
    generation_metrics,
    generation_signatures,
)
from kdkit.tasks.own import from_table, from_toml, task_of_table
from kdkit.tasks.registry import TASKS, get_task, register_task
from kdkit.tasks.task import Task

__all__ = [
    "TASKS",
    "Baseline",
    "Kind",
    "MultiLabel",
    "MultipleChoice",
    "Polyphones",
    "Regression",
    "SingleLabel",
    "Tagging",
    "Task",
    "agreement",
    "bitext_metrics",
    "cosines",
    "embed_texts",
    "from_table",
    "from_toml",
    "generation_metrics",
    "generation_signatures",
    "get_task",
    "majority_accuracy",
    "nearest",
    "pair_metrics",
    "register_task",
    "retrieval_metrics",
    "task_of_table",
]
