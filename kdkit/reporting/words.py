"""A run in words: its title, its outcome, and what its table does not show."""

import collections
import json
import pathlib
import statistics
from collections.abc import Sequence

from kdkit.io.machine import duration
from kdkit.recipes import RECIPES
from kdkit.reporting.formatting import (
    metric_format,
    metrics_in_words,
    portable_command,
    portable_path,
    times,
    words,
)
from kdkit.reporting.records import RunRecords
from kdkit.reporting.results import (
    PRECISIONS,
    WITHIN_NOISE,
    best_evaluation,
    best_of,
    exported_files,
    group_by_seed,
    is_noise,
    is_shown,
    kind_of_file,
    main_metric,
    model_of,
    names_apart,
    results,
    shown_split,
    standard_error,
    teacher_share,
)
from kdkit.runs.events import (
    Augmented,
    Best,
    Doctor,
    Evaluation,
    Inputs,
    Latency,
    Measurement,
    RunFinished,
    Unlabeled,
)

# Advice for a model that has collapsed.
HELP = (
    "What usually helps: another learning rate, more epochs and more examples"
)
SMOKE = (
    "This smoke run shows that every step runs. Its numbers mean nothing: the "
    "data is generated, and the models are tiny and hardly trained."
)
OVER_WORDS = "word_perplexity"  # comparable across vocabularies
GENERATED_TASK, RUIN = "sentiment", "ruins the run"
# Fields of a measurement that are no description of its data.
_NOT_DATA = ("arm", "metrics", "examples", "data_digest", "collapsed")


def run_title(run: RunRecords) -> str:
    """Returns the title of a run, such as `"tinybert on sst2"`."""
    what = "teacher" if run.trains_a_teacher else run.config.recipe
    if run.is_on_text and run.trains_a_teacher:
        what = "pretraining"
    data = run.config.corpus.kind if run.is_on_text else run.task
    return f"{what} on {data}" if data else what


def verdict(run: RunRecords) -> str:
    """Returns the outcome of a run in a few words, from its numbers.

    Args:
        run: `RunRecords`.

    Returns:
        A sentence such as "The student keeps 94.4 % of the teacher's
        accuracy (83.8 % of 88.8 %), at 63 % of the parameters; the student's
        int8 file (83.7 % accuracy) is 10× faster and 6.3× smaller than the
        teacher's fp32 file; the same student without a teacher: 78.3 %, 5.5
        points less." Gains are those in the commonest setting. Differences of
        at most two standard errors are called that. For models that have
        collapsed or whose head was never trained, the sentence states that
        and what usually helps, without gains.
    """
    metric = main_metric(run)
    if not metric:
        return "Nothing has been evaluated yet."
    if "--smoke" in run.command.split():
        return SMOKE
    arm = run.trained_arm
    problems = [one for a in run.arms if (one := _problem(run, a, metric))]
    parts = problems
    if not any(_problem(run, one, metric) for one in (arm, "teacher")):
        parts = [_level(run, metric), *_gains(run, metric)]
        if not run.trains_a_teacher and "control" in run.arms:
            parts.append(_control(run, metric))
        parts += problems
    text = "; ".join(parts)
    text = f"{text[0].upper()}{text[1:]}."
    return f"{text} {HELP}." if "has collapsed" in "".join(problems) else text


def _problem(run, arm, metric):
    """Why an arm's numbers mean nothing, empty if they mean something."""
    evaluation = best_evaluation(run, arm)
    layers = best_of(run).get(arm, Best()).untrained_layers
    if layers:
        return (
            f"the {arm}'s head was never trained ({', '.join(layers)}): no "
            "stage reads its logits, so its answers are random"
        )
    if evaluation is None or not evaluation.collapsed:
        return ""
    text, value = f"the {arm} has collapsed", evaluation.metrics.get(metric)
    if value is not None:
        text += f" ({metrics_in_words({metric: value})})"
    return f"{text}: it {evaluation.collapsed}"


def _value(run, arm, metric):
    evaluation = best_evaluation(run, arm)
    return None if evaluation is None else evaluation.metrics.get(metric)


