"""One finished smoke run, made once and read by all tests in this folder."""

import dataclasses

import pytest

from kdkit.recipes import RECIPES
from kdkit.recipes import smoke
from kdkit.settings import override
from kdkit.training import distill
from kdkit.training.run_settings import same_number_of_updates


@pytest.fixture(scope="session")
def smoke_settings():
    settings = smoke.distillation(RECIPES["tinybert"])
    settings = dataclasses.replace(
        settings, control=same_number_of_updates(settings.stages)
    )
    return override(settings, ["data.max_train_rows=64"])


@pytest.fixture(scope="session")
def finished_run(smoke_settings, tmp_path_factory):
    """A run directory of TinyBERT with a control arm and its own teacher."""
    path = tmp_path_factory.mktemp("runs") / "tinybert"
    distill(smoke_settings, path)
    return path
