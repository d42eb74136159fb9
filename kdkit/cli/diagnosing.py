"""The work of `kdkit doctor`: from options to findings."""

import pathlib

from kdkit import doctor
from kdkit.cli import repeating
from kdkit.cli import resolving
from kdkit.cli.configs import is_on_text
from kdkit.cli.decoder_steps import decoder_steps
from kdkit.cli.decoder_steps import reject_for_encoders
from kdkit.cli.step_checks import given_models
from kdkit.cli.step_checks import try_steps
from kdkit.training import diagnosis as training_diagnosis
from kdkit.training import text_examination
from kdkit.training.first_checks import check_places

UNNAMED = "run of kdkit doctor"  # in the place of --run-dir


def diagnosis(options):
    """Returns what is found of the distillation that the options ask for.

    Args:
        options: the parsed options of `kdkit doctor`.

    Raises:
        UsageError: for options that clash or are missing, and models that do
            not exist.
    """
    if options.run_dir is None:
        options.run_dir = str(pathlib.Path.cwd() / UNNAMED)
    if options.recipe is None:
        repeating.complete(options)
    if options.config is not None and is_on_text(options.config):
        reject_for_encoders(options)
        return _on_text_again(options)
    if options.model != "bert":
        return _on_text(options)
    reject_for_encoders(options)
    settings = resolving.distill_settings(options)
    check_places(settings)
    return training_diagnosis.diagnose(settings, options.run_dir)


def _on_text_again(options):
    """What is found of the steps of a run that there is."""
    steps = repeating.repeated_steps(options)
    findings = doctor.Findings()
    try_steps(steps.runs(), options, findings.attempt)
    text_examination.examine_text(
        repeating.text_steps(steps, options.run_dir),
        text_examination.TEXTS,
        findings,
    )
    return findings


def _on_text(options):
    """What is found of the steps of a decoder or an encoder-decoder."""
    runs = decoder_steps(resolving.get_recipe(options.recipe), options).runs()
    findings = doctor.Findings()
    right = try_steps(runs, options, findings.attempt)
    given = {
        name: place
        for name, place in given_models(options).items()
        if name in right
    }
    steps = text_examination.TextSteps(
        runs, given, pathlib.Path(options.run_dir)
    )
    text_examination.examine_text(steps, text_examination.TEXTS, findings)
    return findings
