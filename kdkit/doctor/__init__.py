"""Checks of what a run is made from, before it trains.

Each is a function of models, rows or sizes that returns a `Finding`; none
knows where these come from. `kdkit.training.examination` gathers them.
"""

from kdkit.doctor.accuracy import teacher_accuracy
from kdkit.doctor.copied_rows import copies_of_rows
from kdkit.doctor.findings import NOTE
from kdkit.doctor.findings import OK
from kdkit.doctor.findings import OUTCOMES
from kdkit.doctor.findings import RUINS
from kdkit.doctor.findings import WARNING
from kdkit.doctor.findings import Finding
from kdkit.doctor.findings import Findings
from kdkit.doctor.finiteness import finite_weights
from kdkit.doctor.label_order import label_order
from kdkit.doctor.leakage import left_out
from kdkit.doctor.leakage import rows_in_text
from kdkit.doctor.leakage import rows_kept_apart
from kdkit.doctor.leakage import texts_kept_apart
from kdkit.doctor.logits import teacher_logits
from kdkit.doctor.needs import activations
from kdkit.doctor.needs import disk
from kdkit.doctor.needs import memory
from kdkit.doctor.needs import numbers_of
from kdkit.doctor.needs import room_to_train
from kdkit.doctor.needs import run_size
from kdkit.doctor.needs import tapped_entries
from kdkit.doctor.repeated_rows import odd_texts
from kdkit.doctor.repeated_rows import repeated_rows
from kdkit.doctor.row_texts import given_texts
from kdkit.doctor.row_texts import row_labels
from kdkit.doctor.row_texts import row_texts
from kdkit.doctor.rows import balance_of_dev
from kdkit.doctor.rows import class_balance
from kdkit.doctor.rows import lengths_cut
from kdkit.doctor.rows import texts_too_long
from kdkit.doctor.sizes import compared_layers
from kdkit.doctor.sizes import few_updates
from kdkit.doctor.sizes import student_size
from kdkit.doctor.stillness import teacher_at_rest
from kdkit.doctor.stillness import teacher_frozen
from kdkit.doctor.table import findings_table
from kdkit.doctor.table import print_findings
from kdkit.doctor.table import verdict
from kdkit.doctor.unknown_words import has_unknown
from kdkit.doctor.unknown_words import texts_with_unknown
from kdkit.doctor.unknown_words import unknown_words
from kdkit.doctor.vocabulary import same_vocabulary
from kdkit.doctor.vocabulary import table_size

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
