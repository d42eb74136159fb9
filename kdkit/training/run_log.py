"""What every kind of run writes into its log, and says at its end."""

import contextlib
import dataclasses
import json
import pathlib

from kdkit import models
from kdkit.doctor import RUINS
from kdkit.doctor import Finding
from kdkit.doctor import Findings
from kdkit.doctor import print_findings
from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.reporting.records import read_run
from kdkit.reporting.summary import verdict
from kdkit.settings import from_dict
from kdkit.training.run_directory import RunDirectory

DOCTOR = "doctor"  # the event of the checks before a run
END = "run_finished"


def says_finished(run: RunDirectory, needs_models: bool = True) -> bool:
    """Whether the run is finished; says so if it is, or what of it is gone.

    Args:
        run: `RunDirectory`.
        needs_models: bool. Whether it is not if a model that it made is gone.
            Defaults to `True`.
    """
    if run.is_finished or (not needs_models and run.events(END)):
        print(f"The run in {run.path} is finished: nothing to do.", flush=True)
        return True
    if run.lost_arms:
        print(
            f"The run in {run.path} was finished, but its model "
            f"{' and '.join(run.lost_arms)} is gone: making it again.",
            flush=True,
        )
    return False


def log_model(run: RunDirectory, arm, model, settings=None) -> None:
    """Logs the sizes of an arm's model, once.

    Args:
        run: `RunDirectory`.
        arm: string.
        model: the classifier or encoder.
        settings: `ModelSettings` or `None`. What it was made from.
    """
    if [event for event in run.events("model") if event["arm"] == arm]:
        return
    description = models.architecture(model)
    if settings is not None and settings.checkpoint is not None:
        description["name"] = pathlib.Path(settings.checkpoint).name
    run.log("model", arm=arm, **description)


def finish(run: RunDirectory, best) -> None:
    """Logs the end of a run, once, and prints its models and its outcome.

    Args:
        run: `RunDirectory`.
        best: dict from arm to what `Arm.run` returned.
    """
    end = {"seconds": run.seconds, "best": best}
    noted = run.events(END)
    if not (noted and json.dumps(end) == json.dumps(_end_of(noted[-1]))):
        run.keep_events(lambda event: event["event"] != END)
        run.log(END, **end)
    for arm, result in best.items():
        file = run.path / f"{arm}.keras"
        place = f"epoch {result['epoch']}"
        if result["averaged_epochs"]:
            first, *_, last = result["averaged_epochs"]
            place = f"mean of epochs {first} to {last}"
        print(
            f"{arm}: {format_metrics(result['metrics'])} on "
            f"{result['split'].replace('_', '-')} ({place} of "
            f"{result['stage']}), in "
            f"{file if file.exists() else run.path / arm}",
            flush=True,
        )
    # The records of its teacher's run may be damaged: then reports say so.
    with contextlib.suppress(UsageError):
        if not run.is_read_only:
            print(verdict(read_run(run.path)), flush=True)


def _end_of(event):
    """What a logged end says, as `finish` says it."""
    return {name: event[name] for name in ("seconds", "best")}


def format_metrics(metrics) -> str:
    """Metrics in a line."""
    return ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())


def decide(findings: Findings, force: bool, printed=()) -> None:
    """Prints findings before a run, and stops it if it would be ruined.

    Args:
        findings: `Findings`.
        force: bool. Whether to go on in any case.
        printed: sequence of `Finding`, as in `print_findings`. Defaults to
            none.

    Raises:
        RunError: if the run would be ruined.
    """
    # What stops the run is printed in any case.
    printed = [one for one in printed if force or one.outcome != RUINS]
    print_findings(findings, all_rows=False, printed=printed)
    if not findings.ruinous:
        return
    named = ", ".join(dict.fromkeys(one.check for one in findings.ruinous))
    if not force:
        raise RunError(
            f"The run would be ruined: {named}, see above. Nothing was "
            "trained. Fix it, or continue with --force."
        )
    print(f"doctor: going on in spite of {named}, by --force.", flush=True)


def logged_findings(run: RunDirectory) -> Findings | None:
    """Returns the findings that a run has logged, `None` if it has none.

    Args:
        run: `RunDirectory`.
    """
    for event in run.events(DOCTOR):
        return Findings(from_dict(Finding, one) for one in event["findings"])
    return None


def log_findings(run, findings: Findings | None) -> None:
    """Logs an event `"doctor"` with all findings, if there are some.

    Args:
        run: `RunDirectory`.
        findings: what `examine_first` returned.
    """
    if findings is not None and not run.events(DOCTOR):
        run.log(
            DOCTOR,
            findings=[dataclasses.asdict(one) for one in findings],
            forced=bool(findings.ruinous),
        )