def _level(run, metric):
    """The metric of the trained model, next to its teacher's."""
    arm, shown = run.trained_arm, metric_format(metric)
    value, level = (_value(run, one, metric) for one in (arm, "teacher"))
    if value is None:
        return f"the {arm} was not evaluated"
    if arm == "teacher" or level is None:
        return (
            f"the {run.called(arm)} reaches {shown.text(value)} {shown.title} "
            f"on {best_evaluation(run, arm).split}"
        )
    noise = f", {WITHIN_NOISE}" if _is_alike(run, "teacher", metric) else ""
    share = teacher_share(metric, value, level)
    text = (
        f"the student reaches {shown.text(value)} {shown.title}, the teacher "
        f"{shown.text(level)}{noise}"
    )
    if share is not None:
        text = (
            f"the student keeps {100 * share:.1f} % of the teacher's "
            f"{shown.title} ({shown.text(value)} of {shown.text(level)}{noise})"
        )
    student, teacher = (model_of(run, a).parameters for a in (arm, "teacher"))
    if student and teacher:
        text += f", at {100 * student / teacher:.0f} % of the parameters"
    return text


def _is_alike(run, arm, metric):
    """Whether student and arm are within two standard errors."""
    student, other = (best_evaluation(run, a) for a in ("student", arm))
    values = [[one.metrics[metric]] for one in (student, other)]
    disagreement = None
    if arm == "teacher" and "same_top_class" in student.agreement:
        disagreement = 1 - student.agreement["same_top_class"]
    return is_noise(metric, *values, student.examples, disagreement)


def _control(run, metric):
    shown, evaluation = metric_format(metric), best_evaluation(run, "control")
    value, control = (_value(run, a, metric) for a in ("student", "control"))
    if control is None or value is None:
        return "the same student without a teacher was not run"
    called = "the same student without a teacher"
    if evaluation.stage is None:
        called = "the student before training"  # a control without stages
    text = f"{called}: {shown.text(control)}"
    difference = shown.difference(control - value)
    if _is_alike(run, "control", metric) or not difference:
        return f"{text}, {WITHIN_NOISE}: no difference is shown"
    text = f"{text}, {difference}"
    if (control < value) != shown.higher_is_better:
        text += ", so that distilling did not help"
    return text


def _gains(run, metric):
    """What distillation and quantisation gained, in parts of a sentence."""
    files, arm, found = {}, run.trained_arm, []
    rows = results(run)
    usual = collections.Counter(
        key[-1] for key, values in rows.items() if "speed_up" in values
    ).most_common(1)
    for (owner, name, setting), values in rows.items():
        key = owner, kind_of_file(name)
        is_usual = setting in [one for one, _ in usual]
        if is_usual or key not in files:  # gains are of one setting
            files[key] = values if is_usual else values | {"speed_up": None}
    collapsed = {
        (one, f"{file.title} {file.precision}")
        for one in run.arms
        for file, _ in exported_files(run, one)
        if file.collapsed
    }
    reference = files.get(("teacher", "LiteRT fp32"))
    smallest = [one for one in PRECISIONS if (arm, f"LiteRT {one}") in files]
    if reference is None or not smallest:
        return []
    owner = "the student's" if arm == "student" else "its"
    parts = {(arm, f"LiteRT {smallest[-1]}"): f"{owner} {smallest[-1]} file"}
    if smallest[-1] != "fp32" and arm == "student":
        parts = {
            ("student", "LiteRT fp32"): "by distillation alone its fp32 file",
            (
                "teacher",
                "LiteRT int8",
            ): "by quantisation alone the teacher's int8 file",
            **parts,
        }
    for key, text in parts.items():
        values = files.get(key, reference)
        if values is reference:
            continue
        if key in collapsed:
            found.append(f"{text} has collapsed")
            continue
        ratio = reference["size_bytes"] / values["size_bytes"]
        gains = [_ratio(ratio, "smaller", "larger")]
        if values.get("speed_up"):
            gains.insert(0, _ratio(values["speed_up"], "faster", "slower"))
        if metric in values:
            text += f" ({metrics_in_words({metric: values[metric]})})"
        owner = "the teacher's" if arm == "student" else "its"
        found.append(f"{text} is {' and '.join(gains)} than {owner} fp32 file")
    return found


