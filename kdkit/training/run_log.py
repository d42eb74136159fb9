"""What every kind of run writes into its log, and says at its end."""

import dataclasses
import pathlib

from kdkit import models
from kdkit.doctor import Findings
from kdkit.doctor import print_findings
from kdkit.errors import RunError
from kdkit.training.run_directory import RunDirectory

DOCTOR = "doctor"  # the event of the checks before a run


def says_finished(run: RunDirectory) -> bool:
    """Whether the run is finished; says so if it is."""
    if run.is_finished:
        print(f"The run in {run.path} is finished: nothing to do.", flush=True)
    return run.is_finished


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
    """Logs the end of a run and prints where its models are.

    Args:
        run: `RunDirectory`.
        best: dict from arm to what `Arm.run` returned.
    """
    run.log("run_finished", seconds=run.seconds, best=best)
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


def format_metrics(metrics) -> str:
    """Metrics in a line."""
    return ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())


def decide(findings: Findings, force: bool) -> None:
    """Prints findings before a run, and stops it if it would be ruined.

    Args:
        findings: `Findings`.
        force: bool. Whether to go on in any case.

    Raises:
        RunError: if the run would be ruined.
    """
    print_findings(findings, all_rows=False)
    if not findings.ruinous:
        return
    named = ", ".join(dict.fromkeys(one.check for one in findings.ruinous))
    if not force:
        raise RunError(
            f"The run would be ruined: {named}, see above. Nothing was "
            "trained. Mend it, or go on all the same with --force."
        )
    print(f"doctor: going on in spite of {named}, by --force.", flush=True)


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
