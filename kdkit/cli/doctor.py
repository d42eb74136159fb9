"""Says what would ruin a distillation, before it is run.

Takes the options of kdkit distill, trains nothing and writes nothing. Each
check is a row of a table: ok, a note, a warning, or what ruins the run. The
exit status is 1 where one does. kdkit distill does the same checks first, on
fewer rows, and goes on in spite of them with --force; see docs/doctor.md.

example:
  kdkit doctor tinybert --task sst2 --data-dir glue --teacher runs/teacher
  kdkit doctor lightpaff --model gpt2 --decoder gpt2_medium_en \\
      --vocabulary-size 8000 --corpus wiki.txt --task-text ptb.train.txt \\
      --task-held-out ptb.valid.txt --one-document --detokenizer ptb
  kdkit doctor --config runs/tinybert/config.json
"""

import dataclasses
import pathlib

from kdkit import doctor
from kdkit.cli import distill
from kdkit.cli import resolving
from kdkit.cli.groups import RunOptions
from kdkit.cli.options import for_steps
from kdkit.cli.options import get_recipe
from kdkit.cli.options import is_on_text
from kdkit.cli.options import reject_text_options
from kdkit.cli.parser import changed
from kdkit.cli.text_steps import decoder_steps
from kdkit.cli.text_steps import given_models
from kdkit.cli.text_steps import try_steps
from kdkit.doctor import diagnosis as training_diagnosis
from kdkit.doctor import text_examination
from kdkit.runs.first_checks import check_places

FAILED = 1


@dataclasses.dataclass
class Options(distill.Options):
    """options"""

    run_dir: str | None = changed(RunOptions, "run_dir", required=False)
    force: bool = False
    trains_nothing: bool = True


validate = distill.validate


def run(options):
    from kdkit import doctor

    findings = diagnosis(options)
    doctor.print_findings(findings)
    return FAILED if findings.ruinous else None


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
        distill.complete(options)
    if options.config is not None and is_on_text(options.config):
        reject_text_options(options)
        return _on_text_again(options)
    if options.model != "bert":
        return _on_text(options)
    settings = resolving.distill_settings(options)
    check_places(settings)
    return training_diagnosis.diagnose(settings, options.run_dir)


def _on_text_again(options):
    """What is found of the steps of a run that there is."""
    steps = distill.repeated_steps(options)
    findings = doctor.Findings()
    try_steps(steps.runs(), options, findings.attempt)
    text_examination.examine_text(
        distill.text_steps(steps, options.run_dir),
        text_examination.TEXTS,
        findings,
    )
    return findings


def _on_text(options):
    """What is found of the steps of a decoder or an encoder-decoder."""
    runs = decoder_steps(get_recipe(options.recipe), for_steps(options)).runs()
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
