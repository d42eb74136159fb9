"""Compares teacher, control and student in one table, with uncertainty."""

import dataclasses
import itertools
import json
import os
import re
import statistics
from collections.abc import Callable, Collection, Sequence

from kdkit.errors import UsageError
from kdkit.reporting.formatting import (
    DOES_NOT_APPLY,
    NOT_RUN,
    metric_format,
    millions,
    significant,
    times,
)
from kdkit.reporting.records import RunRecords
from kdkit.reporting.selection import (
    ExportedFile,
    Setting,
    best_evaluation,
    exported_files,
    model_description,
)
from kdkit.reporting.tables import Column, Row, Table
from kdkit.runs.events import ARMS

NOISE = 2.0  # standard errors
WITHIN_NOISE = "within two standard errors"
SHARES = ("accuracy", "subset_accuracy")
CORRELATIONS = ("matthews_correlation", "pearson", "spearman")
_KERAS = "Keras"
_ANY_FILE = "LiteRT file"
# Titles of metrics and agreement in a terminal.
_SHORT = {
    "matthews_correlation": "Matthews",
    "same_top_class": "agrees",
    "mean_squared_difference": "MSD",
}
_LARGEST_SHARE = 1.5  # of a teacher's metric; larger ones are not shown
_LATENCY = ("median_ms", "p95_ms", "speed_up")
# These do not depend on the seed: only their mean is shown.
_MEAN_ALONE = ("parameters", "size_bytes", *_LATENCY)
# Fields, also of the steps before a run, that do not decide its numbers.
_NOT_COMPARED = ("checkpoint_minutes", "requested")
# The seed in the name of a run's directory, within JSON.
_SEEDED = re.compile(r'([_/-]seed[_-]?)\d+(?=[/"])')


@dataclasses.dataclass(frozen=True)
class _Measure:
    """One kind of number, in one column."""

    key: str
    number: Callable[[float], str]
    column: Column


@dataclasses.dataclass(frozen=True)
class _Line:
    """One model, or one file of it in one latency setting, of one run."""

    arm: str
    label: str
    setting: Setting | None
    values: dict


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


def metric_values(
    group: Sequence[RunRecords], arm: str, metric: str | None = None
) -> list[float]:
    """Returns a metric of an arm from each run that has it."""
    metric = metric or metric_names(group[0])[0]
    if arm == "teacher":
        group = {run.teacher_place: run for run in group}.values()
    evaluations = [best_evaluation(run, arm) for run in group]
    return [
        evaluation.metrics[metric]
        for evaluation in evaluations
        if evaluation is not None and metric in evaluation.metrics
    ]


def comparison_table(runs: Sequence[RunRecords]) -> Table:
    """Returns the table of one run, or of one over several seeds.

    Each arm has a row for its Keras model and one for each exported file and
    latency setting. Arms that were not run have a row too, and so have the
    files of a teacher or student that was not exported.

    Args:
        runs: sequence of `RunRecords` that differ only in their seed. With
            several, cells that depend on the seed are mean ± sample standard
            deviation; a teacher that the runs share counts once; "(2 runs)"
            marks cells that only some of the runs have.
    """
    measures = max((_measures(run) for run in runs), key=len)
    lines = [(run, _lines(run)) for run in runs]
    settings = {}
    for _, of_run in lines:
        for line in of_run:
            found = settings.setdefault((line.arm, line.label), set())
            if line.setting is not None:
                found.add(line.setting)
    all_settings = set().union(*settings.values())
    arms = list(dict.fromkeys(arm for arm, _ in settings))
    has_files = {
        arm for arm, label in settings if label not in (_KERAS, _ANY_FILE)
    }
    rows = []
    for arm, label in sorted(settings, key=lambda key: arms.index(key[0])):
        if label == _ANY_FILE and arm in has_files:
            continue
        contributors = _distinct_runs(lines, arm)
        for setting in sorted(settings[arm, label]) or [None]:
            values = [
                _values(of_run, arm, label, setting)
                for _, of_run in contributors
            ]
            present = [one for one in values if one]
            is_head = label == _KERAS
            called = runs[0].called(arm)
            rows.append(
                Row(
                    called
                    if is_head
                    else _with_setting(label, setting, all_settings),
                    tuple(
                        _cell(
                            measure, [one.get(measure.key) for one in present]
                        )
                        for measure in measures
                    ),
                    parent="" if is_head else called,
                    kind=arm,
                    note=""
                    if len(present) == len(values)
                    else f" ({run_count(present)})",
                )
            )
    columns = tuple(measure.column for measure in measures)
    return Table("model", columns, tuple(rows))


