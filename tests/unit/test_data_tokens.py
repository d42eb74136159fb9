"""Sentences with labels on words: CoNLL files and polyphones."""

import keras_hub
import numpy as np
import pytest
from kit import encoders
from kit.helpers import large_except
from kit.tasks import TAGS, VOCABULARY, write_conll, write_polyphone

from kdkit.data import (
    BatchStream,
    Buckets,
    Examples,
    TokenExamples,
    character_vocabulary,
    encode,
    encode_tokens,
)
from kdkit.data.encoding import NO_LABEL, UNKNOWN, was_read
from kdkit.tasks import get_task, majority_accuracy


@pytest.fixture(scope="module")
def pieces():
    """A tokenizer of word pieces: `wx` is one, `abab` two, `wxw` none."""
    return keras_hub.tokenizers.BertTokenizer(
        [*VOCABULARY, "##ab"], lowercase=False
    )


def tokens(encoded, tokenizer, row):
    return [tokenizer.id_to_token(int(i)) for i in encoded.row(row)]


def examples(words, labels):
    return TokenExamples(
        [tuple(row.split()) for row in words],
        [np.array(row, "int32") for row in labels],
    )


def test_a_words_label_stands_at_its_first_piece(pieces):
    rows = examples(["abab cd wxw", "ef"], [[1, 2, 3], [UNKNOWN]])
    encoded = encode_tokens(rows, pieces, 16)
    assert tokens(encoded, pieces, 0) == (
        ["[CLS]", "ab", "##ab", "cd", "[UNK]", "[SEP]"]
    )
    assert encoded.labels.tolist() == [
        *[NO_LABEL, 1, NO_LABEL, 2, 3, NO_LABEL],
        *[NO_LABEL, UNKNOWN, NO_LABEL],
    ]
    assert [row.tolist() for row in encoded.targets] == [[1, 2, 3], [UNKNOWN]]


@pytest.mark.parametrize(
    "family", large_except(["bert", "roberta", "albert"], "bert", "albert")
)
def test_words_are_read_as_in_running_text(family):
    tokenizer = encoders.tokenizer(family)
    text = "the cast is good"
    words = encode_tokens(examples([text], [range(4)]), tokenizer, 64)
    whole = encode(Examples(([text],)), tokenizer, 64)
    np.testing.assert_array_equal(words.token_ids, whole.token_ids)


def test_batches_weigh_positions_with_known_labels(pieces):
    rows = examples(["ef", "abab cd"], [[UNKNOWN], [1, 2]])
    stream = BatchStream(encode_tokens(rows, pieces, 16), Buckets(2, 1))
    ((x, y, sample_weight),) = stream.evaluation().as_numpy_iterator()
    ((order, _),) = stream.evaluation_batches
    assert order.tolist() == [0, 1]
    assert x["token_ids"].shape == y.shape == (2, 5)
    assert sample_weight.tolist() == [[0, 0, 0, 0, 0], [0, 1, 0, 1, 0]]
    assert y[1, [1, 3]].tolist() == [1, 2]
    assert y.min() == 0


def test_answers_are_those_of_labelled_positions(pieces):
    encoded = encode_tokens(
        examples(["ef", "abab cd"], [[UNKNOWN], [1, 2]]), pieces, 16
    )
    outputs = np.arange(2 * 5 * 3).reshape(2, 5, 3)
    first, second = encoded.answers(outputs, np.array([1, 0]))
    np.testing.assert_array_equal(first, outputs[0, [1, 3]])
    np.testing.assert_array_equal(second, outputs[1, [1]])


def test_long_sentences_keep_the_part_around_their_first_label(pieces):
    words = "ab cd ef gh ij kl mn op"
    marked = np.full(8, NO_LABEL)
    marked[6] = 1
    rows = examples([words, words], [marked, range(8)])
    encoded = encode_tokens(rows, pieces, 6)
    assert encoded.num_truncated == 2
    assert tokens(encoded, pieces, 0)[1:-1] == ["ij", "kl", "mn", "op"]
    assert tokens(encoded, pieces, 1)[1:-1] == ["ab", "cd", "ef", "gh"]
    assert [row[was_read(row)].tolist() for row in encoded.targets] == [
        [1], [0, 1, 2, 3],
    ]  # fmt: skip


def test_conll_files_are_sentences_of_words_and_tags(tmp_path):
    write_conll(tmp_path, num_rows=2)
    task = get_task("conll").for_data(tmp_path)
    assert set(task.class_names) == set(TAGS)
    assert task.class_names[0] == "O"
    rows = task.load("train", tmp_path)
    assert len(rows) == 2
    tags = [task.class_names[number] for number in rows.labels[1]]
    assert tags == ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]
    assert rows.words[0][-1] == "."


def test_a_given_tag_set_decides(tmp_path):
    write_conll(tmp_path)
    (tmp_path / "conll" / "tags.txt").write_text("O\nB-PER\nI-PER\n")
    assert get_task("conll").for_data(tmp_path).num_classes == 3


