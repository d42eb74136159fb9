"""Filling a teacher cache before any run."""

import tempfile

from kdkit.errors import all_mistakes
from kdkit.training.caching import TeacherCaches
from kdkit.training.evaluation import Evaluator
from kdkit.training.fitting import check_fit
from kdkit.training.loaded_rows import load_rows
from kdkit.training.making import load_teachers
from kdkit.training.making import make_model
from kdkit.training.preparing import check_transfer
from kdkit.training.preparing import known_sizes
from kdkit.training.preparing import prepare_copies
from kdkit.training.run_settings import DistillSettings
from kdkit.training.stages import check_objectives
from kdkit.training.task_data import open_task


def fill_cache(
    settings: DistillSettings, part: tuple[int, int] | None = None
) -> TeacherCaches:
    """Runs the teachers over all rows that a distillation reads.

    Args:
        settings: `DistillSettings` with `cache`.
        part: tuple of ints i, n or `None`. Run them over part i, from 0, of n
            parts of the rows alone. Defaults to `None`.

    Returns:
        The `TeacherCaches`.

    Raises:
        UsageError: (a `ValueError`) for the user's mistakes.
        RunError: if the disk has too little room.
    """
    check_objectives(settings)
    stages = [
        stage
        for stage in settings.stages
        if stage.objectives and stage.data == "task"
    ]
    task = open_task(settings.data)
    places = [settings.teacher, *settings.more_teachers]
    with all_mistakes() as check:
        with check():
            check_transfer(settings, task)
        with check():
            teachers = load_teachers(places, task)
    if settings.augmented is not None:
        prepare_copies(settings, task)
    pretrained = settings.pretrained
    student, _ = make_model(
        known_sizes(settings), task, teachers[0], pretrained
    )
    check_fit(settings, student, teachers)
    caches = TeacherCaches(settings.cache, teachers, places, part)
    with tempfile.TemporaryDirectory() as folder:
        rows = load_rows(settings, task, teachers[0].tokenizer, folder)
        evaluator = Evaluator(task, rows.dev, settings.data.dev_split)
        caches.measure_file(evaluator)
        material = rows.material(evaluator)
        weights = settings.teacher_weights or None
        caches.expect(stages, student, weights)
        for stage in stages:
            features = caches.features(stage, student, weights)
            material.training_batches(stage, settings.seed, 0, features)
            material.validation_batches(stage, features)
    return caches
