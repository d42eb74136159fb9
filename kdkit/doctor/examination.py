"""The checks of a distillation on a task, run before it trains."""

import math
import pathlib

import numpy as np

from kdkit.config.model import Sizes
from kdkit.data import BatchStream, Buckets
from kdkit.data.own_tables import set_aside_in_words
from kdkit.data.selection import rows_digest
from kdkit.doctor.compatibility import (
    compared_layers,
    few_updates,
    same_vocabulary,
    student_size,
    table_size,
)
from kdkit.doctor.examined_rows import (
    ExaminedRows,
    corpora_of,
    encode_some,
    epoch_rows,
    examine_lengths,
    examine_rows,
    examine_words,
    load_rows_to_examine,
    sample,
)
from kdkit.doctor.findings import (
    OK,
    RUINS,
    WARNING,
    Finding,
    Findings,
    decide,
)
from kdkit.doctor.resources import (
    examine_memory,
    examine_needs,
    fitting,
    shapes,
)
from kdkit.doctor.teacher_checks import (
    finite_weights,
    label_order,
    teacher_accuracy,
    teacher_at_rest,
    teacher_frozen,
    teacher_logits,
)
from kdkit.doctor.text_examination import (
    QUICK_TEXTS,
    examine_text,
    examine_text_words,
)
from kdkit.models import backbone_of, find
from kdkit.models.architectures import architecture
from kdkit.models.heads import untrained_head
from kdkit.models.places import RUN_FILE, model_digest
from kdkit.tasks import SingleLabel, majority_accuracy
from kdkit.training.source import BATCH_SIZE, predict_logits

QUICK_ROWS = 256  # dev examples, before a run


def examine_before(config, folder, force: bool) -> Findings | None:
    """Checks a run before its steps and models are made.

    Args:
        config: the run's config.
        folder: path of the run directory.
        force: bool. Whether to continue if a check reports an error.

    Returns:
        The `Findings`, or `None` if the run is checked later.
    """
    too_large = examine_memory(config.student)
    if too_large is not None:
        decide(Findings([too_large]), force)
    if config.kind != "text" or not config.steps:
        return None
    findings = Findings()
    examine_text(config, folder, QUICK_TEXTS, findings)
    decide(findings, force)
    return findings


def examine_first(kind, force: bool) -> Findings | None:
    """Checks a run's models and data before it trains."""
    findings = Findings()
    if kind.config.kind == "task":
        examine(kind, QUICK_ROWS, QUICK_TEXTS, findings)
    else:
        examine_words_of(kind, findings)
        if all(one.outcome == OK for one in findings):
            return None
    decide(findings, force)
    return findings


def examine_words_of(kind, findings: Findings) -> None:
    """Counts the texts with words that a run's tokenizer has no token for."""
    is_text = kind.config.kind == "text"
    name = "the corpus" if is_text else "the texts"
    texts = kind.config.corpus if is_text else kind.config.data
    examine_text_words(name, texts, kind.tokenizer, findings)


def examine(kind, num_rows: int, num_texts: int, findings: Findings):
    """Runs all checks of a run on a task that need no training."""
    config, task, tokenizer = kind.config, kind.task, kind.tokenizer
    rows = load_rows_to_examine(kind, num_rows, findings)
    length = config.data.sequence_length
    dev, train = (
        encode_some(task, some, tokenizer, length)
        for some in (rows.dev, rows.train)
    )
    _examine_teachers(kind, rows, dev, findings)
    _examine_student(kind, findings)
    examine_rows(config, task, rows, num_texts, findings)
    findings.add(_seen_dev(task, kind.places))
    findings.add(_updates(kind, rows))
    for name, corpus in corpora_of(config).items():
        examine_text_words(name, corpus, tokenizer, findings)
    examine_lengths(config, train, dev, findings)
    splits = {
        "train": (rows.train, train),
        config.data.dev_split: (rows.dev, dev),
    }
    examine_words(splits, tokenizer, findings)
    examine_needs(kind, rows, train, findings)
    return rows, train


def _seen_dev(task, places):
    """Warns that a given teacher may have learned from the dev set aside."""
    given = [
        place
        for place in map(pathlib.Path, places)
        if not any(
            (folder / RUN_FILE).is_file() for folder in (place, place.parent)
        )
    ]
    if not given or task.table is None or not task.table.sets_dev_aside:
        return None
    return Finding(
        "dev set aside",
        WARNING,
        f"dev is {set_aside_in_words(task.table.train)}. If {given[0]} was "
        "fine-tuned on that table, it has seen these rows, and all accuracies "
        "on dev are too high.",
        "Pass --dev with rows that the teacher has not seen.",
    )


def _examine_teachers(kind, rows, dev, findings):
    """Checks tokens, accuracy, label order and determinism of each teacher."""
    for number, teacher in enumerate(kind.teachers):
        which = f" {number + 1}" if len(kind.teachers) > 1 else ""
        size = getattr(backbone_of(teacher.model), "vocabulary_size", None)
        table = table_size(teacher.tokenizer, size, f"teacher{which}")
        findings.add(table)
        if table is None or table.outcome != RUINS:
            findings.extend(examine_answers(kind, number, rows, dev, which))


