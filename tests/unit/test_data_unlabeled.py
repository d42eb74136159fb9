"""Unlabelled text: reading, without dev and test, and mixing in proportion."""

import dataclasses

import numpy as np
import pytest

from kdkit import data
from kdkit.data import Examples


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_every_line_is_a_text(tmp_path):
    first = write(tmp_path / "a.txt", "one", "", " two\tthree ")
    second = write(tmp_path / "b.txt", "four")
    rows = data.read_unlabeled([first, second], (), 1)
    assert rows.texts == (["one", "two\tthree", "four"],)
    assert rows.labels is None


def test_columns_of_tables_are_named(tmp_path):
    file = write(tmp_path / "a.tsv", "id\tq\tp", "1\ta\tb", "2\tc\td")
    assert data.read_unlabeled([file], ("p", "q"), 2).texts == (
        ["b", "d"], ["a", "c"]
    )  # fmt: skip


def test_plain_text_may_have_some_tabs(tmp_path):
    lines = [f"text {number}" for number in range(5)]
    lines += [f"text\t{number}" for number in range(40)]
    indented = write(tmp_path / "a.txt", "\tone", "\ttwo")
    for file, count in (
        (write(tmp_path / "b.txt", *lines), 45),
        (write(tmp_path / "c.txt", "a\ttext"), 1),
        (indented, 2),
        (write(tmp_path / "d.txt", "one\t", "two\t", "three\t"), 3),
        (write(tmp_path / "e.txt", "a\ttext", "of\tmany\ttabs"), 2),
    ):
        assert len(data.read_unlabeled([file], (), 1)) == count


def test_pairs_are_left_out_only_whole():
    rows = Examples((["a", "a", "b"], ["c", "d", "c"]))
    kept = data.without_texts_of(rows, [Examples((["A "], ["c"]))])
    assert kept.texts == (["a", "b"], ["d", "c"])


@pytest.fixture(scope="module")
def labeled(tokenizer):
    texts = data.load_sentiment("train").take(range(12))
    return data.encode(texts, tokenizer, 16)


@pytest.fixture(scope="module")
def unlabeled(tokenizer):
    texts = data.load_sentiment("dev").take(range(10))
    return dataclasses.replace(data.encode(texts, tokenizer, 16), labels=None)


def epoch_of(labeled, unlabeled, per_labeled, epoch=0):
    """The tokens, labels and label weights of an epoch, row by row."""
    examples, rows_of_epoch = data.mix_unlabeled(
        labeled, unlabeled, per_labeled
    )
    stream = data.BatchStream(
        examples, data.Buckets(4, rows_of_epoch=rows_of_epoch), seed=1
    )
    rows = []
    for x, y in stream.training(epoch).take(stream.steps_per_epoch):
        for tokens, mask, label, weight in zip(
            x["token_ids"], x["padding_mask"], y, x["label_weight"], strict=True
        ):
            real = tuple(np.asarray(tokens)[np.asarray(mask) == 1].tolist())
            rows.append((real, int(label), float(weight)))
    return rows


def texts_of(encoded):
    return [tuple(encoded.row(row).tolist()) for row in range(len(encoded))]


def test_an_epoch_has_all_labeled_rows_and_a_share_of_the_others(
    labeled, unlabeled
):
    rows = epoch_of(labeled, unlabeled, per_labeled=0.5)
    with_label = [(text, label) for text, label, weight in rows if weight == 1]
    assert sorted(with_label) == sorted(
        zip(texts_of(labeled), labeled.labels.tolist(), strict=True)
    )
    without = [text for text, _, weight in rows if weight == 0]
    assert len(without) == 6
    assert set(without) <= set(texts_of(unlabeled))


def test_unlabeled_rows_take_turns(labeled, unlabeled):
    seen = [
        text
        for epoch in range(5)
        for text, _, weight in epoch_of(labeled, unlabeled, 0.5, epoch)
        if weight == 0
    ]
    # 5 epochs of 6 rows: each of the 10 rows three times.
    assert sorted(seen) == sorted(3 * texts_of(unlabeled))


def test_no_row_comes_twice_in_an_epoch(labeled, unlabeled):
    rows = epoch_of(labeled, unlabeled, per_labeled=100.0)
    assert len(rows) == len(labeled) + len(unlabeled)
