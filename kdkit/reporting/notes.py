"""Notes on a run: facts that its table does not show, and its provenance."""

import dataclasses
import pathlib
from collections.abc import Sequence

from kdkit.io.machine import duration
from kdkit.reporting.comparison import (
    common_setting,
    latency_settings,
    metric_names,
    run_count,
    standard_error,
)
from kdkit.reporting.formatting import (
    metric_format,
    portable_command,
    portable_path,
    words,
)
from kdkit.reporting.records import RunRecords, finite_numbers
from kdkit.reporting.selection import (
    best_evaluation,
    exported_files,
    is_measured_alike,
    other_splits,
    run_seconds,
    shown_split,
)
from kdkit.runs import events

# As in `kdkit.data.own_tables`, which imports TensorFlow.
_SET_ASIDE = "10 %"
GENERATED_TASK = "sentiment"
_BERT_SHARES = (0.8, 0.1)  # masks and random tokens: the usual, not mentioned


@dataclasses.dataclass(frozen=True)
class Provenance:
    """How runs were made, as texts without repetition."""

    commands: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]


def run_notes(records: RunRecords) -> list[str]:
    """Returns sentences with the context that readers of the table need."""
    return [
        *records.remarks,
        *_notes_on_the_run(records),
        *_notes_on_teaching(records),
        *_notes_on_precision(records),
        *_notes_on_other_splits(records),
        *_notes_on_measurements(records),
        *_notes_on_files(records),
        *_notes_on_latency(records),
    ]


def provenance(runs: Sequence[RunRecords]) -> Provenance:
    """Returns how runs, and the runs of their teachers, were made."""
    teachers = _distinct(run.teacher_run for run in runs if run.teacher_run)
    everything = [*teachers, *runs]
    seeds = [str(run.config.training.seed) for run in runs]
    facts = [
        (
            "Seeds" if len(seeds) > 1 else "Seed",
            f"{', '.join(seeds)} ({run_count(runs)})",
        ),
        ("Training time", _times(runs)),
        ("Teacher's training time", _times(teachers)),
        ("Commit", _join(run.provenance.get("commit") for run in everything)),
        ("Machine", _join(run.provenance.get("machine") for run in everything)),
        ("Versions", _join(_versions(run) for run in everything)),
    ]
    commands = [portable_command(run.command) for run in everything]
    return Provenance(
        commands=tuple(dict.fromkeys(filter(None, commands))),
        facts=tuple((label, text) for label, text in facts if text),
    )


def measurements(records: RunRecords) -> dict[str, dict[str, dict]]:
    """Returns the measurements after the run, the last of each kind."""
    measured = []
    for event in records.events_of(events.Measurement):
        arm = event.arm
        if arm is None and records.is_on_text:
            arm = records.trained_arm
        if arm is not None:  # otherwise another model in the run directory
            where = _where(event, records)
            if event.file:
                where += f", {event.file}"
            measured.append((where, arm, event))
    measured = _told_apart(measured, "rows_digest")
    # Arms may have their own tokenizers, which split a text into other rows.
    measured = _told_apart(measured, "data_digest", by_arm=True)
    found = {}
    for where, arm, event in measured:
        metrics = finite_numbers(event.metrics)
        found.setdefault(where, {})[arm] = metrics
    return found


def what_is_hidden(
    masking: dict | None = None, spans: dict | None = None
) -> str:
    """Returns which tokens of a text the model had to predict, in words."""
    masking, spans = finite_numbers(masking), finite_numbers(spans)
    if "share" in masking:
        text = f"{100 * masking['share']:g} % of the tokens masked"
        if masking.get("whole_words"):
            text += " by whole words"
    elif "share" in spans:
        text = f"spans of {100 * spans['share']:g} % of a sentence hidden"
    else:
        return ""
    shares = masking or spans
    ways = shares.get("mask_share"), shares.get("random_share")
    if None in ways or ways == _BERT_SHARES:
        return text
    masks, random = (f"{100 * share:g} %" for share in ways)
    return f"{text} ({masks} of them as masks, {random} as random tokens)"


def _notes_on_the_run(records):
    found = []
    if records.task == GENERATED_TASK:
        found.append(
            "Trained and measured on generated sentences: the numbers show how "
            "the method works, but nothing about real text."
        )
    table = getattr(getattr(records.config, "data", None), "table", None)
    result = best_evaluation(records, records.trained_arm)
    sets_aside = table is not None and table.train and not table.dev
    if sets_aside and result is not None:
        found.append(
            f"dev: {_SET_ASIDE} of {pathlib.PurePath(table.train).name} set "
            f"aside, {result.examples} examples."
        )
    for event in records.events_of(events.Doctor):
        ruinous = [
            one["check"]
            for one in event.findings
            if one["outcome"] == "ruins the run"
        ]
        if ruinous:
            found.append(
                "Begun with --force, although the checks before it found "
                f"problems that ruin it: {', '.join(ruinous)}."
            )
    config = records.config
    start = getattr(config.student, "copy_from", None)
    if start == "teacher" and config.kind == "task":
        found.append(
            "The student starts from the layers and the head of the fine-tuned "
            "teacher."
        )
    if not records.events_of(events.RunFinished):
        numbers = "its numbers are those of the last evaluation."
        if not metric_names(records):
            numbers = "nothing has been evaluated."
        found.append(f"The run has not finished: {numbers}")
    for arm in records.arms:
        if arm != "teacher" and best_evaluation(records, arm) is None:
            found.append(f"The {arm} was not run.")
    return found


