"""The `--config` of a verb: settings of a run that this verb made."""

import pathlib

from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.settings import from_dict
from kdkit.training.run_directory import read_config
from kdkit.training.run_settings import DistillSettings
from kdkit.training.run_settings import PretrainSettings
from kdkit.training.run_settings import TeacherSettings

VERBS = [
    kind.verb for kind in (DistillSettings, PretrainSettings, TeacherSettings)
]


def settings_of(kind, config):
    """Returns the settings of a run in a file.

    Args:
        kind: `DistillSettings`, `PretrainSettings` or `TeacherSettings`.
        config: string or path of the file, or of the run directory.

    Raises:
        UsageError: if another verb made the run, or a setting is wrong.
    """
    check_verb(config, kind.verb)
    return from_dict(kind, read_config(config))


def check_verb(config, expected: str) -> None:
    """Refuses the settings of a run that another verb made.

    Args:
        config: string or path, as for `settings_of`.
        expected: string. The verb that it should be of.

    Raises:
        UsageError: with the verb that takes them.
    """
    verb = read_config(config).get("verb", expected)
    if verb == expected:
        return
    if verb not in VERBS:
        raise UsageError(
            f"{config}: expected the config.json of a run of kdkit {expected}. "
            f"Received one with the verb {shortened(verb)}."
        )
    what = f"a run of kdkit {verb}"
    if is_on_text(config):
        verb, what = "distill", "the steps of a recipe on text"
    wanted = "one on a task" if verb == expected else f"one of kdkit {expected}"
    raise UsageError(
        f"{config} holds {what}. Expected {wanted}. It is made again by: kdkit "
        f"{verb} --config {config} --run-dir RUN"
    )


def is_on_text(config) -> bool:
    """Whether settings are of the last step of a recipe on text alone."""
    return bool(read_config(config).get("steps_before"))


def pretrained_beside(config) -> str:
    """Returns where the encoder is that the run of a distillation began with.

    Args:
        config: string or path, as for `settings_of`, of a teacher's run.
    """
    path = pathlib.Path(config).resolve()
    run = path if path.is_dir() else path.parent
    return str(run.parent / "pretrained_run")
