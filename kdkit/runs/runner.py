"""Runs from settings to a finished run directory."""

import dataclasses
import functools
import logging

import keras

from kdkit import models
from kdkit.doctor.examination import Subject
from kdkit.doctor.examination import examine_first
from kdkit.doctor.examination import examine_room_first
from kdkit.doctor.examination import examine_teacher_first
from kdkit.errors import all_mistakes
from kdkit.runs.directory import open_run
from kdkit.runs.directory import provenance
from kdkit.runs.examples import check_fit
from kdkit.runs.examples import check_label_smoothing
from kdkit.runs.examples import load_rows
from kdkit.runs.examples import stages_with_teachers
from kdkit.runs.inputs import check_inputs
from kdkit.runs.inputs import is_finished_with
from kdkit.runs.inputs import log_inputs
from kdkit.runs.inputs import model_digest
from kdkit.runs.log import evaluate_other
from kdkit.runs.log import evaluate_teachers
from kdkit.runs.log import finish
from kdkit.runs.log import keep_model
from kdkit.runs.log import log_findings
from kdkit.runs.log import log_model
from kdkit.runs.preparing import check_transfer
from kdkit.runs.preparing import data_inputs
from kdkit.runs.preparing import inputs_of
from kdkit.runs.preparing import known_sizes
from kdkit.runs.preparing import prepare_transfer
from kdkit.runs.pretraining import pretrain
from kdkit.runs.settings import PRETRAINED
from kdkit.runs.settings import DistillSettings
from kdkit.runs.settings import PretrainSettings
from kdkit.runs.settings import Saving
from kdkit.runs.settings import TeacherSettings
from kdkit.settings import to_dict
from kdkit.taps import own_names
from kdkit.training.caching import TeacherCaches
from kdkit.training.corpus_stages import prepare_corpus_stages
from kdkit.training.distribution import training_on
from kdkit.training.making import DATA_LENGTH
from kdkit.training.making import check_length
from kdkit.training.making import load_teachers
from kdkit.training.making import make_model
from kdkit.training.sources import TaskSource
from kdkit.training.stage_trainer import Arm
from kdkit.training.task_data import Evaluator
from kdkit.training.task_data import check_data
from kdkit.training.task_data import load_data
from kdkit.training.task_data import load_other_dev_splits
from kdkit.training.task_data import make_forward
from kdkit.training.task_data import open_task

_log = logging.getLogger(__name__)


def train_teacher(
    settings: TeacherSettings, run_dir, pretrained=None, force: bool = False
) -> None:
    """Fine-tunes a model and leaves it in `RUN/teacher/`.

    Args:
        settings: `TeacherSettings`.
        run_dir: string or path of a new or a started run directory.
        pretrained: place of the encoder that the settings call `"pretrained"`,
            or `None`. Defaults to `None`.
        force: bool, as in `distill`. Defaults to `False`.

    Raises:
        UsageError: (a `ValueError`) for the user's mistakes, before any
            training.
        RunError: if its data would ruin the run, or a loss is not finite.
    """
    task = open_task(settings.data)
    with (
        training_on(settings) as distribution,
        open_run(
            run_dir, to_dict(settings), TeacherSettings, distribution
        ) as run,
    ):
        find_inputs = functools.partial(
            _teacher_inputs, settings, task, pretrained
        )
        if is_finished_with(run, find_inputs, distribution):
            return
        keras.utils.set_random_seed(settings.seed)
        with all_mistakes() as check:
            with check():
                check_data(task, settings.data)
            with check():
                check_label_smoothing(settings.stages, task)
            with check():
                start = _start_of(settings, pretrained)
                with distribution.scope(), own_names():
                    model, tokenizer = make_model(start, task)
                check_length(settings.data.sequence_length, model, DATA_LENGTH)
        inputs = find_inputs()
        check_inputs(run, inputs, distribution)
        findings = examine_teacher_first(
            run, settings, task, model, tokenizer, force
        )
        train, dev = load_data(task, settings.data, tokenizer, settings.seed)
        run.write_config(to_dict(settings), provenance())
        log_inputs(run, inputs)
        log_findings(run, findings)
        with distribution.scope(), own_names():
            model = models.in_policy(model, settings.dtype_policy)
        arm = Arm(
            name="teacher",
            model=model,
            teacher=None,
            source=TaskSource(
                train,
                Evaluator(task, dev, settings.data.dev_split),
                settings.data.num_buckets,
            ),
            seed=settings.seed,
            jit_compile=settings.jit_compile,
            distribution=distribution,
            saving=Saving.of(settings),
        )
        log_model(run, "teacher", model, settings.model)
        best = arm.run(run, settings.stages)
        others = load_other_dev_splits(task, settings.data, tokenizer)
        for split, rows in others.items():
            evaluate_other(run, arm, best, Evaluator(task, rows, split))
        _keep(run, arm, tokenizer, settings.data, task)
        finish(run, {"teacher": best})


