"""Checks a distillation for mistakes before it runs.

This verb takes the options of kdkit distill, trains nothing and writes nothing.
Each check is a row of the table: ok, a note, a warning, or an error that would
ruin the run. The exit status is 1 if there is an error. kdkit distill makes the
same checks first, on fewer examples, and continues in spite of errors with
--force. See docs/doctor.md.

example:
  kdkit doctor tinybert --task sst2 --data-dir glue --teacher runs/teacher
  kdkit doctor lightpaff --model gpt2 --decoder gpt2_medium_en \\
      --vocabulary-size 8000 --corpus wiki.txt --task-text ptb.train.txt \\
      --task-held-out ptb.valid.txt --one-document --detokenizer ptb
  kdkit doctor --config runs/tinybert/config.json
"""

import contextlib
import copy
import dataclasses
import pathlib

from kdkit import doctor
from kdkit.cli import distill
from kdkit.cli.groups import RunOptions
from kdkit.cli.parser import changed
from kdkit.doctor import diagnosis as training_diagnosis
from kdkit.doctor import text_examination
from kdkit.runs import embedder_parts, runner
from kdkit.runs.embedder_settings import EmbedderSettings
from kdkit.runs.first_checks import validate_steps
from kdkit.runs.settings import PretrainSettings

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


UNNAMED = "unnamed_run"  # replaces --run-dir


def diagnosis(options):
    """Returns the findings about the distillation that the options describe."""
    if options.run_dir is None:
        options = copy.copy(options)  # messages name the user's folders
        options.run_dir = str(pathlib.Path.cwd() / UNNAMED)
    pipeline = distill.distillation_pipeline(options)
    if isinstance(pipeline.settings, PretrainSettings):
        findings = doctor.Findings()
        validate_steps(pipeline, contextlib.nullcontext)
        text_examination.examine_text(
            text_examination.TextSteps(pipeline),
            text_examination.TEXTS,
            findings,
        )
        return findings
    if isinstance(pipeline.settings, EmbedderSettings):
        return embedder_parts.diagnose_embedder(
            runner.parts_of_embedder(pipeline.settings, options.run_dir)
        )
    return training_diagnosis.diagnose(pipeline.settings, options.run_dir)
