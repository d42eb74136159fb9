"""Tasks made from a user's own tables, in Python and from a TOML file."""

import dataclasses
import pathlib
import tomllib
from collections.abc import Sequence

from kdkit import models
from kdkit.data.own_tables import LabeledTable
from kdkit.data.tables import split_folders
from kdkit.errors import unknown
from kdkit.settings import from_dict
from kdkit.tasks.kinds import Regression, SingleLabel
from kdkit.tasks.task import Task

LENGTH = 128  # tokens to which the texts of own tables are truncated
# The metrics of a task with classes or with scores; the first two are usual.
FOR_CLASSES = ("accuracy", "macro_f1", "f1", "matthews_correlation")
FOR_SCORES = ("pearson", "spearman")
# Names of files that describe a split and not the data.
SPLITS = ("train", "training", "dev", "test", "data")
# The names of the dev split in saved datasets.
DEV_NAMES = ("validation", "dev", "valid", "val")


def from_table(
    train: str | None = None,
    dev: str | None = None,
    test: str | None = None,
    *,
    text_column: str | Sequence[str],
    label_column: str,
    regression: bool = False,
    labels: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    name: str | None = None,
    teacher: str | None = None,
) -> Task:
    """Makes a task from tables, and reads them to find the labels.

    A table is a CSV, TSV, JSON lines or Parquet file, or a folder that
    `save_to_disk` of Hugging Face `datasets` wrote; see
    `kdkit.data.open_table`. A folder with several splits as `train` also has
    dev and test.

    Args:
        train: string or path of the training examples. May be `None` if the
            task is only for measuring. Defaults to `None`.
        dev: string or path. Defaults to `None`: a tenth of `train` is set
            aside, stratified by label, the same examples in every run.
        test: string or path. Defaults to `None`. May lack the labels.
        text_column: string, the heading of the texts, or a sequence of two
            strings for pairs.
        label_column: string, the heading of the labels.
        regression: bool. Whether labels are scores. Defaults to `False`.
        labels: sequence of strings, all words of the label column in the order
            of the class numbers. Defaults to the teacher's order, or else to
            the words in `train`, sorted.
        metrics: sequence of keys of `kdkit.tasks.metrics.METRICS`. The first
            one chooses models. Defaults to accuracy and macro F1, for scores
            to the correlations of Pearson and Spearman.
        name: string. Defaults to the name of the first file without its
            suffix.
        teacher: string or path of a classifier. If the names of its classes
            are known, they are the names and the order of the labels. Defaults
            to `None`.

    Returns:
        `Task`. Its splits are read by `task.load("train")` and so on.

    Raises:
        UsageError: (a `ValueError`) for labels, columns, rows or metrics that
            do not fit.
    """
    columns = (text_column,) if isinstance(text_column, str) else text_column
    folders = split_folders(train) if train is not None else {}
    if folders:
        name = name or pathlib.Path(train).resolve().name
        dev = dev or next(filter(None, map(folders.get, DEV_NAMES)), None)
        test = test or folders.get("test")
        train = folders.get("train", train)
    known = FOR_SCORES if regression else FOR_CLASSES
    for metric in metrics or ():
        if metric not in known:
            raise unknown("metric", metric, known)
    names = models.find(teacher).class_names if teacher else None
    paths = {"train": train, "dev": dev, "test": test}
    table = LabeledTable(
        text_columns=tuple(columns),
        label_column=label_column,
        labels=None if labels is None else tuple(map(str, labels)),
        regression=regression,
        metrics=tuple(metrics or ()),
        **{
            split: path and str(pathlib.Path(path).resolve())
            for split, path in paths.items()
        },
    ).completed(names)
    return task_of_table(table, name or table_name(table))


def from_toml(path, teacher: str | None = None) -> Task:
    """Makes a task from a TOML file that describes tables.

    The fields are the arguments of `from_table`; `text_columns` is the same as
    `text_column`. Paths are relative to the file.

    Args:
        path: string or path of the file.
        teacher: as in `from_table`. Defaults to `None`.

    Returns:
        `Task`, by default with the name of the file without its suffix.

    Raises:
        UsageError: (a `ValueError`) as `from_table`, and for an unknown field.
    """
    path = pathlib.Path(path)
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    if "text_columns" in values and "text_column" not in values:
        values["text_column"] = values.pop("text_columns")
    fields = vars(from_dict(_TomlTask, values))
    for split in ("train", "dev", "test"):
        if fields[split] is not None:
            fields[split] = path.parent / fields[split]
    fields["name"] = fields["name"] or path.stem
    return from_table(**fields, teacher=teacher)


@dataclasses.dataclass(frozen=True)
class _TomlTask:
    """The fields of a task's TOML file."""

    text_column: str | tuple[str, ...]
    label_column: str
    train: str | None = None
    dev: str | None = None
    test: str | None = None
    regression: bool = False
    labels: tuple[str | int, ...] | None = None
    metrics: tuple[str, ...] | None = None
    name: str | None = None


def table_name(table: LabeledTable) -> str:
    """Returns the name of a table's task: that of its first file."""
    path = pathlib.Path(next(iter(table.files.values())))
    if path.stem.lower() in SPLITS and path.parent.name:
        return path.parent.name
    return path.stem


def task_of_table(table: LabeledTable, name: str) -> Task:
    """Returns the task of a table whose labels are known.

    Args:
        table: `kdkit.data.LabeledTable`.
        name: string. The name in logs and reports.
    """
    if table.regression:
        kind, known = Regression(), FOR_SCORES
    else:
        kind = SingleLabel(table.class_names or table.labels)
        known = FOR_CLASSES
    metrics = table.metrics or known[:2]
    return Task(
        name,
        kind,
        metrics,
        metrics[0],
        num_texts=len(table.text_columns),
        longest=LENGTH,
        table=table,
    )
