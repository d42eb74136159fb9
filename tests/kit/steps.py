"""Chains of runs that are noted instead of run."""

import contextlib
import json

import pytest

from kdkit.runs.pipeline import Pipeline
from kdkit.settings import to_dict


@contextlib.contextmanager
def noted_steps(finish=None):
    """Yields a dict that gets the settings of each step by its place.

    Args:
        finish: callable of a place, which writes what a run there leaves.
    """
    found = {}

    def note(pipeline, *_, **__):
        for step in pipeline.steps:
            place = step.place.absolute()
            if place in found:
                continue
            found[place] = json.loads(json.dumps(to_dict(step.settings)))
            if finish is not None:
                place.mkdir(parents=True, exist_ok=True)
                finish(place)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pipeline, "run", note)
        yield found
