"""The record of a run's texts: saved, read, compared, damaged."""

import numpy as np
import pytest

from kdkit import data
from kdkit.errors import UsageError


def test_texts_are_the_same_without_case_spaces_and_punctuation():
    hashes = data.hash_texts(["A man, running.", "Rain", "...", "Rain"])
    found = data.are_among(
        ["a  man running", '"Rain!"', "...", "!!", "A man", ""], hashes
    )
    assert found.tolist() == [True, True, True, False, False, False]


def test_a_run_saves_each_text_once_and_reads_it_again(tmp_path):
    texts = [f"text {number % 50}" for number in range(200)]
    data.write_text_hashes(tmp_path, data.hash_texts(iter(texts)))
    hashes = data.read_text_hashes(tmp_path)
    assert len(hashes) == 50
    assert data.are_among(texts, hashes).all()
    assert not data.are_among(["text 50"], hashes).any()
    data.write_text_hashes(tmp_path, data.hash_texts([]))  # replaces it
    assert len(data.read_text_hashes(tmp_path)) == 0


def test_hashes_are_the_same_in_every_version():
    """Runs of earlier versions are compared with today's texts."""
    assert data.hash_texts(["A man runs."]).tolist() == [10032708714535051864]


def test_a_run_without_texts_has_no_record(tmp_path):
    assert data.read_text_hashes(tmp_path) is None


@pytest.mark.parametrize("change", ["cut", "order", "twice"])
def test_a_damaged_record_is_named(change, tmp_path):
    data.write_text_hashes(tmp_path, data.hash_texts(map(str, range(9))))
    (file,) = tmp_path.iterdir()
    numbers = np.frombuffer(file.read_bytes(), "<u8")
    file.write_bytes(
        {
            "cut": numbers.tobytes()[:-1],
            "order": numbers[::-1].tobytes(),
            "twice": np.repeat(numbers, 2).tobytes(),
        }[change]
    )
    with pytest.raises(UsageError, match=f"{file.name} is damaged"):
        data.read_text_hashes(tmp_path)
