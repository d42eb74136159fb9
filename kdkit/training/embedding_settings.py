"""The settings of texts for sentence encoders."""

import itertools
from typing import ClassVar

from pydantic.dataclasses import dataclass

from kdkit.data import Corpus, LabeledTable, load_sentiment
from kdkit.io.reading import has_text
from kdkit.settings import STRICT, Count, Every, Length
from kdkit.training.data_settings import DevSplit


@dataclass(frozen=True, config=STRICT)
class EmbeddingData:
    """The settings that all data for sentence encoders has.

    Args:
        files: tuple of strings. The files to train on. Empty for the generated
            data of smoke runs.
        held_out_every: int. Without other data to measure on, one in so many
            texts is held out.
        task: string or `None`. A task with scored pairs, whose dev split is
            measured. With `table`, only a name.
        data_dir, table: as in `DataSettings`.
        dev_split: string. The split of `task` that chooses the best epoch.
        sequence_length: int. The largest sequence length in tokens. Longer
            texts are truncated.
        num_buckets: int or `None`. The number of different lengths that batches
            are padded to. XLA compiles each length once. `None` to pad every
            batch to `sequence_length`.

    Raises:
        pydantic.ValidationError: (a `ValueError`) for wrong fields.
    """

    files: tuple[str, ...] = ()
    held_out_every: Every = 100
    task: str | None = None
    data_dir: str | None = None
    table: LabeledTable | None = None
    dev_split: DevSplit = "dev"
    sequence_length: Length = 128
    num_buckets: Count | None = 8

    stage_data: ClassVar[str]  # of the stages that read it


@dataclass(frozen=True, config=STRICT)
class TextsSettings(EmbeddingData):
    """The settings of texts without labels.

    Args:
        files: tuple of strings. Files with one text per line, or tables. Empty
            lines, repeated texts and texts of dev are left out.
        held_out_every, task, data_dir, table, dev_split: as in
            `EmbeddingData`. Without a task, the loss on the held-out texts
            chooses the best epoch.
        sequence_length, num_buckets: as in `EmbeddingData`.
        column: string or `None`. The column with the texts, for tables.
        max_texts: int or `None`. Use only so many first lines. `None` for all.

    Raises:
        pydantic.ValidationError: (a `ValueError`) for wrong fields.
    """

    column: str | None = None
    max_texts: Count | None = None

    stage_data: ClassVar[str] = "texts"

    @property
    def holds_out(self) -> int:
        """One in so many texts is held out; 0 for none."""
        return 0 if self.task else self.held_out_every

    def lines(self):
        """Yields the lines, also empty ones."""
        lines = load_sentiment("train").texts[0]
        if self.files:
            lines = Corpus(self.files, self.column).lines()
        return itertools.islice(lines, self.max_texts)

    def texts(self, held_out: bool):
        """Yields the lines with text, for checks before the run."""
        del held_out
        return filter(has_text, self.lines())
