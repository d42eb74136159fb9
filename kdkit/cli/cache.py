"""Runs a teacher over all rows of a task, and keeps what a recipe reads of it.

With --cache, kdkit distill does this by itself; this verb does it beforehand.
The outputs are known by the tokens of their rows, so all runs with this teacher
share them: other seeds, stages, arms and selections of rows. Several processes
share the work with --shard 1/4 to 4/4; the same command without it, or a run,
then takes in what they wrote. The last line is a JSON object with the error of
each output that was kept in fewer bits and, of a --teacher-file, with its
agreement with the teacher on dev.

example:
  kdkit cache tinybert --task sst2 --data-dir glue --teacher runs/teacher \\
      --cache caches/sst2 --cache-precision bf16
"""

from kdkit.cli import distill as distill_verb
from kdkit.cli import options as shared


def add_arguments(parser):
    distill_verb.add_distillation(parser)
    shared.add_settings(parser)
    shared.add_shard(parser)
    parser.set_defaults(
        seed=None,
        control=False,
        smoke=False,
        config=None,
        mixed_precision=None,
        strategy=None,
        encoder=None,
    )


def run(options):
    import json

    from kdkit import training
    from kdkit.cli import resolving
    from kdkit.errors import UsageError
    from kdkit.runs import first_checks

    if options.cache is None:
        raise UsageError(
            "Missing: --cache, the directory to keep the outputs in."
        )
    settings = resolving.distill_settings(options)
    first_checks.check_sources(settings)
    caches = training.fill_cache(settings, shared.part_of(options.shard))
    print(
        json.dumps(
            {
                "relative_errors": caches.relative_errors(),
                "file_agreement": caches.agreement,
            }
        )
    )
