"""Rows, caches of teacher outputs for them, and passes that are stopped."""

import contextlib
import itertools
import re

import numpy as np
import pytest

from kdkit import data
from kdkit.data import stream
from kdkit.taps import PER_LAYER_TAPS, Entry, describe
from kdkit.teacher_cache import cache, files
from kit.helpers import LENGTH, VOCABULARY_SIZE

LAYERS = 2


def examples(token_ids, lengths, labels, sequences_per_row=1, length=LENGTH):
    return data.EncodedExamples(
        token_ids=np.asarray(token_ids, "int32"),
        segment_ids=np.zeros(len(token_ids), "int32"),
        lengths=np.asarray(lengths, "int32"),
        labels=np.asarray(labels, "int32"),
        sequence_length=length,
        num_truncated=0,
        pad_token_id=0,
        sequences_per_row=sequences_per_row,
    )


def rows(count, seed=0, sequences_per_row=1, length=LENGTH):
    generator = np.random.default_rng(seed)
    lengths = generator.integers(2, length + 1, count * sequences_per_row)
    token_ids = generator.integers(1, VOCABULARY_SIZE, lengths.sum())
    labels = np.arange(count)
    return examples(token_ids, lengths, labels, sequences_per_row, length)


def joined(*parts):
    return examples(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("token_ids", "lengths", "labels")
        )
    )


class Said(list):
    """The lines that a cache announces."""

    __call__ = list.append

    def rows_run(self):
        """On how many examples the teacher ran for the last outputs."""
        found = re.search(r"running the teacher on (\d+)", self[-1])
        assert found or "are cached" in self[-1]
        return int(found[1]) if found else 0


def make(directory, teacher, said=None, precision="fp32", name="a", part=None):
    """A cache, whose class is `kdkit.teacher_cache.cache.TeacherCache`."""
    said = Said() if said is None else said
    names = {"teacher": name}
    return cache.TeacherCache(directory, teacher, names, precision, said, part)


def batches_with(encoded, cached, seed=3):
    batches = data.BatchStream(encoded, data.Buckets(4, 2), seed, cached)
    return batches.training().take(batches.steps_per_epoch)


def of_teachers(*outputs):
    """Cached outputs as a `Distiller` reads them."""
    return cache.OutputsOfTeachers(outputs)


def entries_of(model):
    """Each tap of a model of `LAYERS` blocks, at each layer."""
    found = []
    for tap in describe(model).taps:
        if tap not in PER_LAYER_TAPS:
            found.append(Entry(tap))
            continue
        first = 0 if tap in ("hidden_states", "cls_states") else 1
        found += [Entry(tap, layer) for layer in range(first, LAYERS + 1)]
    return found


@contextlib.contextmanager
def batches_of(size):
    """Batches of features have at most so many bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "BATCH_BYTES", size)
        yield


@contextlib.contextmanager
def stopped_after(count=None):
    """Segments are a batch; the pass stops after so many files, or not."""
    staged, left = files.staged, itertools.count(1)

    def staged_or_stop(path):
        if count is not None and next(left) > count:
            raise KeyboardInterrupt
        return staged(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "SEGMENT_ROWS", 64)
        patch.setattr(files, "staged", staged_or_stop)
        if count is None:
            yield
        else:
            with pytest.raises(KeyboardInterrupt):
                yield
