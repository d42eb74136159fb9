"""The results of runs: models, their files and latencies, with uncertainty."""

import dataclasses
import itertools
import json
import os
import pathlib
import re
import statistics
from collections.abc import Sequence

from kdkit.reporting.formatting import (
    NONE,
    metric_format,
    millions,
    over_seeds,
    significant,
    times,
)
from kdkit.reporting.records import RunRecords, seedless
from kdkit.reporting.tables import Column, Row, Table
from kdkit.runs.events import (
    ARMS,
    Best,
    Evaluation,
    Export,
    Inputs,
    Latency,
    Model,
    RunFinished,
)

PRECISIONS = ("fp32", "fp16", "int16x8", "int8", "static_int8", "int4")
NOISE = 2.0  # standard errors
WITHIN_NOISE = "within two standard errors"
SHARES = ("accuracy", "subset_accuracy")
CORRELATIONS = ("matthews_correlation", "pearson", "spearman")
_LARGEST_SHARE = 1.5  # of a teacher's metric; larger ones are not shown
# Fields, also of the steps before a run, that do not decide its numbers.
_NOT_COMPARED = ("checkpoint_minutes", "requested", "seed", "teacher")
# The seed in the name of a run's directory, within JSON.
_SEEDED = re.compile(r'([_/-]seed[_-]?)\d+(?=[/"])')
_percent = metric_format("accuracy").number
_AGREEMENT = "agreement_"
# The numbers that are no metrics, in order: how they are written and headed.
_NUMBERS = {
    "share": (_percent, "of teacher", "%"),
    f"{_AGREEMENT}same_top_class": (_percent, "agrees with teacher", "%"),
    "parameters": (millions, "parameters", "M"),
    "size_bytes": (millions, "size", "MB"),
    "median_ms": (significant, "median", "ms"),
    "p95_ms": (significant, "p95", "ms"),
    "speed_up": (times, "speed-up", ""),
    "same_top_class": (_percent, "agrees with Keras", "%"),
    "smallest_cosine": ("{:.3f}".format, "smallest cosine", ""),
    "max_abs_difference": ("{:.1e}".format, "difference from Keras", ""),
}
_DIFFERENCES = ("same_top_class", "smallest_cosine", "max_abs_difference")
_DETAILS = ("share", "p95_ms", *_DIFFERENCES)
_OF_FILES = ("size_bytes", *_DIFFERENCES)
_OF_TIMES = ("median_ms", "p95_ms")


@dataclasses.dataclass(frozen=True)
class Line:
    """One of `results`, of all runs that differ only in their seed.

    `values` are by run, a teacher that runs share is one. `owner` names the
    group of runs, or their teacher, where there are several.
    """

    owner: str
    arm: str
    called: str
    name: str
    setting: tuple[str, ...]
    values: dict[pathlib.Path, dict]

    def of(self, key: str) -> list[float]:
        """Returns a number of each run that has it."""
        found = (one.get(key) for one in self.values.values())
        return [value for value in found if value is not None]


def shown_split(run: RunRecords) -> str:
    """Returns the split for choosing models, which tables show."""
    splits = [event.split for event in run.events_of(Evaluation)]
    return "dev" if "dev" in splits or not splits else splits[-1]


def evaluations_of(run: RunRecords, arm: str) -> list[Evaluation]:
    """Returns the evaluations of one arm, oldest first."""
    return run.events_of(Evaluation, arm=arm, split=shown_split(run))


def best_of(run: RunRecords) -> dict[str, Best]:
    """Returns the final weights by arm, empty before the run's end."""
    finished = run.events_of(RunFinished)
    return finished[-1].best if finished else {}


def best_evaluation(run: RunRecords, arm: str) -> Evaluation | None:
    """Returns the evaluation of final weights, or the last one until then."""
    found, best = evaluations_of(run, arm), best_of(run).get(arm)
    for evaluation in found:
        place = evaluation.stage, evaluation.epoch
        if best is not None and place == (best.stage, best.epoch):
            return evaluation
    if best is not None and best.metrics:  # its line in the log is damaged
        return Evaluation(
            arm=arm,
            stage=best.stage,
            epoch=best.epoch,
            split=best.split or "dev",
            metrics=best.metrics,
            agreement=best.agreement,
            collapsed=best.collapsed,
        )
    if found:
        return found[-1]
    if arm == "teacher" and is_measured_alike(run):
        return best_evaluation(run.teacher_run, run.teacher_run.trained_arm)
    return None