def _start_of(settings, pretrained):
    """`ModelSettings` of a teacher, with the place of its encoder."""
    start = settings.model
    if start.checkpoint == PRETRAINED:
        return dataclasses.replace(start, checkpoint=str(pretrained))
    return start


def _teacher_inputs(settings, task, pretrained):
    """What a teacher is made from, by content."""
    inputs = data_inputs(task, settings.data)
    start = _start_of(settings, pretrained)
    place = start.checkpoint or start.copy_from
    if place is not None:
        inputs["model"] = model_digest(place)
    return inputs


def distill(
    settings: DistillSettings,
    run_dir,
    force: bool = False,
    needs_models: bool = True,
) -> None:
    """Runs a recipe and leaves its student in `RUN/student/`.

    With a control arm, the same student trained without a teacher is left in
    `RUN/control/`. A teacher given as `TeacherSettings` is trained first, in
    `RUN/teacher_run/`; a pretrained encoder given as `PretrainSettings` before
    it, in `RUN/pretrained_run/`. A student of general distillation and
    augmented copies are made where the settings say that they are.

    What the run is made from is examined first, see docs/doctor.md.

    Args:
        settings: `DistillSettings`.
        run_dir: string or path of a new or a started run directory.
        force: bool. Whether to go on where a check says that the run would be
            ruined. Defaults to `False`.
        needs_models: bool. Whether a finished run makes a model again that is
            gone. Defaults to `True`.

    Raises:
        UsageError: (a `ValueError`) for the user's mistakes, before any
            training.
        RunError: if the run would be ruined, or a loss is not finite.
    """
    task = open_task(settings.data)
    with (
        training_on(settings) as distribution,
        open_run(
            run_dir, to_dict(settings), DistillSettings, distribution
        ) as run,
    ):
        find_inputs = functools.partial(inputs_of, settings, task)
        if is_finished_with(run, find_inputs, distribution, needs_models):
            return
        made = run.made_arms  # before, where another is gone
        check_label_smoothing((*settings.stages, *settings.control), task)
        examine_room_first(run, settings, force)
        if _has_teachers_to_make(settings):
            check_transfer(settings, task)
            run.write_config(to_dict(settings), provenance())
        teacher_place, pretrained = _make_teachers(settings, run, force)
        with all_mistakes() as check, distribution.scope(), own_names():
            with check():
                check_transfer(settings, task)
            with check():
                teachers = load_teachers(
                    [teacher_place, *settings.more_teachers], task
                )
                corpus, student = _check_fit(
                    settings, task, teachers, pretrained, run, distribution
                )
        places = [teacher_place, *settings.more_teachers]
        forwards = [make_forward(teacher.model) for teacher in teachers]
        findings = examine_first(
            run,
            Subject(
                settings,
                task,
                run.path,
                teachers,
                places,
                forwards,
                student=student[0],
                tokenizer=student[1],
                fitting=stages_with_teachers(settings),
            ),
            force,
        )
        del student
        prepare_transfer(settings, task, distribution, force, findings)
        inputs = find_inputs()
        check_inputs(run, inputs, distribution)
        caches = None
        if settings.cache is not None:  # it may be of other outputs
            with distribution.chief_first():
                caches = TeacherCaches(
                    settings.cache, teachers, places, distribution=distribution
                )
        # Before the rows, so that what they leave is a run's.
        run.write_config(to_dict(settings), provenance())
        tokenizer = teachers[0].tokenizer
        with distribution.chief_first():
            rows = load_rows(settings, task, tokenizer, run.path / "augmented")
        log_inputs(run, inputs)
        log_findings(run, findings)
        rows.log(run)
        evaluator = evaluate_teachers(
            run, task, teachers, forwards, rows.dev, settings.data.dev_split
        )
        sources = {
            "student": rows.source(evaluator),
            "control": rows.control_source(evaluator),
        }
        others = [
            evaluate_teachers(run, task, teachers, forwards, encoded, split)
            for split, encoded in load_other_dev_splits(
                task, settings.data, tokenizer
            ).items()
        ]
        if caches is not None:
            with distribution.chief_first():
                caches.measure_file(evaluator)
        best = {}
        for name, all_stages in settings.arms.items():
            stages = tuple(
                stage for stage in all_stages if stage.data == "task"
            )
            if not stages:
                continue
            if name in made:
                best[name] = made[name]
                continue
            # The same seed for both arms: the same weights to start from.
            keras.utils.set_random_seed(settings.seed)
            with distribution.scope(), own_names():
                model, _ = make_model(
                    settings.student, task, teachers[0], pretrained, _log.info
                )
                model = models.in_policy(model, settings.dtype_policy)
            log_model(run, name, model, settings.student)
            corpus.run(run, name, model)
            arm = Arm(
                name=name,
                model=model,
                teacher=[teacher.model for teacher in teachers],
                source=sources[name],
                seed=settings.seed,
                jit_compile=settings.jit_compile,
                teacher_weights=settings.teacher_weights or None,
                caches=caches,
                distribution=distribution,
                saving=Saving.of(settings),
            )
            best[name] = arm.run(run, stages)
            for evaluator in others:
                evaluate_other(run, arm, best[name], evaluator)
            _keep(run, arm, tokenizer, settings.data, task)
        if caches is not None:
            caches.log(run)
        finish(run, best)


