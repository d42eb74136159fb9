"""A folder of parallel files, an encoder-decoder, and a student of it."""

import shutil

import pytest
from helpers import eager_steps
from parallel import of_sentences
from parallel import translation
from parallel import write_parallel

from kdkit.cli.main import main
from kdkit.training import pretrain


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """A folder of parallel files."""
    folder = tmp_path_factory.mktemp("parallel")
    write_parallel(folder)
    return folder


@pytest.fixture(scope="session")
def made_once(text, tmp_path_factory):
    """The runs that `runs` copies."""
    folder = tmp_path_factory.mktemp("encoder_decoder")
    with eager_steps():
        pretrain(of_sentences(text), folder / "pretrained")
        words = translation(text, folder / "pretrained", folder / "en_de")
        assert main(words) == 0
    return folder


@pytest.fixture(scope="module")
def runs(made_once, tmp_path_factory):
    """A copy for each file of tests, which note in it what they measure."""
    path = tmp_path_factory.mktemp("runs")
    return shutil.copytree(made_once, path, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def pretrained(runs):
    return runs / "pretrained"


@pytest.fixture(scope="module")
def translator(runs):
    """A student of itself, by the recipe's second stage."""
    return runs / "en_de"
