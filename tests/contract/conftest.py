"""One workspace of runs for all tests of a process, on one thread each."""

import os

import pytest

# Before TensorFlow is imported. With oneDNN, sums depend on what the processor
# can do; with several threads within an operation, on how many there are.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def workspace(tmp_path_factory):
    """Runs that are made when they are first asked for."""
    from runs import Workspace

    return Workspace(tmp_path_factory.mktemp("contract"))
