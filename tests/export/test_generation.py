"""Steps of decoders predict as on whole texts; beams find the best text."""

import itertools

import keras
import numpy as np
import pytest
from kit.encoders import DECODERS
from kit.helpers import (
    decoder,
    large_except,
    mass,
    to_numpy,
    with_random_weights,
)

from kdkit import generation
from kdkit.generation import Beams, DecoderStep, Seq2SeqStep, make_beam_search

BATCH, SOURCE, LENGTH, ROOM = 3, 6, 5, 9


def translator(vocabulary_size, scale=0.3, seed=0):
    """An encoder-decoder of 9 positions."""
    keras.utils.set_random_seed(0)
    model = mass(vocabulary_size, 1, 2, 2, 8, 12, max_sequence_length=ROOM)
    return with_random_weights(model, scale, seed)


def drawn(low, high, shape):
    return np.random.default_rng(0).integers(low, high, shape).astype("int32")


def source():
    """Ids of sources, the second with padding, and their mask."""
    mask = np.ones((BATCH, SOURCE), "int32")
    mask[1, 4:] = 0
    return drawn(0, 5, mask.shape), mask


def inputs(source_ids, mask, target):
    """The whole of sources and targets, without any cache."""
    return {
        "encoder_token_ids": source_ids,
        "encoder_padding_mask": mask,
        "decoder_token_ids": target,
        "decoder_padding_mask": np.ones_like(target),
        "decoder_positions": np.tile(
            np.arange(target.shape[1]), (len(target), 1)
        ),
    }


def read(step, call, token_ids, filling, cache=()):
    """The logits at every position, with the cache outside of the step."""
    cache = dict(cache)
    for name in itertools.chain(*step.cache_names):
        cache[name] = np.full((BATCH, *step.cache_shape), filling, "float32")
    logits = []
    for position, tokens in enumerate(token_ids.T):
        output = to_numpy(call(tokens, position, cache))
        for index, (keys, values) in enumerate(step.cache_names):
            cache[keys][:, :, position] = output["new_keys"][index]
            cache[values][:, :, position] = output["new_values"][index]
        logits.append(output["logits"])
    return np.stack(logits, axis=1)


@pytest.mark.parametrize("family", DECODERS)
def test_every_position_has_the_logits_of_the_whole_text(family):
    model = decoder(2, family=family)
    step, token_ids = DecoderStep(model, ROOM), drawn(0, 40, (BATCH, LENGTH))
    logits = read(step, step, token_ids, 0.0)
    whole = model({"token_ids": token_ids, "padding_mask": token_ids >= 0})
    np.testing.assert_allclose(logits, whole, atol=1e-5)
    # What is in the cache behind a position does not count.
    filled = read(step, step, token_ids, 1e6)
    np.testing.assert_array_equal(filled, logits)


@pytest.mark.parametrize("filling", [0.0, 1e6])
def test_every_position_has_the_logits_of_the_whole_target(filling):
    model, (ids, mask) = translator(20), source()
    step, target = (
        Seq2SeqStep(model, SOURCE, ROOM),
        drawn(4, 20, (BATCH, LENGTH)),
    )
    cache = to_numpy(step.encode(ids, mask))
    assert set(cache) == set(itertools.chain(*step.source_names))

    def call(tokens, position, cache):
        return step.step(tokens, position, mask, cache)

    logits = read(step, call, target, filling, cache)
    whole = model(inputs(ids, mask, target))
    np.testing.assert_allclose(logits, whole, atol=1e-5)


def test_a_decoder_without_positions_has_any_length():
    model = decoder(1, family="llama3")
    assert DecoderStep(model, 5000).sequence_length == 5000


def test_a_model_in_training_keeps_its_optimizer():
    model = decoder(1)
    model.compile(keras.optimizers.SGD(0.5), loss="mse", sampler="greedy")
    before = model.optimizer, model.sampler, model.jit_compile
    generation.generate(model, [1, 2], 3, "top_k")
    assert (model.optimizer, model.sampler, model.jit_compile) == before


