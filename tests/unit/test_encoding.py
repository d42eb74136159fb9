"""How rows of every kind become token ids, and their batches."""

import keras_hub
import numpy as np
import pytest
import tensorflow as tf
from kit import encoders
from kit.helpers import ENGLISH, GERMAN, large_except
from kit.tasks import VOCABULARY

from kdkit.data import (
    BatchStream,
    Buckets,
    Examples,
    PairRows,
    Questions,
    SpanMasker,
    SpanMasking,
    SpanRows,
    TokenBatches,
    TokenExamples,
    encode,
    encode_questions,
    encode_sentences,
    encode_tokens,
    join_sentences,
)
from kdkit.tasks import majority_accuracy

NO_LABEL, UNKNOWN, CUT_OFF = -1, -2, -5
FIRST = [
    "the plot is superb .",
    "dull",
    "the cast was never very moving , but the ending is truly gripping .",
    "",
]
SECOND = [
    "the story is a bit thin and the music seems deeply charming .",
    "zebra 7",
    "clever",
    "the hero feels silly .",
]


@pytest.mark.parametrize(
    ("texts", "length"), [((FIRST,), 9), ((FIRST, SECOND), 13)]
)
def test_encode_equals_keras_hubs_preprocessor(tokenizer, texts, length):
    found = encode(Examples(texts), tokenizer, length)
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        tokenizer, sequence_length=length
    )
    # A keyword: keras-hub takes a pair by position for (x, y).
    expected = preprocessor(x=tuple(tf.constant(column) for column in texts))
    masks = np.array(expected["padding_mask"])
    np.testing.assert_array_equal(found.lengths, masks.sum(axis=1))
    for name in ("token_ids", "segment_ids"):
        ids = getattr(found, name)
        np.testing.assert_array_equal(ids, np.array(expected[name])[masks])
        assert ids.dtype == np.int32
    full_lengths = np.array(
        [
            len(texts) + 1 + sum(len(tokenizer(text)) for text in row)
            for row in zip(*texts, strict=True)
        ]
    )
    assert found.num_truncated == (full_lengths > length).sum() > 0
    np.testing.assert_array_equal(
        found.lengths, np.minimum(full_lengths, length)
    )
    rows = [found.row(number) for number in range(len(found))]
    np.testing.assert_array_equal(np.concatenate(rows), found.token_ids)


def test_a_row_that_just_fits_is_not_truncated(tokenizer):
    assert encode(Examples((["the plot"],)), tokenizer, 4).num_truncated == 0


QUESTIONS = Questions(
    ["the plot is dull", "the cast is warm and the music is fresh"],
    ["is it", "the plot"],
    [("dull", "very dull"), ("warm", "cold")],
    np.array([1, 0], "int32"),
)


def decoded(encoded, tokenizer, number):
    ids = encoded.row(number)
    return " ".join(tokenizer.id_to_token(int(token)) for token in ids)


def test_rows_are_taken_in_the_given_order():
    pairs = Examples((["a", "b", "c"], ["d", "e", "f"]), np.array([0, 1, 2]))
    taken = pairs.take([2, 0])
    assert taken.texts == (["c", "a"], ["f", "d"])
    assert taken.labels.tolist() == [2, 0]
    taken = QUESTIONS.take([1])
    assert taken.options == [("warm", "cold")]
    assert taken.labels.tolist() == [0]


@pytest.mark.parametrize(
    ("length", "expected", "truncated"),
    [
        (32, "[CLS] the cast is warm [SEP] the plot is fresh [SEP]", 0),
        # The passage's end is cut first, then the question's beginning.
        (9, "[CLS] the cast [SEP] the plot is fresh [SEP]", 1),
        (6, "[CLS] [SEP] plot is fresh [SEP]", 1),
    ],
)
def test_each_option_is_a_sequence_with_passage_and_question(
    length, expected, truncated, tokenizer
):
    rows = Questions(
        ["the cast is warm"], ["the plot is"], [("dull", "fresh")], None
    )
    encoded = encode_questions(rows, tokenizer, length, num_options=2)
    assert decoded(encoded, tokenizer, 1) == expected
    assert encoded.num_truncated == truncated
    separator = expected.split().index("[SEP]") + 1
    segments = encoded.segment_ids[encoded.lengths[0] :]
    others = [1] * (encoded.lengths[1] - separator)
    assert segments.tolist() == [0] * separator + others
    assert encoded.row_lengths.tolist() == [max(encoded.lengths)]


