"""What is kept of a teacher is what it says, of those rows alone."""

import collections
import concurrent.futures
import json
import shutil

import numpy as np
import pytest
from helpers import LENGTH
from helpers import VOCABULARY_SIZE
from helpers import bert
from hypothesis import given
from hypothesis import strategies as st

from kdkit import data
from kdkit import export
from kdkit import models
from kdkit.data import EncodedExamples
from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.taps import PER_LAYER_TAPS
from kdkit.taps import Entry
from kdkit.taps import describe
from kdkit.taps import tapped
from kdkit.teacher_cache import TeacherCache

LAYERS = 2


def entries_of(model):
    found = []
    for tap in describe(model).taps:
        if tap not in PER_LAYER_TAPS:
            found.append(Entry(tap))
            continue
        first = 0 if tap in ("hidden_states", "cls_states") else 1
        found += [Entry(tap, layer) for layer in range(first, LAYERS + 1)]
    return found


def rows(count, seed=0, sequences_per_row=1):
    generator = np.random.default_rng(seed)
    lengths = generator.integers(2, LENGTH + 1, count * sequences_per_row)
    token_ids = generator.integers(1, VOCABULARY_SIZE, lengths.sum())
    return EncodedExamples(
        token_ids=token_ids.astype("int32"),
        segment_ids=np.zeros(lengths.sum(), "int32"),
        lengths=lengths.astype("int32"),
        labels=np.arange(count, dtype="int32"),
        sequence_length=LENGTH,
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


@pytest.fixture(scope="module")
def teacher():
    return bert(num_layers=LAYERS)


class Says(list):
    """The lines that a cache announces."""

    __call__ = list.append


def make(directory, teacher, says=None, precision="fp32", name="a", part=None):
    return TeacherCache(
        directory,
        teacher,
        {"teacher": name},
        precision,
        says if says is not None else Says(),
        part,
    )


def batches_with(encoded, cached, seed=3):
    batches, steps = data.training_batches(
        encoded, 4, seed=seed, num_buckets=2, features=lambda unused: cached
    )
    return batches.take(steps)


def test_every_tap_is_as_the_teacher_says_it(tmp_path, teacher):
    encoded = rows(11)
    entries = entries_of(teacher)
    cached = make(tmp_path, teacher).outputs(encoded, entries)
    run = tapped(teacher, sorted({entry.tap for entry in entries}))
    count = 0
    for x, _ in batches_with(encoded, cached):
        taps = run(x, training=False)
        real = x["padding_mask"].numpy().astype(bool)
        for entry in entries:
            expected = np.array(entry.read(taps))
            found = x[entry.name].numpy()
            # What is said of padding is not kept.
            weights = np.ones(expected.shape)
            if entry.tap.startswith("attention"):
                weights = real[:, None, :, None] * real[:, None, None, :]
            elif expected.ndim > 2:
                weights = real.reshape(*real.shape, *[1] * (expected.ndim - 2))
            np.testing.assert_allclose(found, expected * weights, atol=1e-5)
        count += len(real)
    assert count == 11


def test_what_will_be_asked_for_is_written_beside(tmp_path, teacher):
    says = Says()
    cache = make(tmp_path, teacher, says)
    first, later = Entry("hidden_states", 1), Entry("logits")
    cache.outputs(rows(9), [first], beside=[later, first])
    assert says[-1].startswith(f"{tmp_path}: running the teacher over 9 rows")
    cache.outputs(rows(9), [later], beside=[Entry("hidden_states", 2)])
    # Nothing is run for what is beside alone.
    assert says[-1].endswith("outputs for all 9 rows are there.")
    # New rows: what is asked for and what is beside.
    both = joined(rows(9), rows(5, seed=1))
    cache.outputs(both, [later], beside=[first])
    assert says[-1].startswith(f"{tmp_path}: running the teacher over 5 rows")
    cache.outputs(both, [first, later])
    assert says[-1].endswith("outputs for all 14 rows are there.")


@pytest.mark.parametrize(
    ("precision", "largest"), [("fp32", 1e-7), ("bf16", 4e-3), ("int8", 1e-2)]
)
def test_fewer_bits_say_what_they_change(tmp_path, teacher, precision, largest):
    encoded = rows(9)
    entry = Entry("hidden_states", 1)
    cache = make(tmp_path, teacher, precision=precision)
    cached = cache.outputs(encoded, [entry])
    exact = make(tmp_path / "exact", teacher).outputs(encoded, [entry])
    every = np.arange(9)
    found = cached(every, LENGTH)[entry.name]
    expected = exact(every, LENGTH)[entry.name]
    known = cache.describe()["entries"][entry.name]
    assert cache.relative_error(entry.name) < largest
    error = np.abs(found - expected)
    assert known["largest_error"] == pytest.approx(error.max(), abs=1e-6)
    relative = np.sqrt((error**2).sum() / (expected**2).sum())
    assert cache.relative_error(entry.name) == pytest.approx(
        relative, rel=1e-3, abs=1e-7
    )


def test_rows_are_known_by_their_tokens(tmp_path, teacher):
    says = Says()
    entries = [Entry("logits"), Entry("cls_states", 2)]
    first, more = rows(8), rows(5, seed=1)
    cache = make(tmp_path, teacher, says)
    before = cache.outputs(first, entries)(np.arange(8), LENGTH)
    assert "running the teacher over 8 rows" in says[-1]
    # In another order, twice, and with others among them.
    cached = cache.outputs(joined(more, first, first), entries)
    assert "running the teacher over 5 rows" in says[-1]
    for place in (5, 13):
        after = cached(np.arange(place, place + 8), LENGTH)
        for name, values in before.items():
            np.testing.assert_array_equal(after[name], values)
    again = make(tmp_path, teacher, says)
    again.outputs(joined(first, more), entries)
    assert "outputs for all 13 rows are there" in says[-1]
    again.outputs(first, [*entries, Entry("hidden_states", 1)])
    assert "running the teacher over 8 rows" in says[-1]


@given(
    chosen=st.lists(st.integers(0, 8), min_size=1, max_size=12),
    padded_length=st.integers(LENGTH, LENGTH + 3),
)
def test_a_row_says_the_same_wherever_it_stands(kept, chosen, padded_length):
    cached, entries = kept
    every = cached(np.arange(9), LENGTH)
    found = cached(np.array(chosen), padded_length)
    for entry in entries:
        expected = every[entry.name][chosen]
        padded = found[entry.name]
        if expected.ndim > 2:
            np.testing.assert_array_equal(padded[:, LENGTH:], 0)
            padded = padded[:, :LENGTH]
        np.testing.assert_array_equal(padded, expected)


@pytest.fixture(scope="module")
def kept(tmp_path_factory, teacher):
    """What is kept of nine rows, by one row and by position."""
    entries = [Entry("logits"), Entry("cls_states", 2)]
    entries.append(Entry("hidden_states", 1))
    directory = tmp_path_factory.mktemp("kept")
    return make(directory, teacher).outputs(rows(9), entries), entries


def test_logits_of_questions_are_of_rows_and_states_of_options(tmp_path):
    encoded = rows(6, sequences_per_row=3)
    model = bert(num_layers=LAYERS)
    entry = Entry("cls_states", 1)
    cached = make(tmp_path, model).outputs(encoded, [entry])
    numbers = np.array([4, 1])
    (x, _), *_ = [
        batch for batch in data.evaluation_batches(encoded, 6, num_buckets=1)[0]
    ]
    states = entry.read(tapped(model, ["cls_states"])(x)).numpy()
    states = states.reshape(6, 3, -1)
    found = cached(numbers, LENGTH)[entry.name]
    expected = states[numbers].reshape(6, -1)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_logits_of_questions_are_one_row_for_all_options(tmp_path):
    encoded = rows(6, sequences_per_row=3)
    backbone = bert(num_layers=LAYERS, num_classes=None)
    model = models.add_head(backbone, models.Head("multiple_choice", 3))
    entries = [Entry("logits"), Entry("cls_states", 2)]
    cached = make(tmp_path, model).outputs(encoded, entries)
    for x, labels in batches_with(encoded, cached):
        expected = tapped(model, ["logits", "cls_states"])(x)
        assert x["logits"].shape == (len(labels), 3)
        assert x["cls_states/2"].shape == (3 * len(labels), 8)
        for entry in entries:
            np.testing.assert_allclose(
                x[entry.name], entry.read(expected), atol=1e-5
            )


def test_logits_of_tokens_are_as_long_as_their_row(tmp_path):
    encoded = rows(7)
    backbone = bert(num_layers=LAYERS, num_classes=None)
    model = models.add_head(backbone, models.Head("tokens", 4))
    cached = make(tmp_path, model).outputs(encoded, [Entry("logits")])
    for x, _ in batches_with(encoded, cached):
        real = x["padding_mask"].numpy()[:, :, None]
        expected = model({name: x[name] for name in model.input})
        np.testing.assert_allclose(
            x["logits"], expected.numpy() * real, atol=1e-5
        )


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
    assert "1 damaged files left out" in says[0]
    cached = again.outputs(joined(rows(8), rows(5, seed=1)), entries)
    assert "running the teacher over 8 rows" in says[-1]
    found = cached(np.arange(8), LENGTH)
    np.testing.assert_array_equal(found["logits"], expected["logits"])


def test_another_teacher_is_refused_by_name(tmp_path, teacher):
    make(tmp_path, teacher).outputs(rows(3), [Entry("logits")])
    with pytest.raises(UsageError, match="teacher a there, b here"):
        make(tmp_path, teacher, name="b")
    with pytest.raises(UsageError, match="precision fp32 there, int8 here"):
        make(tmp_path, teacher, precision="int8")
    with pytest.raises(UsageError, match="one of .*bf16"):
        make(tmp_path / "new", teacher, precision="fp8")


@pytest.fixture(scope="module", params=["tflite", "saved_model"])
def file(request, teacher, tmp_path_factory):
    """The teacher, exported."""
    folder = tmp_path_factory.mktemp("exported")
    if request.param == "tflite":
        path = folder / "teacher.tflite"
        export.to_litert(teacher, path, precision="int8")
    else:
        path = folder / "teacher"
        export.to_saved_model(teacher, path)
    return export.open_file(path)


def test_logits_of_an_exported_file_are_what_the_file_says(tmp_path, file):
    encoded = rows(9)
    cached = make(tmp_path, file).outputs(encoded, [Entry("logits")])
    for x, _ in batches_with(encoded, cached):
        expected = file({name: x[name] for name in file.input_names})
        np.testing.assert_allclose(x["logits"], expected, atol=1e-5)


def test_an_exported_file_has_nothing_but_logits(tmp_path, file):
    entries = [Entry("logits"), Entry("hidden_states", 1)]
    with pytest.raises(UsageError, match=r"alone. Received: hidden_states/1"):
        make(tmp_path, file).outputs(rows(3), entries)


def test_outputs_of_a_file_and_of_the_model_do_not_mix(tmp_path, teacher):
    fingerprint = {"teacher": "a", "teacher_file": "b"}
    cache = TeacherCache(tmp_path, teacher, fingerprint, announce=Says())
    cache.outputs(rows(3), [Entry("logits")])
    cache.keep_agreement({"same_top_class": 0.5})
    again = TeacherCache(tmp_path, teacher, fingerprint, announce=Says())
    assert again.agreement == {"same_top_class": 0.5}
    assert len(again.describe()["shards"]) == 1
    with pytest.raises(UsageError, match="teacher_file b there, None here"):
        make(tmp_path, teacher)


def test_too_little_room_is_told_before_the_first_byte(
    tmp_path, teacher, monkeypatch
):
    usage = collections.namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(100))
    with pytest.raises(RunError, match=r"need \d+ kB .* 0 kB are free"):
        make(tmp_path, teacher).outputs(rows(8), [Entry("hidden_states", 1)])
    assert list(tmp_path.glob("*")) == [tmp_path / ".filling.lock"]


