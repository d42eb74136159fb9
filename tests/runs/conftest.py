"""Runs here are quick: few rows to measure on, steps that are not traced."""

import shutil

import filelock
import pytest
from kit.helpers import eager_steps
from kit.parallel import of_sentences, translation, write_parallel
from kit.runs import folder_of_all_workers

from kdkit.cli.main import main
from kdkit.training import pretrain


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A folder of all workers, which the one that comes first fills."""
    folder = folder_of_all_workers(tmp_path_factory) / "encoder_decoders"
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


@pytest.fixture(scope="module", autouse=True)
def _quick(quick_runs):
    """Tracing is most of a short run."""
