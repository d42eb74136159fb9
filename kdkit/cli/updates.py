"""Gives runs on small tables enough updates."""

import dataclasses
import math

from kdkit import data
from kdkit.runs.settings import TeacherSettings
from kdkit.tasks import get_task
from kdkit.training.candidate_settings import CandidatesSettings
from kdkit.training.embedding_settings import TextsSettings
from kdkit.training.translation_settings import TranslationsSettings

# A recipe's epochs are for the papers' tables: docs/measured/small_tables.md.
LEAST_UPDATES, MOST_EPOCHS = 1000, 50


def with_enough_updates(settings):
    """Returns settings whose stages on a small table have more epochs."""
    changes = {}
    teacher = getattr(settings, "teacher", None)
    if isinstance(teacher, TeacherSettings):
        changes["teacher"] = with_enough_updates(teacher)
    has_more = any(
        getattr(settings, name, None) for name in ("augmented", "unlabeled")
    )
    num_rows = None if has_more else count_rows(settings.data)
    if num_rows:
        changes["stages"] = tuple(
            dataclasses.replace(stage, epochs=_epochs(stage, num_rows))
            if stage.data == "task"
            else stage
            for stage in settings.stages
        )
    return dataclasses.replace(settings, **changes)


def _epochs(stage, num_rows):
    """The stage's epochs, or more of them for a small table."""
    updates = math.ceil(num_rows / stage.batch_size)
    enough = math.ceil(LEAST_UPDATES / updates)
    return max(stage.epochs, min(enough, MOST_EPOCHS))


def count_rows(settings) -> int | None:
    """Returns about how many training examples there are, `None` if unknown."""
    if isinstance(
        settings, TextsSettings | TranslationsSettings | CandidatesSettings
    ):
        return _count_lines(settings.files)
    if settings.table is not None:
        count = len(settings.table.read("train"))
        return min(count, settings.max_train_rows or count)
    task = get_task(settings.task)
    if settings.data_dir is None or not isinstance(
        task.layout, data.TableLayout
    ):
        return settings.max_train_rows
    count = _count_lines(task.layout.paths("train", settings.data_dir))
    if count is None:
        return None
    count -= task.layout.has_header
    return min(count, settings.max_train_rows or count)


def _count_lines(paths):
    """The line ends in files, `None` if one is missing."""
    count = 0
    try:
        for path in paths:
            with open(path, "rb") as file:
                blocks = iter(lambda file=file: file.read(1 << 20), b"")
                count += sum(block.count(b"\n") for block in blocks)
    except OSError:  # a missing file is reported when it is read
        return None
    return count