def _has_teachers_to_make(settings):
    return isinstance(settings.teacher, TeacherSettings) or isinstance(
        settings.pretrained, PretrainSettings
    )


def _make_teachers(settings, run, force):
    """Trains what is given as settings; returns where the teachers are."""
    teacher, pretrained = settings.teacher, settings.pretrained
    if isinstance(pretrained, PretrainSettings):
        pretrained = run.path / "pretrained_run"
        pretrain(settings.pretrained, pretrained, force=force)
    if isinstance(teacher, TeacherSettings):
        teacher = run.path / "teacher_run"
        train_teacher(settings.teacher, teacher, pretrained, force)
    return teacher, pretrained


def _check_fit(settings, task, teachers, pretrained, run, distribution):
    """Builds what the stages will build, so that what does not fit is told.

    Returns the stages on a corpus, ready to run, and the student with its
    tokenizer.
    """
    sizes = known_sizes(settings)
    student, tokenizer = make_model(sizes, task, teachers[0], pretrained)
    with all_mistakes() as check:
        with check():
            check_fit(settings, student, teachers)
        with check():
            corpus = prepare_corpus_stages(
                settings,
                student,
                teachers[0].tokenizer,
                pretrained,
                run.path / "corpus",
                distribution,
            )
    return corpus, (student, tokenizer)


def _keep(run, arm, tokenizer, settings, task):
    keep_model(
        run,
        arm.name,
        arm.model,
        tokenizer,
        settings.sequence_length,
        task.head,
    )
