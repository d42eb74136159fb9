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

from kdkit.cli import options as shared
from kdkit.cli.distill import add_whole_distillation

FAILED = 1


def add_arguments(parser):
    add_whole_distillation(parser, nargs="?")
    shared.add_run(parser, required=False)
    parser.set_defaults(trains_nothing=True)


def run(options):
    from kdkit import doctor
    from kdkit.cli.diagnosing import diagnosis

    findings = diagnosis(options)
    doctor.print_findings(findings)
    return FAILED if findings.ruinous else None
