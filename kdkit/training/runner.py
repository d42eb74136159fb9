"""Runs from settings to a finished run directory."""

import pathlib

import keras
import keras_hub
import numpy as np

from kdkit import data
from kdkit import models
from kdkit import tasks
from kdkit.distiller import Distiller
from kdkit.errors import UsageError
from kdkit.errors import all_mistakes
from kdkit.files import staged
from kdkit.settings import to_dict
from kdkit.training.corpus_stages import prepare_corpus_stages
from kdkit.training.evaluation import Evaluator
from kdkit.training.evaluation import make_forward
from kdkit.training.evaluation import predict_logits
from kdkit.training.material import TaskMaterial
from kdkit.training.pretraining import pretrain
from kdkit.training.provenance import provenance
from kdkit.training.run_directory import open_run
from kdkit.training.run_log import finish
from kdkit.training.run_log import format_metrics
from kdkit.training.run_log import log_model
from kdkit.training.run_log import says_finished
from kdkit.training.run_settings import DistillSettings
from kdkit.training.run_settings import PretrainSettings
from kdkit.training.run_settings import TeacherSettings
from kdkit.training.stage_runner import Arm


def train_teacher(settings: TeacherSettings, run_dir) -> None:
    """Fine-tunes a model and leaves it in `RUN/teacher/`.

    Args:
        settings: `TeacherSettings`.
        run_dir: string or path of a new or a started run directory.

    Raises:
        UsageError: (a `ValueError`) for the user's mistakes, before any
            training.
        RunError: if a loss is not finite.
    """
    task = _open_task(settings.data)
    with open_run(run_dir, to_dict(settings)) as run:
        if says_finished(run):
            return
        keras.utils.set_random_seed(settings.seed)
        with all_mistakes() as check:
            with check():
                _check_data(task, settings.data)
            with check():
                model, tokenizer = _make_model(settings.model, task)
        train, dev = _load_data(task, settings.data, tokenizer, settings.seed)
        run.write_config(to_dict(settings), provenance())
        arm = Arm(
            name="teacher",
            model=model,
            teacher=None,
            material=TaskMaterial(
                train,
                Evaluator(task, dev, settings.data.dev_split),
                settings.data.num_buckets,
            ),
            seed=settings.seed,
            jit_compile=settings.jit_compile,
        )
        log_model(run, "teacher", model, settings.model)
        best = arm.run(run, settings.stages)
        others = _other_dev_splits(task, settings.data, tokenizer)
        for split, rows in others.items():
            _evaluate_other(run, arm, best, Evaluator(task, rows, split))
        _save(model, tokenizer, run.path / "teacher", settings.data, task)
        finish(run, {"teacher": best})


def distill(settings: DistillSettings, run_dir) -> None:
    """Runs a recipe and leaves its student in `RUN/student/`.

    With a control arm, the same student trained without a teacher is left in
    `RUN/control/`. A teacher given as `TeacherSettings` is trained first, in
    `RUN/teacher_run/`; a pretrained encoder given as `PretrainSettings` before
    it, in `RUN/pretrained_run/`.

    Args:
        settings: `DistillSettings`.
        run_dir: string or path of a new or a started run directory.

    Raises:
        UsageError: (a `ValueError`) for the user's mistakes, before any
            training.
        RunError: if a loss is not finite.
    """
    task = _open_task(settings.data)
    with open_run(run_dir, to_dict(settings)) as run:
        if says_finished(run):
            return
        teacher_place, pretrained = _make_teachers(settings, run)
        with all_mistakes() as check:
            with check():
                _check_data(task, settings.data)
            with check():
                teacher = _load_teacher(teacher_place, task)
                corpus = _check_fit(
                    settings, task, teacher, pretrained, run.path / "corpus"
                )
        train, dev = _load_data(
            task, settings.data, teacher.tokenizer, settings.seed
        )
        run.write_config(to_dict(settings), provenance())
        material = TaskMaterial(
            train,
            _evaluate_teacher(
                run, task, teacher.model, dev, settings.data.dev_split
            ),
            settings.data.num_buckets,
        )
        others = [
            _evaluate_teacher(run, task, teacher.model, rows, split)
            for split, rows in _other_dev_splits(
                task, settings.data, teacher.tokenizer
            ).items()
        ]
        best = {}
        arms = {
            name: tuple(stage for stage in stages if stage.data == "task")
            for name, stages in settings.arms.items()
        }
        for name, stages in arms.items():
            if not stages:
                continue
            # The same seed for both arms: the same weights to start from.
            keras.utils.set_random_seed(settings.seed)
            model, _ = _make_model(settings.student, task, teacher, pretrained)
            log_model(run, name, model, settings.student)
            corpus.run(run, name, model)
            arm = Arm(
                name=name,
                model=model,
                teacher=teacher.model,
                material=material,
                seed=settings.seed,
                jit_compile=settings.jit_compile,
            )
            best[name] = arm.run(run, stages)
            for evaluator in others:
                _evaluate_other(run, arm, best[name], evaluator)
            _save(
                model, teacher.tokenizer, run.path / name, settings.data, task
            )
        finish(run, best)