def _ratio(ratio, better, worse):
    if ratio >= 1:
        return f"{times(ratio)} {better}"
    return f"{times(1 / ratio)} {worse}"


def differences(runs: Sequence[RunRecords]) -> list[str]:
    """Returns how the models of runs differ from that of the first one."""
    groups = group_by_seed(runs)
    places = [group[0].run_dir.resolve() for group in groups]
    metric, subject = main_metric(runs[0]), runs[0].subject
    if all(_value(run, run.trained_arm, OVER_WORDS) for run in runs):
        metric = OVER_WORDS
    shown, compared, found = metric_format(metric), [], []
    for name, group in zip(names_apart(places), groups, strict=True):
        values = [_value(run, run.trained_arm, metric) for run in group]
        if group[0].subject == subject and None not in values:
            compared.append((name, values, statistics.fmean(values), group[0]))
    for name, values, mean, _ in compared[1:]:
        first, others, level, run = compared[0]
        examples = best_evaluation(run, run.trained_arm).examples
        distance = shown.difference(mean - level) or "no difference"
        if is_noise(metric, values, others, examples):
            distance += f", {WITHIN_NOISE}, so no difference is shown"
        found.append(
            f"{name} reaches {shown.text(mean)} {shown.title}, {first} "
            f"{shown.text(level)}: {distance}."
        )
    return found


def run_notes(run: RunRecords) -> list[str]:
    """Returns sentences with the context that readers of the table need."""
    found, split = list(run.remarks), shown_split(run)
    if run.task == GENERATED_TASK:
        found.append("Generated sentences: nothing is shown about real text.")
    if not run.events_of(RunFinished):
        found.append("The run has not finished: its numbers are the last ones.")
    for event in run.events_of(Doctor):
        ruin = [
            one["check"] for one in event.findings if one["outcome"] == RUIN
        ]
        if ruin:
            found.append(f"Begun with --force, although: {', '.join(ruin)}.")
    found += _precision(run)
    for kind in (Unlabeled, Augmented):
        found += [
            f"{kind.kind.capitalize()}: {_fields(one)}."
            for one in run.events_of(kind)
        ]
    others = {
        (event.split, event.arm): metrics_in_words(event.metrics)
        for event in run.events_of(Evaluation)
        if event.split != split or event.arm not in run.arms
    }
    found += [
        f"On {place}: {words(arm)} {metrics}."
        for (place, arm), metrics in others.items()
    ]
    measured = {
        (run.called(event.arm or run.trained_arm), _data(run, event)): event
        for event in run.events_of(Measurement)
        if event.arm is not None or run.is_on_text
    }
    for (arm, data), event in measured.items():
        metrics = metrics_in_words(event.metrics)
        found.append(f"kdkit evaluate, {arm}: {metrics} ({data}).")
        if event.collapsed:
            found.append(f"The {arm} has collapsed: it {event.collapsed}.")
    found += [
        f"{file.file} was measured on {file.split}, not as this table."
        for arm in run.arms
        for file, _ in exported_files(run, arm)
        if file.split is not None and not is_shown(run, file)
    ]
    return [*found, *_on_latency(run)]


def _precision(run):
    """On how many examples, how exactly, and what chance would reach."""
    metric, arm = main_metric(run), run.trained_arm
    evaluation = best_evaluation(run, arm)
    if evaluation is None or metric not in evaluation.metrics:
        return []
    value, examples = evaluation.metrics[metric], evaluation.examples
    text = f"Measured on {examples} examples of {evaluation.split}"
    if evaluation.epoch is not None:
        text += ", which chose the epoch"
    table = getattr(getattr(run.config, "data", None), "table", None)
    if table is not None and table.train and not table.dev:
        text += f", set aside from {pathlib.PurePath(table.train).name}"
    error = standard_error(metric, [value], examples)
    if error is not None:
        points = metric_format(metric).points(error)
        text += f": one standard error of the {arm} is {points}"
    answers = run.predictions.get(arm)
    if answers is not None and answers.chance:
        text += (
            f". The best constant answer: {metrics_in_words(answers.chance)}"
        )
        text += f" ({answers.constant})" if answers.constant else ""
    return [f"{text}."]


