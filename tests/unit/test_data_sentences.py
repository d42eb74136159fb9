"""Pairs of texts, their tokens, and batches with little padding."""

import numpy as np
import pytest
from kit.helpers import ENGLISH, GERMAN

from kdkit.data import (
    BatchStream,
    PairRows,
    ParallelText,
    SpanMasker,
    SpanMasking,
    SpanRows,
    TokenBatches,
    encode_sentences,
    join_sentences,
    token_batches,
)
from kdkit.models import MassTokenizer


@pytest.fixture
def tokenizer(sentence_pieces):
    # Of each test its own: TensorFlow forgets it when sessions are cleared.
    return MassTokenizer(sentence_pieces)


@pytest.fixture
def files(tmp_path):
    """A function that writes lines to the files of both sides."""

    def write(*sides):
        paths = [tmp_path / name for name in ("text.en", "text.de")]
        for path, lines in zip(paths, sides, strict=True):
            path.write_text("".join(f"{line}\n" for line in lines))
        return tuple(map(str, paths))

    return write


def test_lines_of_two_files_are_pairs(files):
    text = ParallelText(files(ENGLISH, GERMAN))
    assert list(text.pairs()) == list(zip(ENGLISH, GERMAN, strict=True))
    assert text.check() == 4


def test_rows_of_tables_are_pairs(tmp_path):
    table = tmp_path / "pairs.tsv"
    table.write_text("id\twrong\tright\n1\ta mans\ta man\n2\tteh\tthe\n")
    text = ParallelText((str(table),), ("wrong", "right"))
    assert list(text.pairs()) == [("a mans", "a man"), ("teh", "the")]


def test_a_sentence_stands_between_its_language_and_an_end(tokenizer):
    encoded = encode_sentences(GERMAN, tokenizer, 8, "de")
    rows = encoded.padded(np.arange(4))
    for row, text in zip(rows, GERMAN, strict=True):
        own = list(np.array(tokenizer(text)))[:6]
        expected = [
            *(tokenizer.token_to_id("<de>"), *own, tokenizer.end_token_id)
        ]
        assert list(row) == (expected + 8 * [0])[: rows.shape[1]]
    full = [len(np.array(tokenizer(text))) for text in GERMAN]
    assert encoded.num_truncated == sum(length > 6 for length in full)


def lengths_of(count, seed=0):
    """Lengths as those of sentences are, and of translations near them."""
    rng = np.random.default_rng(seed)
    source = np.maximum(3, rng.lognormal(2.7, 0.4, count)).astype(int)
    target = np.maximum(3, source * rng.normal(1.1, 0.2, count)).astype(int)
    return [source, target]


def test_a_batch_has_no_more_tokens_than_asked_and_little_padding():
    lengths = lengths_of(5000)
    batches = token_batches(lengths, 1024, seed=0, epoch=0)
    assert sorted(np.concatenate(batches)) == list(range(5000))
    padded = [
        sum(side[rows].max() for side in lengths) * len(rows)
        for rows in batches
    ]
    assert max(padded) <= 1024
    assert min(real_shares(lengths, batches)) >= 0.8


def real_shares(lengths, batches):
    """Of the tokens of each batch, those that are no padding."""
    return [
        sum(side[rows].sum() for side in lengths)
        / (sum(side[rows].max() for side in lengths) * len(rows))
        for rows in batches
    ]


def test_a_row_that_is_too_long_has_a_batch_of_its_own():
    batches = token_batches([np.array([3, 50, 3])], 10, seed=0, epoch=0)
    assert sorted(map(len, batches)) == [1, 2]


def test_epochs_differ_but_not_in_their_number_of_batches():
    lengths = lengths_of(500)
    first, again, second = (
        token_batches(lengths, 256, seed=1, epoch=epoch) for epoch in (0, 0, 1)
    )
    assert [list(rows) for rows in first] == [list(rows) for rows in again]
    assert [list(rows) for rows in first] != [list(rows) for rows in second]
    assert len(first) == len(second)


def test_a_pair_is_read_up_to_its_end_and_predicted_from_its_first_word(
    tokenizer,
):
    sides = [
        encode_sentences(texts, tokenizer, 30, language)
        for texts, language in ((ENGLISH, "en"), (GERMAN, "de"))
    ]
    stream = BatchStream(PairRows(*sides), TokenBatches(10_000))
    found = {
        tuple(target[kept > 0]): (tuple(before[kept > 0]), tuple(place))
        for x, y, weight in stream.evaluation()
        for target, before, kept, place in zip(
            y.numpy(),
            x["decoder_token_ids"].numpy(),
            weight.numpy(),
            x["decoder_positions"].numpy(),
            strict=True,
        )
    }
    end, language = tokenizer.end_token_id, tokenizer.token_to_id("<de>")
    for text in GERMAN:
        own = tuple(np.array(tokenizer(text)))
        before, places = found[*own, end]
        assert before == (language, *own)
        size = len(own) + 1
        assert places == (*range(size), *(len(places) - size) * [0])


def test_spans_are_of_sentences_of_all_languages(tokenizer):
    both = join_sentences(
        encode_sentences(ENGLISH, tokenizer, 30, "en"),
        encode_sentences(GERMAN, tokenizer, 30, "de"),
    )
    masker = SpanMasker(SpanMasking(), tokenizer)
    stream = BatchStream(SpanRows(both, masker), TokenBatches(60))
    first_tokens, spans = [], 0
    for x, y, weight in stream.training().take(stream.steps_per_epoch):
        first_tokens += list(x["decoder_token_ids"][:, 0].numpy())
        spans += int(weight.numpy().sum())
        assert y.shape == weight.shape
        assert np.prod(y.shape) + np.prod(x["encoder_token_ids"].shape) <= 60
    of = tokenizer.token_to_id
    assert sorted(first_tokens) == sorted(4 * [of("<en>")] + 4 * [of("<de>")])
    assert spans == sum(
        max(1, round((length - 2) / 2)) for length in both.lengths
    )
    assert spans == masker.span_lengths(both.lengths).sum()
