"""The contract of data sources: a row for each, and the same tests for all."""

import dataclasses
import functools

import keras
import numpy as np
import pytest

from kdkit import data
from kdkit.data import PADDING
from kdkit.data import stream as stream_module
from kdkit.data.augmented import rows_with_copies
from kdkit.data.stream import Shares
from kdkit.recipes import Stage
from kdkit.tasks import get_task
from kdkit.training.candidates import EncodedCandidates, queries_source
from kdkit.training.source import Source
from kdkit.training.tasks import (
    Evaluator,
    mixed_source,
    task_source,
)
from kdkit.training.text import (
    FEW_ROWS,
    full_batches,
    sentence_source,
    text_source,
)
from kdkit.training.texts import vector_source

LENGTH = 12
SIZES = {"batch_size": 8, "batch_tokens": 120}
STAGE = Stage("any", 2, 1e-3, hard_label_weight=1.0, **SIZES)


def encoded(count, seed=0, sequences_per_row=1):
    generator = np.random.default_rng(seed)
    lengths = generator.integers(3, LENGTH + 1, count * sequences_per_row)
    token_ids = generator.integers(5, 60, lengths.sum()).astype("int32")
    return data.EncodedExamples(
        token_ids=token_ids,
        segment_ids=np.zeros_like(token_ids),
        lengths=lengths.astype("int32"),
        labels=np.arange(count, dtype="int32"),
        sequence_length=LENGTH,
        num_truncated=0,
        pad_token_id=0,
        sequences_per_row=sequences_per_row,
    )


def tagged(count):
    rows = encoded(count)
    labels = np.arange(len(rows.token_ids), dtype="int32") % 5 - 2
    fields = {**vars(rows), "labels": labels, "word_labels": []}
    return data.EncodedTokens(**fields)


def on_task(*rows, **fields):
    evaluator = Evaluator(get_task("sentiment"), encoded(20, seed=1))
    return task_source(evaluator, 3, *rows, **fields)


def augmented(count, num_copies):
    sources = np.repeat(np.arange(count), num_copies).astype("int32")
    order = rows_with_copies(sources, count, 1)
    return on_task(encoded(count * (1 + num_copies)), order)


def mixed():
    return mixed_source(on_task, encoded(20), encoded(30, 2), 0.5)


def packed(count=21, width=LENGTH, stride=None):
    rows = np.random.default_rng(0).integers(5, 60, (count, width))
    if stride is not None:
        rows[-1, 5:] = PADDING
    return data.PackedCorpus(rows.astype("int32"), count, stride)


def masked(tokenizer):
    masker = data.Masker(data.Masking(share_of="batch"), tokenizer)
    rows = (data.MaskedRows(some, masker) for some in (packed(), packed(5)))
    return text_source(*rows, "masked_accuracy")


def plain():
    rows = map(data.PackedRows, (packed(), packed(5)))
    return Source(*rows, full_batches, FEW_ROWS)


def next_tokens(stride):
    corpus = packed(width=LENGTH + 1, stride=stride)
    rows = data.PackedRows(corpus), data.PackedRows(corpus)
    return text_source(*rows, "next_token_accuracy")


def sentences(tokenizer, language):
    words = np.random.default_rng(len(language)).choice(
        ["a man", "is here", "two dogs", "run", "a house"], (24, 3)
    )
    texts = [
        " ".join(row[: 1 + number % 3]) for number, row in enumerate(words)
    ]
    return data.encode_sentences(texts, tokenizer, 20, language)


def spans(tokenizer):
    masker = data.SpanMasker(data.SpanMasking(), tokenizer)
    rows = data.SpanRows(sentences(tokenizer, "en"), masker)
    return sentence_source(rows, rows)


def pairs(tokenizer):
    rows = data.PairRows(sentences(tokenizer, "en"), sentences(tokenizer, "de"))
    return sentence_source(rows, rows)


def texts(*partners):
    train, held_out = (
        dataclasses.replace(encoded(count, seed), labels=None)
        for count, seed in ((30, 0), (20, 1))
    )
    return vector_source(train, held_out, 3, *partners)


def backwards(rows):
    return np.arange(len(rows))[::-1]


def candidates():
    train, held_out = (
        EncodedCandidates(
            **vars(rows),
            numbers=np.arange(len(rows.lengths)),
            texts=dataclasses.replace(rows, labels=None, sequences_per_row=1),
            pairs=encoded(3 * len(rows)),
        )
        for rows in (encoded(30, 0, 4), encoded(20, 1, 4))
    )
    return queries_source(train, held_out, num_buckets=3)


@dataclasses.dataclass(frozen=True)
class Row:
    """A source, and how many examples an epoch of it has."""

    make: object
    rows_of_epoch: int
    needs: tuple = ()
    repeats: bool = False


SOURCES = {
    "labelled": Row(lambda: on_task(encoded(30)), 30),
    "labelled tokens": Row(lambda: on_task(tagged(30)), 30),
    "questions": Row(lambda: on_task(encoded(30, sequences_per_row=2)), 30),
    "unlabelled": Row(mixed, 30),
    "augmented": Row(lambda: augmented(15, 3), 30),
    "repeated": Row(lambda: mixed().control, 30, repeats=True),
    "masked": Row(masked, 16, needs=("tokenizer",)),
    "plain": Row(plain, 16),
    "next tokens": Row(lambda: next_tokens(LENGTH), 16),
    "overlapping next tokens": Row(lambda: next_tokens(LENGTH - 4), 16),
    "spans": Row(spans, 24, needs=("mass_tokenizer",)),
    "pairs": Row(pairs, 24, needs=("mass_tokenizer",)),
    "texts": Row(texts, 30),
    "candidates": Row(candidates, 30),
    "texts twice": Row(lambda: texts().without_teacher(), 30),
    "translations": Row(lambda: texts(backwards).without_teacher(), 30),
}


