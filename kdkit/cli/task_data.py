"""The task that options name: built in, in a TOML file, or tables."""

import copy
import dataclasses
import logging
import pathlib

from kdkit.cli.groups import TableOptions
from kdkit.cli.parser import given_flags, names_in
from kdkit.data import open_table
from kdkit.errors import UsageError, all_mistakes, shortened
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
    return bool(table_flags(options))


def table_flags(options) -> list[str]:
    """Returns the flags about tables that the user passed."""
    names = [
        name
        for name in names_in(TableOptions)
        if getattr(options, name, None) not in (None, False)
    ]
    return given_flags(options, names)


def names_data(options) -> bool:
    """Returns whether options name data, or a teacher whose run has data."""
    return (
        options.task is not None
        or names_a_table(options)
        or data_of_teacher(options) is not None
    )


def validate_data(options) -> None:
    """Validates the options about data, and reads the named tables."""
    if options.task is None and not names_a_table(options):
        return
    present = copy.copy(options)
    for name in FILES:
        # Missing paths are reported before any option is used.
        path = getattr(options, name)
        if path is not None and not pathlib.Path(path).exists():
            setattr(present, name, None)
    with all_mistakes() as check:
        with check():
            _validate_tables(options)
        is_table = present.train is not None and None not in (
            options.text_column,
            options.label_column,
        )
        if is_table if names_a_table(options) else _is_task(options.task):
            with check():
                chosen_task(present)


def _is_task(name):
    """Whether `--task` is no table, which `_validate_tables` rejects."""
    return name.endswith(TOML) or not pathlib.Path(name).exists()


def _validate_tables(options):
    """Rejects table options that clash or are incomplete."""
    flags = table_flags(options)
    if options.task is not None and not _is_task(options.task):
        raise UsageError(
            f"--task names a built-in task or a TOML file. Received: the table "
            f"{options.task}. Pass --train {options.task} instead."
        )
    if not flags:
        if str(options.task).endswith(TOML) and options.data_dir is not None:
            raise UsageError(
                "--data-dir is for the built-in tasks. Received: a task in "
                f"{options.task}, which names its files. Remove --data-dir."
            )
        return
    with all_mistakes() as check:
        with check():
            if options.task is not None:
                raise UsageError(
                    "--task names a built-in task or a TOML file. Options for "
                    f"your own table: {', '.join(flags)}. Received: both. "
                    "Remove one of them."
                )
            if options.train is None:
                verb = "needs" if len(flags) == 1 else "need"
                raise UsageError(
                    f"{', '.join(flags)} {verb} --train. Received: none."
                )
        with check():
            if options.data_dir is not None:
                raise UsageError(
                    "--data-dir is for the built-in tasks. Received: "
                    f"{flags[0]} too. Remove --data-dir."
                )
        with check():
            _require_columns(options)


def _require_columns(options):
    """Requires the options for columns, and reports the table's columns."""
    missing = [
        f"--{name.replace('_', '-')}"
        for name in COLUMNS
        if getattr(options, name) is None
    ]
    path = next(
        (getattr(options, name) for name in FILES if getattr(options, name)),
        None,
    )
    if not missing or path is None:
        return
    found = ""
    if pathlib.Path(path).is_file():
        headings = open_table(path).headings
        found = (
            f" {path} has the columns {', '.join(map(shortened, headings))}."
        )
    raise UsageError(f"Missing: {' and '.join(missing)}.{found}")


def chosen_task(options) -> Task:
    """Returns the task that options name."""
    teachers = getattr(options, "teacher", None) or [None]
    teacher = teachers[0] if isinstance(teachers, list) else teachers
    if names_a_table(options):
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
    if data_dir is not None:
        if data.table is not None:
            raise UsageError(
                "--data-dir is for the built-in tasks. Received: a teacher on "
                f"the table {data.table.train}. Remove --data-dir."
            )
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
    if options.task is None and data is None:
        raise UsageError(
            "Missing: --task NAME, or --test FILE with --text-column and "
            f"--label-column, because {place.path} is not in the directory of "
            "a run on a task, whose settings name the data."
        )
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
    if options.train is None and options.task is None:
        _require_columns(options)
    else:
        _validate_tables(options)
    named = {name: getattr(options, name) for name in names_in(TableOptions)}
    return from_table(**named, teacher=place.path)
