"""The comparison of teacher, control and student, as rows of numbers."""

import dataclasses
import itertools
from collections.abc import Callable
from collections.abc import Collection

from kdkit.reporting.event_fields import ARMS
from kdkit.reporting.formatting import DOES_NOT_APPLY
from kdkit.reporting.formatting import NOT_RUN
from kdkit.reporting.formatting import metric_format
from kdkit.reporting.formatting import millions
from kdkit.reporting.formatting import significant
from kdkit.reporting.formatting import times
from kdkit.reporting.records import RunRecords
from kdkit.reporting.selection import ExportedFile
from kdkit.reporting.selection import Setting
from kdkit.reporting.selection import best_evaluation
from kdkit.reporting.selection import exported_files
from kdkit.reporting.selection import model_description

KERAS = "Keras"
ANY_FILE = "LiteRT file"


@dataclasses.dataclass(frozen=True)
class Row:
    """One model, or one file of it in one latency setting.

    Args:
        arm: string.
        label: string. `"Keras"`, or what the file is, such as
            `"LiteRT int8"`; unique within the arm.
        setting: optional `Setting` of the row's latency.
        values: dict of column key to number, to `None` where it was not run
            and to `DOES_NOT_APPLY` where there is nothing to run.
    """

    arm: str
    label: str
    setting: Setting | None
    values: dict


@dataclasses.dataclass(frozen=True)
class Column:
    """One kind of number.

    Args:
        key: string. The key in `Row.values`.
        title: string.
        unit: string, may be empty.
        number: function of the value that returns it as text, unit left out.
        short: string. The title where room is scarce. Defaults to `title`.
        detail: boolean. Whether to leave the column out where room is scarce.
            Defaults to `False`.
    """

    key: str
    title: str
    unit: str
    number: Callable[[float], str]
    short: str = ""
    detail: bool = False

    @property
    def heading(self) -> str:
        """The title with its unit."""
        return f"{self.title}, {self.unit}" if self.unit else self.title


def cell_text(column: Column, value) -> str:
    """Returns the text of one cell: a number, "not run" or a dash."""
    if value is None:
        return NOT_RUN
    return value if value == DOES_NOT_APPLY else column.number(value)


def metric_names(records: RunRecords) -> list[str]:
    """Returns the names of the task's metrics, the main one first."""
    names = {}
    for arm in ("student", "teacher", "control"):
        evaluation = best_evaluation(records, arm)
        if evaluation is not None:
            names.update(dict.fromkeys(evaluation.metrics))
    for arm in ARMS:
        for file in exported_files(records, arm):
            names.update(dict.fromkeys(file.metrics))
    return list(names)


def table_columns(records: RunRecords) -> list[Column]:
    """Returns the columns of the comparison, left to right."""
    usual = "perplexity" if records.is_on_text else "accuracy"
    metrics = metric_names(records) or [usual]
    columns = []
    for name in metrics:
        shown = metric_format(name)
        columns.append(Column(name, shown.title, shown.unit, shown.number))
    main = metric_format(metrics[0])
    if main.higher_is_better:
        percent = metric_format("accuracy").number
        columns.append(Column("share", "of teacher", "%", percent, "kept"))
    if not records.trains_a_teacher and not records.is_on_text:
        columns += _agreement_columns(records)
    return columns + [
        Column("parameters", "parameters", "M", millions, short="params"),
        Column("size_bytes", "size", "MB", millions),
        Column("median_ms", "median", "ms", significant),
        Column("p95_ms", "p95", "ms", significant),
        Column("speed_up", "speed-up", "", times),
    ]


def table_rows(records: RunRecords) -> list[Row]:
    """Returns the rows of the comparison: teacher, control, student.

    Each arm has a row for its Keras model and one for each exported file and
    latency setting. An arm that was not run has a row all the same, and so
    have the files of a teacher or student that was not exported.

    Args:
        records: `RunRecords`.

    Returns:
        A list of `Row`, in the order in which a table shows them.
    """
    rows = []
    for arm in records.arms:
        rows.append(_keras_row(records, arm))
        files = exported_files(records, arm)
        if not files and arm != "control":
            values = _no_agreement(records)
            rows.append(_row(records, arm, ANY_FILE, None, {}, values))
        for file, label in zip(files, _file_labels(files), strict=True):
            rows += _file_rows(records, file, label)
    return rows