def load_split(task, data_settings, tokenizer, split):
    """Returns a split of a task, encoded for a tokenizer."""
    examples = task.load(split, data_settings.data_dir)
    return task.encode(examples, tokenizer, data_settings.sequence_length)


def _open_task(settings):
    """The task, with the classes that stand in its data."""
    return tasks.get_task(settings.task).for_data(settings.data_dir)


def _check_data(task, settings):
    splits = ("train", settings.dev_split, *task.other_dev_splits)
    task.check_data(dict.fromkeys(splits), settings.data_dir)


def _make_teachers(settings, run):
    """Trains what is given as settings; returns where the teachers are."""
    teacher, pretrained = settings.teacher, settings.pretrained
    if isinstance(teacher, TeacherSettings) or isinstance(
        pretrained, PretrainSettings
    ):
        run.write_config(to_dict(settings), provenance())
    if isinstance(pretrained, PretrainSettings):
        pretrained = run.path / "pretrained_run"
        pretrain(settings.pretrained, pretrained)
    if isinstance(teacher, TeacherSettings):
        teacher = run.path / "teacher_run"
        train_teacher(settings.teacher, teacher)
    return teacher, pretrained


def _load_teacher(source, task):
    teacher = models.load_classifier(source, task.head)
    if not teacher.has_trained_head:
        raise UsageError(
            f"The teacher in {source} is a pretrained encoder whose head for "
            f"task {task.name!r} is untrained. Expected a fine-tuned teacher. "
            f"Make one with: kdkit train-teacher --task {task.name} --model "
            f"{source} --run-dir RUN"
        )
    return teacher


def _check_fit(settings, task, teacher, pretrained, corpus_directory):
    """Builds what the stages will build, so that what does not fit is told.

    Returns the stages on a corpus, ready to run.
    """
    student, _ = _make_model(settings.student, task, teacher, pretrained)
    with all_mistakes() as check:
        with check():
            corpus = prepare_corpus_stages(
                settings,
                student,
                teacher.tokenizer,
                pretrained,
                corpus_directory,
            )
        for stage in settings.stages:
            if stage.objectives and stage.data == "task":
                with check():
                    Distiller(
                        teacher.model,
                        student,
                        stage.build_objectives(),
                        stage.label_weight,
                    )
    return corpus


def _make_model(settings, task, teacher=None, pretrained=None):
    """Builds or loads the model to train; returns it and its tokenizer."""
    if settings.checkpoint is not None:
        loaded = models.load_classifier(settings.checkpoint, task.head)
        tokenizer = loaded.tokenizer
        if teacher is not None:
            _check_vocabularies(tokenizer, teacher.tokenizer, settings)
        return loaded.model, tokenizer
    if settings.copy_from is not None:
        return _copy_blocks(settings, task, teacher, pretrained)
    tokenizer = teacher.tokenizer if teacher else _make_tokenizer(task)
    encoder = models.student(
        settings.sizes(), vocabulary_size=tokenizer.vocabulary_size()
    )
    # Refuses what none can read.
    tokenizer = models.family_tokenizer(encoder, tokenizer)
    return models.add_head(encoder, task.head, tokenizer), tokenizer


