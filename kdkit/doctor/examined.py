"""What the checks look at: a run's models, examples and teachers' answers."""

import contextlib
import functools
import itertools
from collections.abc import Iterator

import numpy as np

from kdkit.errors import UsageError
from kdkit.training.source import predict_logits
from kdkit.training.tasks import drawn_rows, kept_apart

TEXTS = 1_000_000  # of a corpus that are compared with those held out
SAMPLE = 2048  # examples of a split that are encoded
ANSWERED = 256  # examples of a split that a teacher answers


class Examined:
    """What a run has built.

    Args:
        kind: the run's kind, from `kdkit.runs.build.build`.

    Attributes:
        kind, config: the run's kind, and its config.
        task: the `kdkit.tasks.Task`, `None` for text and sentence encoders.
    """

    def __init__(self, kind):
        self.kind, self.config = kind, kind.config
        self.task = kind.task if kind.config.kind == "task" else None

    @functools.cached_property
    def examples(self) -> dict:
        """The examples of a task's splits: train, dev, and others."""
        data, (train, dev) = self.config.data, self.kind.rows
        seed = self.config.training.seed
        drawn = drawn_rows(len(train), data.max_train_rows, seed)
        found = {"train": train.take(drawn)}
        found[data.dev_split] = dev
        for split in kept_apart(self.task, data):
            # A test file that cannot be read is not used, either.
            with contextlib.suppress(OSError, UsageError):
                found.setdefault(split, self.task.load(split, data.data_dir))
        return found

    @functools.cached_property
    def texts(self) -> dict[str, list[tuple[str, ...]]]:
        """The texts of each example, by split; sentences of words as one."""
        if self.task is not None:
            found = {name: some.rows for name, some in self.examples.items()}
            if self.task.kind.has_label_per_token:
                for name, rows in found.items():
                    found[name] = [(" ".join(words),) for words in rows]
            return found
        if self.config.kind == "embedder":  # it leaves held-out texts out
            texts = itertools.islice(self.config.data.texts(False), SAMPLE)
            return {"train": [(text,) for text in texts]}
        train, held_out = map(self._part, (False, True))
        return {"train": train, "the held-out text": held_out}

    @functools.cached_property
    def encoded(self) -> dict:
        """Samples of a task's train and dev, encoded."""
        return {name: self._encode(name, SAMPLE) for name in self._read}

    @functools.cached_property
    def answers(self) -> list[tuple]:
        """The targets and logits of each teacher on samples of train and dev.

        Each is a tuple of words for the teacher and the split, the split, the
        targets and the logits.
        """
        return list(self._answers())

    def _part(self, held_out):
        """Returns the texts, or pairs of texts, of a part of a corpus."""
        corpus = self.config.corpus
        if corpus.kind == "pairs":
            return list(itertools.islice(corpus.pairs(held_out), TEXTS))
        texts = itertools.islice(corpus.texts(held_out), TEXTS)
        return [(text,) for text in texts]

    @property
    def _read(self):
        """The splits that models read, dev first."""
        return (self.config.data.dev_split, "train")

    def _encode(self, split, count):
        rows = self.examples[split]
        if len(rows) > count:
            order = np.random.default_rng(0).permutation(len(rows))
            rows = rows.take(np.sort(order[:count]))
        length = self.config.data.sequence_length
        return self.task.encode(rows, self.kind.tokenizer, length)

    def _answers(self) -> Iterator[tuple]:
        if self.task is None or not self.kind.forwards:
            return
        for split in self._read:
            encoded = self._encode(split, ANSWERED)
            for number, forward in enumerate(self.kind.forwards, start=1):
                logits = predict_logits(forward, encoded)
                which = f" {number}" if len(self.kind.forwards) > 1 else ""
                name = f"teacher{which} on {split}"
                yield name, split, encoded.targets, logits
