"""The doctor: checks of a run's data, models and resources before training.

Each check is a function of models, examples or sizes that returns a `Finding`
and does not load anything. `kdkit.doctor.examination` calls the checks.
"""

from kdkit.doctor.compatibility import (
    compared_layers,
    few_updates,
    same_vocabulary,
    student_size,
    table_size,
)
from kdkit.doctor.data import (
    class_balance,
    dev_balance,
    given_texts,
    lengths_cut,
    row_labels,
    row_texts,
    texts_too_long,
)
from kdkit.doctor.findings import (
    NOTE,
    OK,
    OUTCOMES,
    RUINS,
    WARNING,
    Finding,
    Findings,
    findings_table,
    print_findings,
    verdict,
)
from kdkit.doctor.leakage import (
    augmented_copies,
    odd_texts,
    removed_rows,
    repeated_rows,
    rows_in_text,
    rows_kept_apart,
    texts_kept_apart,
)
from kdkit.doctor.resources import (
    activations,
    disk,
    memory,
    memory_to_train,
    run_size,
    tapped_entries,
    tapped_size,
)
from kdkit.doctor.teacher_checks import (
    finite_weights,
    label_order,
    teacher_accuracy,
    teacher_at_rest,
    teacher_frozen,
    teacher_logits,
)
from kdkit.doctor.unknown_words import (
    has_unknown,
    texts_with_unknown,
    unknown_words,
)

__all__ = [
    "NOTE",
    "OK",
    "OUTCOMES",
    "RUINS",
    "WARNING",
    "Finding",
    "Findings",
    "activations",
    "dev_balance",
    "class_balance",
    "compared_layers",
    "augmented_copies",
    "disk",
    "few_updates",
    "findings_table",
    "finite_weights",
    "given_texts",
    "has_unknown",
    "label_order",
    "removed_rows",
    "lengths_cut",
    "memory",
    "tapped_size",
    "odd_texts",
    "print_findings",
    "repeated_rows",
    "memory_to_train",
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
