"""Rows, and caches of teacher outputs for them."""

import numpy as np

from kdkit import data
from kdkit.data import EncodedExamples
from kdkit.teacher_cache.cache import TeacherCache
from kit.helpers import LENGTH, VOCABULARY_SIZE

LAYERS = 2


def rows(count, seed=0, sequences_per_row=1, length=LENGTH):
    generator = np.random.default_rng(seed)
    lengths = generator.integers(2, length + 1, count * sequences_per_row)
    token_ids = generator.integers(1, VOCABULARY_SIZE, lengths.sum())
    return EncodedExamples(
        token_ids=token_ids.astype("int32"),
        segment_ids=np.zeros(lengths.sum(), "int32"),
        lengths=lengths.astype("int32"),
        labels=np.arange(count, dtype="int32"),
        sequence_length=length,
        num_truncated=0,
        pad_token_id=0,
        sequences_per_row=sequences_per_row,
    )


def joined(*parts):
    return EncodedExamples(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("token_ids", "segment_ids", "lengths", "labels")
        ),
        sequence_length=LENGTH,
        num_truncated=0,
        pad_token_id=0,
    )


class Says(list):
    """The lines that a cache announces."""

    __call__ = list.append


def make(
    directory,
    teacher,
    says=None,
    precision="fp32",
    name="a",
    part=None,
):
    return TeacherCache(
        directory,
        teacher,
        {"teacher": name},
        precision,
        says if says is not None else Says(),
        part,
    )


def batches_with(encoded, cached, seed=3):
    stream = data.BatchStream(encoded, data.Buckets(4, 2), seed, cached)
    return stream.training().take(stream.steps_per_epoch)
