"""A folder of parallel files, an encoder-decoder, and a student of it."""

import os
import shutil

import filelock
import pytest
from helpers import eager_steps
from parallel import of_sentences, translation, write_parallel

from kdkit.cli.main import main
from kdkit.training import pretrain


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A folder of all workers, which the one that comes first fills."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder = folder / "encoder_decoders"
    with filelock.FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            write_parallel(folder / "parallel")
            with eager_steps():
                make_runs(folder / "parallel", folder / "runs")
    return folder


def make_runs(text, folder):
    pretrain(of_sentences(text), folder / "pretrained")
    words = translation(text, folder / "pretrained", folder / "en_de")
    assert main(words) == 0


@pytest.fixture(scope="session")
def text(shared):
    """A folder of parallel files."""
    return shared / "parallel"


@pytest.fixture(scope="module")
def runs(shared, tmp_path_factory):
    """A copy for each file of tests, which note in it what they measure."""
    path = tmp_path_factory.mktemp("runs")
    return shutil.copytree(shared / "runs", path, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def pretrained(runs):
    return runs / "pretrained"


@pytest.fixture(scope="module")
def translator(runs):
    """A student of itself, by the recipe's second stage."""
    return runs / "en_de"
