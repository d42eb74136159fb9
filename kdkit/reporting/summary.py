"""A run in words: its title and a sentence on the outcome."""

from collections.abc import Sequence

from kdkit.reporting.comparison import (
    WITHIN_NOISE,
    arms_are_alike,
    is_noise,
    metric_names,
    teacher_share,
)
from kdkit.reporting.formatting import metric_format, times, words
from kdkit.reporting.records import SEED, STEP, RunRecords
from kdkit.reporting.selection import (
    PRECISIONS,
    best_evaluation,
    best_of_finished_run,
    exported_files,
    model_description,
)
from kdkit.runs.events import Best

# Advice for a model that has collapsed.
HELP = (
    "What usually helps: another learning rate, more epochs and more examples"
)
HELP_BY_CONTROL = (
    ", and --control, which shows whether the same student learns from the "
    "labels alone"
)
SMOKE = (
    "This smoke run shows that every step runs. Its numbers mean nothing: the "
    "data is generated, and the models are tiny and hardly trained."
)

_DEPTHS = ("num_layers", "encoder_num_layers", "decoder_num_layers")


def run_title(records: RunRecords) -> str:
    """Returns the title of a run, such as `"tinybert on sst2"`."""
    if records.is_on_pairs:
        languages = " to ".join(records.config.corpus.languages)
        plain, data = "training", f"{languages} pairs".strip()
    elif records.is_on_text:
        plain, data = "pretraining", "text"
    else:
        plain, data = "teacher", records.task
    what = plain if records.trains_a_teacher else records.config.recipe
    return f"{what} on {data}" if data else what


def model_title(records: RunRecords) -> str | None:
    """Returns the title of the trained model, such as `"BERT 4×312"`."""
    description = model_description(records, records.trained_arm)
    name = description.name
    if name and (SEED.fullmatch(name) or STEP.fullmatch(name)):
        sizes = [getattr(description, key) for key in _DEPTHS]
        depth = "+".join(str(size) for size in sizes if size is not None)
        return f"{depth}×{description.hidden_dim}"
    return name


def stage_title(arm: str, stage: str) -> str:
    """Returns a stage in words, such as `"Student, intermediate layer"`."""
    return f"{arm.capitalize()}, {words(stage)}"


def verdict(records: RunRecords) -> str:
    """Returns the outcome of a run in a few words, from its numbers.

    Args:
        records: `RunRecords`.

    Returns:
        A sentence such as "The student keeps 94.4 % of the teacher's
        accuracy (83.8 % of 88.8 %) at 63 % of the parameters; its int8 file
        is 31× faster and 29× smaller than the teacher's fp32 file; the same
        student without a teacher: 78.3 %, 5.5 points less." Differences of at
        most two standard errors are called that. For models that have
        collapsed or whose head was never trained, the sentence states that and
        what usually helps, without gains. For a smoke run it states what such
        a run shows.
    """
    metrics = metric_names(records)
    if not metrics:
        return "Nothing has been evaluated yet."
    if is_smoke(records):
        return SMOKE
    metric = metrics[0]
    arm = records.trained_arm
    level = _teacher_level if records.trains_a_teacher else _student_level
    parts = [level(records, metric)]
    has_fallen = _collapse(records, arm) or untrained_layers(records, arm)
    if not has_fallen:
        parts += _file_gains(records, metric)
    if not (records.trains_a_teacher or records.is_on_text):
        parts.append(_control_level(records, metric))
    text = _join(parts)
    arms = ("student", "teacher", "control")
    if any(_collapse(records, one) for one in arms):
        has_control = _level(records, "control", metric) is not None
        is_alone = records.trains_a_teacher or has_control
        text += f" {HELP}{'' if is_alone else HELP_BY_CONTROL}."
    return text


def is_smoke(records: RunRecords) -> bool:
    """Whether the run's command had `--smoke`."""
    return "--smoke" in records.command.split()


def untrained_layers(records: RunRecords, arm: str) -> Sequence[str]:
    """Returns the layers of an arm's head that no stage of its run trained."""
    best = best_of_finished_run(records).get(arm, Best())
    return best.untrained_layers or ()


