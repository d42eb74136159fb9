"""A cache's files: damaged, foreign, too large, with several writers."""

import collections
import concurrent.futures
import shutil

import numpy as np
import pytest
import tensorflow as tf
from kit.caches import Says, joined, make, rows
from kit.helpers import LENGTH, bert

from kdkit import models
from kdkit.errors import RunError, UsageError
from kdkit.taps import Entry


def test_a_damaged_file_is_found_and_only_it_is_run_again(tmp_path, teacher):
    entries = [Entry("logits")]
    cache = make(tmp_path, teacher)
    expected = cache.outputs(rows(8), entries)(np.arange(8), LENGTH)
    cache.outputs(rows(5, seed=1), entries)
    shards = cache.describe()["shards"]
    assert [shard["rows"] for shard in shards] == [8, 5]
    path = tmp_path / shards[0]["file"]
    path.write_bytes(path.read_bytes()[:-9])
    says = Says()
    again = make(tmp_path, teacher, says)
    assert "1 damaged files removed" in says[0]
    cached = again.outputs(joined(rows(8), rows(5, seed=1)), entries)
    assert "running the teacher on 8 examples" in says[-1]
    found = cached(np.arange(8), LENGTH)
    np.testing.assert_array_equal(found["logits"], expected["logits"])


@pytest.mark.parametrize("in_parts", [False, True])
def test_a_file_that_is_made_again_counts_once_in_the_errors(
    in_parts, tmp_path, teacher
):
    every, entries = joined(rows(8), rows(5, seed=1)), [Entry("logits")]

    def fill(*parts):
        for one in parts:
            make(
                tmp_path,
                teacher,
                precision="int8",
                part=(0, 1) if in_parts else None,
            ).outputs(one, entries)
        whole = make(tmp_path, teacher, precision="int8")
        whole.outputs(every, entries)
        return whole

    before = fill(rows(8), rows(5, seed=1)).describe()
    assert before["entries"]["logits"]["squared_errors"] > 0
    assert len(before["shards"]) == 2
    (tmp_path / before["shards"][0]["file"]).write_bytes(b"")
    after = fill(every).describe()
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
    make(tmp_path, teacher).outputs(rows(3), [Entry("logits")])
    assert not any(path.exists() for path in own)
    assert not list(tmp_path.glob(".*.kdkit-*"))
    assert all(path.exists() for path in others)


def test_another_teacher_is_refused_by_name(tmp_path, teacher):
    make(tmp_path, teacher).outputs(rows(3), [Entry("logits")])
    with pytest.raises(UsageError, match="teacher was 'a', is 'b'"):
        make(tmp_path, teacher, name="b")
    with pytest.raises(UsageError, match="precision was 'fp32', is 'int8'"):
        make(tmp_path, teacher, precision="int8")


def test_too_little_room_is_told_before_the_first_byte(
    tmp_path, teacher, monkeypatch
):
    usage = collections.namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(100))
    with pytest.raises(RunError, match=r"need \d+ kB .* 0 kB are free"):
        make(tmp_path, teacher).outputs(rows(8), [Entry("hidden_states", 1)])
    assert list(tmp_path.glob("*")) == [tmp_path / ".filling.lock"]


@pytest.fixture
def stopped_after(monkeypatch):
    """A function: passes write small files, and stop after some of them."""
    from kdkit.teacher_cache import cache as filling

    monkeypatch.setattr(filling, "SHARD_BYTES", 1)
    written = filling.write_shard

    def stop_after(count):
        left = iter(range(count))

        def until_then(directory, keys, columns):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return written(directory, keys, columns)

        monkeypatch.setattr(filling, "write_shard", until_then)

    return stop_after


def test_a_stopped_pass_over_questions_keeps_all_of_their_entries(
    tmp_path, stopped_after
):
    encoded = rows(150, sequences_per_row=3)
    backbone = bert(num_layers=1, num_classes=None)
    model = models.add_head(backbone, models.Head("multiple_choice", 3))
    entries = [Entry("logits"), Entry("cls_states", 1)]
    stopped_after(2)  # the states of a batch, and its logits
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, model).outputs(encoded, entries)
    shards = make(tmp_path, model).describe()["shards"]
    kept = {shard["entries"][0]: shard["rows"] for shard in shards}
    assert kept["cls_states/1"] == 3 * kept["logits"] < 3 * 150
    stopped_after(9)
    says = Says()
    make(tmp_path, model, says).outputs(encoded, entries)
    left = 150 - kept["logits"]
    assert f"running the teacher on {left} examples" in says[-1]


