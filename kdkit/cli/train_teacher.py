"""Fine-tunes a classifier on a task and keeps its best epoch on dev.

The model is a keras-hub preset's name, a preset directory or a Hugging Face
checkpoint directory. The teacher is left in RUN/teacher/.

example:
  kdkit train-teacher --task sst2 --data-dir glue \\
      --model bert_base_en_uncased --run-dir runs/teacher
"""

from kdkit.cli import options as shared


def add_arguments(parser):
    shared.add_task(parser)
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="the pretrained encoder: a preset's name or a directory",
    )
    shared.add_force(parser)
    shared.add_run(parser)


def run(options):
    from kdkit import training
    from kdkit.cli import options as configs
    from kdkit.cli import resolving
    from kdkit.runs import first_checks

    settings = resolving.teacher_settings(options)
    pretrained = None
    if options.config is not None:
        pretrained = configs.pretrained_beside(options.config)
    first_checks.check_first(settings, options.run_dir)
    training.train_teacher(settings, options.run_dir, pretrained, options.force)