def is_measured_alike(run: RunRecords) -> bool:
    """Whether a run and that of its teacher were measured on the same."""
    teacher = run.teacher_run
    return teacher is not None and teacher.subject == run.subject != ""


def metric_names(run: RunRecords) -> list[str]:
    """Returns the names of the metrics, the main one first."""
    found = [best_evaluation(run, arm) for arm in reversed(run.arms)]
    metrics = [one.metrics for one in found if one is not None]
    metrics += [
        file.metrics for arm in run.arms for file, _ in exported_files(run, arm)
    ]
    return list(dict.fromkeys(name for one in metrics for name in one))


def main_metric(run: RunRecords) -> str:
    """Returns the name of the main metric, empty if nothing was measured."""
    return next(iter(metric_names(run)), "")


def model_of(run: RunRecords, arm: str) -> Model:
    """Returns the sizes of an arm's model, or a `Model` without any."""
    found = run.events_of(Model, arm=arm)
    if not found and arm == "teacher" and run.teacher_run is not None:
        return model_of(run.teacher_run, run.teacher_run.trained_arm)
    return found[-1] if found else Model(arm=arm)


def setting_of(latency) -> tuple[str, str, str, str]:
    """Returns the conditions of a latency: threads, batch, length, machine."""
    threads = f"{latency.threads} thread{'s'[: latency.threads - 1]}"
    if latency.device:
        threads += f" on {latency.device} (Android {latency.android})"
    if latency.delegate:
        threads += f" (delegate {latency.delegate})"
    length = f"length {latency.sequence_length}"
    if latency.room:
        room = " and ".join(map(str, dict.fromkeys(latency.room)))
        length += f" (context length {room})"
    batch = f"batch {latency.batch_size}"
    return threads, batch, length, latency.processor or ""


def exported_files(run: RunRecords, arm: str) -> list[tuple[Export, dict]]:
    """Returns an arm's files, each with its last latency in each setting.

    The metrics of a file that was measured on other data are left out.
    """
    sources = [(run, arm)]
    if arm == "teacher" and run.teacher_run is not None:
        sources.append((run.teacher_run, run.teacher_run.trained_arm))
    files = {
        os.path.abspath(owner.run_dir / event.file): event
        for owner, name in sources
        for event in owner.events_of(Export, arm=name)
    }
    latencies = {path: {} for path in files}
    for owner, _ in sources:
        for event in owner.events_of(Latency):
            path = os.path.abspath(owner.run_dir / event.file)
            # Of this file, not of an earlier one with its name.
            if path in files and event.time >= files[path].time:
                latencies[path][setting_of(event)] = event
    found = []
    for path, event in files.items():
        metrics = event.metrics if is_shown(run, event) else {}
        file = dataclasses.replace(event, metrics=metrics)
        found.append((file, dict(sorted(latencies[path].items()))))
    return sorted(found, key=lambda one: _file_order(one[0]))


def is_shown(run: RunRecords, file: Export) -> bool:
    """Whether a file was measured on what the run's tables show."""
    same_task = file.task in (None, run.task)
    own = (one.digests.get(file.split) for one in run.events_of(Inputs))
    rows = {file.data_digest, *own} - {None}
    return same_task and len(rows) < 2 and file.split == shown_split(run)


def _file_order(file):
    known = {name: place for place, name in enumerate(PRECISIONS)}
    place = known.get(file.precision, len(known))
    length = file.sequence_length or 0
    return file.format != "litert", file.title, place, length, file.file


