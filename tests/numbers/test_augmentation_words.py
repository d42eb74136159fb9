"""Candidates for a word by models and vectors, and the copies with them."""

import keras_hub
import numpy as np
import pytest
from kit.adapter import command
from kit.helpers import bert, spread_weights

from kdkit import models
from kdkit.augmentation import (
    Augmenter,
    MaskedWords,
    PieceNeighbors,
    Query,
    VectorNeighbors,
)

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [
    *SPECIAL, "[unused1]",
    *(f"{first}{second}" for first in "abcd" for second in "efgh"),
    "##s", "##ing", "7", ",",
]  # fmt: skip
POSITIONS = 20


def tokenizer_of(pieces):
    return keras_hub.tokenizers.BertTokenizer(pieces, lowercase=True)


def masked_lm(pieces, num_layers, positions):
    """A tiny model with keras-hub's own head."""
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=len(pieces),
        num_layers=num_layers,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=positions,
        dropout=0.0,
    )
    model = keras_hub.models.BertMaskedLM(backbone)
    spread_weights(model)
    return model


@pytest.fixture(scope="module")
def model():
    return masked_lm(PIECES, 1, POSITIONS)


@pytest.fixture(scope="module")
def words(model):
    return MaskedWords(model, tokenizer_of(PIECES), 4)


def best_words(model, row, segments, position):
    """The ids of the best whole words, by one plain call of the model."""
    inputs = {
        "token_ids": [row],
        "segment_ids": [segments],
        "padding_mask": [[1] * len(row)],
        "mask_positions": [[position]],
    }
    inputs = {name: np.array(value) for name, value in inputs.items()}
    logits = np.asarray(model(inputs))[0, 0]
    whole = [number for number, piece in enumerate(PIECES) if piece.isalpha()]
    return sorted(sorted(whole, key=lambda number: -logits[number])[:4])


def test_words_are_those_of_one_position_at_a_time(model, words):
    generator = np.random.default_rng(0)
    queries = []
    for length in generator.integers(1, 17, 40):
        token_ids = generator.integers(6, len(PIECES), length)
        queries.append(Query(token_ids, int(generator.integers(length))))
    for query, ids in zip(queries, words(queries), strict=True):
        row = [2, *query.token_ids, 3]
        row[1 + query.position] = 4
        segments = [0] * len(row)
        assert ids.tolist() == best_words(
            model, row, segments, 1 + query.position
        )


@pytest.mark.parametrize("num_pieces", [9, 15, POSITIONS - 1, 30])
def test_the_second_segment_has_what_the_first_leaves(model, num_pieces):
    """TinyBERT's code: places up to the last one, rows cut at their end."""
    words = MaskedWords(model, tokenizer_of(PIECES), 4, with_original=True)
    assert words.most_pieces == POSITIONS - 1
    token_ids = np.arange(num_pieces) % 16 + 6
    last = min(num_pieces, words.most_pieces) - 1
    queries = [Query(token_ids, position) for position in (0, last)]
    for query, ids in zip(queries, words(queries), strict=True):
        masked = token_ids.copy()
        masked[query.position] = 4
        row = [2, *masked, 3, *token_ids, 3][:POSITIONS]
        first = min(num_pieces + 2, POSITIONS)
        segments = [0] * first + [1] * (len(row) - first)
        assert ids.tolist() == best_words(
            model, row, segments, 1 + query.position
        )


def test_what_is_beyond_the_models_positions_is_not_read(words):
    assert words.most_pieces == POSITIONS - 2
    ids = np.arange(40) % 16 + 6
    long, cut = (words([Query(token_ids, 3)]) for token_ids in (ids, ids[:18]))
    np.testing.assert_array_equal(long, cut)


def test_more_words_than_there_are_is_refused(model):
    with pytest.raises(ValueError, match="16"):
        MaskedWords(model, tokenizer_of(PIECES), 17)


NAMES = [f"word{number}" for number in range(40)]


@pytest.fixture(scope="module")
def vectors():
    drawn = np.random.default_rng(0).normal(size=(40, 6))
    return drawn * np.arange(1, 41)[:, None]


def nearest(vectors, number, count):
    """As in TinyBERT's code, which sets the word's own distance to -inf."""
    lengths = np.linalg.norm(vectors, axis=1)
    cosines = vectors @ vectors[number] / lengths / lengths[number]
    order = [other for other in np.argsort(-cosines) if other != number]
    return [NAMES[other] for other in order[:count]]


