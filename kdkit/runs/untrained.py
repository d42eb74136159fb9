"""What is done with a run's models without training: checks, a full cache."""

import pathlib
import tempfile

from kdkit.augmentation.run import prepare_copies
from kdkit.config.runs import AnyRun, TaskConfig
from kdkit.doctor import OK, Finding, examine
from kdkit.runs.build import build
from kdkit.runs.directory import Run
from kdkit.runs.steps import place_of_step, with_places
from kdkit.training.caching import TeacherCaches


def fill_cache(
    config: TaskConfig, part: tuple[int, int] | None = None
) -> TeacherCaches:
    """Caches the teachers' outputs on all examples of a distillation.

    Args:
        config: `TaskConfig` with a cache.
        part: tuple of two ints `(i, n)` or `None`. Only part `i`, from 0, of
            `n` parts of the examples. Defaults to `None`, all examples.

    Returns:
        The `TeacherCaches`.

    Raises:
        UsageError: (a `ValueError`) for the user's mistakes.
        RunError: if the disk has too little free space.
    """
    on_task = [one for one in config.stages if one.data == "task"]
    config = config.replace(stages=on_task, corpus=None)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        start = getattr(config.student, "checkpoint", None)
        for name, step in config.steps.items():
            place = place_of_step(config, name, folder)
            if step.kind == "augmentation":
                prepare_copies(step, place)
            elif start == str(place):  # its sizes are enough
                config = config.replace(student=step.student)
        kind = build(config, folder)
        caches, source = kind.open_caches(part), kind.source()
        stages = [one for one in kind.config.stages if one.objectives]
        caches.expect(stages, kind.model)
        for stage in stages:
            features = caches.features(stage, kind.model)
            seed = kind.config.training.seed
            source.training_stream(stage, seed, features)
            source.validation_stream(stage, features)
        return caches


def examined(config: AnyRun, run_dir) -> list[Finding]:
    """Returns the doctor's findings about a run, without training or writing.

    If a step before the run is not made yet, the step is examined.

    Args:
        config: a run's config.
        run_dir: string or path. Where the run is or would be.
    """
    folder, places = pathlib.Path(run_dir), {}
    for name, step in config.steps.items():
        places[name] = place_of_step(config, name, folder)
        if step.kind != "augmentation" and not Run(places[name]).is_finished:
            step = with_places(step, places)
            later = f"The rest is checked after step {name}."
            return [
                *examined(step, places[name]),
                Finding("steps", OK, later),
            ]
    return examine(build(with_places(config, places), folder))
