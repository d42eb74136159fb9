"""What a teacher says of rows of dev, and of some of the training file."""

import numpy as np

from kdkit.data import evaluation_batches
from kdkit.doctor import Finding
from kdkit.doctor import Findings
from kdkit.doctor import label_order
from kdkit.doctor import teacher_accuracy
from kdkit.doctor import teacher_at_rest
from kdkit.doctor import teacher_logits
from kdkit.tasks import SingleLabel
from kdkit.tasks import majority_accuracy
from kdkit.training.evaluation import BATCH_SIZE
from kdkit.training.evaluation import predict_logits
from kdkit.training.examined_rows import ExaminedRows
from kdkit.training.examined_rows import sample
from kdkit.training.inputs import model_digest
from kdkit.training.inputs import rows_digest

TRAIN_ROWS = 256  # of the training file, whose labels are looked at
TRAIN_ADVICE = (
    "Put the labels of the training file into the order of dev and the teacher."
)

# What was found earlier in this process, by the content of teachers and rows:
# the runs of a sweep or an ablation share it.
_KNOWN = {}


def examine_answers(
    subject, number: int, rows: ExaminedRows, dev, which: str
) -> list[Finding]:
    """Returns what is found of a teacher's answers.

    Args:
        subject: `Subject`.
        number: int. Which of its teachers.
        rows: `ExaminedRows`.
        dev: its rows of dev, encoded.
        which: string. What tells the teacher's checks from another one's.
    """
    constant = None
    if subject.task.head.candidates is not None:
        constant = majority_accuracy(rows.train, rows.dev)
    train = None
    if isinstance(subject.task.kind, SingleLabel):
        # Of the whole file, which runs with other seeds share.
        train = sample(rows.all_train, TRAIN_ROWS)
    key = (
        model_digest(str(subject.places[number])),
        rows_digest(rows.dev),
        train and rows_digest(train),
        subject.task.name,
        dev.sequence_length,
        constant,
        which,
    )
    if key not in _KNOWN or key[0] is None:
        found = Findings()
        _examine_dev(subject, number, dev, constant, which, found)
        if train is not None:
            _examine_train(subject, number, train, dev, which, found)
        _KNOWN[key] = found
    return _KNOWN[key]


def _examine_dev(subject, number, dev, constant, which, findings):
    """Accuracy, logits, order of the classes, whether it stays as it is."""
    task, forward = subject.task, subject.forwards[number]
    logits = predict_logits(forward, dev)
    findings.add(
        teacher_accuracy(
            task, dev.targets, logits, constant, f"teacher{which} accuracy"
        )
    )
    if logits.shape[-1] > 1 and np.isfinite(logits).all():
        findings.add(teacher_logits(logits, f"teacher{which} logits"))
    findings.add(_order(task, dev, logits, f"label order{which}"))
    batches, _ = evaluation_batches(dev, BATCH_SIZE, num_buckets=1)
    batch = next(iter(batches))
    findings.add(
        teacher_at_rest(
            subject.teachers[number].model,
            forward,
            batch[0] if isinstance(batch, tuple) else batch,
            f"teacher{which} at rest",
        )
    )


def _examine_train(subject, number, train, dev, which, findings):
    """The order of the classes in the training file."""
    encoded = subject.task.encode(
        train, subject.teachers[0].tokenizer, dev.sequence_length
    )
    logits = predict_logits(subject.forwards[number], encoded)
    check = f"label order of train{which}"
    findings.add(_order(subject.task, encoded, logits, check, TRAIN_ADVICE))


def _order(task, encoded, logits, check, *advice):
    """Whether another order of the classes explains logits better."""
    if not isinstance(task.kind, SingleLabel) or not np.isfinite(logits).all():
        return None
    return label_order(
        task.class_names,
        np.asarray(encoded.targets),
        task.kind.predict(logits),
        check,
        *advice,
    )
