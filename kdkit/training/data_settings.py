"""What a run on a task reads."""

import dataclasses

from kdkit.errors import UsageError
from kdkit.training.ranges import too_small

LEAST = {"sequence_length": 3, "max_train_rows": 1, "num_buckets": 1}


@dataclasses.dataclass(frozen=True)
class DataSettings:
    """What a run trains and evaluates on.

    Args:
        task: string. A key of `kdkit.tasks.TASKS`.
        data_dir: string or `None`. The root that holds `SST-2/`, `MRPC/`...;
            `None` for TensorFlow Datasets.
        sequence_length: int. Longest sequence in tokens; longer ones are cut.
        max_train_rows: int or `None`. Train on so many rows, drawn with the
            seed. `None` for all of them.
        num_buckets: int or `None`. Number of different lengths that batches
            are padded to, each of which XLA compiles once. `None` to pad every
            batch to `sequence_length`, for losses that count padding.
        dev_split: string. The split by which epochs are chosen.

    Raises:
        UsageError: (a `ValueError`) if a number is impossible, or `dev_split`
            is a test split or the training data.
    """

    task: str
    data_dir: str | None
    sequence_length: int
    max_train_rows: int | None = None
    num_buckets: int | None = 8
    dev_split: str = "dev"

    def __post_init__(self):
        problems = []
        least = dict(LEAST)
        if self.num_buckets is None:
            del least["num_buckets"]
        if wrong := too_small(self, least):
            problems.append(f"Settings of data: {'; '.join(wrong)}.")
        if self.dev_split.startswith(("test", "train")):
            problems.append(
                "Models are chosen on a dev split, never on test or training "
                f"data. Received: dev_split={self.dev_split!r}. Use "
                "dev_split=dev, and kdkit evaluate --split for the others."
            )
        if problems:
            raise UsageError("\n".join(problems))


def counting_padding(stages) -> list[str]:
    """Returns the objectives whose value depends on a batch's padding.

    Args:
        stages: tuple of `Stage`.

    Returns:
        A list of their names.
    """
    return [
        settings.name
        for stage in stages
        if stage.data == "task"
        for settings in stage.objectives
        if settings.counts_padding
    ]


def with_one_length(settings):
    """Returns a run's settings with every batch padded to its full length.

    Args:
        settings: `DistillSettings`.
    """
    data = dataclasses.replace(settings.data, num_buckets=None)
    return dataclasses.replace(settings, data=data)