@pytest.mark.parametrize(
    "family", large_except(["xlm_roberta", "albert"], "xlm_roberta")
)
def test_questions_are_packed_as_the_family_packs_pairs(family):
    tokenizer = encoders.tokenizer(family)
    rows = Questions(
        ["the cast is good"], ["the end"], [("is dull", "is good")], None
    )
    encoded = encode_questions(rows, tokenizer, 64, num_options=2)
    pairs = Examples(
        (2 * ["the cast is good"], ["the end is dull", "the end is good"])
    )
    expected = encode(pairs, tokenizer, 64)
    for name in ("token_ids", "segment_ids", "lengths"):
        found = getattr(encoded, name)
        np.testing.assert_array_equal(found, getattr(expected, name))


def test_batches_hold_all_options_of_their_questions(tokenizer):
    encoded = encode_questions(QUESTIONS, tokenizer, 32, num_options=2)
    stream = BatchStream(encoded, Buckets(1, num_buckets=2))
    order = [row for (row,), _ in stream.evaluation_batches]
    batches = list(stream.evaluation().as_numpy_iterator())
    for row, (inputs, labels) in zip(order, batches, strict=True):
        assert labels.tolist() == [QUESTIONS.labels[row]]
        assert inputs["token_ids"].shape == (2, encoded.row_lengths[row])
        for option in range(2):
            real = inputs["padding_mask"][option] == 1
            np.testing.assert_array_equal(
                inputs["token_ids"][option][real], encoded.row(2 * row + option)
            )


@pytest.fixture(scope="module")
def pieces():
    """A tokenizer of word pieces: `wx` is one, `abab` two, `wxw` none."""
    return keras_hub.tokenizers.BertTokenizer(
        [*VOCABULARY, "##ab"], lowercase=False
    )


def tagged(words, labels):
    return TokenExamples(
        [tuple(row.split()) for row in words],
        [np.array(row, "int32") for row in labels],
    )


def test_a_words_label_is_at_its_first_piece(pieces):
    rows = tagged(["abab cd wxw", "ef"], [[1, 2, 3], [UNKNOWN]])
    encoded = encode_tokens(rows, pieces, 16)
    assert decoded(encoded, pieces, 0) == "[CLS] ab ##ab cd [UNK] [SEP]"
    assert encoded.labels.tolist() == [
        *[NO_LABEL, 1, NO_LABEL, 2, 3, NO_LABEL],
        *[NO_LABEL, UNKNOWN, NO_LABEL],
    ]
    assert [row.tolist() for row in encoded.targets] == [[1, 2, 3], [UNKNOWN]]
    # A word with a space is one word.
    rows = TokenExamples([("ab cd", "ef")], [np.array([1, 0], "int32")])
    encoded = encode_tokens(rows, pieces, 16)
    assert encoded.labels.tolist() == [-1, 1, -1, 0, -1]


@pytest.mark.parametrize(
    "family", large_except(["bert", "roberta", "albert"], "bert", "albert")
)
def test_words_are_read_as_in_running_text(family):
    tokenizer = encoders.tokenizer(family)
    text = "the cast is good"
    words = encode_tokens(tagged([text], [range(4)]), tokenizer, 64)
    whole = encode(Examples(([text],)), tokenizer, 64)
    np.testing.assert_array_equal(words.token_ids, whole.token_ids)


