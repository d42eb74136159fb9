"""Rows beside the labelled ones: augmented copies and unlabelled texts."""

import dataclasses

import keras_hub
import numpy as np
import pytest

from kdkit import data
from kdkit.augmentation import write_augmented
from kdkit.data import Examples, load_sentiment
from kdkit.data.augmented import rows_with_copies, store_augmented
from kdkit.data.unlabeled import mix_unlabeled, without_texts_of

TRAIN = Examples((["a fine film", "dull", "so fine"],), np.array([1, 0, 1]))
COPIES = [
    (0, "a dull film"),
    (0, "a so film"),
    (0, "so fine film"),
    (1, "fine"),
    (2, "A  Dull"),
    (2, "so dull"),
]


@pytest.fixture(scope="module")
def words():
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


@pytest.fixture
def store(file, words):
    """A function that stores the copies next to their file."""

    def make(examples=TRAIN, row_numbers=(0, 1, 2), **settings):
        place = file.parent / "stored"
        return store_augmented(
            examples, file, words, 8, place, np.array(row_numbers), **settings
        )

    return make


@pytest.mark.parametrize(
    ("settings", "labels", "sources", "left_out"),
    [
        ({}, [1, 0, 1, 1, 1, 1, 0, 1, 1], [0, 0, 0, 1, 2, 2], 0),
        # Copies that are in dev, whatever their letter case.
        (
            {"known": (Examples((["a dull", "SO DULL", "another"],)),)},
            [1, 0, 1, 1, 1, 1, 0],
            [0, 0, 0, 1],
            2,
        ),
        # Copies of rows that are not trained on.
        (
            {"row_numbers": np.array([1, 2])},
            [0, 1, 0, 1, 1],
            [0, 1, 1],
            0,
        ),
    ],
)
def test_copies_come_after_the_rows_with_their_labels(
    settings, labels, sources, left_out, store, words
):
    encoded, found, num_left_out = store(**settings)
    assert encoded.labels.tolist() == labels
    assert found.tolist() == sources
    assert num_left_out == left_out
    if not settings:
        texts = [*TRAIN.texts[0], *(text for _, text in COPIES)]
        whole = data.encode(Examples((texts,)), words, 8)
        for name in ("token_ids", "segment_ids", "lengths"):
            found = getattr(encoded, name)
            np.testing.assert_array_equal(found, getattr(whole, name))


def test_stored_copies_are_opened_again(file, store):
    first, *_ = store()
    place = file.parent / "stored" / "token_ids"
    written = place.stat().st_mtime_ns
    again, *_ = store()
    assert place.stat().st_mtime_ns == written
    assert (again.token_ids == first.token_ids).all()
    assert isinstance(again.token_ids, np.memmap)


def test_copies_of_other_texts_are_refused(file, store):
    """Their rows would have the labels of others."""
    file.unlink()
    write_augmented(
        TRAIN, lambda texts, **_: [["so"] for _ in texts], file, ("text",), {}
    )
    assert store()[1].tolist() == [0, 1, 2]
    other = Examples((TRAIN.texts[0][::-1],), TRAIN.labels)
    with pytest.raises(ValueError, match="content of the texts has changed"):
        store(examples=other)


def test_drawn_copies_change_from_epoch_to_epoch_and_all_come(store):
    _, sources, _ = store()
    rows_of_epoch = rows_with_copies(sources, 3, 1)
    seen = set()
    for epoch in range(60):
        rows = rows_of_epoch(0, epoch)
        assert rows[:3].tolist() == [0, 1, 2]
        assert sources[rows[3:] - 3].tolist() == [0, 1, 2]
        assert (rows_of_epoch(0, epoch) == rows).all()
        seen.add(tuple(rows[3:] - 3))
    # Three copies of the first row, one of the second, two of the third.
    assert len(seen) == 3 * 1 * 2
    two = rows_with_copies(sources, 3, 2)(0, 0)
    assert sources[two[3:] - 3].tolist() == [0, 0, 1, 2, 2]


def test_unlabelled_pairs_are_left_out_only_whole():
    rows = Examples((["a", "a", "b"], ["c", "d", "c"]))
    kept = without_texts_of(rows, [Examples((["A "], ["c"]))])
    assert kept.texts == (["a", "b"], ["d", "c"])


@pytest.fixture(scope="module")
def labeled(tokenizer):
    texts = load_sentiment("train").take(range(12))
    return data.encode(texts, tokenizer, 16)


@pytest.fixture(scope="module")
def unlabeled(tokenizer):
    texts = load_sentiment("dev").take(range(10))
    return dataclasses.replace(data.encode(texts, tokenizer, 16), labels=None)


@pytest.fixture
def epoch_of(labeled, unlabeled):
    """A function that returns an epoch's (text, label) and its other texts."""

    def read(per_labeled, epoch=0):
        examples, rows_of_epoch = mix_unlabeled(labeled, unlabeled, per_labeled)
        stream = data.BatchStream(
            examples, data.Buckets(4, rows_of_epoch=rows_of_epoch), seed=1
        )
        kinds = {0.0: [], 1.0: []}
        batches = stream.training(epoch).take(stream.steps_per_epoch)
        for x, y in batches.as_numpy_iterator():
            for tokens, mask, label, weight in zip(
                x["token_ids"],
                x["padding_mask"],
                y,
                x["label_weight"],
                strict=True,
            ):
                text = tuple(tokens[mask == 1].tolist())
                kinds[weight].append((text, int(label)))
        return kinds[1.0], [text for text, _ in kinds[0.0]]

    return read


def texts_of(encoded):
    return [tuple(encoded.row(row).tolist()) for row in range(len(encoded))]


def test_an_epoch_has_all_labeled_rows_and_a_share_of_the_others(
    labeled, unlabeled, epoch_of
):
    epochs = [epoch_of(0.5, epoch) for epoch in range(5)]
    for with_label, others in epochs:
        assert sorted(with_label) == sorted(
            zip(texts_of(labeled), labeled.labels.tolist(), strict=True)
        )
        assert len(others) == 6
    # 5 epochs of 6 rows: each of the 10 rows three times.
    seen = [text for _, others in epochs for text in others]
    assert sorted(seen) == sorted(3 * texts_of(unlabeled))


def test_no_unlabelled_row_comes_twice_in_an_epoch(unlabeled, epoch_of):
    _, others = epoch_of(100.0)
    assert sorted(others) == sorted(texts_of(unlabeled))
