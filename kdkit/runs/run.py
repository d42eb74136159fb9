"""A run, from its config to a directory with trained models.

Read `run` from top to bottom: each line is a step of every run, and calls the
module that does it. What differs between runs of a classifier, a language
model and a sentence encoder is in `classifiers`, `language_models` and
`embedders`.
"""

import logging
import pathlib

from kdkit.augmentation.run import prepare_copies
from kdkit.config.runs import AnyRun
from kdkit.doctor import examine, require_sound
from kdkit.runs.build import build, resolved
from kdkit.runs.directory import Run, open_run, with_values
from kdkit.runs.events import Doctor, Inputs, TeacherCache
from kdkit.runs.inputs import (
    input_digests,
    is_complete,
    require_same_inputs,
)
from kdkit.runs.log import (
    ArmLog,
    finish,
    log_findings,
    log_model,
    log_rows,
    log_start,
    named_teachers,
)
from kdkit.runs.provenance import provenance
from kdkit.runs.steps import place_of_step, with_places
from kdkit.training.distribution import training_on

_log = logging.getLogger(__name__)


def run(
    config: AnyRun,
    run_dir,
    force: bool = False,
    needs_models: bool = True,
) -> Run:
    """Makes the runs before a run, then trains, measures and saves its models.

    The same call continues a stopped run, from its last checkpoint to the same
    bits, and returns a finished one. A teacher is saved in `RUN/teacher/`, a
    student in `RUN/student/`, its control in `RUN/control/`, and a language
    model without a teacher in `RUN/encoder/`, `RUN/decoder/` or
    `RUN/encoder_decoder/`.

    Args:
        config: `TaskConfig`, `TextConfig` or `EmbedderConfig`.
        run_dir: string or path of a new or a started run directory.
        force: bool. Whether to continue if a check reports an error. Defaults
            to `False`.
        needs_models: bool. Whether a complete run whose model was removed
            trains again. Defaults to `True`.

    Returns:
        The `Run`.

    Raises:
        UsageError: (a `ValueError`) for the user's mistakes, and for a run that
            was made with other fields or inputs.
        RunError: if a check reports an error, or a loss is not finite.
    """
    folder = pathlib.Path(run_dir)
    with (
        training_on(config.training) as devices,
        open_run(folder, config, devices) as (directory, config),
    ):
        if is_complete(directory, config, devices, needs_models):
            directory.write_config(config, {})  # models may have moved
            return directory
        made = directory.made_arms  # their models exist, others were removed
        if config.steps:
            directory.write_config(config, provenance())
        places = make_steps(config, folder, devices, force)

        log_start(config)
        given = with_places(config, places)
        kind = build(given, folder, devices)
        findings = []
        # In a run of several processes, the one that writes examines it.
        if not (directory.is_read_only or any(directory.events(Doctor))):
            findings = examine(kind)
            require_sound(findings, force)
        inputs = input_digests(config)
        require_same_inputs(directory, inputs, devices)
        config = _with_resolved(config, resolved(given, kind.config))
        # Only a directory with a config may have the files of the data.
        directory.write_config(config, provenance())
        # Before the data is stored: a later start would read what is stored.
        directory.log_once(Inputs(digests=inputs))

        with devices.chief_first():
            source = kind.source()
        caches = kind.open_caches()
        log_findings(directory, findings)
        log_rows(directory, source)
        kind.measure(directory, source, caches)
        best = {
            arm: made[arm]
            if arm in made
            else _train(directory, kind, arm, source, caches)
            for arm in kind.arms
        }
        if caches is not None:
            errors = tuple(caches.relative_errors())
            precision = caches.precision
            directory.log_once(
                TeacherCache(precision=precision, relative_errors=errors)
            )
        finish(directory, best)
        return directory


def make_steps(config, folder, devices, force) -> dict:
    """Makes the runs before a run, unless they are complete.

    Returns:
        Dict from the name of each step to its place.
    """
    places, count = {}, len(config.steps) + 1
    for number, (name, step) in enumerate(config.steps.items(), start=1):
        place = places[name] = place_of_step(config, name, folder)
        _log.info(f"Step {number} of {count}: {name}, in {place}.")
        step = with_places(step, places)
        if step.kind == "augmentation":
            with devices.chief_first():
                prepare_copies(step, place)
        else:
            run(step, place, force)
    if config.steps:
        _log.info(f"Step {count} of {count}: {config.recipe}, in {folder}.")
    return places


def _with_resolved(config, values):
    """The config with what was resolved, for `config.json`."""
    requested = {path: before for path, (before, _) in values.items()}
    found = {path: after for path, (_, after) in values.items()}
    return with_values(config, found, {**requested, **config.requested})


def _train(directory, kind, arm, source, caches):
    """Trains, measures and saves a model; returns its best epoch."""
    # Each arm starts from the same weights.
    model = kind.model if arm == next(iter(kind.arms)) else kind.make()
    log_model(directory, arm, model, kind.config.student)
    for name, teacher in named_teachers(kind.teachers):
        log_model(directory, name, teacher.model)
    for leg in kind.legs(arm, model, source, caches):
        best = leg.run(ArmLog(directory, arm))
    if not directory.is_read_only:
        kind.save(arm, leg.result)
    kind.finish_arm(directory, leg, best)
    return best
