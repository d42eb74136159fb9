"""Chains of runs that are noted instead of run."""

import contextlib
import pathlib

import pytest

from kdkit.runs import run as module
from kdkit.runs.directory import Run
from kdkit.runs.steps import place_of_step, with_places


@contextlib.contextmanager
def noted_steps(finish=None):
    """Yields a dict that gets the config of each run by its place.

    Args:
        finish: callable of a place, which writes what a run there leaves.
    """
    found = {}

    def note(config, run_dir, *_, **__):
        folder, places = pathlib.Path(run_dir).absolute(), {}
        for name, step in config.steps.items():
            places[name] = place_of_step(config, name, folder)
            if step.kind != "augmentation":
                note(with_places(step, places), places[name])
        found[folder] = config.model_dump(mode="json")
        if finish is not None:
            folder.mkdir(parents=True, exist_ok=True)
            finish(folder)
        return Run(folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "run", note)
        yield found
