"""What every kind of run writes into its log, and says at its end."""

import pathlib

from kdkit import models
from kdkit.training.run_directory import RunDirectory


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
