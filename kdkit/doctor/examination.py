"""The checks of a distillation on a task, run before it trains."""

import dataclasses
import functools
import math
import pathlib

import numpy as np

from kdkit.data import BatchStream, Buckets
from kdkit.data.own_tables import set_aside_in_words
from kdkit.doctor.compatibility import (
    compared_layers,
    few_updates,
    same_vocabulary,
    student_size,
    table_size,
)
from kdkit.doctor.examined_rows import (
    ExaminedRows,
    encode_some,
    epoch_rows,
    examine_lengths,
    examine_rows,
    examine_words,
    load_rows_to_examine,
    sample,
)
from kdkit.doctor.findings import NOTE, RUINS, WARNING, Finding, Findings
from kdkit.doctor.resources import examine_memory, examine_needs
from kdkit.doctor.teacher_checks import (
    finite_weights,
    label_order,
    teacher_accuracy,
    teacher_at_rest,
    teacher_frozen,
    teacher_logits,
)
from kdkit.doctor.text_examination import QUICK_TEXTS, examine_text_words
from kdkit.models import LoadedModel, backbone_of, find
from kdkit.models.architectures import architecture
from kdkit.models.heads import untrained_head
from kdkit.recipes.stages import Stage
from kdkit.runs.directory import EVENTS, RunDirectory
from kdkit.runs.events import Doctor
from kdkit.runs.inputs import model_digest, rows_digest
from kdkit.runs.log import decide, logged_findings
from kdkit.runs.pipeline import known_sizes
from kdkit.runs.settings import DistillSettings, TeacherSettings
from kdkit.taps import describe
from kdkit.tasks import SingleLabel, Task, majority_accuracy
from kdkit.training.data_settings import DataSettings
from kdkit.training.source import BATCH_SIZE, predict_logits

QUICK_ROWS = 256  # dev examples, before a run


@dataclasses.dataclass(frozen=True, eq=False)
class Subject:
    """The parts of a run that are checked."""

    settings: DistillSettings
    task: Task
    run_dir: pathlib.Path
    teachers: list[LoadedModel]
    places: list
    forwards: list
    student: object
    tokenizer: object
    fitting: tuple[Stage, ...]

    @functools.cached_property
    def shapes(self):
        """The `kdkit.taps.ModelShape` of the first teacher and the student."""
        return describe(self.teachers[0].model), describe(self.student)


def examine_memory_first(run, settings: DistillSettings, force: bool) -> None:
    """Stops a run whose student is too large, before any model is built."""
    too_large = examine_memory(known_sizes(settings))
    if too_large is not None and not _is_examined(run):
        decide(Findings([too_large]), force)


def examine_first(run, subject: Subject, force: bool) -> Findings | None:
    """Checks a run before it trains, if that was not done earlier."""
    if _is_examined(run):
        return None
    findings = Findings()
    examine(subject, QUICK_ROWS, QUICK_TEXTS, findings)
    decide(findings, force, _step_findings(subject))
    return findings


def _step_findings(subject):
    """Returns the findings of the runs that trained this run's teachers."""
    steps = (
        RunDirectory(pathlib.Path(subject.run_dir, name))
        for name in ("pretrained_run", "teacher_run")
    )
    return [one for step in steps for one in logged_findings(step) or ()]


def examine_teacher_first(
    run, settings: TeacherSettings, task: Task, model, tokenizer, force: bool
) -> Findings | None:
    """Does the same as `examine_first` for a teacher trained on labels."""
    teacher = LoadedModel(model, tokenizer, has_trained_head=False)
    subject = Subject(
        _LabelsAlone(settings.data, settings.seed),
        task,
        run.path,
        teachers=[teacher],
        places=[],
        forwards=[],
        student=None,
        tokenizer=None,
        fitting=(),
    )
    return examine_first(run, subject, force)


@dataclasses.dataclass(frozen=True)
class _LabelsAlone:
    """The fields of `DistillSettings` that checks need, without a teacher."""

    data: DataSettings
    seed: int
    teacher: None = None
    corpus: None = None
    general: None = None
    unlabeled: None = None
    augmented: None = None


def _is_examined(run):
    """Whether a run was checked before, or by another process."""
    return run.is_read_only or run.events(Doctor)


def examine(
    subject: Subject, num_rows: int, num_texts: int, findings: Findings
):
    """Runs all checks that need no training."""
    rows = load_rows_to_examine(
        subject.settings, subject.task, num_rows, findings
    )
    tokenizer = subject.teachers[0].tokenizer
    dev, train = (
        encode_some(
            subject.task,
            some,
            tokenizer,
            subject.settings.data.sequence_length,
        )
        for some in (rows.dev, rows.train)
    )
    _examine_teachers(subject, rows, dev, findings)
    if subject.student is not None:
        _examine_models(subject, rows, findings)
    examine_rows(subject.settings, subject.task, rows, num_texts, findings)
    findings.add(_seen_dev(subject.task, subject.places))
    if subject.student is not None:
        findings.add(_updates(subject, rows))
    _examine_corpora(subject, findings)
    examine_lengths(subject.settings, train, dev, findings)
    examine_words(
        {
            "train": (rows.train, train),
            subject.settings.data.dev_split: (rows.dev, dev),
        },
        tokenizer,
        findings,
    )
    if subject.student is not None:
        examine_needs(subject, rows, train, findings)
    return rows, train


