"""What a MODEL on the command line is: a run, a preset, a file."""

import dataclasses
import pathlib

from kdkit import models
from kdkit.cli.places import is_path
from kdkit.errors import UsageError
from kdkit.reading import check_links
from kdkit.training.run_directory import CONFIG
from kdkit.training.run_directory import EVENTS
from kdkit.training.run_directory import RunDirectory
from kdkit.training.run_directory import read_config

ARMS = (
    "student",
    "teacher",
    "control",
    "encoder",
    "decoder",
    "encoder_decoder",
)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a MODEL was found.

    Args:
        path: path of the preset directory or file; of the name, if it is a
            preset's name.
        run: `RunDirectory` that it belongs to, or `None`.
        arm: string or `None`. Which model of the run it is.
        config: dict. The settings of that run; empty without one.
    """

    path: pathlib.Path
    run: RunDirectory | None
    arm: str | None
    config: dict

    def data_setting(self, name, given):
        """What the user gave, or else what the run was made with."""
        if given is not None:
            return given
        return self.config.get("data", {}).get(name)

    @property
    def label(self) -> str:
        """The arm, or the name of the file or directory without suffix."""
        return self.arm or self.path.resolve().stem


def locate(model: str, arm: str | None = None) -> Place:
    """Finds a model and the run that it belongs to.

    Args:
        model: string. A run directory, a preset directory, a file, or the name
            of a keras-hub preset.
        arm: string or `None`. Of a run directory with several models, which.

    Raises:
        UsageError: if a file is missing, a run has no such model, or links to
            what lies outside of it.
    """
    path = pathlib.Path(model)
    if is_path(model) and not path.exists():
        raise UsageError(
            f"{path} does not exist. Expected a run directory, a preset "
            "directory, a .keras, .tflite or .onnx file, or the name of a "
            "keras-hub preset."
        )
    models.check_place(model)
    run_path = _find_run(path)
    if run_path is None:
        if arm is not None:
            raise UsageError(
                f"--arm chooses a model of a run. Received: {path}, which is "
                "not in a run directory."
            )
        return Place(path, None, None, {})
    check_links(run_path)  # what is measured is noted in it
    run, config = RunDirectory(run_path), read_config(run_path)
    if path.resolve() != run_path:
        found = arm or _arm_of(path, run_path)
        return Place(path, run, found, config)
    available = {
        name: path / kept
        for name in ARMS
        for kept in (name, f"{name}.keras")
        if (run_path / kept).exists()
    }
    lost = run.lost_arms
    arm = arm or next((n for n in ARMS if n in available or n in lost), None)
    if arm in lost:
        raise UsageError(
            f"The run in {path} was finished, but its model {arm!r} is gone. "
            f"Available: {[*available] or 'none'}. Give the command of the run "
            "again, which makes it again from its teachers, data and "
            "checkpoints."
        )
    if arm is None:
        raise UsageError(
            f"The run in {path} has no model: it is not finished. Give its "
            "command again to go on with it."
        )
    if arm not in available:
        raise UsageError(
            f"The run in {path} has no model {arm!r}. Available: "
            f"{[*available] or 'none, it is not finished'}."
        )
    return Place(available[arm], run, arm, config)


def _find_run(path):
    """The run directory that is `path` or holds it."""
    if not path.exists():
        return None
    path = path.resolve()
    for candidate in (path, *path.parents[:3]):  # of a teacher's file
        if (candidate / EVENTS).is_file() and (candidate / CONFIG).is_file():
            return candidate
    return None


def _arm_of(path, run_path):
    """The arm that a path inside a run tells of, by its first word."""
    first = path.resolve().relative_to(run_path).parts
    words = {first[0].split(".")[0], path.name.split("-")[0]}
    found = [arm for arm in ARMS if arm in words]
    return found[0] if found else None