@pytest.fixture
def mass_tokenizer(sentence_pieces):
    return sentence_pieces


@pytest.fixture(params=SOURCES)
def row(request):
    return SOURCES[request.param]


@pytest.fixture
def source(row, request):
    return row.make(*map(request.getfixturevalue, row.needs))


@pytest.fixture
def training(source):
    """A function that makes streams to train on."""
    return functools.partial(source.training_stream, STAGE, 3)


def rows_of(batches):
    return [rows.tolist() for rows, _ in batches]


def read(dataset, count=None):
    """Elements as lists of arrays."""
    if count is not None:
        dataset = dataset.take(count)
    return [
        keras.tree.flatten(element) for element in dataset.as_numpy_iterator()
    ]


def assert_same(found, expected):
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        for array, wanted in zip(one, other, strict=True):
            np.testing.assert_array_equal(array, wanted)


def joined(elements):
    return [np.concatenate(arrays) for arrays in zip(*elements, strict=True)]


def test_order_is_a_function_of_seed_and_epoch(source, training):
    stream = training()
    epochs = [rows_of(stream.batches(epoch)) for epoch in range(3)]
    again = training()
    assert rows_of(again.batches(2)) == epochs[2]
    assert rows_of(again.batches(0)) == epochs[0] != epochs[1] != epochs[2]
    other = source.training_stream(STAGE, 4)
    assert rows_of(other.batches(0)) != epochs[0]
    assert {len(epoch) for epoch in epochs} == {stream.batches_per_epoch}


def test_an_epoch_has_its_examples(row, source, training):
    for epoch in range(3):
        rows = np.concatenate(rows_of(training().batches(epoch)))
        assert len(rows) == row.rows_of_epoch
        assert row.repeats or len(set(rows)) == len(rows)
        assert set(rows) <= set(range(len(source.train)))


def test_batches_keep_to_their_size(source, training):
    for rows, length in training().batches(0):
        assert source.train.row_lengths[rows].max() <= length <= 20
        if isinstance(source.order(STAGE), data.TokenBatches):
            padded = sum(side[rows].max() for side in source.train.sides)
            assert len(rows) * padded <= STAGE.batch_tokens
        else:
            assert len(rows) <= STAGE.batch_size


def test_training_goes_on_after_any_step(training):
    stream = training()
    steps = stream.steps_per_epoch
    whole = read(stream.training(), 2 * steps)
    for step in (1, steps - 1, steps):
        assert_same(
            read(training().training(0, step), steps), whole[step:][:steps]
        )
    assert_same(read(training().training(1), steps), whole[steps:])


@pytest.mark.parametrize("processes", [[2], [1, 2]])
def test_shares_are_the_rows_of_the_batches(processes, training):
    steps = training().steps_per_epoch
    total = sum(processes)
    shares = [
        Shares(sum(processes[:number]), count, total)
        for number, count in enumerate(processes)
    ]
    of_processes = [
        read(training(shares=one).training(), steps * one.count)
        for one in shares
    ]
    for step, expected in enumerate(read(training().training(), steps)):
        parts = [
            element
            for one, elements in zip(shares, of_processes, strict=True)
            for element in elements[step * one.count :][: one.count]
        ]
        assert_same([joined(parts)], [expected])


def test_parts_are_the_rows_of_the_batches(source, training):
    in_parts = dataclasses.replace(STAGE, gradient_accumulation_steps=2)
    stream = source.training_stream(in_parts, 3)
    steps = training().steps_per_epoch
    assert stream.batches_per_epoch == steps
    assert stream.steps_per_epoch == 2 * steps
    parts = read(stream.training(), 2 * steps)
    for step, expected in enumerate(read(training().training(), steps)):
        if len(stream.batches(0)[step][0]) > 1:
            assert_same([joined(parts[2 * step :][:2])], [expected])
    assert_same(read(stream.training(0, 3), 1), parts[3:4])


def test_an_evaluation_has_every_example_once_and_always_the_same(source):
    stream = source.validation_stream(STAGE)
    rows = np.concatenate(rows_of(stream.evaluation_batches))
    assert sorted(rows) == list(range(len(source.held_out)))
    dataset = stream.evaluation()
    batches = read(dataset)
    assert dataset.cardinality() == len(batches)
    assert_same(read(dataset), batches)
    two = Shares(count=2, total=2)
    shares = source.validation_stream(STAGE, shares=two).evaluation()
    assert shares.cardinality() == 2 * len(batches)
    shares = iter(read(shares))
    assert_same(list(map(joined, zip(shares, shares, strict=True))), batches)


def test_prefetching_changes_nothing_and_is_not_tuned(training, monkeypatch):
    """The end of an iterator would wait for the thread that tunes."""
    expected = read(training().training(), 4)
    monkeypatch.setattr(stream_module, "PREFETCHED", 1)
    dataset = training().training()
    assert dataset.options().autotune.enabled is False
    assert_same(read(dataset, 4), expected)