def _seen_dev(task, places):
    """Warns that a given teacher may have learned from the dev set aside."""
    given = [
        place
        for place in map(pathlib.Path, places)
        if not any(
            (folder / EVENTS).is_file() for folder in (place, place.parent)
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


def _examine_corpora(subject, findings):
    """Checks running text for words that the first tokenizer lacks."""
    settings = subject.settings
    corpora = {"the corpus": settings.corpus}
    if settings.general is not None:
        corpora["the general text"] = settings.general.corpus
    for name, corpus in corpora.items():
        if corpus is not None:
            tokenizer = subject.teachers[0].tokenizer
            examine_text_words(name, corpus, tokenizer, findings)


def _examine_teachers(subject, rows, dev, findings):
    """Checks tokens, accuracy, label order and determinism of each teacher."""
    for number, teacher in enumerate(subject.teachers):
        which = f" {number + 1}" if len(subject.teachers) > 1 else ""
        name = f"teacher{which}"
        size = getattr(backbone_of(teacher.model), "vocabulary_size", None)
        table = table_size(teacher.tokenizer, size, name)
        findings.add(table)
        if not teacher.has_trained_head:
            if isinstance(subject.settings.teacher, TeacherSettings):
                findings.add(
                    Finding(
                        name,
                        NOTE,
                        "It is trained within the run: accuracy and label "
                        "order are checked then, before distilling.",
                    )
                )
        elif table is None or table.outcome != RUINS:
            findings.extend(examine_answers(subject, number, rows, dev, which))


def _examine_models(subject, rows, findings):
    """Compares the student's tokens, blocks and sizes with the teacher's."""
    student, teachers = subject.student, subject.teachers
    first = teachers[0]
    findings.add(same_vocabulary(first.tokenizer, subject.tokenizer, "student"))
    size = getattr(backbone_of(student), "vocabulary_size", None)
    findings.add(table_size(subject.tokenizer, size, "student"))
    for teacher in teachers:
        findings.add(teacher_frozen(teacher.model, student))
    findings.add(finite_weights(student))
    for stage in subject.fitting:
        findings.add(
            compared_layers(
                stage.name, stage.weighted_objectives(), *subject.shapes
            )
        )
    findings.add(student_size(architecture(first.model), architecture(student)))


def _updates(subject, rows):
    """Checks the updates of random weights; `None` for other starts."""
    settings = subject.settings
    only_head = not settings.student.has_random_weights
    if any(stage.data == "corpus" for stage in settings.stages) or (
        only_head and not untrained_head(subject.student)
    ):
        return None
    count = epoch_rows(settings, subject.task, len(rows.train), False)
    return few_updates(
        [
            (
                stage.epochs * math.ceil(count / stage.batch_size),
                stage.mean_learning_rate,
            )
            for stage in settings.stages
        ],
        only_head,
        is_trial=subject.task.generate is not None,
    )


TRAIN_ROWS = 256  # training examples whose labels are checked
TRAIN_ADVICE = (
    "Put the labels of the training file into the order of dev and the teacher."
)

# Earlier findings in this process, by the content of teachers and examples. The
# runs of a sweep or an ablation share them.
_KNOWN = {}


def examine_answers(
    subject, number: int, rows: ExaminedRows, dev, which: str
) -> list[Finding]:
    """Returns the findings about a teacher's predictions."""
    constant = None
    if subject.task.head.candidates is not None:
        constant = majority_accuracy(rows.train, rows.dev)
    train = None
    if isinstance(subject.task.kind, SingleLabel):
        # From the whole file, which runs with other seeds share.
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
    """Checks accuracy, logits, label order and determinism on dev."""
    task, forward = subject.task, subject.forwards[number]
    logits = predict_logits(forward, dev)
    findings.add(
        teacher_accuracy(
            task, dev.targets, logits, constant, f"teacher{which} accuracy"
        )
    )
    if logits.shape[-1] > 1 and np.isfinite(logits).all():
        findings.add(teacher_logits(logits, f"teacher{which} logits"))
    words = _words_to_list(subject, number)
    check = f"label order{which}"
    findings.add(_order(task, dev, logits, check, words=words))
    stream = BatchStream(dev, Buckets(BATCH_SIZE, num_buckets=1))
    batch = next(iter(stream.evaluation()))
    findings.add(
        teacher_at_rest(
            subject.teachers[number].model,
            forward,
            batch[0] if isinstance(batch, tuple) else batch,
            f"teacher{which} at rest",
        )
    )


def _examine_train(subject, number, train, dev, which, findings):
    """Checks the label order on training examples."""
    encoded = subject.task.encode(
        train, subject.teachers[0].tokenizer, dev.sequence_length
    )
    logits = predict_logits(subject.forwards[number], encoded)
    check = f"label order of train{which}"
    advice = {"advice": TRAIN_ADVICE}
    if any(one.check == f"label order{which}" for one in findings.ruinous):
        advice = {"words": _words_to_list(subject, number)}  # as for dev
    findings.add(_order(subject.task, encoded, logits, check, **advice))


def _words_to_list(subject, number):
    """The labels of an own table, if the teacher's classes have no names."""
    table = subject.task.table
    names = find(subject.places[number]).class_names
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
