"""The examples of a run that the doctor reads, and some of them encoded."""

import dataclasses
import pathlib

import numpy as np

from kdkit.config.runs import TaskConfig
from kdkit.data.augmented import count_copies, read_copies
from kdkit.data.unlabeled import unlabeled_rows
from kdkit.doctor.data import (
    class_balance,
    dev_balance,
    given_texts,
    lengths_cut,
    row_labels,
    row_texts,
)
from kdkit.doctor.findings import NOTE, OK, Finding, Findings
from kdkit.doctor.leakage import (
    augmented_copies,
    odd_texts,
    removed_rows,
    repeated_rows,
    rows_in_text,
    rows_kept_apart,
)
from kdkit.doctor.unknown_words import has_unknown, unknown_words
from kdkit.errors import UsageError
from kdkit.tasks import Task
from kdkit.training.tasks import drawn_rows, kept_apart, read_kept_unlabeled

TRAIN_ROWS = 2048  # encoded to measure their lengths


@dataclasses.dataclass(frozen=True, eq=False)
class ExaminedRows:
    """The examples of a task."""

    train: object
    dev: object
    num_dev: int
    others: dict
    all_train: object


def load_rows_to_examine(
    kind, num_rows: int, findings: Findings
) -> ExaminedRows:
    """Reads a task's other splits and reports all numbers."""
    task, data, (all_train, dev) = kind.task, kind.config.data, kind.rows
    seed = kind.config.training.seed
    drawn = drawn_rows(len(all_train), data.max_train_rows, seed)
    train = all_train.take(drawn)
    others = {data.dev_split: dev}
    unread = []
    for split in kept_apart(task, data):
        try:
            others.setdefault(split, task.load(split, data.data_dir))
        except (OSError, UsageError) as error:
            unread.append(str(error).splitlines()[0])
    found = f"{len(train)} rows to train on"
    if len(train) < len(all_train):
        found += f", drawn from {len(all_train)}"
    counts = ", ".join(
        f"{len(rows)} in {name}" for name, rows in others.items()
    )
    findings.add(
        Finding(
            "data",
            NOTE if unread else OK,
            f"{task.name}: {found}; {counts}."
            + "".join(f" Not read: {line}" for line in unread),
        )
    )
    return ExaminedRows(
        train, sample(dev, num_rows), len(dev), others, all_train
    )


def examine_rows(
    settings: TaskConfig,
    task: Task,
    rows: ExaminedRows,
    num_texts: int,
    findings: Findings,
) -> None:
    """Checks the data: leakage, texts, augmented copies, labels."""
    train = row_texts(rows.train)
    others = {name: row_texts(some) for name, some in rows.others.items()}
    labels = {name: row_labels(some) for name, some in rows.others.items()}
    train_labels = row_labels(rows.train)
    findings.add(rows_kept_apart(train, others, train_labels, labels))
    all_rows = {"train": train, **others}
    findings.add(repeated_rows(all_rows, {"train": train_labels, **labels}))
    if task.head.kind == "sequence":
        findings.add(odd_texts(all_rows))
    for name, corpus in corpora_of(settings).items():
        texts = corpus.texts(held_out=False)
        check = f"rows in {name}"
        findings.add(rows_in_text(others, texts, num_texts, check))
    if settings.unlabeled is not None:
        unlabeled, kept = read_kept_unlabeled(
            task, settings.data, settings.unlabeled
        )
        what, count = "unlabelled rows", len(unlabeled)
        findings.add(removed_rows(what, count - len(kept), count, what))
        findings.add(
            odd_texts(
                {"the unlabelled text": row_texts(unlabeled)},
                "unlabelled texts",
            )
        )
    augmented = settings.augmented
    if augmented is not None and pathlib.Path(augmented.file).exists():
        all_train = row_texts(rows.all_train)
        known = {row for some in others.values() for row in some}
        copies = read_copies(augmented.file, task.num_texts, len(all_train))
        findings.extend(augmented_copies(copies, all_train, known))
    findings.add(class_balance(task, rows.train.labels))
    dev_check = f"class balance of {settings.data.dev_split}"
    findings.add(dev_balance(task, rows.dev.labels, dev_check))


def corpora_of(settings: TaskConfig) -> dict:
    """Returns the running text that a run and its steps train on."""
    found = {}
    if settings.corpus is not None:
        found["the corpus"] = settings.corpus
    for name, step in settings.steps.items():
        if step.kind == "text" and step.corpus not in found.values():
            found[f"the text of step {name}"] = step.corpus
    return found


def examine_lengths(settings, train, dev, findings: Findings) -> None:
    """Reports how many of the encoded examples were truncated."""
    splits = {"train": train, settings.data.dev_split: dev}
    option = "--max-length "
    if settings.corpus is not None:
        option = "--set data.sequence_length="
    findings.add(lengths_cut(splits, option))


def examine_words(splits: dict, tokenizer, findings: Findings) -> None:
    """Counts the examples with words that the tokenizer has no token for."""
    counted = {
        name: (
            given_texts(sample(rows, TRAIN_ROWS)),
            has_unknown(encoded, tokenizer),
        )
        for name, (rows, encoded) in splits.items()
    }
    findings.add(unknown_words(counted, tokenizer))


def encode_some(task: Task, rows, tokenizer, sequence_length: int):
    """Encodes a sample of examples."""
    return task.encode(sample(rows, TRAIN_ROWS), tokenizer, sequence_length)


def epoch_rows(
    settings: TaskConfig, task: Task, num_train: int, learns: bool
) -> int:
    """Returns approximately how many examples an epoch has."""
    count = num_train
    augmented = settings.augmented
    if augmented is not None:
        per_row = augmented.copies_per_epoch
        if per_row is None:
            count += count_copies(augmented.file)
        count += num_train * (per_row or 0)
    if settings.unlabeled is not None and learns:
        _, kept = read_kept_unlabeled(task, settings.data, settings.unlabeled)
        count += unlabeled_rows(
            count, len(kept), settings.unlabeled.per_labeled
        )
    return count


def sample(rows, count: int):
    """Returns a sample of examples with a fixed seed, in their order."""
    if len(rows) <= count:
        return rows
    order = np.random.default_rng(0).permutation(len(rows))
    return rows.take(np.sort(order[:count]))
