"""All rows of a distillation: labelled, augmented, unlabelled, dev."""

import dataclasses

from kdkit.data import EncodedExamples
from kdkit.data import unlabeled_rows
from kdkit.tasks import Task
from kdkit.training.evaluation import Evaluator
from kdkit.training.material import TaskMaterial
from kdkit.training.run_directory import RunDirectory
from kdkit.training.run_settings import DistillSettings
from kdkit.training.task_data import TrainingRows
from kdkit.training.task_data import load_data
from kdkit.training.task_data import load_unlabeled


@dataclasses.dataclass(frozen=True, eq=False)
class LoadedRows:
    """The encoded rows of a run.

    Args:
        train: `TrainingRows`.
        dev: `kdkit.data.EncodedExamples`.
        unlabeled: `kdkit.data.EncodedExamples` or `None`.
        counts: dict of what was left out of `unlabeled`.
        settings: `DistillSettings`.
    """

    train: TrainingRows
    dev: EncodedExamples
    unlabeled: EncodedExamples | None
    counts: dict
    settings: DistillSettings

    @property
    def _per_labeled(self):
        unlabeled = self.settings.unlabeled
        return 1.0 if unlabeled is None else unlabeled.per_labeled

    def material(self, evaluator: Evaluator) -> TaskMaterial:
        """Returns what the stages train on."""
        return TaskMaterial(
            self.train,
            evaluator,
            self.settings.data.num_buckets,
            self.unlabeled,
            self._per_labeled,
        )

    def control_material(self, evaluator: Evaluator) -> TaskMaterial:
        """Returns the labelled rows alone, as many in an epoch as `material`.

        So a control without the unlabelled rows has as many updates.
        """
        material = self.material(evaluator)
        if self.unlabeled is None:
            return material
        num_rows = self.train.num_rows + unlabeled_rows(
            self.train.num_rows, len(self.unlabeled), self._per_labeled
        )
        return dataclasses.replace(material, unlabeled=None, num_rows=num_rows)

    def log(self, run: RunDirectory) -> None:
        """Notes once how many rows there are beside the labelled ones."""
        if self.unlabeled is not None and not run.events("unlabeled"):
            run.log("unlabeled", **self.counts)
        if self.train.augmented is not None and not run.events("augmented"):
            run.log("augmented", **self.train.counts())


def load_rows(
    settings: DistillSettings, task: Task, tokenizer, directory
) -> LoadedRows:
    """Reads and encodes all rows of a run.

    Args:
        settings: `DistillSettings`.
        task: `kdkit.tasks.Task`.
        tokenizer: the teacher's tokenizer.
        directory: path. Where tokens of augmented rows are kept.

    Raises:
        UsageError: for files that cannot be read.
    """
    train, dev = load_data(
        task,
        settings.data,
        tokenizer,
        settings.seed,
        settings.augmented,
        directory,
    )
    unlabeled, counts = None, {}
    if settings.unlabeled is not None:
        unlabeled, counts = load_unlabeled(
            task, settings.data, settings.unlabeled, tokenizer
        )
    return LoadedRows(train, dev, unlabeled, counts, settings)