def latency_settings(rows: list[Row]) -> list[Setting]:
    """Returns the different latency settings of the rows, sorted."""
    return sorted({row.setting for row in rows if row.setting is not None})


def common_setting(settings: Collection[Setting]) -> str:
    """Returns in words what all latency settings share."""
    alike = [set(parts) for parts in _parts(settings)]
    return ", ".join(parts.pop() for parts in alike if len(parts) == 1)


def row_label(
    label: str, setting: Setting | None, settings: Collection[Setting]
) -> str:
    """Returns a row's label with what sets its latency setting apart.

    Args:
        label: string. The row's label.
        setting: optional `Setting`. The row's setting.
        settings: collection of `Setting`. Those of the whole table.
    """
    if setting is None:
        return label
    apart = [len(set(parts)) > 1 for parts in _parts(settings)]
    return ", ".join([label, *itertools.compress(setting.parts, apart)])


def _parts(settings):
    return zip(*(setting.parts for setting in settings), strict=True)


def _keras_row(records, arm):
    evaluation = best_evaluation(records, arm)
    values = dict.fromkeys(
        ("size_bytes", "median_ms", "p95_ms", "speed_up"), DOES_NOT_APPLY
    )
    if arm == "teacher":
        values.update(_no_agreement(records))
    elif evaluation is not None:
        values.update(_agreement_values(evaluation.agreement))
    metrics = {} if evaluation is None else evaluation.metrics
    return _row(records, arm, KERAS, None, metrics, values)


def _file_rows(records, file, label):
    rows = []
    for setting in sorted(file.latencies) or [None]:
        values = {
            **_no_agreement(records),
            "size_bytes": file.size_bytes,
        }
        if setting is not None:
            latency = file.latencies[setting]
            values["median_ms"] = latency.median_ms
            values["p95_ms"] = latency.p95_ms
            reference = _teacher_latency(records, setting)
            if reference is not None:
                values["speed_up"] = reference / latency.median_ms
        rows.append(
            _row(records, file.arm, label, setting, file.metrics, values)
        )
    return rows


def _row(records, arm, label, setting, metrics, values):
    columns = table_columns(records)
    row = {column.key: None for column in columns}
    row["parameters"] = model_description(records, arm).get("parameters")
    row.update((name, metrics[name]) for name in metrics)
    row.update((key, values[key]) for key in values if key in row)
    teacher = best_evaluation(records, "teacher")
    main = columns[0].key
    if "share" in row and main in metrics and teacher is not None:
        level = teacher.metrics.get(main)
        if level is not None:
            # A share of nothing, or of less, says nothing.
            row["share"] = (
                metrics[main] / level if level > 0 else DOES_NOT_APPLY
            )
    return Row(arm, label, setting, row)


def _agreement_columns(records):
    """One column for each measure of agreement with the teacher."""
    names = {}
    for arm in ("student", "control"):
        evaluation = best_evaluation(records, arm)
        if evaluation is not None:
            names.update(dict.fromkeys(evaluation.agreement))
    columns = []
    for name in names or ("same_top_class",):
        shown = metric_format(name)
        key = f"agreement_{name}"
        title, short = shown.title, ""
        if name == "same_top_class":
            title, short = "agreement", "agrees"
        columns.append(
            Column(key, title, shown.unit, shown.number, short, bool(columns))
        )
    return columns


def _agreement_values(agreement):
    return {f"agreement_{name}": agreement[name] for name in agreement}


def _no_agreement(records):
    """Agreement where there is none to measure: the teacher's own, a file's."""
    columns = _agreement_columns(records)
    return {column.key: DOES_NOT_APPLY for column in columns}


def _teacher_latency(records, setting):
    for file in exported_files(records, "teacher"):
        if file.format == "litert" and file.precision == "fp32":
            latency = file.latencies.get(setting)
            if latency is not None:
                return latency.median_ms
    return None


def _file_labels(files: list[ExportedFile]):
    """Names files by what they are, as briefly as tells them apart."""
    short = [f"{file.title} {file.precision}" for file in files]
    longer = [
        f"{label}, length {file.sequence_length or 'any'}"
        for file, label in zip(files, short, strict=True)
    ]
    longest = [
        f"{label}, {file.file}"
        for file, label in zip(files, longer, strict=True)
    ]
    labels = []
    for names in zip(short, longer, longest, strict=True):
        for name, column in zip(names, (short, longer, longest), strict=True):
            if column.count(name) == 1:
                labels.append(name)
                break
        else:
            labels.append(names[-1])
    return labels
