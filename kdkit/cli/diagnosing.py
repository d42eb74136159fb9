"""The work of `kdkit doctor`: from options to findings."""

import pathlib

from kdkit.cli import resolving
from kdkit.cli.decoder_steps import reject_for_encoders
from kdkit.training.diagnosis import diagnose

UNNAMED = "run of kdkit doctor"  # in the place of --run-dir


def diagnosis(options):
    """Returns what is found of the distillation that the options ask for.

    Args:
        options: the parsed options of `kdkit doctor`.

    Raises:
        UsageError: for options that clash or are missing.
    """
    if options.run_dir is None:
        options.run_dir = str(pathlib.Path.cwd() / UNNAMED)
    reject_for_encoders(options)
    return diagnose(resolving.distill_settings(options), options.run_dir)
