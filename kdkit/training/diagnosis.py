"""All that can be told of a distillation on a task without running it."""

import dataclasses
import pathlib

from kdkit import models
from kdkit.doctor import NOTE
from kdkit.doctor import RUINS
from kdkit.doctor import Finding
from kdkit.doctor import Findings
from kdkit.errors import UsageError
from kdkit.training.corpus_stages import prepare_corpus_stages
from kdkit.training.distribution import ONE_DEVICE
from kdkit.training.evaluation import make_forward
from kdkit.training.examination import Subject
from kdkit.training.examination import examine
from kdkit.training.examined_needs import examine_room
from kdkit.training.fitting import check_label_smoothing
from kdkit.training.fitting import check_stage
from kdkit.training.fitting import stages_with_teachers
from kdkit.training.making import DATA_LENGTH
from kdkit.training.making import check_length
from kdkit.training.making import load_teacher
from kdkit.training.making import make_model
from kdkit.training.preparing import check_further_files
from kdkit.training.preparing import known_sizes
from kdkit.training.run_directory import is_finished
from kdkit.training.run_settings import PRETRAINED
from kdkit.training.run_settings import DistillSettings
from kdkit.training.run_settings import PretrainSettings
from kdkit.training.run_settings import TeacherSettings
from kdkit.training.step_time import time_needed
from kdkit.training.task_data import check_data
from kdkit.training.task_data import open_task
from kdkit.training.text_examination import TEXTS

ROWS = 1000  # of dev that teachers answer
# Checks, by how they begin, whose ruin no update survives.
STEPLESS = ("token table", "vocabulary", "longest row", "memory")


def diagnose(settings: DistillSettings, run_dir) -> Findings:
    """Loads what a run is made from, and checks all of it.

    Mistakes are rows of the table, and what can be checked in spite of them is.
    Nothing is written.

    Args:
        settings: `DistillSettings`.
        run_dir: path. Where the run would be kept.

    Raises:
        UsageError: (a `ValueError`) if the classes of the task are not known,
            since nothing can be checked then.
    """
    findings = Findings()
    task = open_task(settings.data)
    with findings.attempt("data"):
        check_data(task, settings.data)
    with findings.attempt("files"):
        check_further_files(settings, task)
    with findings.attempt("label smoothing"):
        check_label_smoothing((*settings.stages, *settings.control), task)
    run_dir = pathlib.Path(run_dir)
    teachers, places = _teachers(settings, task, run_dir, findings)
    student, tokenizer = None, None
    too_large = examine_room(known_sizes(settings))
    findings.add(too_large)
    if teachers and too_large is None:
        with findings.attempt("student"):
            student, tokenizer = _student(settings, task, teachers[0])
    for model in (student, *(teacher.model for teacher in teachers)):
        if model is not None:
            with findings.attempt("longest row"):
                check_length(settings.data.sequence_length, model, DATA_LENGTH)
    fitting = ()
    if student is not None:
        fitting = _fitting(settings, student, teachers, findings)
        with findings.attempt("stages on the corpus"):
            _check_corpus_stages(settings, student, teachers[0], run_dir)
    subject = Subject(
        settings,
        task,
        run_dir,
        teachers,
        places,
        [make_forward(teacher.model) for teacher in teachers],
        student,
        tokenizer,
        fitting,
    )
    rows, train = examine(subject, ROWS, TEXTS, findings)
    learning = stages_with_teachers(settings)
    if train is not None and student is not None and fitting == learning:
        _time(subject, rows, train, findings)
    return findings


def _teachers(settings, task, run_dir, findings):
    """The teachers and where they are."""
    if isinstance(settings.teacher, TeacherSettings):
        made = run_dir / "teacher_run"
        if not is_finished(made):
            with findings.attempt("teacher"):
                return [_untrained(settings, task)], [made]
            return [], []
        first = made
    else:
        first = settings.teacher
    teachers, places = [], []
    for number, place in enumerate((first, *settings.more_teachers)):
        which = f" {number + 1}" if settings.more_teachers else ""
        try:
            teacher = load_teacher(place, task)
        except UsageError as error:
            teacher = _in_spite_of(place, task)
            check = f"teacher{which}"
            if teacher is not None and teacher.has_trained_head:
                check = f"label names{which}"
            findings.add(
                Finding(
                    check,
                    RUINS,
                    str(error),
                )
            )
        if teacher is not None:
            teachers.append(teacher)
            places.append(place)
    return teachers, places


def _in_spite_of(place, task):
    """The teacher without the names of its classes, `None` if none loads."""
    head = dataclasses.replace(task.head, class_names=None)
    try:
        teacher = models.load_classifier(place, head)
    except UsageError:
        return None
    return teacher if teacher.tokenizer is not None else None


def _untrained(settings, task):
    """A model of the sizes of the teacher that the run trains."""
    model = settings.teacher.model
    if model.checkpoint == PRETRAINED:
        place = settings.pretrained
        if isinstance(place, PretrainSettings):
            model = place.model
        else:
            model = dataclasses.replace(model, checkpoint=place)
    return models.LoadedModel(*make_model(model, task), False)


def _student(settings, task, teacher):
    """A model of the student's sizes, and the tokenizer that it reads."""
    sizes = known_sizes(settings)
    pretrained = settings.pretrained
    if isinstance(pretrained, PretrainSettings):
        pretrained = pretrained.model.checkpoint
    try:
        return make_model(sizes, task, teacher, pretrained)
    except UsageError:
        # One of other tokens than the teacher's is compared with it later.
        place = sizes.checkpoint or sizes.copy_from
        if place in (None, "teacher"):
            raise
        return make_model(sizes, task, None, pretrained)


def _fitting(settings, student, teachers, findings):
    """The stages whose objectives fit, of those with teachers."""
    fitting = []
    for stage in stages_with_teachers(settings):
        with findings.attempt("layers"):
            check_stage(settings, stage, student, teachers)
            fitting.append(stage)
    return tuple(fitting)


def _time(subject, rows, train, findings):
    """That of the updates, where models can make one."""
    ruined = [
        one.check for one in findings.ruinous if one.check.startswith(STEPLESS)
    ]
    if ruined:
        findings.add(
            Finding("time", NOTE, f"Not measured: see {', '.join(ruined)}.")
        )
        return
    with findings.attempt("time"):
        findings.add(time_needed(subject, rows, train))


def _check_corpus_stages(settings, student, teacher, run_dir):
    """As a run does, unless what they learn from is yet to be pretrained."""
    if isinstance(settings.pretrained, PretrainSettings):
        settings.pretrained.corpus.check()
        return
    prepare_corpus_stages(
        settings,
        student,
        teacher.tokenizer,
        settings.pretrained,
        run_dir / "corpus",
        ONE_DEVICE,
    )