def test_a_file_in_its_place_is_told(tmp_path, teacher):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="no cache in .*file: File exists"):
        make(tmp_path / "file", teacher)


def test_a_stopped_pass_keeps_what_it_wrote(tmp_path, teacher, monkeypatch):
    from kdkit.teacher_cache import filling

    monkeypatch.setattr(filling, "SHARD_ROWS", 4)
    monkeypatch.setattr(filling, "SHARD_BYTES", 1)
    written = filling.write_shard

    def until_the_second(directory, keys, columns):
        if list(directory.glob("*.arrow")):
            raise KeyboardInterrupt
        return written(directory, keys, columns)

    monkeypatch.setattr(filling, "write_shard", until_the_second)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, teacher).outputs(rows(8), [Entry("logits")])
    monkeypatch.setattr(filling, "write_shard", written)
    says = Says()
    make(tmp_path, teacher, says).outputs(rows(8), [Entry("logits")])
    assert "running the teacher over 4 rows" in says[-1]


def test_two_writers_do_not_lose_each_others_rows(tmp_path, teacher):
    def write(seed):
        encoded = rows(6, seed=seed)
        make(tmp_path, teacher).outputs(encoded, [Entry("logits")])

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(write, (1, 2)))
    says = Says()
    both = joined(rows(6, seed=1), rows(6, seed=2))
    make(tmp_path, teacher, says).outputs(both, [Entry("logits")])
    assert "outputs for all 12 rows are there" in says[-1]
    index = json.loads((tmp_path / "index.json").read_text())
    assert len(index["shards"]) == 2


