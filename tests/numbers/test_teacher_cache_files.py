"""A cache's files: cut, of other teachers, too large, of several writers."""

import collections
import shutil

import keras
import ml_dtypes
import numpy as np
import pytest
from keras import ops
from kit.caches import Said, make, rows, stopped_after
from kit.helpers import LENGTH, bert

from kdkit import models
from kdkit.taps import Entry

ENTRIES = [Entry("logits")]
BOTH = [Entry("hidden_states", 1), Entry("logits")]


def kept(cache, encoded, entries=ENTRIES, length=LENGTH):
    return cache.outputs(encoded, entries)(np.arange(len(encoded)), length)


def contents(directory):
    return {
        file.relative_to(directory): file.read_bytes()
        for file in directory.rglob("*")
        if file.is_file()
    }


def test_numpy_reads_the_files(tmp_path, teacher):
    """A file of bfloat16 would be loaded as raw bytes."""
    encoded = rows(9)
    expected = kept(make(tmp_path, teacher), encoded)["logits"]
    longest = np.argmax(encoded.lengths)
    for precision, word, read, tolerance in (
        ("fp32", "float32", "float32", 0),
        ("bf16", "uint16", ml_dtypes.bfloat16, 4e-3),
        ("int8", "int8", None, 0),
    ):
        folder = tmp_path / precision
        kept(make(folder, teacher, precision=precision), encoded)
        (file,) = folder.rglob("*.npy")
        stored = np.load(file, allow_pickle=False)
        assert stored.dtype == word
        if read:
            found = stored.view(read)[: expected.shape[1]].astype("float32")
            right = expected[longest]
            np.testing.assert_allclose(found, right, rtol=tolerance)


def test_teachers_of_the_same_sizes_share_a_directory(tmp_path, teacher):
    encoded = rows(6)
    for name, model in (("a", teacher), ("b", bert(2, seed=5)), ("a", teacher)):
        found = kept(make(tmp_path, model, name=name), encoded)
        alone = kept(make(tmp_path / name, model), encoded)
        np.testing.assert_array_equal(found["logits"], alone["logits"])


def test_too_little_room_is_told_before_the_first_byte(
    tmp_path, teacher, monkeypatch
):
    usage = collections.namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(100))
    with pytest.raises(RuntimeError, match="free"):
        kept(make(tmp_path, teacher), rows(8), [Entry("hidden_states", 1)])
    assert not list(tmp_path.glob("*"))


def test_a_stopped_pass_over_questions_goes_on(tmp_path):
    encoded, said = rows(150, sequences_per_row=3), Said()
    backbone = bert(num_layers=1, num_classes=None)
    model = models.add_head(backbone, models.Head("multiple_choice", 3))
    entries = [Entry("logits"), Entry("cls_states", 1)]
    with stopped_after(3):  # the states and logits of a batch, and a half
        make(tmp_path / "stopped", model).outputs(encoded, entries)
    with stopped_after(None):
        kept(make(tmp_path / "stopped", model, said), encoded, entries)
        kept(make(tmp_path / "whole", model), encoded, entries)
    assert said.rows_run() == 150 - 64
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


class Gossip(keras.layers.Layer):
    """Logits that show which rows shared a batch."""

    def __init__(self, sequences_per_row):
        super().__init__()
        self.sequences_per_row = sequences_per_row

    def call(self, token_ids):
        sums = ops.sum(ops.cast(token_ids, "float32"), axis=1)
        sums = ops.sum(ops.reshape(sums, (-1, self.sequences_per_row)), axis=1)
        width = ops.cast(ops.shape(token_ids)[1], "float32")
        of_batch = width * ops.sum(ops.cumsum(sums))
        return ops.stack([sums, of_batch + 0 * sums], axis=1)


@pytest.mark.parametrize("sequences_per_row", [1, 2])
def test_a_pass_that_goes_on_runs_the_same_batches(tmp_path, sequences_per_row):
    """Kernels give a row other bits in another batch."""
    token_ids = keras.Input((None,), dtype="int32", name="token_ids")
    gossip = keras.Model(
        {"token_ids": token_ids}, Gossip(sequences_per_row)(token_ids)
    )
    length = 4 * LENGTH
    encoded = rows(500, 0, sequences_per_row, length)

    def logits(directory):
        return kept(make(directory, gossip), encoded, ENTRIES, length)["logits"]

    with stopped_after(None):
        expected = logits(tmp_path / "whole")
    directory = tmp_path / "stopped"
    for count in (3, 2):
        with stopped_after(count):
            logits(directory)
    with stopped_after(None):
        np.testing.assert_array_equal(logits(directory), expected)
        # The same of what is run again for files that are cut.
        for file in sorted(directory.rglob("*.npy"))[1::2]:
            file.write_bytes(file.read_bytes()[:-9])
        np.testing.assert_array_equal(logits(directory), expected)
    assert contents(directory) == contents(tmp_path / "whole")


def test_writers_of_the_same_files_write_the_same(tmp_path, teacher):
    """The second writer begins and ends while the first one writes."""
    one, other = Said(), Said()

    def say(line):
        one(line)
        make(tmp_path, teacher, other).outputs(rows(60), BOTH)
        before.update(contents(tmp_path))

    before = {}
    make(tmp_path, teacher, say).outputs(rows(60), BOTH)
    assert one.rows_run() == other.rows_run() == 60
    assert contents(tmp_path) == before


def test_parts_of_several_processes_are_what_one_keeps(tmp_path, teacher):
    encoded, said = rows(330), Said()

    def cache(part=None, folder="parts"):
        return make(tmp_path / folder, teacher, said, "int8", part=part)

    with stopped_after(None):
        expected = kept(cache(folder="one"), encoded, BOTH)
        sizes = []
        for which in range(3):
            cache((which, 3)).outputs(encoded, BOTH)
            sizes.append(said.rows_run())
            # Again: the teacher does not run twice for cached rows.
            cache((which, 3)).outputs(encoded, BOTH)
            assert said.rows_run() == 0
        assert sizes[:2] == [2 * 64, 2 * 64]
        assert 64 < sizes[2] < 2 * 64
        whole = cache()
        found = kept(whole, encoded, BOTH)
    assert said.rows_run() == 0
    assert contents(tmp_path / "parts") == contents(tmp_path / "one")
    for entry in BOTH:
        np.testing.assert_array_equal(found[entry.name], expected[entry.name])
    assert 0 < whole.relative_error("logits") < 0.01