def _collapse(records, arm):
    """Why an arm has collapsed, in words that follow "it"."""
    evaluation = best_evaluation(records, arm)
    return None if evaluation is None else evaluation.collapsed


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
    if evaluation.collapsed:
        return (
            f"The {called} has collapsed ({level} {shown.title}): it "
            f"{evaluation.collapsed}"
        )
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
    problems = _problems(records, metric)
    if problems:
        return problems
    if teacher is None:
        text = f"The student reaches {shown.text(student)} {shown.title}"
    elif (
        shown.higher_is_better
        and (share := teacher_share(student, teacher)) is not None
    ):
        text = (
            f"The student keeps {100 * share:.1f} % of the "
            f"teacher's {shown.title} "
            f"({shown.text(student)} of {shown.text(teacher)}"
            + (f", {WITHIN_NOISE}" if _is_alike(records, "teacher") else "")
            + ")"
        )
    else:
        text = (
            f"The student reaches {shown.text(student)} {shown.title}, "
            f"the teacher {shown.text(teacher)},"
            + (f" {WITHIN_NOISE}," if _is_alike(records, "teacher") else "")
        )
    size = _parameter_share(records)
    return f"{text} at {size} of the parameters" if size else text.rstrip(",")


def _problems(records, metric):
    """Problems that make a student's numbers meaningless, else empty."""
    shown = metric_format(metric)
    found = []
    layers = untrained_layers(records, "student")
    if layers:
        found.append(
            f"The student's head was never trained ({', '.join(layers)}): no "
            "stage reads its logits, so its answers are random"
        )
    for arm in ("student", "teacher"):
        reason, level = _collapse(records, arm), _level(records, arm, metric)
        the = f"{'the' if found else 'The'} {arm}"
        reached = "" if level is None else f"{shown.text(level)} {shown.title}"
        if reason:
            at = f" ({reached})" if reached else ""
            found.append(f"{the} has collapsed{at}: it {reason}")
        elif found and reached:
            found.append(f"{the} reaches {reached}")
    return "; ".join(found)


def _is_alike(records, arm):
    """Whether student and arm are within two standard errors."""
    return arms_are_alike([records], "student", arm)


def _parameter_share(records):
    student = model_description(records, "student").parameters
    teacher = model_description(records, "teacher").parameters
    if not student or not teacher:
        return ""
    ratio = teacher / student
    if ratio >= 2.5:
        return f"1/{ratio:.0f}"
    return f"{100 / ratio:.0f} %"


def _control_level(records, metric):
    text = _compared_with_control(records, metric)
    reason = _collapse(records, "control")
    return f"{text} (it has collapsed: it {reason})" if reason else text


def _compared_with_control(records, metric):
    control = _level(records, "control", metric)
    student = _level(records, "student", metric)
    if control is None:
        return "the same student without a teacher was not run"
    shown = metric_format(metric)
    evaluation = best_evaluation(records, "control")
    called = "the same student without a teacher"
    if evaluation is not None and evaluation.stage is None:
        called = "the student before training"  # a control without stages
    text = f"{called}: {shown.text(control)}"
    if student is None or _problems(records, metric):
        return text
    difference = shown.difference(control - student)
    if not difference:
        return f"{text}, as good"
    text = f"{text}, {difference}"
    if _is_alike(records, "control"):
        return f"{text}, {WITHIN_NOISE}: no difference is shown"
    if (control < student) != shown.higher_is_better:
        text += ", so that distilling did not help"
    return text


def _file_gains(records, metric):
    """The gains of the smallest kind of file, in parts of a sentence."""
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
            f"fp32 file{_file_level(records, metric, teacher['int8'])}"
        )
    for precision in {"fp32": None, best.precision: None}:
        if precision in teacher:
            gain = _gain(best, teacher[precision])
            gains.append(f"{gain} than the teacher's {precision} file")
    if gains:
        text = ", and ".join(gains)
        found.append(f"its {best.precision} file is {text}")
    return found


def _file_level(records, metric, file):
    """The metric of a quantised teacher, compared with the original."""
    evaluation = best_evaluation(records, "teacher")
    if evaluation is None or metric not in evaluation.metrics:
        return ""
    if metric not in file.metrics:
        return ""
    shown = metric_format(metric)
    value, before = file.metrics[metric], evaluation.metrics[metric]
    text = f", at {shown.text(value)} {shown.title}"
    difference = shown.difference(value - before)
    if not difference:
        return f"{text}, as before"
    disagreement = None
    if file.same_top_class is not None:
        disagreement = 1 - file.same_top_class
    if is_noise(metric, [value], [before], evaluation.examples, disagreement):
        return f"{text}, {WITHIN_NOISE} of what it was"
    return f"{text}, {difference}"


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
