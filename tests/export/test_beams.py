"""Beam search against all possible texts, and against greedy decoding."""

import itertools

import keras
import numpy as np
import pytest
from kit.helpers import large_except, with_random_weights

from kdkit.generation import Beams, make_beam_search
from kdkit.models import MassBackbone, MassSeq2SeqLM

VOCABULARY_SIZE, FIRST, END = 5, 1, 2
LENGTH = 5  # the first token, up to three, and an end


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    made = MassSeq2SeqLM(
        MassBackbone(VOCABULARY_SIZE, 1, 2, 2, 8, 12, max_sequence_length=8)
    )
    return with_random_weights(made, scale=0.4, seed=3)


@pytest.fixture
def source():
    rng = np.random.default_rng(1)
    ids = rng.integers(0, VOCABULARY_SIZE, (4, 6)).astype("int32")
    mask = np.ones_like(ids)
    mask[1, 4:] = 0
    return ids, mask


def all_texts():
    """Every text that ends, or has no room for an end."""
    ordinary = [token for token in range(VOCABULARY_SIZE) if token != END]
    for length in range(LENGTH):
        for words in itertools.product(ordinary, repeat=length):
            if length < LENGTH - 1:
                yield [FIRST, *words, END]
            else:
                yield [FIRST, *words]


@pytest.fixture
def chances(model, source):
    """Log probabilities of what follows each beginning, without any cache.

    A dict from the words behind the first token to an array of shape
    (sources, vocabulary).
    """
    ids, mask = source
    ordinary = [token for token in range(VOCABULARY_SIZE) if token != END]
    texts = list(itertools.product(ordinary, repeat=LENGTH - 2))
    before = np.array([(FIRST, *words) for words in texts])
    before = np.repeat(before, len(ids), axis=0)
    logits = model(
        {
            "encoder_token_ids": np.tile(ids, (len(texts), 1)),
            "encoder_padding_mask": np.tile(mask, (len(texts), 1)),
            "decoder_token_ids": before,
            "decoder_padding_mask": np.ones_like(before),
            "decoder_positions": np.tile(
                np.arange(LENGTH - 1), (len(before), 1)
            ),
        }
    )
    logits = np.array(keras.ops.log_softmax(logits))
    logits = logits.reshape(len(texts), len(ids), LENGTH - 1, -1)
    return {
        words[:length]: logits[number, :, length]
        for number, words in enumerate(texts)
        for length in range(LENGTH - 1)
    }


@pytest.fixture(scope="module")
def wide():
    """A beam that keeps every text open."""
    return VOCABULARY_SIZE**3


@pytest.mark.parametrize("length_penalty", large_except([0.0, 0.6, 1.0], 0.6))
def test_a_beam_of_everything_finds_the_best_text(
    model, source, chances, wide, length_penalty
):
    best = [(-np.inf, None)] * len(source[0])
    for text in all_texts():
        words = tuple(text[1:])
        scores = (
            sum(
                chances[words[:place]][:, word]
                for place, word in enumerate(words)
            )
            / len(words) ** length_penalty
        )
        best = [
            max(old, (score, text), key=lambda pair: pair[0])
            for old, score in zip(best, scores, strict=True)
        ]
    search = make_beam_search(model, Beams(wide, length_penalty), LENGTH, END)
    tokens, scores = search(*source, np.full(len(source[0]), FIRST, "int32"))
    expected = [
        (text + LENGTH * [END])[:LENGTH] for text in (text for _, text in best)
    ]
    np.testing.assert_array_equal(tokens, expected)
    np.testing.assert_allclose(scores, [score for score, _ in best], rtol=1e-4)


def by_hand(chances, row, beams):
    """The best text of a source, by lists."""
    open_texts, finished = [((), 0.0)], []
    for length in range(1, LENGTH):
        divisor = length**beams.length_penalty
        longer = [
            ((*words, word), score + chances[words][row, word])
            for words, score in open_texts
            for word in range(VOCABULARY_SIZE)
        ]
        longer.sort(key=lambda text: -text[1])
        ends = [
            words[-1] == END or length == LENGTH - 1
            for words, _ in longer[: 2 * beams.beam_size]
        ]
        finished += [
            (score / divisor, words)
            for is_end, (words, score) in zip(
                ends[: beams.beam_size], longer, strict=False
            )
            if is_end
        ]
        open_texts = [
            text
            for is_end, text in zip(ends, longer, strict=False)
            if not is_end
        ][: beams.beam_size]
        if beams.early_stopping and len(finished) >= beams.beam_size:
            break
    return max(finished)


@pytest.mark.parametrize("early_stopping", [True, False])
@pytest.mark.parametrize("length_penalty", large_except([0.0, 1.0, 2.0], 2.0))
@pytest.mark.parametrize("size", large_except([2, 3], 2))
def test_a_search_is_over_when_it_says(
    model, source, chances, size, length_penalty, early_stopping
):
    beams = Beams(size, length_penalty, early_stopping)
    search = make_beam_search(model, beams, LENGTH, END)
    # Together, so that a source that is done waits for the others.
    tokens, scores = search(*source, np.full(len(source[0]), FIRST, "int32"))
    for row, (found, score) in enumerate(zip(tokens, scores, strict=True)):
        expected, words = by_hand(chances, row, beams)
        assert float(score) == pytest.approx(expected, rel=1e-4)
        np.testing.assert_array_equal(
            found, [FIRST, *words, *[END] * (LENGTH - 1 - len(words))]
        )


def test_a_beam_of_one_is_greedy(model, source, chances):
    first = np.full(len(source[0]), FIRST, "int32")
    tokens, _ = make_beam_search(model, Beams(1), LENGTH, END)(*source, first)
    for row, found in enumerate(np.asarray(tokens)):
        words = ()
        while len(words) < LENGTH - 1 and END not in words:
            words += (int(chances[words][row].argmax()),)
        np.testing.assert_array_equal(
            found, [FIRST, *words, *[END] * (LENGTH - 1 - len(words))]
        )