def _copy_blocks(settings, task, teacher, pretrained):
    """Builds a model out of blocks of the teacher or of another encoder."""
    if settings.copy_from != "teacher":
        place = settings.copy_from
        if place == "pretrained":
            place = pretrained
        encoder, tokenizer = models.load_encoder(place)
        if teacher is not None:
            _check_vocabularies(tokenizer, teacher.tokenizer, settings)
    elif teacher is None:
        raise UsageError(
            'copy_from="teacher" needs a run with a teacher. Received: a run '
            "without one. Give the place of an encoder."
        )
    else:
        encoder, tokenizer = teacher.model, teacher.tokenizer
    encoder = models.student_of_blocks(encoder, settings.copy_layers)
    return models.add_head(encoder, task.head, tokenizer), tokenizer


def _make_tokenizer(task):
    """The tokenizer that a task's data make; most tasks have none."""
    if task.kind.vocabulary is not None:
        return keras_hub.tokenizers.BertTokenizer(
            list(task.kind.vocabulary), lowercase=False
        )
    if task.generate is None:
        raise UsageError(
            f"A model with random weights has no tokenizer for task "
            f"{task.name!r}. Expected a checkpoint that brings one. Pass "
            "--model, or --set model.checkpoint=PLACE."
        )
    return keras_hub.tokenizers.BertTokenizer(
        data.sentiment_vocabulary(), lowercase=True
    )


def _check_vocabularies(student, teacher, settings):
    """Refuses a student's checkpoint of another vocabulary."""
    if student.get_vocabulary() != teacher.get_vocabulary():
        raise UsageError(
            "Teacher and student do not share their vocabulary, so the same "
            "ids are different words to them. Received: teacher of "
            f"{teacher.vocabulary_size()} pieces, student of "
            f"{student.vocabulary_size()} in "
            f"{settings.checkpoint or settings.copy_from}. Use a "
            "student that was trained with the teacher's tokenizer."
        )


def _load_data(task, settings, tokenizer, seed):
    """Returns the encoded train and dev splits."""
    train = task.load("train", settings.data_dir)
    if settings.max_train_rows and settings.max_train_rows < len(train):
        rows = np.random.default_rng(seed).permutation(len(train))
        train = train.take(np.sort(rows[: settings.max_train_rows]))
    train = task.encode(train, tokenizer, settings.sequence_length)
    dev = load_split(task, settings, tokenizer, settings.dev_split)
    print(
        f"{task.name}: {len(train)} rows to train on, {len(dev)} in "
        f"{settings.dev_split}; "
        f"{train.num_truncated} and {dev.num_truncated} cut to "
        f"{settings.sequence_length} tokens.",
        flush=True,
    )
    return train, dev


def _evaluate_teacher(run, task, model, dev, split):
    """Evaluates the teacher once and logs it; returns the evaluator."""
    logits = predict_logits(make_forward(model), dev)
    metrics = task.compute_metrics(dev.targets, logits)
    if not _evaluated(run, "teacher", split):
        run.log(
            "evaluation",
            arm="teacher",
            stage=None,
            epoch=None,
            split=split,
            examples=len(dev),
            metrics=metrics,
            agreement=None,
        )
        log_model(run, "teacher", model)
    print(f"teacher: {format_metrics(metrics)} on {split}.", flush=True)
    return Evaluator(task, dev, split, teacher_logits=logits)


def _other_dev_splits(task, settings, tokenizer):
    """The dev splits that models are not chosen on, encoded, by name."""
    return {
        split: load_split(task, settings, tokenizer, split)
        for split in task.other_dev_splits
        if split != settings.dev_split
    }


def _evaluate_other(run, arm, best, evaluator):
    """Measures the weights with which an arm ended on another dev split."""
    if _evaluated(run, arm.name, evaluator.split):
        return
    evaluation = evaluator(arm.forward)
    run.log(
        "evaluation",
        arm=arm.name,
        stage=best["stage"],
        epoch=best["epoch"],
        **evaluation,
    )
    print(
        f"{arm.name}: {format_metrics(evaluation['metrics'])} on "
        f"{evaluator.split}.",
        flush=True,
    )


def _evaluated(run, arm, split):
    return any(
        (event["arm"], event["split"]) == (arm, split)
        for event in run.events("evaluation")
    )


def _save(model, tokenizer, path: pathlib.Path, settings, task):
    """Writes a preset directory beside its final name and renames it."""
    if path.exists():
        return
    with staged(path) as partial:
        models.save_preset(
            model, tokenizer, partial, settings.sequence_length, task.head
        )