def latency_settings(records: RunRecords) -> list[Setting]:
    """Returns the latency settings of a run's files, sorted."""
    return sorted(
        {
            setting
            for arm in records.arms
            for file in exported_files(records, arm)
            for setting in file.latencies
        }
    )


def files_table(
    files: Sequence[ExportedFile],
    names: Sequence[str],
    metrics: Sequence[str] = (),
) -> Table:
    """Returns exported files with their differences from the Keras models.

    Args:
        files: sequence of `ExportedFile`.
        names: sequence of strings, one for each file.
        metrics: sequence of strings. Those that a file has are columns.
            Defaults to none.
    """
    agreement = Column("same class", "%")
    if any(file.dimensions for file in files):
        agreement = Column("smallest cosine", "of a vector")
    shown = [
        name for name in metrics if any(name in file.metrics for file in files)
    ]
    rows = []
    for file, name in zip(files, names, strict=True):
        difference, same = file.max_abs_difference, file.same_top_class
        cells = [
            file.title,
            file.precision,
            NOT_RUN if file.size_bytes is None else millions(file.size_bytes),
            str(file.sequence_length or "any"),
            NOT_RUN
            if difference is None
            else f"{difference:.1e}".replace("e-0", "e-"),
            _shown("smallest_cosine", file.smallest_cosine, DOES_NOT_APPLY)
            if file.dimensions
            else _shown("same_top_class", same, DOES_NOT_APPLY),
            NOT_RUN if file.examples is None else str(file.examples),
            *(_shown(one, file.metrics.get(one), NOT_RUN) for one in shown),
        ]
        rows.append(Row(name, tuple(cells), kind=file.arm))
    columns = (
        Column("format", is_text=True),
        Column("precision", is_text=True),
        Column("size", "MB"),
        Column("length", "tokens"),
        Column("largest difference", "of an output"),
        agreement,
        Column("compared on", "examples"),
        *(
            Column(metric_format(name).title, metric_format(name).unit)
            for name in shown
        ),
    )
    return Table("file", columns, tuple(rows))


def _shown(metric, value, missing):
    return missing if value is None else metric_format(metric).number(value)


def group_by_seed(runs: Sequence[RunRecords]) -> list[list[RunRecords]]:
    """Returns the runs in groups that differ only in their seed.

    Teachers that differ only in their own seed count as the same.

    Args:
        runs: sequence of `RunRecords`.

    Returns:
        A list of lists of `RunRecords`, in the order of their first runs.

    Raises:
        UsageError: If two runs have the same configuration and seed.
    """
    groups = {}
    for run in runs:
        groups.setdefault(_identity(run), []).append(run)
    for group in groups.values():
        by_seed = {}
        for run in group:
            other = by_seed.setdefault(run.config.training.seed, run)
            if other is not run:
                raise UsageError(
                    f"{other.run_dir} and {run.run_dir} have the same settings "
                    "and seed. Remove one of them."
                )
    return list(_joined(groups))


def common_setting(settings: Collection[Setting]) -> str:
    """Returns the common part of all latency settings, in words."""
    alike = [set(parts) for parts in _parts(settings)]
    return ", ".join(parts.pop() for parts in alike if len(parts) == 1)


def run_count(runs: Sequence) -> str:
    """Returns the number of runs, such as `"2 runs"`."""
    return f"{len(runs)} run" + ("" if len(runs) == 1 else "s")


def config_text(config, leave_out: Collection[str] = ()) -> str:
    """Returns a config as text, equal for runs that are comparable.

    Args:
        config: a run's config.
        leave_out: names of fields, at any depth. Defaults to none.
    """

    def kept(value):
        if not isinstance(value, dict):
            return value
        return {
            key: kept(one)
            for key, one in value.items()
            if key not in (*_NOT_COMPARED, *leave_out)
        }

    is_exact = config.cache is not None and config.cache.precision == "fp32"
    changes = {"cache": None} if is_exact else {}
    # Not sorted: the order of stages counts.
    return json.dumps(kept(config.model_dump(mode="json") | changes))


def standard_error(
    metric: str, values: Sequence[float], examples: int | None
) -> float | None:
    """Returns the standard error of a metric, or of its mean over seeds."""
    if len(values) > 1:
        return statistics.stdev(values) / len(values) ** 0.5
    (value,) = values
    if not examples or not -1 <= value <= 1:
        return None
    if metric in SHARES and value >= 0:
        return (value * (1 - value) / examples) ** 0.5
    if metric in CORRELATIONS:
        return (1 - value**2) / examples**0.5
    return None


