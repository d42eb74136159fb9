"""The doctor: checks of a run's data, models and resources before training.

Each check is a function of models, examples or sizes that returns a `Finding`
and does not load anything. `kdkit.doctor.examination` calls the checks.
"""

from kdkit.doctor.compatibility import compared_layers
from kdkit.doctor.compatibility import few_updates
from kdkit.doctor.compatibility import same_vocabulary
from kdkit.doctor.compatibility import student_size
from kdkit.doctor.compatibility import table_size
from kdkit.doctor.data import balance_of_dev
from kdkit.doctor.data import class_balance
from kdkit.doctor.data import given_texts
from kdkit.doctor.data import lengths_cut
from kdkit.doctor.data import row_labels
from kdkit.doctor.data import row_texts
from kdkit.doctor.data import texts_too_long
from kdkit.doctor.findings import NOTE
from kdkit.doctor.findings import OK
from kdkit.doctor.findings import OUTCOMES
from kdkit.doctor.findings import RUINS
from kdkit.doctor.findings import WARNING
from kdkit.doctor.findings import Finding
from kdkit.doctor.findings import Findings
from kdkit.doctor.findings import findings_table
from kdkit.doctor.findings import print_findings
from kdkit.doctor.findings import verdict
from kdkit.doctor.leakage import copies_of_rows
from kdkit.doctor.leakage import left_out
from kdkit.doctor.leakage import odd_texts
from kdkit.doctor.leakage import repeated_rows
from kdkit.doctor.leakage import rows_in_text
from kdkit.doctor.leakage import rows_kept_apart
from kdkit.doctor.leakage import texts_kept_apart
from kdkit.doctor.resources import activations
from kdkit.doctor.resources import disk
from kdkit.doctor.resources import memory
from kdkit.doctor.resources import numbers_of
from kdkit.doctor.resources import room_to_train
from kdkit.doctor.resources import run_size
from kdkit.doctor.resources import tapped_entries
from kdkit.doctor.teacher_checks import finite_weights
from kdkit.doctor.teacher_checks import label_order
from kdkit.doctor.teacher_checks import teacher_accuracy
from kdkit.doctor.teacher_checks import teacher_at_rest
from kdkit.doctor.teacher_checks import teacher_frozen
from kdkit.doctor.teacher_checks import teacher_logits
from kdkit.doctor.unknown_words import has_unknown
from kdkit.doctor.unknown_words import texts_with_unknown
from kdkit.doctor.unknown_words import unknown_words

__all__ = [
    "NOTE",
    "OK",
    "OUTCOMES",
    "RUINS",
    "WARNING",
    "Finding",
    "Findings",
    "activations",
    "balance_of_dev",
    "class_balance",
    "compared_layers",
    "copies_of_rows",
    "disk",
    "few_updates",
    "findings_table",
    "finite_weights",
    "given_texts",
    "has_unknown",
    "label_order",
    "left_out",
    "lengths_cut",
    "memory",
    "numbers_of",
    "odd_texts",
    "print_findings",
    "repeated_rows",
    "room_to_train",
    "row_labels",
    "row_texts",
    "rows_in_text",
    "rows_kept_apart",
    "run_size",
    "same_vocabulary",
    "student_size",
    "table_size",
    "tapped_entries",
    "teacher_accuracy",
    "teacher_at_rest",
    "teacher_frozen",
    "teacher_logits",
    "texts_kept_apart",
    "texts_too_long",
    "texts_with_unknown",
    "unknown_words",
    "verdict",
]
