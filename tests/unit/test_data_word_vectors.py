"""Word vectors: read by word, from every form of file."""

import numpy as np

from kdkit.data import (
    read_all_word_vectors,
    read_word_vectors,
    word_vector_width,
    words_of_pieces,
)


def write(tmp_path, *lines):
    path = tmp_path / "vectors.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_vectors_stand_in_the_order_of_the_words(tmp_path):
    path = write(tmp_path, "the 1 2", "film -0.5 1e-1", "rest 9 9")
    vectors, found = read_word_vectors(path, ["film", "", "dull", "the"])
    assert vectors.dtype == "float32"
    np.testing.assert_allclose(vectors, [[-0.5, 0.1], [0, 0], [0, 0], [1, 2]])
    np.testing.assert_array_equal(found, [True, False, False, True])


def test_header_of_word2vec_and_words_with_blanks_are_understood(tmp_path):
    path = write(tmp_path, "2 3", ". . . 1 2 3", "a 4 5 6")
    vectors, found = read_word_vectors(path, ["a", ". . ."])
    np.testing.assert_allclose(vectors, [[4, 5, 6], [1, 2, 3]])
    assert found.all()
    assert word_vector_width(path) == 3


def test_all_words_can_be_read_up_to_a_number(tmp_path):
    path = write(tmp_path, "a 1 1", "b 2 2", "a 3 3", "c 4 4")
    words, vectors = read_all_word_vectors(path)
    assert words == ["a", "b", "c"]
    np.testing.assert_allclose(vectors, [[1, 1], [2, 2], [4, 4]])
    assert read_all_word_vectors(path, most=2)[0] == ["a", "b"]


def test_first_of_two_vectors_counts(tmp_path):
    path = write(tmp_path, "a 1 1", "a 2 2")
    vectors, _ = read_word_vectors(path, ["a"])
    np.testing.assert_allclose(vectors, [[1, 1]])


def test_pieces_of_words_and_special_ones_are_no_words():
    pieces = ["[PAD]", "[unused1]", "the", "##s", "[", "]"]
    assert words_of_pieces(pieces) == ["", "", "the", "", "[", "]"]