def difference_error(
    metric: str,
    first: Sequence[float],
    second: Sequence[float],
    examples: int | None,
    disagreement: float | None = None,
) -> float | None:
    """Returns the standard error of the difference of two models."""
    is_paired = metric in SHARES and len(first) == len(second) == 1
    if is_paired and disagreement is not None and examples:
        distance = first[0] - second[0]
        differ = max(disagreement, abs(distance))
        return ((differ - distance**2) / examples) ** 0.5
    errors = [
        standard_error(metric, values, examples) for values in (first, second)
    ]
    if None in errors:
        return None
    return sum(error**2 for error in errors) ** 0.5


def is_noise(
    metric: str,
    first: Sequence[float],
    second: Sequence[float],
    examples: int | None,
    disagreement: float | None = None,
) -> bool:
    """Whether two models differ by no more than two standard errors."""
    error = difference_error(metric, first, second, examples, disagreement)
    if error is None:
        return False
    distance = statistics.fmean(first) - statistics.fmean(second)
    return abs(distance) <= NOISE * error


def arms_are_alike(
    group: Sequence[RunRecords], first: str, second: str
) -> bool:
    """Whether two arms differ by no more than noise in the main metric."""
    metric = metric_names(group[0])[0]
    values = [metric_values(group, arm) for arm in (first, second)]
    if not all(values):
        return False
    evaluation = best_evaluation(group[0], first)
    disagreement = None
    if second == "teacher" and "same_top_class" in evaluation.agreement:
        disagreement = 1 - evaluation.agreement["same_top_class"]
    return is_noise(metric, *values, evaluation.examples, disagreement)


def _measures(records):
    """The columns of the table, left to right."""
    usual = "perplexity" if records.is_on_text else "accuracy"
    metrics = metric_names(records) or [usual]
    found = []

    def add(key, title, unit, number, **more):
        found.append(_Measure(key, number, Column(title, unit, **more)))

    for name in metrics:
        shown = metric_format(name)
        short = _SHORT.get(name, "")
        add(name, shown.title, shown.unit, shown.number, short=short)
    if metric_format(metrics[0]).higher_is_better:
        percent = metric_format("accuracy").number
        add("share", "of teacher", "%", percent, short="kept")
    for number, name in enumerate(_agreement_names(records)):
        shown = metric_format(name)
        add(
            f"agreement_{name}",
            "agreement" if name == "same_top_class" else shown.title,
            shown.unit,
            shown.number,
            short=_SHORT.get(name, ""),
            is_detail=number > 0,
        )
    add("parameters", "parameters", "M", millions, short="params")
    add("size_bytes", "size", "MB", millions)
    add("median_ms", "median", "ms", significant)
    is_wide = len(metrics) > 1  # without it, 80 columns are enough
    add("p95_ms", "p95", "ms", significant, is_detail=is_wide)
    add("speed_up", "speed-up", "", times)
    return found


def _agreement_names(records):
    """The measures of agreement with the teacher."""
    if records.trains_a_teacher or records.is_on_text:
        return ()
    names = {}
    for arm in ("student", "control"):
        evaluation = best_evaluation(records, arm)
        if evaluation is not None:
            names.update(dict.fromkeys(evaluation.agreement))
    return tuple(names) or ("same_top_class",)


def teacher_share(student: float, teacher: float) -> float | None:
    """Returns the share of the teacher's metric that a student has."""
    if teacher > 0 and 0 <= student <= _LARGEST_SHARE * teacher:
        return student / teacher
    return None


def _lines(records):
    """The rows of one run: teacher, control, student, and their files."""
    keys = [measure.key for measure in _measures(records)]
    teacher = best_evaluation(records, "teacher")
    level = None if teacher is None else teacher.metrics.get(keys[0])
    no_agreement = {
        key: DOES_NOT_APPLY for key in keys if key.startswith("agreement_")
    }
    of_no_file = dict.fromkeys(("size_bytes", *_LATENCY), DOES_NOT_APPLY)
    lines = []

    def add(arm, label, setting, metrics, values):
        row = dict.fromkeys(keys)
        row["parameters"] = model_description(records, arm).parameters
        row.update(metrics)
        row.update((key, values[key]) for key in values if key in row)
        if "share" in row and keys[0] in metrics and level is not None:
            share = teacher_share(metrics[keys[0]], level)
            row["share"] = DOES_NOT_APPLY if share is None else share
        lines.append(_Line(arm, label, setting, row))

    for arm in records.arms:
        evaluation = best_evaluation(records, arm)
        agreement = no_agreement if arm == "teacher" else {}
        if arm != "teacher" and evaluation is not None:
            agreement = {
                f"agreement_{name}": value
                for name, value in evaluation.agreement.items()
            }
        metrics = {} if evaluation is None else evaluation.metrics
        add(arm, _KERAS, None, metrics, {**of_no_file, **agreement})
        files = exported_files(records, arm)
        if not files and arm != "control":
            add(arm, _ANY_FILE, None, {}, no_agreement)
        for file, label in zip(files, _file_labels(files), strict=True):
            values = {**no_agreement, "size_bytes": file.size_bytes}
            for setting in sorted(file.latencies) or [None]:
                timed = _timed(records, file, setting)
                add(arm, label, setting, file.metrics, {**values, **timed})
    return lines


