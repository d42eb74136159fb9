"""The rows of a run: a task's splits, encoded, and text without labels."""

import numpy as np

from kdkit import data
from kdkit import tasks
from kdkit.errors import UsageError
from kdkit.tasks import Task
from kdkit.training.run_settings import DataSettings
from kdkit.training.run_settings import UnlabeledSettings


def open_task(settings: DataSettings) -> Task:
    """Returns the task, with the classes that stand in its data."""
    return tasks.get_task(settings.task).for_data(settings.data_dir)


def check_data(task: Task, settings: DataSettings) -> None:
    """Checks that the splits of a run are there.

    Raises:
        UsageError: with all that is missing.
    """
    splits = ("train", settings.dev_split, *task.other_dev_splits)
    task.check_data(dict.fromkeys(splits), settings.data_dir)


def load_split(task: Task, settings: DataSettings, tokenizer, split):
    """Returns a split of a task, encoded for a tokenizer."""
    examples = task.load(split, settings.data_dir)
    return task.encode(examples, tokenizer, settings.sequence_length)


def load_data(task: Task, settings: DataSettings, tokenizer, seed):
    """Returns the encoded train and dev splits, and says how large they are."""
    train = task.load("train", settings.data_dir)
    if settings.max_train_rows and settings.max_train_rows < len(train):
        rows = np.random.default_rng(seed).permutation(len(train))
        train = train.take(np.sort(rows[: settings.max_train_rows]))
    train = task.encode(train, tokenizer, settings.sequence_length)
    dev = load_split(task, settings, tokenizer, settings.dev_split)
    print(
        f"{task.name}: {len(train)} rows to train on, {len(dev)} in "
        f"{settings.dev_split}; "
        f"{train.num_truncated} and {dev.num_truncated} cut to "
        f"{settings.sequence_length} tokens.",
        flush=True,
    )
    return train, dev


def load_other_dev_splits(task: Task, settings: DataSettings, tokenizer):
    """The dev splits that models are not chosen on, encoded, by name."""
    return {
        split: load_split(task, settings, tokenizer, split)
        for split in task.other_dev_splits
        if split != settings.dev_split
    }


def load_unlabeled(
    task: Task,
    settings: DataSettings,
    unlabeled: UnlabeledSettings,
    tokenizer,
):
    """Reads unlabelled rows, without those of dev and test.

    Args:
        task: `kdkit.tasks.Task`.
        settings: `DataSettings` of the labelled rows.
        unlabeled: `UnlabeledSettings`.
        tokenizer: the teacher's tokenizer.

    Returns:
        Tuple of the encoded rows and a dict that counts what was left out, the
        fields of an `"unlabeled"` event.

    Raises:
        UsageError: for tasks on something else than sentences and pairs, files
            that cannot be read, or if no row is left.
    """
    if task.head.kind != "sequence":
        raise UsageError(
            "Unlabelled text is for tasks on sentences and pairs. Received: "
            f"task {task.name!r}, {task.kind.title}. Leave it out."
        )
    rows = data.read_unlabeled(
        unlabeled.files, unlabeled.columns, task.num_texts
    )
    splits = [
        split
        for split in task.splits
        if split != "train" and _is_there(task, split, settings.data_dir)
    ]
    kept = data.without_texts_of(
        rows, [task.load(split, settings.data_dir) for split in splits]
    )
    dropped = len(rows) - len(kept)
    print(
        f"{len(kept)} rows without labels; {dropped} left out that also stand "
        f"in {', '.join(splits)}.",
        flush=True,
    )
    if not len(rows):
        raise UsageError(
            f"{', '.join(unlabeled.files)}: expected rows of text below the "
            "header. Received: none."
        )
    if not len(kept):
        raise UsageError(
            f"No unlabelled row is left of {len(rows)} in "
            f"{', '.join(unlabeled.files)}: all stand in dev or test."
        )
    counts = {
        "rows": len(rows),
        "dropped": dropped,
        "compared_with": splits,
        "per_labeled": unlabeled.per_labeled,
    }
    return task.encode(kept, tokenizer, settings.sequence_length), counts


def _is_there(task, split, data_dir):
    """Whether a split has files here; without any, nothing is kept from it."""
    try:
        task.check_data([split], data_dir)
    except UsageError:
        return False
    return True