def gossip(inputs, sequences_per_row):
    """Logits that show which rows shared a batch."""
    token_ids = np.asarray(inputs["token_ids"], "float32")
    token_ids = token_ids.reshape(len(token_ids) // sequences_per_row, -1)
    place = np.arange(len(token_ids)) + 1
    width = np.full(len(place), token_ids.shape[1])
    total = np.full(len(place), place @ token_ids.sum(1))
    return tf.constant(np.stack([place, width, total], 1), "float32")


@pytest.mark.parametrize("sequences_per_row", [1, 2])
def test_a_pass_that_goes_on_runs_the_same_batches(
    tmp_path, stopped_after, sequences_per_row, teacher, monkeypatch
):
    monkeypatch.setattr(
        "kdkit.teacher_cache.cache.make_run",
        lambda teacher, entries: (
            lambda inputs: {"logits": gossip(inputs, sequences_per_row)}
        ),
    )
    # Kernels give a row other bits in another batch.
    length = 4 * LENGTH
    encoded = rows(500, 0, sequences_per_row, length)

    def kept(directory):
        cache = make(directory, teacher)
        found = cache.outputs(encoded, [Entry("logits")])
        return found(np.arange(500), length)["logits"]

    stopped_after(99)
    expected = kept(tmp_path / "whole")
    directory = tmp_path / "stopped"
    for files in (3, 2):
        stopped_after(files)
        with pytest.raises(KeyboardInterrupt):
            kept(directory)
    stopped_after(99)
    np.testing.assert_array_equal(kept(directory), expected)
    # The same of what is run again for damaged files.
    index = make(directory, teacher).describe()
    for shard in index["shards"][1::2]:
        (directory / shard["file"]).write_bytes(b"")
    np.testing.assert_array_equal(kept(directory), expected)


def test_two_writers_do_not_lose_each_others_rows(tmp_path, teacher):
    def write(seed):
        encoded = rows(6, seed=seed)
        make(tmp_path, teacher).outputs(encoded, [Entry("logits")])

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(write, (1, 2)))
    says = Says()
    both = joined(rows(6, seed=1), rows(6, seed=2))
    make(tmp_path, teacher, says).outputs(both, [Entry("logits")])
    assert "outputs for all 12 examples are cached" in says[-1]
    assert len(make(tmp_path, teacher).describe()["shards"]) == 2


def test_parts_of_several_processes_are_what_one_keeps(tmp_path, teacher):
    encoded, entries = rows(13), [Entry("hidden_states", 1), Entry("logits")]
    whole = make(tmp_path / "one", teacher, precision="int8")
    expected = whole.outputs(encoded, entries)(np.arange(13), LENGTH)
    sizes = []
    for which in range(3):
        part = make(
            tmp_path / "parts", teacher, precision="int8", part=(which, 3)
        )
        # Again: the teacher does not run twice for cached rows.
        for _ in range(2):
            assert not part.outputs(encoded, entries).signature
        sizes.append(sum(shard["rows"] for shard in part.describe()["shards"]))
    assert sum(sizes) == 13
    assert max(sizes) < 13
    says = Says()
    joined = make(tmp_path / "parts", teacher, says, precision="int8")
    found = joined.outputs(encoded, entries)(np.arange(13), LENGTH)
    assert any("merged" in line for line in says)
    assert "are cached" in says[-1]
    assert not list((tmp_path / "parts").glob("part_*/*.arrow"))
    # What one of them finds there is no work for it.
    part = make(
        tmp_path / "parts", teacher, says, precision="int8", part=(1, 3)
    )
    part.outputs(encoded, entries)
    assert "are cached" in says[-1]
    assert not part.describe()["shards"]
    for entry in entries:
        np.testing.assert_allclose(
            found[entry.name], expected[entry.name], atol=1e-6
        )
        assert joined.relative_error(entry.name) == pytest.approx(
            whole.relative_error(entry.name), rel=1e-4
        )
