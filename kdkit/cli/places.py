"""Finds a MODEL of the command line, and the task to measure it on."""

import dataclasses
import os
import pathlib

from kdkit import models, tasks
from kdkit.cli.verb_flags import TABLE, reject_given, require, unread
from kdkit.config.data import TaskData
from kdkit.config.runs import AnyRun
from kdkit.errors import UsageError
from kdkit.runs import inputs
from kdkit.runs.directory import CONFIG, EVENTS, Run
from kdkit.runs.steps import model_place
from kdkit.tasks import Task

ARMS = (
    "student",
    "teacher",
    "control",
    "encoder",
    "decoder",
    "encoder_decoder",
)
COLUMNS = ("text_column", "label_column")


@dataclasses.dataclass(frozen=True)
class Place:
    """The place of a MODEL.

    Args:
        path: path of the preset directory or file, or a preset's name as a
            path.
        run: `Run` that the model belongs to, or `None`.
        arm: string or `None`. The model's name in the run.
        config: the run's config, for a reranker that of its own run; `None`
            without a run.
        is_from_elsewhere: bool. Whether the run only reads the model, as its
            teacher. Defaults to `False`.
        reranker_run: `Run` of a reranker, if that is the model and it has one.
            Defaults to `None`.
    """

    path: pathlib.Path
    run: Run | None = None
    arm: str | None = None
    config: AnyRun | None = None
    is_from_elsewhere: bool = False
    reranker_run: Run | None = None

    @property
    def pooling(self) -> str | None:
        """The pooling that the run's user chose for a teacher, if any."""
        if not self.is_from_elsewhere:
            return None
        return getattr(self.config, "pooling", None)

    @property
    def data(self):
        """The run's data, `None` for running text and without a run."""
        return getattr(self.config, "data", None)

    @property
    def task_data(self) -> TaskData | None:
        """The data of a run on a task."""
        return self.data if isinstance(self.data, TaskData) else None

    @property
    def corpus(self):
        """The text of a run on text, `None` for others."""
        is_on_text = self.config is not None and self.config.kind == "text"
        return self.config.corpus if is_on_text else None

    @property
    def length(self) -> int | None:
        """The largest length of the run's data, in tokens."""
        return getattr(self.data, "sequence_length", None)

    @property
    def has_reranker(self) -> bool:
        """Whether the run's teacher scores pairs, for a student of vectors."""
        return getattr(self.data, "kind", None) == "candidates"

    def require_same_rows(self, split, rows, options) -> None:
        """Requires that a split is that of the run, if its data is read."""
        run = self.reranker_run or self.run
        is_named = options.task or options.data_dir or names_a_table(options)
        if run is not None and not is_named:
            inputs.require_unchanged(run, {split: inputs.rows_digest(rows)})

    @property
    def label(self) -> str:
        """The arm, or the name of the file or directory without its suffix."""
        return self.arm or self.path.resolve().stem


def is_path(model: str) -> bool:
    """Returns whether a model's name is a path, and not a preset."""
    path = pathlib.Path(model)
    # Names of presets may also have dots, such as qwen2.5_0.5b_en.
    is_file = path.suffix[1:].isalpha()
    has_folder = any(mark in str(model) for mark in {"/", os.sep})
    return is_file or (has_folder and "://" not in str(model))


def locate(model: str, arm: str | None = None) -> Place:
    """Finds a model and the run that it belongs to."""
    path = pathlib.Path(model)
    if is_path(model) and not path.exists():
        raise UsageError(f"{path} does not exist.")
    folder = _find_run(path)
    if folder is None:
        if arm is not None:
            raise unread("--arm", f"for {path}, which is in no run")
        return Place(path)
    run = Run(folder)
    if path.resolve() != folder:
        return Place(path, run, arm or _arm_name(path, folder), run.config)
    available = {name: path / name for name in ARMS if (path / name).exists()}
    lost = run.lost_arms
    arm = arm or next((n for n in ARMS if n in available or n in lost), None)
    if arm in available:
        return Place(available[arm], run, arm, run.config)
    if arm == "teacher" and run.config.teachers:
        return teacher_of(Place(path, run, arm, run.config))
    raise UsageError(
        f"The run in {path} has no model {arm or 'yet'}. Available: "
        f"{', '.join(available) or 'none'}."
    )


