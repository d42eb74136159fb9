"""The task that options name: built in, in a TOML file, or tables."""

import dataclasses
import logging
import pathlib

from kdkit.cli.groups import TableOptions
from kdkit.cli.options import reject_given, require
from kdkit.cli.parser import names_in
from kdkit.recipes.stages import EMBEDDING_DATA
from kdkit.runs.directory import CONFIG, read_config
from kdkit.settings import from_dict
from kdkit.tasks import Task, from_table, from_toml, get_task, task_of_table
from kdkit.training.data_settings import DataSettings

_log = logging.getLogger(__name__)

TOML = ".toml"
FILES = ("train", "dev", "test")
COLUMNS = ("text_column", "label_column")


def names_a_table(options) -> bool:
    """Returns whether options name tables or their columns."""
    names = names_in(TableOptions)
    return any(getattr(options, name, None) for name in names)


def chosen_task(options) -> Task:
    """Returns the task that options name."""
    teachers = getattr(options, "teacher", None) or [None]
    teacher = teachers[0] if isinstance(teachers, list) else teachers
    if names_a_table(options):
        reject_given(options, ("task",), "beside a table of your own")
        require(options, *COLUMNS)
        return from_table(
            *(getattr(options, name) for name in FILES),
            text_column=options.text_column,
            label_column=options.label_column,
            labels=options.labels,
            regression=options.regression,
            teacher=teacher,
        )
    if options.task.endswith(TOML):
        return from_toml(options.task, teacher)
    return get_task(options.task)


def chosen_data(options) -> DataSettings:
    """Returns the settings of the data that options name."""
    data_dir = options.data_dir
    if data_dir is not None and pathlib.Path(data_dir).exists():
        data_dir = str(pathlib.Path(data_dir).resolve())
    if options.task is not None or names_a_table(options):
        return DataSettings.of(chosen_task(options), data_dir)
    data = data_of_teacher(options)
    if data is None:
        require(options, "task")
    if data_dir is not None:
        data = dataclasses.replace(data, data_dir=data_dir)
    _log.info(f"Data of {options.teacher[0]}: {_in_words(data)}.")
    return data


def _in_words(data):
    if data.table is None:
        where = "" if data.data_dir is None else f" in {data.data_dir}"
        return f"task {data.task}{where}"
    return ", ".join(
        f"{split} {path}" for split, path in data.table.files.items()
    )


def data_of_teacher(options) -> DataSettings | None:
    """Returns the data of the first teacher's run, `None` if it is no run."""
    teachers = getattr(options, "teacher", None)
    if not isinstance(teachers, list):
        return None
    config = pathlib.Path(teachers[0], CONFIG)
    if not config.is_file():
        return None
    data = _task_data(read_config(teachers[0]))
    return data and dataclasses.replace(data, max_train_rows=None)


def _task_data(config):
    """The data of a run on a task, `None` for other runs."""
    data = config.get("data")
    if not stage_data(config).isdisjoint(EMBEDDING_DATA):
        return None
    if not isinstance(data, dict) or "task" not in data:
        return None
    return from_dict(DataSettings, data)


def stage_data(config: dict) -> set[str]:
    """What the stages of a run learn from, such as "task" or "texts"."""
    stages = config.get("stages")
    return {
        stage["data"]
        for stage in (stages if isinstance(stages, list) else ())
        if isinstance(stage, dict) and isinstance(stage.get("data"), str)
    }


def measured_task(place, options) -> tuple[Task, str | None]:
    """Returns the task to measure a model on, and its data directory."""
    data = _task_data(place.config)
    table = None if data is None else data.table
    if names_a_table(options):
        return _measured_tables(place, options, data), None
    if data is None:
        require(options, "task")
    if data is None or options.task not in (None, data.task):
        task, data_dir = chosen_task(options), options.data_dir
    elif table is not None:
        task, data_dir = task_of_table(table, data.task), options.data_dir
    else:
        task, data_dir = get_task(data.task), options.data_dir or data.data_dir
    return task.for_data(data_dir), data_dir


def _measured_tables(place, options, data):
    """The task of tables that options name, with what the run knows of it."""
    columns = [getattr(options, name) for name in COLUMNS]
    is_of_run = data is not None and data.table is not None
    if is_of_run and not any((*columns, options.task, options.labels)):
        files = {
            name: str(pathlib.Path(path).resolve())
            for name in FILES
            if (path := getattr(options, name)) is not None
        }
        table = dataclasses.replace(data.table, **files)
        return task_of_table(table, data.task)
    reject_given(options, ("task",), "beside a table of your own")
    require(options, *COLUMNS)
    named = {name: getattr(options, name) for name in names_in(TableOptions)}
    return from_table(**named, teacher=place.path)
