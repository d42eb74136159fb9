"""What a run's exported files won over the teacher's, and by which means."""

from kdkit.reporting.formatting import metric_format
from kdkit.reporting.formatting import times
from kdkit.reporting.records import RunRecords
from kdkit.reporting.selection import PRECISIONS
from kdkit.reporting.selection import best_evaluation
from kdkit.reporting.selection import exported_files
from kdkit.reporting.uncertainty import WITHIN_NOISE
from kdkit.reporting.uncertainty import is_noise


def file_gains(records: RunRecords, metric: str) -> list[str]:
    """Returns what the smallest kind of file won, in parts of a sentence.

    Distillation alone is the student's fp32 file compared with the teacher's,
    quantisation alone the teacher's int8 file compared with its fp32 file.

    Args:
        records: `RunRecords`.
        metric: string. The main metric.

    Returns:
        List of texts, without those whose files are not there.
    """
    if records.trains_a_teacher:
        teacher = _litert_files(records, "teacher")
        best = _smallest(teacher)
        if best is None or "fp32" not in teacher or best is teacher["fp32"]:
            return []
        gain = _gain(best, teacher["fp32"])
        return [f"its {best.precision} file is {gain} than its fp32 file"]
    student, teacher = (
        _litert_files(records, arm) for arm in ("student", "teacher")
    )
    best = _smallest(student)
    if best is None or not teacher:
        return []
    found, gains = [], []
    if "fp32" in teacher and "fp32" in student and best.precision != "fp32":
        gain = _gain(student["fp32"], teacher["fp32"])
        found.append(
            f"by distillation alone its fp32 file is {gain} than the teacher's"
        )
    if "fp32" in teacher and "int8" in teacher:
        gain = _gain(teacher["int8"], teacher["fp32"])
        found.append(
            f"by quantisation alone the teacher's int8 file is {gain} than its "
            f"fp32 file{_level(records, metric, teacher['int8'])}"
        )
    for precision in {"fp32": None, best.precision: None}:
        if precision in teacher:
            gain = _gain(best, teacher[precision])
            gains.append(f"{gain} than the teacher's {precision} file")
    if gains:
        text = ", and ".join(gains)
        found.append(f"its {best.precision} file is {text}")
    return found


def _level(records, metric, file):
    """What a quantised teacher reaches, compared with the original."""
    evaluation = best_evaluation(records, "teacher")
    if evaluation is None or metric not in evaluation.metrics:
        return ""
    if metric not in file.metrics:
        return ""
    shown = metric_format(metric)
    value, before = file.metrics[metric], evaluation.metrics[metric]
    text = f", at {shown.text(value)} {shown.title}"
    distance = value - before
    if shown.number(distance) == shown.number(0.0):
        return f"{text}, as before"
    disagreement = None
    if file.same_top_class is not None:
        disagreement = 1 - file.same_top_class
    if is_noise(metric, [value], [before], evaluation.examples, disagreement):
        return f"{text}, {WITHIN_NOISE} of what it was"
    points = " points" if shown.unit else ""
    less = "less" if distance < 0 else "more"
    return f"{text}, {shown.number(abs(distance))}{points} {less}"


def _litert_files(records, arm):
    """The LiteRT files of an arm by precision, of each the one timed most."""
    files = {}
    for file in exported_files(records, arm):
        if file.format == "litert" and file.precision in PRECISIONS:
            known = files.setdefault(file.precision, file)
            if len(file.latencies) > len(known.latencies):
                files[file.precision] = file
    return files


def _smallest(files):
    """The file of the lowest precision."""
    return max(
        files.values(),
        key=lambda file: PRECISIONS.index(file.precision),
        default=None,
    )


def _gain(file, reference):
    """How much faster, where both were timed the same way, and smaller."""
    gains = []
    common = sorted(set(file.latencies) & set(reference.latencies))
    if common:
        old = reference.latencies[common[-1]].median_ms
        new = file.latencies[common[-1]].median_ms
        gains.append(_in_words(old / new, "faster", "slower"))
    ratio = reference.size_bytes / file.size_bytes
    gains.append(_in_words(ratio, "smaller", "larger"))
    return " and ".join(gains)


def _in_words(ratio, better, worse):
    if ratio >= 1:
        return f"{times(ratio)} {better}"
    return f"{times(1 / ratio)} {worse}"
