"""The runs of ablations and sweeps, noted in place of being run."""

import contextlib
import pathlib

import pytest

from kdkit.runs import run as running
from kdkit.runs.directory import Run
from kdkit.runs.events import Best, Evaluation, RunFinished


@contextlib.contextmanager
def noted_runs(accuracy=lambda place: 0.5, examples=None):
    """Yields the configs of runs on a task by their places, in their order.

    Args:
        accuracy: function from a run's place to what it measures on dev.
        examples: int or `None`. How many it measures that on.
    """
    found = {}

    def note(config, place, force, needs_models):
        assert not needs_models  # of runs that are finished
        place = pathlib.Path(place)
        place.mkdir(parents=True)
        metrics = {"accuracy": accuracy(place)}
        run = Run(place)
        if examples is not None:
            where = {"arm": "student", "stage": "s", "epoch": 1, "split": "dev"}
            run.log(Evaluation(**where, examples=examples, metrics=metrics))
        run.log(
            RunFinished(seconds=1.0, best={"student": Best(metrics=metrics)})
        )
        found[place] = config.model_dump(mode="json")
        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "run", note)
        yield found
