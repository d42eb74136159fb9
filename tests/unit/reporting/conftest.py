"""Functions that make runs, and what is drawn of them."""

import matplotlib.axes
import pytest
from kit.reports import (
    RunWriter,
    config,
    write_distillation_run,
    write_teacher_run,
)


@pytest.fixture
def make_run(tmp_path):
    """A function of a name, a kind and fields of a config that starts a run."""

    def start(name, base="distill", provenance=None, **fields):
        return RunWriter(tmp_path / name, config(base, **fields), provenance)

    return start


@pytest.fixture
def make_teacher(tmp_path):
    """A function of a name and a seed that makes a teacher's run."""

    def make(name, **more):
        return write_teacher_run(tmp_path / name, **more)

    return make


@pytest.fixture
def teacher_run(make_teacher):
    return make_teacher("teacher")


@pytest.fixture
def make_distillation(tmp_path, teacher_run):
    """A function of a name that makes a finished run, with fields changed."""

    def make(name, **more):
        more.setdefault("teacher", teacher_run.run_dir)
        return write_distillation_run(tmp_path / name, **more)

    return make


@pytest.fixture
def distillation_run(make_distillation):
    return make_distillation("run")


@pytest.fixture
def drawn(monkeypatch):
    """The lines and points of matplotlib: (label, across, up, style)."""
    plot, found = matplotlib.axes.Axes.plot, []

    def record(self, across, up, *more, label=None, **style):
        found.append((label, across, up, style))
        return plot(self, across, up, *more, label=label, **style)

    monkeypatch.setattr(matplotlib.axes.Axes, "plot", record)
    return found
