"""Tasks made from a user's own tables, in Python and from a TOML file."""

import dataclasses
import pathlib
import tomllib
from collections.abc import Sequence

from kdkit import models
from kdkit.data.labeled_tables import LabeledTable
from kdkit.data.tables import split_folders
from kdkit.errors import UsageError, all_mistakes
from kdkit.settings import from_dict
from kdkit.tasks.kinds import Regression, SingleLabel
from kdkit.tasks.task import Task

LENGTH = 128  # tokens to which the texts of own tables are truncated
OF_CLASSES = ("accuracy", "macro_f1")
OF_SCORES = ("pearson", "spearman")
# Metrics that are for other kinds of tasks or another number of classes.
FOR_CLASSES = ("accuracy", "macro_f1", "f1", "matthews_correlation")
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
    """Makes a task from tables, and reads them to find mistakes and labels.

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
        UsageError: (a `ValueError`) with all mistakes in the files.
    """
    columns = (text_column,) if isinstance(text_column, str) else text_column
    folders = split_folders(train) if train is not None else {}
    if folders:
        name = name or pathlib.Path(train).resolve().name
        dev = dev or next(
            (folders[one] for one in DEV_NAMES if one in folders), None
        )
        test = test or folders.get("test")
        train = folders.get("train", train)
    paths = {"train": train, "dev": dev, "test": test}
    missing = [
        f"{path} does not exist."
        for path in paths.values()
        if path is not None and not pathlib.Path(path).exists()
    ]
    table = None
    with all_mistakes() as check:
        with check():
            if missing:
                raise UsageError(
                    f"{' '.join(missing)} Expected a table. Check the path."
                )
        with check():
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
            )
        with check():
            _require_metrics(metrics or (), regression)
        if table is not None and not missing:
            with check():
                names = models.class_names_at(teacher) if teacher else None
                table = table.completed(names)
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
        UsageError: (a `ValueError`) with all mistakes in the file and in the
            tables.
    """
    path = pathlib.Path(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"Cannot read {path}: {error.strerror}. Expected a task as TOML."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}.") from error
    if "text_columns" in values and "text_column" not in values:
        values["text_column"] = values.pop("text_columns")
    try:
        fields = vars(from_dict(_TomlTask, values))
    except UsageError as error:
        raise UsageError(
            "\n".join(f"{path}: {line}" for line in str(error).splitlines())
        ) from error
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
    kind, usual = Regression(), OF_SCORES
    if not table.regression:
        kind = SingleLabel(table.class_names or table.labels)
        usual = OF_CLASSES
    metrics = table.metrics or usual
    return Task(
        name=name,
        kind=kind,
        metrics=metrics,
        primary_metric=metrics[0],
        num_texts=len(table.text_columns),
        longest=LENGTH,
        table=table,
    )


def _require_metrics(metrics, regression):
    known = OF_SCORES if regression else FOR_CLASSES
    unknown = [name for name in metrics if name not in known]
    if unknown:
        what = "scores" if regression else "classes"
        raise UsageError(
            f"metrics: expected some of {', '.join(known)} for {what}. "
            f"Received: {', '.join(map(repr, unknown))}."
        )