def _timed(records, file, setting):
    """The latency of a file, and its gain over the teacher's fp32 file."""
    if setting is None:
        return {}
    latency = file.latencies[setting]
    values = {"median_ms": latency.median_ms, "p95_ms": latency.p95_ms}
    for other in exported_files(records, "teacher"):
        is_reference = (other.format, other.precision) == ("litert", "fp32")
        if is_reference and setting in other.latencies:
            reference = other.latencies[setting].median_ms
            return {**values, "speed_up": reference / latency.median_ms}
    return {**values, "speed_up": DOES_NOT_APPLY}


def _file_labels(files: list[ExportedFile]):
    """Returns the shortest labels that distinguish the files."""
    rows = [_labels(file) for file in files]
    columns = [*zip(*rows, strict=True)]
    return [
        next(
            (
                label
                for label, column in zip(row, columns, strict=True)
                if column.count(label) == 1
            ),
            row[-1],
        )
        for row in rows
    ]


def _labels(file):
    """The labels of a file, the shortest first."""
    short = f"{file.title} {file.precision}"
    longer = f"{short}, length {file.sequence_length or 'any'}"
    name = file.file.removeprefix("exports/")
    folder = os.path.dirname(name)
    return (
        short,
        longer,
        f"{short}, {folder}" if folder else short,
        f"{longer}, {name}",
    )


def _with_setting(label, setting, settings):
    """A row's label with the parts of its setting that differ in the table."""
    if setting is None:
        return label
    apart = [len(set(parts)) > 1 for parts in _parts(settings)]
    return ", ".join([label, *itertools.compress(setting.parts, apart)])


def _parts(settings):
    return zip(*(setting.parts for setting in settings), strict=True)


def _distinct_runs(lines, arm):
    """Returns runs with their lines; each shared teacher only once."""
    if arm != "teacher":
        return lines
    distinct = {}
    for run, of_run in lines:
        # The same config and seed train the same teacher.
        key = config_text((run.teacher_run or run).config)
        if run.teacher_run is None and not run.trains_a_teacher:
            key = json.dumps(run.config.teacher)
        distinct.setdefault(key, (run, of_run))
    return list(distinct.values())


def _values(lines, arm, label, setting):
    same_file = [
        line for line in lines if (line.arm, line.label) == (arm, label)
    ]
    for line in same_file:
        if line.setting == setting:
            return line.values
    if not same_file:
        return {}
    return {**same_file[0].values, **dict.fromkeys(_LATENCY)}


def _cell(measure, values):
    """A number, its mean over runs, "not run" or a dash."""
    numbers = [value for value in values if value not in (None, DOES_NOT_APPLY)]
    if not numbers or (measure.key == "share" and DOES_NOT_APPLY in values):
        return DOES_NOT_APPLY if DOES_NOT_APPLY in values else NOT_RUN
    text = measure.number(statistics.fmean(numbers))
    if len(numbers) > 1 and measure.key not in _MEAN_ALONE:
        text += f" ± {measure.number(statistics.stdev(numbers))}"
    if len(numbers) < len(values):
        text += f" ({run_count(numbers)})"
    return text


def _identity(run):
    """A run without its seed, in a form that can be compared."""
    teacher = json.dumps(run.config.teachers)
    if run.teacher_run is not None:
        teacher = _identity(run.teacher_run)
    return teacher, config_text(run.config, ("seed", "teacher"))


def _joined(groups):
    """Joins groups whose runs start from runs with their own seeds."""
    joined = {}
    for identity, group in groups.items():
        same = tuple(_SEEDED.sub(r"\1", text) for text in _texts(identity))
        joined.setdefault(same, []).append(group)
    for alike in joined.values():
        runs = [run for group in alike for run in group]
        seeds = {run.config.training.seed for run in runs}
        # With one seed twice, the difference is not the seed.
        yield from [runs] if len(seeds) == len(runs) else alike


def _texts(identity):
    """The texts in nested tuples, one after the other."""
    if isinstance(identity, str):
        return [identity]
    return [text for part in identity for text in _texts(part)]
