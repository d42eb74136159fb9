"""What once broke a reader of outside input, found by fuzz/run.py."""

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
FINDS = sorted(
    path for path in (HERE / "fuzz_finds").glob("*/*") if path.is_file()
)


@pytest.fixture(scope="module")
def readers():
    """The readers of fuzz/, which is no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE.parent / "fuzz"))
        import readers

        yield readers
        del sys.modules["readers"]


@pytest.mark.parametrize(
    "path", FINDS, ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_a_find_gives_a_value_or_an_error_in_words(path, readers, tmp_path):
    error = readers.breaks_its_word(
        path.parent.name, path.read_bytes(), tmp_path
    )
    assert error is None, repr(error)


def test_every_reader_reads_what_it_is_for(readers, tmp_path):
    for reader, seeds in readers.SEEDS.items():
        for number, seed in enumerate(seeds):
            folder = tmp_path / f"{reader.__name__}_{number}"
            folder.mkdir()
            reader(seed, folder)


def test_finds_are_of_readers_that_there_are(readers):
    assert {path.parent.name for path in FINDS} <= set(readers.READERS)