def test_neighbors_are_the_nearest_by_cosine_and_never_the_word(vectors):
    asked = ["word3", "nothing", "word7", "word3"]
    for count in (5, 39):
        near = VectorNeighbors(NAMES, vectors, count)
        assert near(asked) == {
            f"word{number}": nearest(vectors, number, count)
            for number in (3, 7)
        }
        assert near([]) == {}
    same = np.repeat(vectors[:1], 2, axis=0)
    found = VectorNeighbors(["a", "b"], same, 1)(["a", "b"])
    assert found == {"a": ["b"], "b": ["a"]}


def test_vectors_of_other_words_have_neighbors_too(vectors):
    near = VectorNeighbors(NAMES, vectors, 1)
    assert near.of(3 * vectors[[4, 9]]) == [["word4"], ["word9"]]


def test_too_few_words_are_refused():
    with pytest.raises(ValueError, match="2"):
        VectorNeighbors(["a", "b"], np.eye(2), 2)


def test_words_without_vectors_are_where_their_pieces_are():
    model = bert(num_classes=None)  # of 20 tokens
    pieces = [*SPECIAL, *(f"w{letter}" for letter in "abcdefghijk")]
    pieces += ["gri", "##p", "7", ","]
    table = np.asarray(model.token_embedding.embeddings)
    whole = [i for i, piece in enumerate(pieces) if piece.isalpha()]
    mean = table[[pieces.index("gri"), pieces.index("##p")]].mean(axis=0)
    cosines = (table @ mean) / np.linalg.norm(table, axis=1)
    best = sorted(whole, key=lambda number: -cosines[number])[:3]

    def known(words):
        return {word: ["x"] for word in words if word == "wa"}

    near = PieceNeighbors(model, tokenizer_of(pieces), 3, known)
    assert near(["grip", "wa", "grip"]) == {
        "wa": ["x"],
        "grip": [pieces[number] for number in best],
    }
    assert near([]) == {}


OF_FILMS = [
    *SPECIAL, "film", "play", "show", "plot", "cast", "scene",
    "fine", "dull", "warm", "slow", "bright", "flat",
    "the", "is", "grip", "##ping", ",",
]  # fmt: skip
TEXTS = ["the film is gripping", "the warm, slow plot", "the"]
AT_ONCE = [
    ["the film is show", "the dull is gripping"],
    ["the warm, flat flat", "the dull, flat plot", "the warm, grip flat"],
    [],
]
SEQUENTIAL = [
    ["the film is grip", "the grip is gripping"],
    ["the warm, slow dull", "the flat, flat plot", "the warm, flat dull"],
    [],
]


@pytest.mark.parametrize(
    ("tokens_per_step", "expected"),
    [(1, AT_ONCE), (2048, AT_ONCE), (64, SEQUENTIAL)],
)
def test_copies_are_the_golden_ones(tokens_per_step, expected):
    """A later version must make an earlier version's file again."""
    model, tokenizer = masked_lm(OF_FILMS, 2, 16), tokenizer_of(OF_FILMS)
    augmenter = Augmenter(
        MaskedWords(model, tokenizer, 4, tokens_per_step=tokens_per_step),
        PieceNeighbors(model, tokenizer, 4),
        tokenizer,
        num_copies=3,
        probability=0.5,
        sequential=expected is SEQUENTIAL,
        stop_words={"the", "is"},
        seed=7,
    )
    assert augmenter(TEXTS) == expected


def test_the_nearest_word_of_the_authors_code_is_another(tmp_path):
    """With --parity tinybert: of equally near words the other one."""
    pieces = [*SPECIAL, "the", "it", "film", "plot", "grip", "##ping"]
    pieces += ["thrill", "##ing"]
    (tmp_path / "SST-2").mkdir()
    for split in ("train", "dev"):
        (tmp_path / "SST-2" / f"{split}.tsv").write_text(
            "sentence\tlabel\nit is gripping\t1\nthe the the\t0\n"
        )
    (tmp_path / "vectors.txt").write_text(
        "gripping 1 0\nthrilling 0.9 0.1\nplot -1 0\nfilm 0 1\n"
    )
    model = masked_lm(pieces, 1, 16)
    loaded = models.LoadedModel(model, tokenizer_of(pieces), sequence_length=16)
    models.save_model(loaded, tmp_path / "model")
    answer = command(
        [
            *("augment", "--task", "sst2", "--data-dir", tmp_path),
            *("--model", tmp_path / "model", "--parity", "tinybert"),
            *("--word-vectors", tmp_path / "vectors.txt", "--copies", "1"),
            *("--probability", "1.0", "--candidates", "1"),
            *("--output", tmp_path / "copies.tsv"),
        ]
    )
    assert answer.status == 0, answer.err
    _, _, *lines = (tmp_path / "copies.tsv").read_text().splitlines()
    assert [line.split("\t")[-1] for line in lines] == ["it is thrilling"]