def results(run: RunRecords) -> dict[tuple, dict]:
    """Returns the numbers of a run's models and files, teacher first.

    Returns:
        A dict of metrics, sizes and times, `None` for those that are not
        known, by arm, name and setting. The name is empty for the Keras model,
        the setting for a file that was not timed.
    """
    found = {}
    for arm in run.arms:
        size = {"parameters": model_of(run, arm).parameters}
        evaluation = best_evaluation(run, arm)
        found[arm, "", ()] = values = {**size}
        if evaluation is not None:
            values |= evaluation.metrics
            for name, value in evaluation.agreement.items():
                if arm != "teacher":
                    values[f"{_AGREEMENT}{name}"] = value
        files = exported_files(run, arm)
        names = [f"{file.title} {file.precision}" for file, _ in files]
        for name, (file, latencies) in zip(names, files, strict=True):
            if names.count(name) > 1:
                name = f"{name}, {file.file.removeprefix('exports/')}"
            values = {**size, **file.metrics}
            values |= {key: getattr(file, key) for key in _OF_FILES}
            for setting, latency in (latencies or {(): None}).items():
                timed = {key: getattr(latency, key, None) for key in _OF_TIMES}
                found[arm, name, setting] = values | timed
    metric = main_metric(run)
    level = found["teacher", "", ()].get(metric)
    references = {
        setting: values["median_ms"]
        for (arm, name, setting), values in found.items()
        if arm == "teacher" and setting and kind_of_file(name) == "LiteRT fp32"
    }
    for (*_, setting), values in found.items():
        # The share of the teacher's metric, and the gain over its fp32 file.
        values["share"] = teacher_share(metric, values.get(metric), level)
        if setting in references:
            time = references[setting]
            values["speed_up"] = time / values["median_ms"]
    return found


def kind_of_file(name: str) -> str:
    """The format and the precision in a name of `results`."""
    return name.partition(",")[0]


def teacher_share(
    metric: str, value: float | None, level: float | None
) -> float | None:
    """Returns the share of the teacher's metric, where it has a meaning."""
    if None in (value, level) or not metric_format(metric).higher_is_better:
        return None
    if level <= 0 or not 0 <= value <= _LARGEST_SHARE * level:
        return None
    return value / level


def lines(runs: Sequence[RunRecords]) -> list[Line]:
    """Returns the results of runs, those of several seeds in one line.

    Models of several groups of runs have the name of their folder.
    """
    groups, found, teachers = group_by_seed(runs), {}, {}
    for group in groups:
        home = group[0].run_dir.resolve()
        for run in group:
            for (arm, *key), values in results(run).items():
                owner, place = home, run.run_dir.resolve()
                if arm == "teacher" and not run.trains_a_teacher:
                    place = run.teacher_place  # which runs may share
                    known = run.teacher_run
                    known = str(place) if known is None else _identity(known)
                    if len(groups) > 1:
                        owner = teachers.setdefault(known, place)
                key = owner, arm, run.called(arm), *key
                if found.get(key, {}).get(place, values) != values:
                    # Measured on other data, or its files in another run.
                    place, key = run.run_dir.resolve(), (home, *key[1:])
                found.setdefault(key, {})[place] = values
    for *key, setting in list(found):
        timed = [one for one in found if [*one[:-1]] == key and one[-1]]
        if timed and not setting:  # files that not all of the runs have timed
            untimed = found.pop((*key, setting))
            for one in timed:
                found[one] = untimed | found[one]
    owners = list(dict.fromkeys(owner for owner, *_ in found))
    names = names_apart(owners) if len(groups) > 1 else [""] * len(owners)
    order = dict(zip(owners, range(len(owners)), strict=True))
    return [
        Line(names[order[owner]], *key, found[owner, *key])
        for owner, *key in sorted(
            found, key=lambda one: (order[one[0]], ARMS.index(one[1]))
        )
    ]


def names_apart(places: Sequence[pathlib.Path]) -> list[str]:
    """Returns for each path the shortest end that no other path has."""
    short = [seedless(place) for place in places]
    if len(set(short)) < len(places):
        short = places
    names = []
    for place in short:
        for count in range(1, len(place.parts) + 1):
            name, ends = place.parts[-count:], [p.parts[-count:] for p in short]
            if ends.count(name) == 1:
                break
        names.append("/".join(name))
    return names