def _notes_on_teaching(records):
    """Notes on additional examples, and on teachers outside of the table."""
    found = [
        f"The teacher also labelled {event.rows - event.dropped:,} rows of "
        f"text, at most {event.per_labeled:g} for each labelled example in an "
        f"epoch; {event.dropped:,} more were removed, because they are also "
        f"in {' or '.join(event.compared_with)}."
        for event in records.events_of(events.Unlabeled)
        if event.per_labeled is not None
    ]
    found += [
        _about_texts(event, records.embedding_data)
        for event in records.events_of(events.Unlabeled)
        if event.per_labeled is None
    ]
    found += [
        "Before training, the student has "
        f"{_in_words(finite_numbers(event.metrics))}."
        for event in records.events_of(events.Evaluation, "student")
        if event.stage is None
    ]
    found += [
        f"An epoch has {event.rows_of_epoch:,} examples, drawn from the "
        f"{event.rows:,} of the task and {event.copies:,} augmented ones; "
        f"{event.left_out:,} more were removed, because they are also in "
        "dev or test."
        + (
            " The control has the augmented examples too."
            if best_evaluation(records, "control")
            else ""
        )
        for event in records.events_of(events.Augmented)
    ]
    others = {
        event.arm: finite_numbers(event.metrics)
        for event in records.events_of(events.Evaluation)
        if event.split == shown_split(records)
        and event.arm.startswith("teacher_")
    }
    if others:
        weights = list(records.config.teacher_weights) or "equal ones"
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
            "own run: these numbers are not comparable and not shown."
        )
    return found