def _fields(event, *left_out):
    """The fields of an event in words."""
    return ", ".join(
        f"{words(name)} {_value_in_words(value)}"
        for name, value in event.to_dict().items()
        if name not in left_out
    )


def _value_in_words(value):
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return " and ".join(map(_value_in_words, value))
    return portable_path(str(value))


def _data(run, event):
    """What was measured on, told apart where the same name has other data."""
    own = [one.digests.get(event.split) for one in run.events_of(Inputs)]
    text = _fields(event, *_NOT_DATA)
    digest = event.data_digest
    if digest and digest not in own:
        text += f", content {digest[:8]}"
    return text


def _on_latency(run):
    """The common conditions of latencies, and what speed-ups compare."""
    found = results(run)
    settings = zip(*(one for *_, one in found if one), strict=True)
    same = [{*parts} for parts in settings]
    if not same:
        return []
    same = [parts.pop() for parts in same if len(parts) == 1]
    same = ", ".join(filter(None, same))
    notes = [f"Latency: {same}."] if same else []
    if any("speed_up" in values for values in found.values()):
        notes.append("Speed-up is over the teacher's fp32 LiteRT file.")
    elif not (run.trains_a_teacher or run.has_reranker):
        notes.append(
            "The speed-up needs the teacher's fp32 LiteRT file: kdkit export "
            "RUN --arm teacher --precision fp32 int8, kdkit benchmark RUN."
        )
    timed = run.events_of(Latency)
    if any(latency.reads_tokens for latency in timed):
        notes.append("A latency is that of one token.")
    if any(latency.reads_sources for latency in timed):
        notes.append(
            "A latency is that of one sentence, read and written token by "
            "token; the file always computes with its whole context length."
        )
    return notes


def provenance(
    runs: Sequence[RunRecords],
) -> tuple[list[str], list[tuple[str, str]]]:
    """Returns how runs and their teachers were made: commands, and facts."""
    teachers = {
        run.teacher_run.run_dir.resolve(): run.teacher_run
        for run in runs
        if run.teacher_run is not None
    }
    everything = [*teachers.values(), *runs]
    recipes = [
        RECIPES[run.config.recipe]
        for run in runs
        if run.config.recipe in RECIPES
    ]
    facts = {
        "Recipe": [f"{one.name}: {one.title}. {one.paper}" for one in recipes],
        "Teacher": [
            model_of(run, "teacher").name
            for run in runs
            if not run.trains_a_teacher
        ],
        "Data": map(_training_data, runs),
        "Seed": [str(run.config.training.seed) for run in runs],
        "Training time": map(_time, runs),
        "Teacher's training time": map(_time, teachers.values()),
        "Commit": [run.provenance.get("commit") for run in everything],
        "Machine": [run.provenance.get("machine") for run in everything],
        "Versions": map(_versions, everything),
    }
    facts = {
        name: "; ".join(dict.fromkeys(filter(None, texts)))
        for name, texts in facts.items()
    }
    commands = [portable_command(run.command) for run in everything]
    commands = [*dict.fromkeys(filter(None, commands))]
    return commands, [(name, text) for name, text in facts.items() if text]


def _training_data(run):
    """The names of the files that a run learned from, or its task."""
    data = run.config.corpus if run.is_on_text else run.config.data
    table = getattr(data, "table", None)
    files = getattr(data, "files", ()) or [table.train if table else ""]
    names = (pathlib.PurePath(file).name for file in files)
    return " and ".join(filter(None, names)) or run.task


def _time(run):
    finished = run.events_of(RunFinished)
    return duration(finished[-1].seconds) if finished else "not finished"


def _versions(run):
    versions = run.provenance.get("versions") or {}
    return ", ".join(f"{name} {versions[name]}" for name in versions)
