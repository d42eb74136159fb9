"""Augmented examples: storing, drawing, and errors in their files."""

import keras_hub
import numpy as np
import pytest

from kdkit import data
from kdkit.data import Examples

TRAIN = Examples((["a fine film", "dull", "so fine"],), np.array([1, 0, 1]))
COPIES = [
    (0, "a dull film"),
    (0, "a so film"),
    (0, "so fine film"),
    (1, "fine"),
    (2, "A  Dull"),
    (2, "so dull"),
]


@pytest.fixture
def tokenizer():
    return keras_hub.tokenizers.BertTokenizer(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        + ["a", "fine", "film", "dull", "so"],
        lowercase=True,
    )


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "copies.tsv"
    lines = [f"{source}\t0\t1\t{text}\n" for source, text in COPIES]
    path.write_text("source_row\tcolumn\tcopy\tsentence\n" + "".join(lines))
    return path


def store(file, tokenizer, **settings):
    return data.store_augmented(
        TRAIN, file, tokenizer, 8, file.parent / "stored", **settings
    )


def test_copies_stand_behind_the_rows_with_their_labels(file, tokenizer):
    stored = store(file, tokenizer)
    texts = [*TRAIN.texts[0], *(text for _, text in COPIES)]
    whole = data.encode(Examples((texts,)), tokenizer, 8)
    assert (stored.encoded.token_ids == whole.token_ids).all()
    assert (stored.encoded.segment_ids == whole.segment_ids).all()
    assert (stored.encoded.lengths == whole.lengths).all()
    assert stored.encoded.labels.tolist() == [1, 0, 1, 1, 1, 1, 0, 1, 1]
    assert stored.sources.tolist() == [0, 0, 0, 1, 2, 2]
    assert stored.num_labeled == 3


def test_copies_that_stand_in_dev_are_left_out(file, tokenizer):
    dev = Examples((["a dull", "SO DULL", "another"],))
    stored = store(file, tokenizer, known=(dev,))
    assert stored.num_left_out == 2
    assert stored.sources.tolist() == [0, 0, 0, 1]


def test_copies_of_rows_that_are_not_trained_on_are_passed_over(
    file, tokenizer
):
    stored = store(file, tokenizer, row_numbers=np.array([1, 2]))
    assert stored.sources.tolist() == [0, 1, 1]
    assert stored.encoded.labels.tolist() == [0, 1, 0, 1, 1]


def test_what_is_stored_is_opened_without_the_file(file, tokenizer):
    first = store(file, tokenizer)
    file.unlink()
    again = store(file, tokenizer)
    assert (again.encoded.token_ids == first.encoded.token_ids).all()
    assert again.sources.tolist() == first.sources.tolist()
    assert isinstance(again.encoded.token_ids, np.memmap)


def test_another_file_is_stored_anew(file, tokenizer):
    store(file, tokenizer)
    file.write_text(file.read_text().replace("a so film", "so so"))
    again = store(file, tokenizer)
    whole = data.encode(Examples((["so so"],)), tokenizer, 8)
    assert (again.encoded.row(4) == whole.row(0)).all()


@pytest.mark.parametrize(
    "name", ["token_ids", "segment_ids", "lengths", "sources"]
)
def test_a_flipped_bit_in_what_is_stored_is_made_anew(name, file, tokenizer):
    store(file, tokenizer)
    path = file.parent / "stored" / name
    right = path.read_bytes()
    path.write_bytes(right[:-1] + bytes([right[-1] ^ 4]))
    store(file, tokenizer)
    assert path.read_bytes() == right


def test_a_fixed_epoch_has_every_row_and_copy(file, tokenizer):
    stored = store(file, tokenizer)
    assert stored.rows_of_epoch(0, 0).tolist() == list(range(9))
    stream = data.BatchStream(stored.encoded, data.Buckets(4, num_buckets=2))
    assert stream.steps_per_epoch == 3
    labels = [y for _, y in stream.training().take(3).as_numpy_iterator()]
    assert sorted(np.concatenate(labels)) == [0, 0, 1, 1, 1, 1, 1, 1, 1]


def test_drawn_copies_change_from_epoch_to_epoch_and_all_come(file, tokenizer):
    stored = store(file, tokenizer)
    assert stored.num_rows_of_epoch(1) == 6
    seen = set()
    for epoch in range(60):
        rows = stored.rows_of_epoch(0, epoch, per_row=1)
        assert rows[:3].tolist() == [0, 1, 2]
        assert stored.sources[rows[3:] - 3].tolist() == [0, 1, 2]
        again = stored.rows_of_epoch(0, epoch, per_row=1)
        assert (again == rows).all()
        seen.add(tuple(rows[3:] - 3))
    # Three copies of the first row, one of the second, two of the third.
    assert len(seen) == 3 * 1 * 2
    two = stored.rows_of_epoch(0, 0, per_row=2)
    assert stored.sources[two[3:] - 3].tolist() == [0, 0, 1, 2, 2]