def comparison_table(runs: Sequence[RunRecords]) -> Table:
    """Returns the table of one run or of several.

    Each arm has a row for its Keras model and one for each exported file and
    latency setting; those of arms that were not run are empty.

    Args:
        runs: sequence of `RunRecords`. Those that differ only in their seed
            share rows: cells that depend on the seed are mean ± sample
            standard deviation, a teacher that the runs share counts once, and
            "(2 runs)" marks rows that only some of the runs have.
    """
    found = lines(runs)
    whole = {
        (one.owner, one.arm): len(one.values) for one in found if not one.name
    }
    settings = [one.setting for one in found if one.setting]
    apart = [len(set(parts)) > 1 for parts in zip(*settings, strict=True)]
    columns, rows = _columns(runs, found), []
    for one in found:
        setting = itertools.compress(one.setting, apart)
        name = ", ".join(
            filter(None, (one.owner, one.called, one.name, *setting))
        )
        if len(one.values) < whole.get((one.owner, one.arm), 0):
            name += f" ({run_count(one.values)})"
        cells = (
            _cell(number, one.of(key), len(one.values))
            for key, (number, _) in columns.items()
        )
        rows.append(Row(name, tuple(cells), one.arm))
    headings = tuple(heading for _, heading in columns.values())
    return Table("model", headings, tuple(rows))


def _cell(number, values, count):
    """A mean over runs, marked where only some of them have a number."""
    if not values:
        return NONE
    text = over_seeds(number, values)
    return text if len(values) == count else f"{text} ({run_count(values)})"


def _columns(runs, found):
    """How the numbers that lines have are written and headed, by key."""
    metrics = [name for run in runs for name in metric_names(run)]
    values = [one for line in found for one in line.values.values()]
    agreement = [
        key for one in values for key in one if key.startswith(_AGREEMENT)
    ]
    columns = {}
    for key in dict.fromkeys([*metrics, "share", *agreement, *_NUMBERS]):
        if any(one.get(key) is not None for one in values):
            shown = metric_format(key.removeprefix(_AGREEMENT))
            usual = shown.number, shown.title, shown.unit
            number, *heading = _NUMBERS.get(key, usual)
            is_detail = (
                key in _DETAILS or heading == [*usual[1:]] and key in agreement
            )
            columns[key] = number, Column(*heading, is_detail=is_detail)
    return columns


def run_count(runs: Sequence) -> str:
    """Returns the number of runs, such as `"2 runs"`."""
    return f"{len(runs)} run" + ("" if len(runs) == 1 else "s")


def group_by_seed(runs: Sequence[RunRecords]) -> list[list[RunRecords]]:
    """Returns the runs in groups that differ only in their seed.

    Teachers that differ only in their own seed count as the same.

    Args:
        runs: sequence of `RunRecords`.

    Returns:
        A list of lists of `RunRecords`, in the order of their first runs.
    """
    groups = {}
    for run in runs:
        groups.setdefault(_identity(run), []).append(run)
    found = []
    for group in groups.values():
        seeds = {run.config.training.seed for run in group}
        # With one seed twice, the difference is not the seed.
        has_each_once = len(seeds) == len(group)
        found += [group] if has_each_once else [[run] for run in group]
    return found


def _identity(run):
    """A run without its seed, in a form that can be compared."""
    config = run.config
    teacher = json.dumps(config.teachers)
    if run.teacher_run is not None:
        others = json.dumps(config.teachers[1:])
        teacher = _identity(run.teacher_run) + others
    is_exact = config.cache is not None and config.cache.precision == "fp32"
    changes = {"cache": None} if is_exact else {}
    # Not sorted: the order of stages counts.
    text = json.dumps(_compared(config.model_dump(mode="json") | changes))
    return _SEEDED.sub(r"\1", teacher + text)


def _compared(tree):
    if not isinstance(tree, dict):
        return tree
    return {
        key: _compared(value)
        for key, value in tree.items()
        if key not in _NOT_COMPARED
    }


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
