"""Inputs that once broke a reader, found by fuzz/run.py."""

import ast
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
        for name in ("readers", "readers_of_runs", "changes", "given"):
            del sys.modules[name]


@pytest.mark.parametrize(
    "path", FINDS, ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_a_find_gives_a_value_or_an_error_in_words(path, readers, tmp_path):
    error = readers.breaks_its_word(
        path.parent.name, path.read_bytes(), tmp_path
    )
    assert error is None, repr(error)


@pytest.mark.large
def test_every_reader_reads_what_it_is_for(readers, tmp_path):
    for reader, seeds in readers.SEEDS.items():
        for number, seed in enumerate(seeds):
            folder = tmp_path / f"{reader.__name__}_{number}"
            folder.mkdir()
            reader(seed, folder)


READING = {
    *("numbered_lines", "json_lines", "read_json", "parse_json", "read_lines"),
    *("TFRecordDataset", "read_bytes", "read_text"),
}
# What others read with, and what reads a file that it has just made.
PASSED_ON = {
    "kdkit.io.hdf5_walk",  # of a process, which `running_state` runs
    "kdkit.io.reading",
    "kdkit.data.text_files",  # `corpus`, `parallel` and `unlabeled` do
    "kdkit.data.examples",
    "kdkit.models.hugging_face_saving",  # reads what it has written
    "kdkit.models.conventions",  # JSON, read by `read_json`
    "kdkit.models.places",  # tables within keras-hub
    "kdkit.export.file_parts",
    "kdkit.export.litert",
    "kdkit.export.mediapipe",  # of a file that it is writing
}


def imports_of(tree):
    """The modules that a file imports from, and with what it imports."""
    return {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in (
            node.module,
            *(f"{node.module}.{alias.name}" for alias in node.names),
        )
    }


def reads(tree):
    """Whether a file calls something that reads a file."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {getattr(one, "id", getattr(one, "attr", None)) for one in calls}
    return bool(names & READING) or "h5py" in {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }


def test_every_module_that_reads_files_is_fuzzed():
    """A reader of fuzz/ takes what it fuzzes from the module that reads."""
    fuzzed = set()
    for file in ("readers.py", "readers_of_runs.py"):
        tree = ast.parse((HERE.parent / "fuzz" / file).read_text())
        fuzzed |= imports_of(tree)
    reading = {
        ".".join(path.relative_to(HERE.parent).with_suffix("").parts)
        for path in (HERE.parent / "kdkit").rglob("*.py")
        if reads(ast.parse(path.read_text()))
    }
    assert len(reading) > 20
    assert reading - PASSED_ON <= fuzzed


def test_finds_are_of_readers_that_there_are(readers):
    assert {path.parent.name for path in FINDS} <= set(readers.READERS)