def test_batches_weigh_positions_with_known_labels(pieces):
    rows = tagged(["ef", "abab cd"], [[UNKNOWN], [1, 2]])
    encoded = encode_tokens(rows, pieces, 16)
    stream = BatchStream(encoded, Buckets(2, 1))
    ((x, y, sample_weight),) = stream.evaluation().as_numpy_iterator()
    assert x["token_ids"].shape == y.shape == (2, 5)
    assert sample_weight.tolist() == [[0, 0, 0, 0, 0], [0, 1, 0, 1, 0]]
    assert y[1, [1, 3]].tolist() == [1, 2]
    assert y.min() == 0
    outputs = np.arange(2 * 5 * 3).reshape(2, 5, 3)
    first, second = encoded.answers(outputs, np.array([1, 0]))
    np.testing.assert_array_equal(first, outputs[0, [1, 3]])
    np.testing.assert_array_equal(second, outputs[1, [1]])


def test_long_sentences_keep_the_part_around_their_first_label(pieces):
    words = "ab cd ef gh ij kl mn op"
    marked = np.full(8, NO_LABEL)
    marked[6] = 1
    encoded = encode_tokens(
        tagged([words, words], [marked, range(8)]), pieces, 6
    )
    assert encoded.num_truncated == 2
    assert decoded(encoded, pieces, 0) == "[CLS] ij kl mn op [SEP]"
    assert decoded(encoded, pieces, 1) == "[CLS] ab cd ef gh [SEP]"
    # Minus a label: the same label, of a word that was truncated.
    first, second = encoded.targets
    assert first[first >= UNKNOWN].tolist() == [1]
    cut = [CUT_OFF - label for label in range(4, 8)]
    assert second.tolist() == [0, 1, 2, 3, *cut]


def test_the_baseline_answers_with_the_most_frequent_label():
    train = tagged(["a", "a", "a", "b"], [[0], [0], [1], [2]])
    rows = tagged(["a x", "a", "b", "c"], [[0, NO_LABEL], [1], [2], [2]])
    assert majority_accuracy(train, rows) == 2 / 4


@pytest.fixture
def languages(sentence_pieces):
    return sentence_pieces


def test_a_sentence_is_between_its_language_and_an_end(languages):
    encoded = encode_sentences(GERMAN, languages, 8, "de")
    full = [list(np.array(languages(text))) for text in GERMAN]
    for row, own in zip(encoded.padded(np.arange(4)), full, strict=True):
        start, end = languages.token_to_id("<de>"), languages.end_token_id
        expected = [start, *own[:6], end]
        assert list(row) == (expected + 8 * [0])[: len(row)]
    assert encoded.num_truncated == sum(len(own) > 6 for own in full)


def test_a_pair_is_read_up_to_its_end_and_predicted_from_its_first_word(
    languages,
):
    sides = [
        encode_sentences(texts, languages, 30, language)
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
    end, language = languages.end_token_id, languages.token_to_id("<de>")
    for text in GERMAN:
        own = tuple(np.array(languages(text)))
        before, places = found[*own, end]
        assert before == (language, *own)
        size = len(own) + 1
        assert places == (*range(size), *(len(places) - size) * [0])


def test_spans_are_of_sentences_of_all_languages(languages):
    both = join_sentences(
        encode_sentences(ENGLISH, languages, 30, "en"),
        encode_sentences(GERMAN, languages, 30, "de"),
    )
    masker = SpanMasker(SpanMasking(), languages)
    stream = BatchStream(SpanRows(both, masker), TokenBatches(60))
    first_tokens, hidden = [], 0
    for x, y, weight in stream.training().take(stream.steps_per_epoch):
        first_tokens += list(x["decoder_token_ids"][:, 0].numpy())
        hidden += int(weight.numpy().sum())
        assert np.prod(y.shape) + np.prod(x["encoder_token_ids"].shape) <= 60
    of = languages.token_to_id
    assert sorted(first_tokens) == sorted(4 * [of("<en>")] + 4 * [of("<de>")])
    halves = (max(1, round((length - 2) / 2)) for length in both.lengths)
    assert hidden == sum(halves) == masker.span_lengths(both.lengths).sum()
