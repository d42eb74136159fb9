"""A run in words: its title and one sentence on the outcome."""

from kdkit.reporting.formatting import metric_format
from kdkit.reporting.formatting import times
from kdkit.reporting.formatting import words
from kdkit.reporting.records import SEED
from kdkit.reporting.records import STEP
from kdkit.reporting.records import RunRecords
from kdkit.reporting.selection import PRECISIONS
from kdkit.reporting.selection import best_evaluation
from kdkit.reporting.selection import exported_files
from kdkit.reporting.selection import model_description
from kdkit.reporting.tables import metric_names

_DEPTHS = ("num_layers", "encoder_num_layers", "decoder_num_layers")


def task_name(records: RunRecords) -> str:
    """Returns the name of the task, empty where the settings name none."""
    return str((records.config.get("data") or {}).get("task") or "")


def run_title(records: RunRecords) -> str:
    """Returns what was run, such as `"tinybert on sst2"`."""
    if records.is_on_pairs:
        languages = " to ".join(records.config["corpus"]["languages"])
        plain, data = "training", f"{languages} pairs".strip()
    elif records.is_on_text:
        plain, data = "pretraining", "text"
    else:
        plain, data = "teacher", task_name(records)
    what = records.config.get("recipe") or "run"
    if records.trains_a_teacher:
        what = plain
    return f"{what} on {data}" if data else str(what)


def model_title(records: RunRecords) -> str | None:
    """Returns what the trained model is called, such as `"BERT 4×312"`.

    One that goes on from another run is called as that, but where the run's
    name is that of a seed or of a step, which say nothing: then its sizes.
    """
    description = model_description(records, records.trained_arm)
    name = description.get("name")
    if name and (SEED.fullmatch(name) or STEP.fullmatch(name)):
        depths = [
            str(description[key]) for key in _DEPTHS if key in description
        ]
        depth = "+".join(depths)
        return f"{depth}×{description.get('hidden_dim')}"
    return name


def stage_title(arm: str, stage: str) -> str:
    """Returns a stage in words, such as `"Student, intermediate layer"`."""
    return f"{arm.capitalize()}, {words(stage)}"


def verdict(records: RunRecords) -> str:
    """Returns the outcome of a run in one sentence, from its numbers.

    Args:
        records: `RunRecords`.

    Returns:
        A sentence such as "The student keeps 94.4 % of the teacher's
        accuracy (83.8 % of 88.8 %) at 63 % of the parameters; its int8 file
        is 31× faster and 29× smaller than the teacher's fp32 file; the same
        student without a teacher: 78.3 %, 5.5 points less."
    """
    metrics = metric_names(records)
    if not metrics:
        return "Nothing has been evaluated yet."
    metric = metrics[0]
    if records.trains_a_teacher:
        return _join([_teacher_level(records, metric), _file_gain(records)])
    return _join(
        [
            _student_level(records, metric),
            _file_gain(records),
            "" if records.is_on_text else _control_level(records, metric),
        ]
    )


def _join(parts):
    return "; ".join(part for part in parts if part) + "."


def _level(records, arm, metric):
    evaluation = best_evaluation(records, arm)
    return None if evaluation is None else evaluation.metrics.get(metric)


def _teacher_level(records, metric):
    called = records.called("teacher")
    evaluation = best_evaluation(records, "teacher")
    if evaluation is None or metric not in evaluation.metrics:
        return f"The {called} was not evaluated"
    shown = metric_format(metric)
    level = shown.text(evaluation.metrics[metric])
    text = f"The {called} reaches {level} {shown.title}"
    if evaluation.examples is not None:
        kind = f"{evaluation.split} examples"
        if records.is_on_text:
            kind = "rows held out"
        text += f" on {evaluation.examples} {kind}"
    return text


def _student_level(records, metric):
    student = _level(records, "student", metric)
    teacher = _level(records, "teacher", metric)
    shown = metric_format(metric)
    if student is None:
        return "The student was not evaluated"
    if teacher is None:
        text = f"The student reaches {shown.text(student)} {shown.title}"
    elif shown.higher_is_better and teacher > 0:
        text = (
            f"The student keeps {100 * student / teacher:.1f} % of the "
            f"teacher's {shown.title} "
            f"({shown.text(student)} of {shown.text(teacher)})"
        )
    else:
        text = (
            f"The student reaches {shown.text(student)} {shown.title}, "
            f"the teacher {shown.text(teacher)},"
        )
    size = _share_of_parameters(records)
    return f"{text} at {size} of the parameters" if size else text.rstrip(",")


def _share_of_parameters(records):
    student = model_description(records, "student").get("parameters")
    teacher = model_description(records, "teacher").get("parameters")
    if not student or not teacher:
        return ""
    ratio = teacher / student
    if ratio >= 2.5:
        return f"1/{ratio:.0f}"
    return f"{100 / ratio:.0f} %"


def _file_gain(records):
    """Compares the smallest kind of file with the teacher's fp32 file."""
    arm = "teacher" if records.trains_a_teacher else "student"
    reference = next(
        (
            file
            for file in exported_files(records, "teacher")
            if (file.format, file.precision) == ("litert", "fp32")
        ),
        None,
    )
    files = [
        file
        for file in exported_files(records, arm)
        if file.format == "litert" and file.precision in PRECISIONS
    ]
    if reference is None or not files:
        return ""
    file = max(files, key=lambda file: PRECISIONS.index(file.precision))
    if file == reference:
        return ""
    gains = []
    common = sorted(set(file.latencies) & set(reference.latencies))
    if common:
        old = reference.latencies[common[-1]].median_ms
        new = file.latencies[common[-1]].median_ms
        gains.append(_gain(old / new, "faster", "slower"))
    ratio = reference.size_bytes / file.size_bytes
    gains.append(_gain(ratio, "smaller", "larger"))
    whose = "its" if arm == "teacher" else "the teacher's"
    return (
        f"its {file.precision} file is {' and '.join(gains)} than {whose} "
        "fp32 file"
    )


def _gain(ratio, better, worse):
    if ratio >= 1:
        return f"{times(ratio)} {better}"
    return f"{times(1 / ratio)} {worse}"


def _control_level(records, metric):
    control = _level(records, "control", metric)
    student = _level(records, "student", metric)
    if control is None:
        return "the same student without a teacher was not run"
    shown = metric_format(metric)
    text = f"the same student without a teacher: {shown.text(control)}"
    if student is None:
        return text
    distance = abs(student - control)
    if shown.number(distance) == shown.number(0.0):
        return f"{text}, as good"
    points = " points" if shown.unit else ""
    less = "less" if control < student else "more"
    text = f"{text}, {shown.number(distance)}{points} {less}"
    if (control < student) != shown.higher_is_better:
        text += ", so that distilling did not help"
    return text