MISTAKES = {
    "no beams": (lambda: Beams(0), "beam_size=0"),
    "penalty": (lambda: Beams(length_penalty=-0.1), "length_penalty=-0.1"),
    "NaN": (lambda: Beams(length_penalty=float("nan")), "length_penalty=nan"),
    "text": (
        lambda: make_beam_search(translator(9), Beams(), 11, 2),
        "10 tokens",
    ),
    "cache": (lambda: DecoderStep(decoder(1), 13), "12 positions"),
    "source": (lambda: Seq2SeqStep(translator(9), 10, 9), "9 positions"),
    "target": (lambda: Seq2SeqStep(translator(9), 9, 10), "9 positions"),
    "new tokens": (
        lambda: generation.generate(decoder(1), [1, 2], 11),
        "12 tokens",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused(name):
    mistake, word = MISTAKES[name]
    with pytest.raises(ValueError, match=word):
        mistake()


WORDS, FIRST, END = 5, 1, 2
LONGEST = 5  # the first token, up to three, and an end
ORDINARY = [token for token in range(WORDS) if token != END]


@pytest.fixture(scope="module")
def model():
    return translator(WORDS, scale=0.4, seed=3)


@pytest.fixture(scope="module")
def chances(model):
    """Log probabilities of what follows each beginning, without any cache.

    A dict from the words behind the first token to an array of shape
    (sources, vocabulary).
    """
    ids, mask = source()
    texts = list(itertools.product(ORDINARY, repeat=LONGEST - 2))
    before = np.array([(FIRST, *words) for words in texts])
    sources = (np.tile(one, (len(texts), 1)) for one in (ids, mask))
    logits = model(inputs(*sources, np.repeat(before, BATCH, axis=0)))
    logits = np.array(keras.ops.log_softmax(logits))
    logits = logits.reshape(len(texts), BATCH, LONGEST - 1, -1)
    return {
        words[:length]: logits[number, :, length]
        for number, words in enumerate(texts)
        for length in range(LONGEST - 1)
    }


def search(model, beams):
    """Of all sources together, so that one that is done waits for others."""
    find = make_beam_search(model, beams, LONGEST, END)
    return find(*source(), np.full(BATCH, FIRST, "int32"))


def filled(words):
    """A text as a search returns it."""
    return [FIRST, *words, *[END] * (LONGEST - 1 - len(words))]


def score_of(chances, words, row):
    """The log probability of the words behind the first token."""
    return sum(
        chances[words[:place]][row, word] for place, word in enumerate(words)
    )


@pytest.mark.parametrize("penalty", large_except([0.0, 0.6, 1.0], 0.6))
def test_a_beam_of_everything_finds_the_best_text(model, chances, penalty):
    texts = [
        words + ((END,) if length < LONGEST - 1 else ())
        for length in range(LONGEST)
        for words in itertools.product(ORDINARY, repeat=length)
    ]
    tokens, scores = search(model, Beams(WORDS**3, penalty))
    for row, (found, score) in enumerate(zip(tokens, scores, strict=True)):
        best, words = max(
            (score_of(chances, words, row) / len(words) ** penalty, words)
            for words in texts
        )
        assert float(score) == pytest.approx(best, rel=1e-4)
        np.testing.assert_array_equal(found, filled(words))


def by_hand(chances, row, beams):
    """The best text of a source, by lists."""
    open_texts, finished = [((), 0.0)], []
    for length in range(1, LONGEST):
        longer = [
            ((*words, word), score + chances[words][row, word])
            for words, score in open_texts
            for word in range(WORDS)
        ]
        longer = sorted(longer, key=lambda text: -text[1])
        goes_on = []
        for rank, (words, score) in enumerate(longer[: 2 * beams.beam_size]):
            if words[-1] != END and length < LONGEST - 1:
                goes_on.append((words, score))
            elif rank < beams.beam_size:
                finished.append((score / length**beams.length_penalty, words))
        open_texts = goes_on[: beams.beam_size]
        if beams.early_stopping and len(finished) >= beams.beam_size:
            break
    return max(finished)


@pytest.mark.parametrize("early_stopping", [True, False])
@pytest.mark.parametrize("penalty", large_except([0.0, 1.0, 2.0], 2.0))
@pytest.mark.parametrize("size", large_except([2, 3], 2))
def test_a_search_is_over_when_it_says(
    model, chances, size, penalty, early_stopping
):
    beams = Beams(size, penalty, early_stopping)
    tokens, scores = search(model, beams)
    for row, (found, score) in enumerate(zip(tokens, scores, strict=True)):
        expected, words = by_hand(chances, row, beams)
        assert float(score) == pytest.approx(expected, rel=1e-4)
        np.testing.assert_array_equal(found, filled(words))


def test_a_beam_of_one_is_greedy(model, chances):
    tokens, _ = search(model, Beams(1))
    for row, found in enumerate(np.asarray(tokens)):
        words = ()
        while len(words) < LONGEST - 1 and END not in words:
            words += (int(chances[words][row].argmax()),)
        np.testing.assert_array_equal(found, filled(words))