def _examine_student(kind, findings):
    """Compares the student's tokens, blocks and sizes with the teacher's."""
    student = kind.model
    size = getattr(backbone_of(student), "vocabulary_size", None)
    findings.add(table_size(kind.tokenizer, size, "student"))
    findings.add(finite_weights(student))
    for teacher in kind.teachers:
        findings.add(teacher_frozen(teacher.model, student))
    for stage in fitting(kind):
        objectives = stage.weighted_objectives()
        findings.add(compared_layers(stage.name, objectives, *shapes(kind)))
    for teacher in kind.teachers[:1]:
        ids = teacher.tokenizer, kind.tokenizer
        findings.add(same_vocabulary(*ids, "student"))
        sizes = map(architecture, (teacher.model, student))
        findings.add(student_size(*sizes))


def _updates(kind, rows):
    """Checks the updates of random weights; `None` for other starts."""
    config = kind.config
    only_head = not isinstance(config.student, Sizes)
    if config.corpus is not None or (
        only_head and not untrained_head(kind.model)
    ):
        return None
    count = epoch_rows(config, kind.task, len(rows.train), False)
    return few_updates(
        [
            (
                stage.epochs * math.ceil(count / stage.batch_size),
                stage.mean_learning_rate,
            )
            for stage in config.stages
        ],
        only_head,
        is_trial=kind.task.generate is not None,
    )


TRAIN_ROWS = 256  # training examples whose labels are checked
TRAIN_ADVICE = (
    "Put the labels of the training file into the order of dev and the teacher."
)

# Earlier findings in this process, by the content of teachers and examples. The
# runs of a sweep or an ablation share them.
_KNOWN = {}


def examine_answers(
    kind, number: int, rows: ExaminedRows, dev, which: str
) -> list[Finding]:
    """Returns the findings about a teacher's predictions."""
    constant = None
    if kind.task.head.candidates is not None:
        constant = majority_accuracy(rows.train, rows.dev)
    train = None
    if isinstance(kind.task.kind, SingleLabel):
        # From the whole file, which runs with other seeds share.
        train = sample(rows.all_train, TRAIN_ROWS)
    key = (
        model_digest(str(kind.places[number])),
        rows_digest(rows.dev),
        train and rows_digest(train),
        kind.task.name,
        dev.sequence_length,
        constant,
        which,
    )
    if key not in _KNOWN or key[0] is None:
        found = Findings()
        _examine_dev(kind, number, dev, constant, which, found)
        if train is not None:
            _examine_train(kind, number, train, dev, which, found)
        _KNOWN[key] = found
    return _KNOWN[key]


def _examine_dev(kind, number, dev, constant, which, findings):
    """Checks accuracy, logits, label order and determinism on dev."""
    task, forward = kind.task, kind.forwards[number]
    logits = predict_logits(forward, dev)
    findings.add(
        teacher_accuracy(
            task, dev.targets, logits, constant, f"teacher{which} accuracy"
        )
    )
    if logits.shape[-1] > 1 and np.isfinite(logits).all():
        findings.add(teacher_logits(logits, f"teacher{which} logits"))
    words = _words_to_list(kind, number)
    check = f"label order{which}"
    findings.add(_order(task, dev, logits, check, words=words))
    stream = BatchStream(dev, Buckets(BATCH_SIZE, num_buckets=1))
    batch = next(iter(stream.evaluation()))
    findings.add(
        teacher_at_rest(
            kind.teachers[number].model,
            forward,
            batch[0] if isinstance(batch, tuple) else batch,
            f"teacher{which} at rest",
        )
    )


def _examine_train(kind, number, train, dev, which, findings):
    """Checks the label order on training examples."""
    encoded = kind.task.encode(
        train, kind.teachers[0].tokenizer, dev.sequence_length
    )
    logits = predict_logits(kind.forwards[number], encoded)
    check = f"label order of train{which}"
    advice = {"advice": TRAIN_ADVICE}
    if any(one.check == f"label order{which}" for one in findings.ruinous):
        advice = {"words": _words_to_list(kind, number)}  # as for dev
    findings.add(_order(kind.task, encoded, logits, check, **advice))


def _words_to_list(kind, number):
    """The labels of an own table, if the teacher's classes have no names."""
    table = kind.task.table
    names = find(kind.places[number]).class_names
    return table.labels if table is not None and names is None else None


def _order(task, encoded, logits, check, **advice):
    """Checks whether another class order explains the logits better."""
    if not isinstance(task.kind, SingleLabel) or not np.isfinite(logits).all():
        return None
    return label_order(
        task.class_names,
        np.asarray(encoded.targets),
        task.kind.predict(logits),
        check,
        **advice,
    )
