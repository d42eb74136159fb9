"""Tasks: their data, heads, labels and metrics, by kind."""

from kdkit.tasks.baseline import Baseline
from kdkit.tasks.embedding_metrics import bitext_metrics
from kdkit.tasks.embedding_metrics import cosines
from kdkit.tasks.embedding_metrics import nearest
from kdkit.tasks.embedding_metrics import pair_metrics
from kdkit.tasks.embedding_metrics import retrieval_metrics
from kdkit.tasks.embeddings import embed_texts
from kdkit.tasks.kinds import Kind
from kdkit.tasks.kinds import MultiLabel
from kdkit.tasks.kinds import MultipleChoice
from kdkit.tasks.kinds import Polyphones
from kdkit.tasks.kinds import Regression
from kdkit.tasks.kinds import SingleLabel
from kdkit.tasks.kinds import Tagging
from kdkit.tasks.kinds import majority_accuracy
from kdkit.tasks.metrics import agreement
from kdkit.tasks.metrics import generation_metrics
from kdkit.tasks.metrics import generation_signatures
from kdkit.tasks.own import from_table
from kdkit.tasks.own import from_toml
from kdkit.tasks.own import task_of_table
from kdkit.tasks.registry import TASKS
from kdkit.tasks.registry import get_task
from kdkit.tasks.registry import register_task
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