def test_parts_of_several_processes_are_what_one_keeps(tmp_path, teacher):
    encoded, entries = rows(13), [Entry("hidden_states", 1), Entry("logits")]
    whole = make(tmp_path / "one", teacher, precision="int8")
    expected = whole.outputs(encoded, entries)(np.arange(13), LENGTH)
    sizes = []
    for which in range(3):
        part = make(
            tmp_path / "parts", teacher, precision="int8", part=(which, 3)
        )
        # Again: what is there is not run twice.
        for _ in range(2):
            assert not part.outputs(encoded, entries).signature
        sizes.append(sum(shard["rows"] for shard in part.describe()["shards"]))
    assert sum(sizes) == 13
    assert max(sizes) < 13
    says = Says()
    joined = make(tmp_path / "parts", teacher, says, precision="int8")
    found = joined.outputs(encoded, entries)(np.arange(13), LENGTH)
    assert any("taken in" in line for line in says)
    assert "are there" in says[-1]
    assert not list((tmp_path / "parts").glob("part_*/*.arrow"))
    # What one of them finds there is no work for it.
    part = make(
        tmp_path / "parts", teacher, says, precision="int8", part=(1, 3)
    )
    part.outputs(encoded, entries)
    assert "are there" in says[-1]
    assert not part.describe()["shards"]
    for entry in entries:
        np.testing.assert_allclose(
            found[entry.name], expected[entry.name], atol=1e-6
        )
        assert joined.relative_error(entry.name) == pytest.approx(
            whole.relative_error(entry.name), rel=1e-4
        )
