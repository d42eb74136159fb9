"""A cache's files: damaged, foreign, too large, with several writers."""

import collections
import concurrent.futures
import shutil

import keras
import numpy as np
import pytest
from keras import ops
from kit.caches import Said, joined, make, rows, stopped_after
from kit.helpers import LENGTH, bert

from kdkit import models
from kdkit.taps import Entry

ENTRIES = [Entry("logits")]


def kept(cache, encoded, entries=ENTRIES, length=LENGTH):
    return cache.outputs(encoded, entries)(np.arange(len(encoded)), length)


@pytest.mark.parametrize("part", [None, (0, 1)])
def test_a_damaged_file_alone_is_made_again_and_counts_once(
    part, tmp_path, teacher
):
    every, said = joined(rows(8), rows(5, seed=1)), Said()

    def fill(*examples):
        for one in examples:
            cache = make(tmp_path, teacher, said, "int8", part=part)
            cache.outputs(one, ENTRIES)
        whole = make(tmp_path, teacher, precision="int8")
        return kept(whole, every)["logits"], whole.describe()

    expected, before = fill(rows(8), rows(5, seed=1))
    assert before["entries"]["logits"]["squared_errors"] > 0
    assert [shard["rows"] for shard in before["shards"]] == [8, 5]
    path = tmp_path / before["shards"][0]["file"]
    path.write_bytes(path.read_bytes()[:-9])
    found, after = fill(every)
    assert said.rows_run() == 8
    assert "1 damaged" in said[-2]
    np.testing.assert_array_equal(found, expected)
    assert after["entries"] == before["entries"]
    assert after["shards"] != before["shards"]


def test_only_what_a_dead_process_left_of_a_cache_is_removed(tmp_path, teacher):
    """A directory may be one that Hugging Face's `datasets` keeps."""
    name = f"{'0a' * 16}.arrow"
    begun = f".{name}.kdkit-abcd_123"
    own = tmp_path / name, tmp_path / begun
    (tmp_path / f"{begun}.lock").touch()
    others = tmp_path / "data-00000-of-00001.arrow", tmp_path / ".a.arrow-b"
    for file, folder in (own, others):
        file.write_bytes(b"rows")
        folder.mkdir()
    kept(make(tmp_path, teacher), rows(3))
    assert not any(path.exists() for path in own)
    assert not list(tmp_path.glob(".*.kdkit-*"))
    assert all(path.exists() for path in others)


def test_another_teacher_is_refused_by_name(tmp_path, teacher):
    kept(make(tmp_path, teacher), rows(3))
    for options, named in (
        ({"name": "b"}, "'a', is 'b'"),
        ({"precision": "int8"}, "'fp32', is 'int8'"),
    ):
        with pytest.raises(ValueError, match=named):
            make(tmp_path, teacher, **options)


def test_too_little_room_is_told_before_the_first_byte(
    tmp_path, teacher, monkeypatch
):
    usage = collections.namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(100))
    with pytest.raises(RuntimeError, match="free"):
        kept(make(tmp_path, teacher), rows(8), [Entry("hidden_states", 1)])
    assert list(tmp_path.glob("*")) == [tmp_path / ".filling.lock"]


def test_a_stopped_pass_over_questions_keeps_all_of_their_entries(tmp_path):
    encoded, said = rows(150, sequences_per_row=3), Said()
    backbone = bert(num_layers=1, num_classes=None)
    model = models.add_head(backbone, models.Head("multiple_choice", 3))
    entries = [Entry("logits"), Entry("cls_states", 1)]
    with stopped_after(2):  # the states of a batch, and its logits
        make(tmp_path, model).outputs(encoded, entries)
    shards = make(tmp_path, model).describe()["shards"]
    done = {shard["entries"][0]: shard["rows"] for shard in shards}
    assert done["cls_states/1"] == 3 * done["logits"] < 3 * 150
    make(tmp_path, model, said).outputs(encoded, entries)
    assert said.rows_run() == 150 - done["logits"]


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
        # The same of what is run again for damaged files.
        index = make(directory, gossip).describe()
        for shard in index["shards"][1::2]:
            (directory / shard["file"]).write_bytes(b"")
        np.testing.assert_array_equal(logits(directory), expected)


def test_two_writers_do_not_lose_each_others_rows(tmp_path, teacher):
    both = [rows(6, seed=seed) for seed in (1, 2)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda one: kept(make(tmp_path, teacher), one), both))
    said = Said()
    cache = make(tmp_path, teacher, said)
    kept(cache, joined(*both))
    assert said.rows_run() == 0
    assert len(cache.describe()["shards"]) == 2


def test_parts_of_several_processes_are_what_one_keeps(tmp_path, teacher):
    encoded, entries = rows(13), [Entry("hidden_states", 1), Entry("logits")]
    said = Said()

    def cache(part=None, folder="parts"):
        return make(tmp_path / folder, teacher, said, "int8", part=part)

    whole = cache(folder="one")
    expected = kept(whole, encoded, entries)
    sizes = []
    for which in range(3):
        part = cache((which, 3))
        # Again: the teacher does not run twice for cached rows.
        for _ in range(2):
            assert not part.outputs(encoded, entries).signature
        assert said.rows_run() == 0
        sizes.append(sum(shard["rows"] for shard in part.describe()["shards"]))
    assert sum(sizes) == 13
    assert max(sizes) < 13
    merged = cache()
    found = kept(merged, encoded, entries)
    assert said.rows_run() == 0
    assert not list((tmp_path / "parts").glob("part_*/*.arrow"))
    # What one of them finds there is no work for it.
    part = cache((1, 3))
    part.outputs(encoded, entries)
    assert said.rows_run() == 0
    assert not part.describe()["shards"]
    for entry in entries:
        np.testing.assert_allclose(
            found[entry.name], expected[entry.name], atol=1e-6
        )
        assert merged.relative_error(entry.name) == pytest.approx(
            whole.relative_error(entry.name), rel=1e-4
        )