def write_polyphones(root, stem, rows):
    folder = root / "polyphone"
    folder.mkdir(exist_ok=True)
    sentences, readings = zip(*rows, strict=True)
    (folder / f"{stem}.sent").write_text("\n".join(sentences) + "\n")
    (folder / f"{stem}.lb").write_text("\n".join(readings) + "\n")
    return folder / f"{stem}.sent"


def test_the_marked_character_has_the_label(tmp_path):
    rows = [("来▁了▁ 。", "le5"), ("▁了▁解", "liao3"), ("你▁好▁", "hao3")]
    write_polyphones(tmp_path, "train", rows)
    task = get_task("polyphone").for_data(tmp_path)
    assert task.class_names == ("hao3", "le5", "liao3")
    assert task.kind.candidates == {"了": (1, 2), "好": (0,)}
    found = task.load("train", tmp_path)
    assert found.words == [("来", "了", "。"), ("了", "解"), ("你", "好")]
    assert [row.tolist() for row in found.labels] == [
        [NO_LABEL, 1, NO_LABEL], [2, NO_LABEL], [NO_LABEL, 0],
    ]  # fmt: skip


def test_readings_that_training_does_not_have_are_unknown(tmp_path):
    write_polyphones(tmp_path, "train", [("▁了▁", "le5"), ("▁好▁", "hao3")])
    rows = [
        ("▁了▁", "liao3"),  # a new reading
        ("▁了▁", "hao3"),  # another character's
        ("▁行▁", "hao3"),  # a new character with a known reading
        ("▁行▁", "xing2"),
    ]
    write_polyphones(tmp_path, "dev", rows)
    found = get_task("polyphone").load("dev", tmp_path)
    assert [row.tolist() for row in found.labels] == [
        [UNKNOWN], [UNKNOWN], [0], [UNKNOWN],
    ]  # fmt: skip


def test_without_a_training_file_every_tenth_row_of_dev_is_held_out(tmp_path):
    rows = [(f"{number}▁了▁", "le5") for number in range(20)]
    write_polyphones(tmp_path, "dev", rows)
    task = get_task("polyphone")
    train, dev = (task.load(split, tmp_path) for split in ("train", "dev"))
    assert dev.words == [("9", "了"), ("1", "9", "了")]
    assert len(train) == 18
    assert not set(dev.words) & set(train.words)
    write_polyphones(tmp_path, "train", rows)
    assert len(task.load("dev", tmp_path)) == 20


def test_the_vocabulary_is_the_characters_of_train_polyphones_first(tmp_path):
    write_polyphone(tmp_path)
    task = get_task("polyphone").for_data(tmp_path)
    rows = task.load("train", tmp_path)
    vocabulary = character_vocabulary(rows)
    assert vocabulary[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert set(vocabulary[5:8]) == set(task.kind.candidates)
    assert set(vocabulary[5:]) == {c for words in rows.words for c in words}
    assert len(set(vocabulary)) == len(vocabulary)
    tokenizer = keras_hub.tokenizers.BertTokenizer(vocabulary, lowercase=False)
    encoded = task.encode(rows, tokenizer, 16)
    for row in range(5):
        assert tokens(encoded, tokenizer, row)[1:-1] == list(rows.words[row])


def test_the_baseline_answers_with_the_most_frequent_label():
    train = examples(["a", "a", "a", "b"], [[0], [0], [1], [2]])
    rows = examples(["a x", "a", "b", "c"], [[0, NO_LABEL], [1], [2], [2]])
    assert majority_accuracy(train, rows) == 2 / 4


def conll_words(root, text):
    """The words and tags that are read of a training file."""
    (root / "conll").mkdir(exist_ok=True)
    (root / "conll" / "train.txt").write_text(text)
    task = get_task("conll").for_data(root)
    rows = task.load("train", root)
    tags = [[task.class_names[tag] for tag in row] for row in rows.labels]
    return rows.words, tags


def test_tabs_alone_separate_the_columns_of_lines_that_have_them(tmp_path):
    words, tags = conll_words(
        tmp_path,
        "pay\tVB\tO\n10\u00a0000\tCD\tB-MONEY\nEUR\tNN\tI-MONEY\t\n\n"
        "New York\tNNP\tB-LOC\n sleeps \tVB\tO \n\n \n\n",
    )
    assert words == [("pay", "10\u00a0000", "EUR"), ("New York", "sleeps")]
    assert tags == [["O", "B-MONEY", "I-MONEY"], ["B-LOC", "O"]]


def test_spaces_separate_the_columns_of_other_lines(tmp_path):
    words, tags = conll_words(tmp_path, "10\u00a0000  CD B-MONEY\nEUR NN O \n")
    assert words == [("10\u00a0000", "EUR")]
    assert tags == [["B-MONEY", "O"]]


def test_words_with_spaces_are_encoded_as_one_word(pieces, tmp_path):
    words, _ = conll_words(tmp_path, "ab cd\tB-LOC\nef\tO\n")
    rows = TokenExamples(words, [np.array([1, 0], "int32")])
    encoded = encode_tokens(rows, pieces, 16)
    assert encoded.lengths.tolist() == [5]
    assert encoded.labels.tolist() == [-1, 1, -1, 0, -1]