def _about_texts(event, kind):
    """Describes the data that a sentence encoder learned from."""
    repeated = event.repeated or 0
    count = f"{event.rows - event.dropped - repeated:,}"
    if kind == "candidates":
        known = " or ".join(event.compared_with)
        return (
            "The student learned from the scores of a cross-encoder for "
            f"{count} queries with candidates, without those held out. "
            f"{event.dropped:,} more were left out"
            f"{f', because they have a text of {known},' if known else ''} and "
            f"{repeated:,} because they are repeated."
        )
    texts = f"{count} texts"
    if event.compared_with:
        return (
            f"The student learned from the vectors of {texts}. "
            f"{event.dropped:,} more were left out, because they are also in "
            f"{' or '.join(event.compared_with)}, and {repeated:,} because "
            "they are repeated."
        )
    return (
        f"The student learned from the vectors of {texts}, without those held "
        "out to measure on. They were not compared with data for "
        f"evaluation. {repeated:,} more were left out, because they are "
        "repeated."
    )


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
    return [
        f"Measured on the {examples} examples of {evaluation.split}: one "
        f"standard error of the {arm}'s {shown.title} is "
        f"{shown.points(error)}."
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
    """The results of `kdkit evaluate`."""
    found = [
        f"kdkit evaluate on {where}: {records.called(arm)} "
        f"{_in_words(metrics)}."
        for where, arms in measurements(records).items()
        for arm, metrics in arms.items()
    ]
    for event in records.events_of(events.Measurement):
        if event.arm is None:
            continue
        if event.collapsed:
            found.append(
                f"On {_where(event, records)}, the {records.called(event.arm)} "
                f"has collapsed: it {event.collapsed}."
            )
        if event.texts_in_training:
            note = (
                f"{event.texts_in_training} of the {event.texts} texts in "
                f"{_where(event, records)} were also trained on"
            )
            others = finite_numbers(event.metrics_without_training_texts)
            if others:
                note += (
                    f"; without their {event.examples_in_training} examples: "
                    f"{records.called(event.arm)} {_in_words(others)}"
                )
            found.append(f"{note}.")
        for width, metrics in (event.metrics_by_dimensions or {}).items():
            if isinstance(metrics, dict):
                found.append(
                    f"First {width} dimensions of vectors on "
                    f"{_where(event, records)}: {records.called(event.arm)} "
                    f"{_in_words(finite_numbers(metrics))}."
                )
    return list(dict.fromkeys(found))


def _in_words(metrics, between=", "):
    """Returns metrics in words, in one line."""
    shown = ((metric_format(name), value) for name, value in metrics.items())
    return between.join(
        f"{one.text(value)} {one.title}" for one, value in shown
    )


def _notes_on_files(records):
    found = []
    if (
        best_evaluation(records, "control")
        and exported_files(records, "student")
        and not exported_files(records, "control")
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
                    f"show {shown}: its score is not in them."
                )
    return found


def _notes_on_latency(records):
    settings = latency_settings(records)
    if not settings:
        return []
    same = common_setting(settings)
    sentences = [f"Latency: {same}."] if same else []
    if any(
        (file.format, file.precision) == ("litert", "fp32") and file.latencies
        for file in exported_files(records, "teacher")
    ):
        condition = "" if len(settings) == 1 else " in the same setting"
        sentences.append(
            f"Speed-up is over the teacher's fp32 LiteRT file{condition}."
        )
    elif not (
        records.trains_a_teacher or records.embedding_data == "candidates"
    ):
        sentences.append(
            "The speed-up needs the teacher's fp32 LiteRT file: kdkit export "
            "RUN --arm teacher --precision fp32, then kdkit benchmark RUN."
        )
    found = [" ".join(sentences)] if sentences else []
    timed = records.events_of(events.Latency)
    if any(event.reads_tokens for event in timed):
        found.append(
            "A latency is that of one token, which costs the same at every "
            "position of a text; the length is the file's context length."
        )
    if any(event.reads_sources for event in timed):
        found.append(
            "A latency is that of one sentence, read and written token by "
            "token; the length is how many tokens each has. The file always "
            "computes with its whole context length."
        )
    return found


def _told_apart(measured, name, by_arm=False):
    """Numbers the versions of data that have one name but different content."""
    digests = {}
    for where, arm, event in measured:
        digest = getattr(event, name)
        if digest is not None:
            versions = digests.setdefault((where, by_arm and arm), [])
            if digest not in versions:
                versions.append(digest)

    def numbered(where, arm, event):
        digest = getattr(event, name)
        versions = digests.get((where, by_arm and arm), ())
        if digest is None or len(versions) < 2:
            return where
        return f"{where}, version {versions.index(digest) + 1} of the data"

    return [
        (numbered(where, arm, event), arm, event)
        for where, arm, event in measured
    ]


def _where(event, records):
    """Describes the data, such as "test.txt by rows of 128 tokens, 64 new"."""
    if event.split is not None:
        return _where_in_a_task(event, records)
    if event.pairs is not None:
        return _where_written(event)
    if event.queries is not None or event.bitext is not None:
        return _where_embedded(event)
    corpus = event.corpus or ""
    if not isinstance(corpus, str):
        corpus = _files(corpus, event)
    ways = [
        f"column {event.column}" if event.column else "",
        "one document" if event.one_document else "",
        f"detokenizer {event.detokenizer}" if event.detokenizer else "",
    ]
    ways = ", ".join(filter(None, ways))
    text = f"{corpus}{ways and f' ({ways})'} by rows of"
    text += f" {event.sequence_length} tokens"
    if event.stride:
        text += f", {event.stride} new"
    hidden = what_is_hidden(event.masking, event.spans)
    return f"{text}, {hidden}" if hidden else text


def _where_in_a_task(event, records):
    """Describes a split, and how it differs from the run's own split."""
    text = event.split
    if event.task not in (None, records.task):
        text += f" of {event.task}"
    else:
        own = [one.digests for one in records.events_of(events.Inputs)][:1]
        own = own[0].get(event.split) if own else None
        rows = event.rows_digest
        if own and rows and rows != own:
            text += " of other data"
    length = event.sequence_length
    data = getattr(records.config, "data", None)
    if length not in (None, getattr(data, "sequence_length", None)):
        text += f", cut to {length} tokens"
    if event.left_out:
        text += f", without {event.left_out} examples with texts that "
        text += f"{portable_path(event.without_texts_of or '')} was trained on"
    return text


def _where_embedded(event):
    """Describes the texts that an embedder was measured on."""
    if event.bitext is not None:
        text = f"translations {_files(event.bitext, event)}"
    else:
        queries, documents, judgements = (
            portable_path(str(file))
            for file in (event.queries, event.documents, event.judgements)
        )
        text = f"{queries} in {documents} by {judgements}"
        if event.ignore_same_id:
            text += " without the document of the query's id"
    return f"{text}, {event.sequence_length} tokens at most"


def _where_written(event):
    """Describes the pairs, how they were generated and how measured."""
    pairs = _files(event.pairs, event)
    signatures = (
        f"{words(name)} {signature}"
        for name, signature in (event.signatures or {}).items()
    )
    beams = event.beam_size
    how = " to ".join(event.languages or ())
    how += f", {event.sequence_length} tokens at most, "
    how = how.removeprefix(", ")
    how += "greedy" if beams == 1 else f"{beams} beams"
    if beams != 1:
        how += f", length penalty {event.length_penalty}"
    return f"{pairs} ({'; '.join([how, *signatures])})"


def _files(files, event):
    """Describes files by their names and lines."""
    names = " and ".join(portable_path(str(file)) for file in files)
    names = names or "generated text"
    every = event.held_out_every
    return f"one of {every} of {names}" if every else names


def _versions(run):
    versions = run.provenance.get("versions") or {}
    return ", ".join(f"{name} {versions[name]}" for name in versions)


def _times(runs):
    spans = [run_seconds(run) for run in runs]
    return ", ".join(
        "not finished" if seconds is None else duration(seconds)
        for seconds in spans
    )


def _join(texts):
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _distinct(runs):
    return list({run.run_dir.resolve(): run for run in runs}.values())