def teacher_of(place: Place) -> Place:
    """Returns the place of a run's teacher, as one of the run's models."""
    config = place.run.config
    source = model_place(config.teachers[0], config, place.run.path)
    found = locate(source)
    inputs.require_unchanged(
        place.run, {"teacher": inputs.model_digest(source)}
    )
    return dataclasses.replace(
        found,
        run=place.run,
        arm="teacher",
        # A reranker's task and lengths are not those of its student.
        config=found.config if place.has_reranker else config,
        is_from_elsewhere=True,
        reranker_run=found.run if place.has_reranker else None,
    )


def described_at(place: Place, source: str | None):
    """Returns where the tokenizer and the labels of an exported file are.

    That is `source`, which the user gave, or the run. The teacher of a sentence
    encoder, whose tokens may be others, has its own.
    """
    if source is not None or place.run is None:
        return source
    if place.arm == "teacher" and place.run.config.kind == "embedder":
        return teacher_of(place).path
    return place.run.path


def _find_run(path):
    """The run directory that is `path` or holds it."""
    if not path.exists():
        return None
    path = path.resolve()
    for candidate in (path, *path.parents[:3]):  # 3 for a teacher's file
        if (candidate / EVENTS).is_file() and (candidate / CONFIG).is_file():
            return candidate
    return None


def _arm_name(path, run_path):
    """The arm in the name of a path inside a run, its first word."""
    first = path.resolve().relative_to(run_path).parts
    words = {first[0].split(".")[0], path.name.split("-")[0]}
    found = [arm for arm in ARMS if arm in words]
    return found[0] if found else None


def names_a_table(options) -> bool:
    """Returns whether options name tables or their columns."""
    return any(getattr(options, name) for name in TABLE)


def measured_task(place, options) -> tuple[Task, str | None]:
    """Returns the task to measure a model on, and its data directory."""
    of_run, folder = place.task_data, options.data_dir
    if names_a_table(options):
        return _measured_tables(place, options), folder
    if of_run is None or options.task not in (None, of_run.task):
        require(options, "task")
        if options.task.endswith(".toml"):
            task = tasks.from_toml(options.task, _classes_at(place, options))
        else:
            task = tasks.get_task(options.task)
        return task.for_data(folder), folder
    return task_of(of_run, folder)


def task_of(config: TaskData, data_dir=None) -> tuple[Task, str | None]:
    """Returns the task of a run's data, and the folder with its files."""
    if config.table is not None:
        return tasks.task_of_table(config.table, config.task), data_dir
    folder = data_dir or config.data_dir
    return tasks.get_task(config.task).for_data(folder), folder


def _measured_tables(place, options):
    """The task of tables that options name, with what the run knows of it."""
    named, of_run = {name: getattr(options, name) for name in TABLE}, None
    if place.task_data is not None:
        of_run = place.task_data.table
    is_described = any((*map(named.get, COLUMNS), options.task, options.labels))
    if of_run is not None and not is_described:
        files = {
            name: str(pathlib.Path(named[name]).resolve())
            for name in ("train", "dev", "test")
            if named[name] is not None
        }
        table = dataclasses.replace(of_run, **files)
        return tasks.task_of_table(table, place.task_data.task)
    reject_given(options, ("task",), "with a table of your own")
    require(options, *COLUMNS)
    return tasks.from_table(**named, teacher=_classes_at(place, options))


def _classes_at(place, options):
    """Where the names of a model's classes are."""
    if models.find(place.path).class_names:
        return place.path
    return described_at(place, options.tokenizer)


def require_labels(rows, split) -> None:
    """Requires that a split has labels, unlike GLUE's test sets."""
    if rows.labels is None:
        raise UsageError(
            f"Split {split!r} has no labels, so it has no metrics."
        )
