"""What a reader of a run's table has to know beside it."""

from kdkit.reporting.formatting import metric_format
from kdkit.reporting.measurements import measurements
from kdkit.reporting.records import RunRecords
from kdkit.reporting.records import finite_numbers
from kdkit.reporting.selection import best_evaluation
from kdkit.reporting.selection import exported_files
from kdkit.reporting.selection import is_measured_alike
from kdkit.reporting.selection import other_splits
from kdkit.reporting.selection import shown_split
from kdkit.reporting.summary import task_name
from kdkit.reporting.tables import common_setting
from kdkit.reporting.tables import latency_settings
from kdkit.reporting.tables import metric_names
from kdkit.reporting.tables import table_rows
from kdkit.reporting.uncertainty import standard_error

GENERATED_TASK = "sentiment"


def run_notes(records: RunRecords) -> list[str]:
    """Returns what a reader of the table has to know, a sentence each."""
    rows = table_rows(records)
    return [
        *records.remarks,
        *_notes_on_the_run(records),
        *_notes_on_teaching(records),
        *_notes_on_precision(records),
        *_notes_on_other_splits(records),
        *_notes_on_measurements(records),
        *_notes_on_files(records),
        *_notes_on_latency(records, rows),
    ]


def _notes_on_the_run(records):
    found = []
    if task_name(records) == GENERATED_TASK:
        found.append(
            "Trained and measured on generated sentences: the numbers say how "
            "the method works, nothing about real text."
        )
    for event in records.events_of("doctor"):
        ruinous = [
            one["check"]
            for one in event.get("findings", [])
            if one.get("outcome") == "ruins the run"
        ]
        if ruinous:
            found.append(
                "Begun by --force, although the checks before it said that it "
                f"would be ruined: {', '.join(ruinous)}."
            )
    config = records.config
    copies = (config.get("student") or {}).get("copy_from") == "pretrained"
    if copies and config.get("pretrained") == config.get("teacher"):
        found.append(
            "The student starts from the layers of the fine-tuned teacher, "
            "since the checkpoint before fine-tuning is not known."
        )
    for event in records.events_of("tokens_seen"):
        share = finite_numbers(event).get("share")
        if share is not None:
            found.append(
                f"Sees {100 * share:.0f} % of a text's tokens when it predicts "
                "one (experiments/difficulty.py)."
            )
    finished = records.events_of("run_finished")
    best = (finished[-1].get("best") or {}) if finished else {}
    for arm, result in best.items():
        epochs = result.get("averaged_epochs")
        if epochs:
            found.append(
                f"The {arm}'s weights are the mean of those after epochs "
                f"{epochs[0]} to {epochs[-1]} of {result['stage']}; curves "
                "show each epoch by itself."
            )
    if not finished:
        numbers = "its numbers are those of the last evaluation."
        if not metric_names(records):
            numbers = "nothing has been evaluated."
        found.append(f"The run has not finished: {numbers}")
    for arm in records.arms:
        if arm != "teacher" and best_evaluation(records, arm) is None:
            found.append(f"The {arm} was not run.")
    return found


def _notes_on_teaching(records):
    """Further rows, and teachers beside the one of the table."""
    found = [
        f"The teacher also labelled {event['rows'] - event['dropped']} rows "
        f"of text, at most {event['per_labeled']:g} for each labelled one in "
        f"an epoch; {event['dropped']} more were left out, since they stand in "
        f"{' or '.join(event['compared_with'])}."
        for event in records.events_of("unlabeled")
    ]
    found += [
        f"An epoch has {event['rows_of_epoch']} rows: the {event['rows']} of "
        f"the task and augmented copies of them, of which there are "
        f"{event['copies']}; {event['left_out']} more were left out, since "
        "they also stand in dev or test."
        + (
            " The control has the copies too."
            if best_evaluation(records, "control")
            else ""
        )
        for event in records.events_of("augmented")
    ]
    others = {
        event["arm"]: finite_numbers(event.get("metrics"))
        for event in records.events_of("evaluation")
        if event.get("split") == shown_split(records)
        and str(event.get("arm")).startswith("teacher_")
    }
    if others:
        weights = records.config.get("teacher_weights") or "equal ones"
        values = "; ".join(map(_in_words, others.values()))
        found.append(
            f"The student learned from {1 + len(others)} teachers with "
            f"weights {weights}. The table has the first; the others reach: "
            f"{values}."
        )
    teacher = records.teacher_run
    if (
        teacher is not None
        and best_evaluation(records, "teacher") is None
        and best_evaluation(teacher, teacher.trained_arm) is not None
        and not is_measured_alike(records)
    ):
        found.append(
            "The teacher was measured on other text, or by other masks, in its "
            "own run: these numbers do not compare and are left out."
        )
    return found


def _notes_on_precision(records):
    metric = (metric_names(records) or [""])[0]
    arm = "teacher" if records.trains_a_teacher else "student"
    evaluation = best_evaluation(records, arm)
    if evaluation is None or metric not in evaluation.metrics:
        return []
    value, examples = evaluation.metrics[metric], evaluation.examples
    error = standard_error(metric, [value], examples)
    if error is None:
        return []
    shown = metric_format(metric)
    points = " points" if shown.unit else ""
    return [
        f"Measured on the {examples} examples of {evaluation.split}: one "
        f"standard error of the {arm}'s {shown.title} is "
        f"{shown.number(error)}{points}."
    ]


def _notes_on_other_splits(records):
    found = []
    for split, arms in other_splits(records).items():
        values = (
            f"{arm} {_in_words(metrics, ' and ')}"
            for arm, metrics in arms.items()
        )
        why = "which nothing was chosen on"
        if split == "held_out":
            why = "by which epochs on text were chosen"
        found.append(f"On {split}, {why}: {', '.join(values)}.")
    return found


def _notes_on_measurements(records):
    """What `kdkit evaluate` noted in the run."""
    return [
        f"kdkit evaluate on {where}: {records.called(arm)} "
        f"{_in_words(metrics)}."
        for where, arms in measurements(records).items()
        for arm, metrics in arms.items()
    ]


def _in_words(metrics, between=", "):
    """Metrics as a reader wants them, one after the other."""
    shown = ((metric_format(name), value) for name, value in metrics.items())
    return between.join(
        f"{one.text(value)} {one.title}" for one, value in shown
    )


def _notes_on_files(records):
    found = []
    if best_evaluation(records, "control") and not exported_files(
        records, "control"
    ):
        found.append(
            "The control was not exported: it is the student's architecture, "
            "so the student's sizes and latencies hold for it."
        )
    shown = shown_split(records)
    for arm in records.arms:
        for file in exported_files(records, arm):
            if file.split not in (None, shown):
                found.append(
                    f"{file.file} was measured on {file.split}, and the tables "
                    f"are of {shown}: what it reaches is not in them."
                )
    return found


def _notes_on_latency(records, rows):
    settings = latency_settings(rows)
    if not settings:
        return []
    same = common_setting(settings)
    measured = f"Latency: {same}. " if same else ""
    condition = "." if len(settings) == 1 else " in the same setting."
    found = [
        f"{measured}Speed-up is over the teacher's fp32 LiteRT file{condition}"
    ]
    timed = records.events_of("latency")
    if any(event.get("reads_tokens") for event in timed):
        found.append(
            "A latency is that of one token, which costs the same at every "
            "place of a text; the length is how many there is room for."
        )
    if any(event.get("reads_sources") for event in timed):
        found.append(
            "A latency is that of one sentence, read and written token by "
            "token; the length is how many tokens each has. The file computes "
            "with all that it has room for."
        )
    return found
