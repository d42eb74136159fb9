"""Opening a located MODEL: its forward pass, tokenizer and data."""

import dataclasses
from collections.abc import Callable

import numpy as np

from kdkit import export
from kdkit import models
from kdkit import tasks
from kdkit.errors import UsageError
from kdkit.tasks import Task
from kdkit.training.evaluation import make_forward
from kdkit.training.making import check_positions


@dataclasses.dataclass(frozen=True)
class Opened:
    """A model that can be evaluated.

    Args:
        task: `kdkit.tasks.Task`.
        predict: callable from a dict batch to logits.
        model: `keras.Model`, or `None` for an exported file.
        tokenizer: a keras-hub tokenizer, or `None`.
        data_dir: string or `None`. Where the task's files are.
        sequence_length: int. Longest sequence in tokens.
    """

    task: Task
    predict: Callable
    model: object
    tokenizer: object
    data_dir: str | None
    sequence_length: int

    def read(self, split):
        """Returns a split of the task as it stands in its files."""
        return self.task.load(split, self.data_dir)

    def encode(self, split, max_rows=None):
        """Returns a split of the task, or some rows of it, encoded."""
        return self.encode_rows(self.read(split), max_rows)

    def encode_rows(self, examples, max_rows=None):
        """Returns rows that were read, or some of them, encoded."""
        if self.tokenizer is None:
            raise UsageError(
                "This file brings no tokenizer. Pass --tokenizer MODEL, a run "
                "or preset directory with the tokenizer it was trained with."
            )
        if max_rows is not None:
            rows = np.random.default_rng(0).permutation(len(examples))
            examples = examples.take(rows[:max_rows])
        return self.task.encode(examples, self.tokenizer, self.sequence_length)


def open_model(place, options) -> Opened:
    """Opens a `Place` with the task that the options or its run name.

    Args:
        place: `kdkit.cli.locating.Place`.
        options: parsed options with `task`, `data_dir`, `sequence_length` and
            `tokenizer`.

    Raises:
        UsageError: if no task is known, or the model does not fit it or reads
            less than `sequence_length`.
    """
    task_name = place.data_setting("task", options.task)
    if task_name is None:
        raise UsageError(
            f"Missing: --task, since {place.path} is not in a run directory "
            "that tells it."
        )
    task = tasks.get_task(task_name)
    same_task = task_name == place.config.get("data", {}).get("task")
    data_dir = options.data_dir
    if data_dir is None and same_task:
        data_dir = place.config["data"]["data_dir"]
    task = task.for_data(data_dir)
    if export.exporter_of(place.path) is not None:
        file = export.open_file(place.path, kind="encoder")
        length = _length(place, options, task, most=file.sequence_length)
        return Opened(
            task, file, None, tokenizer_for(place, options), data_dir, length
        )
    loaded = models.load_classifier(place.path, task.head)
    models.check_num_classes(loaded.num_other_classes, task.head, place.path)
    if not loaded.has_trained_head:
        raise UsageError(
            f"{place.path} is an encoder without a trained head, so it cannot "
            f"do task {task.name!r}. Fine-tune it with kdkit train-teacher."
        )
    length = _length(
        place,
        options,
        task,
        most=models.num_positions(loaded.model),
        own=loaded.sequence_length,
    )
    return Opened(
        task,
        make_forward(loaded.model),
        loaded.model,
        loaded.tokenizer or tokenizer_for(place, options),
        data_dir,
        length,
    )


def _length(place, options, task, most, own=None):
    """The longest row: what is given, or else what the model was made with.

    `most` is what it reads at most, or `None`; `own` is what its files tell.
    """
    if options.sequence_length is not None:
        check_positions(options.sequence_length, most, "--sequence-length ")
        return options.sequence_length
    of_run = place.data_setting("sequence_length", None)
    length = of_run or own or task.sequence_length
    return length if most is None else min(length, most)


def file_tokenizer(place, options):
    """As `tokenizer_for`, for a file that is of no use without one.

    Raises:
        UsageError: if there is none.
    """
    tokenizer = tokenizer_for(place, options)
    if tokenizer is None:
        raise UsageError(
            f"The tokenizer of {place.path} is not known, since it is not in a "
            "run directory. Pass --tokenizer MODEL."
        )
    return tokenizer


def tokenizer_for(place, options):
    """The tokenizer of --tokenizer, or of the run that a file belongs to.

    Raises:
        UsageError: if it is of two vocabularies and the file has one.
    """
    source = options.tokenizer
    if source is None and place.run is not None:
        source = place.run.path
    if source is None:
        return None
    tokenizer = models.load_tokenizer(source)
    is_pair = isinstance(tokenizer, models.TokenizerPair)
    if is_pair and not export.reads_sources(place.path):
        raise UsageError(
            f"{source} has two vocabularies, those of an encoder-decoder. "
            f"Received: {place.path}, which has one. Name another --tokenizer."
        )
    return tokenizer
