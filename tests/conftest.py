"""Shared by all tests: backend, threads, seeds, devices, order, real data."""

import gc
import logging
import os
import pathlib
import random
import sys

import hypothesis
import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# As many tests at a time as there are cores, so each has one. With several
# threads within an operation, or with oneDNN, sums and goldens depend on the
# machine.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Programs of XLA run once or twice here: what takes long is compiling them.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

pytest_plugins = ["kit.finished", "kit.budget"]
REPOSITORY = pathlib.Path(__file__).parent.parent
gc.disable()  # until all is imported, see `pytest_collection_finish`


def pytest_addoption(parser):
    parser.addoption(
        "--run-large",
        action="store_true",
        help="also run the tests marked large, see CONTRIBUTING.md",
    )
    parser.addoption(
        "--kills",
        type=int,
        default=20,
        help="SIGKILLs of tests/large/test_kill.py, over all kinds of run",
    )


def pytest_configure(config):
    """Hypothesis draws few and fixed examples; many with --run-large."""
    shared = {
        "deadline": None,  # the first example of a shape is traced
        "suppress_health_check": [
            hypothesis.HealthCheck.too_slow,
            hypothesis.HealthCheck.function_scoped_fixture,
        ],
        "database": None,
    }
    hypothesis.settings.register_profile(
        "few", max_examples=6, derandomize=True, **shared
    )
    hypothesis.settings.register_profile("many", max_examples=1000, **shared)
    large = config.getoption("--run-large")
    hypothesis.settings.load_profile("many" if large else "few")


def pytest_collection_modifyitems(config, items):
    """Long files come first, so that no worker ends late."""
    from kit.budget import BUDGET, TESTS

    rank = {name: place for place, name in enumerate(BUDGET["seconds"])}
    items.sort(
        key=lambda item: rank.get(
            item.path.relative_to(TESTS).as_posix(), len(rank)
        )
    )
    if not config.getoption("--run-large"):
        large = [item for item in items if item.get_closest_marker("large")]
        items[:] = [item for item in items if item not in set(large)]
        config.hook.pytest_deselected(items=large)


def pytest_sessionstart():
    """Where another backend is asked for, sets it up for tests."""
    if os.environ["KERAS_BACKEND"] != "tensorflow":
        from kit.backend import ease

        ease()


def pytest_collection_finish():
    """Leaves modules out of garbage collections, and splits the CPU.

    Looking through all of TensorFlow for garbage, again and again, took a fifth
    of the tests' time. TensorFlow takes the four devices, for the tests of
    distribution, before its first operation only. Test modules that need no
    TensorFlow run without importing it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
    gc.enable()
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None:
        return
    cpu = tensorflow.config.list_physical_devices("CPU")[0]
    tensorflow.config.set_logical_device_configuration(
        cpu, [tensorflow.config.LogicalDeviceConfiguration()] * 4
    )


@pytest.fixture(autouse=True)
def _seeds():
    """Starts every test from the same random state."""
    random.seed(0)
    np.random.seed(0)
    keras = sys.modules.get("keras")
    if keras is not None:
        keras.utils.set_random_seed(0)


@pytest.fixture(scope="module")
def eager():
    """Compiled models of a module run untraced, unless they say otherwise."""
    from kit.helpers import eager_steps

    with eager_steps():
        yield


@pytest.fixture(scope="session")
def data_dir():
    """The folder of real data, or a skip that says how to point to it."""
    path = pathlib.Path(
        os.environ.get("KDKIT_DATA", REPOSITORY.parent / "shared" / "data")
    )
    if not path.is_dir():
        pytest.skip(f"no real data in {path}: set KDKIT_DATA to its folder")
    return path


@pytest.fixture(scope="session")
def sentence_pieces():
    """The tokenizer for `helpers.ENGLISH` and `helpers.GERMAN`."""
    from kit.helpers import ENGLISH, GERMAN

    from kdkit.models import train_sentence_pieces

    return train_sentence_pieces(ENGLISH + GERMAN, 300, ["en", "de"])


@pytest.fixture
def logged(caplog):
    """A function that returns the messages of kdkit's loggers since the last.

    Of calls from Python: the command line prints them.
    """
    caplog.set_level(logging.INFO, "kdkit")

    def messages():
        text = "\n".join(caplog.messages)
        caplog.clear()
        return text

    return messages


@pytest.fixture(scope="session")
def workspace(tmp_path_factory):
    """The runs of all tests, each made when it is first asked for."""
    from kit.runs import Workspace, folder_of_all_workers

    return Workspace(folder_of_all_workers(tmp_path_factory) / "runs_of_all")
