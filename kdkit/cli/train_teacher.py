"""Fine-tunes a classifier on a task and saves its best epoch on dev.

The model is a keras-hub preset's name, a preset directory or a Hugging Face
checkpoint directory. The teacher is saved in RUN/teacher/.

example:
  kdkit train-teacher --train reviews.csv --text-column review \\
      --label-column sentiment --model bert_base_en_uncased \\
      --run-dir runs/teacher
  kdkit train-teacher --task sst2 --data-dir glue \\
      --model bert_base_en_uncased --run-dir runs/teacher
"""

import dataclasses

from kdkit.cli.groups import ForceOptions, RunOptions, TaskOptions
from kdkit.cli.parser import Model, option


@dataclasses.dataclass
class Options(TaskOptions, ForceOptions, RunOptions):
    """model"""

    model: Model | None = option(
        "the pretrained encoder: a preset's name or a directory"
    )


def run(options):
    from kdkit import training
    from kdkit.cli import next_steps, resolving
    from kdkit.cli import options as configs
    from kdkit.runs import first_checks

    settings = resolving.teacher_settings(options)
    pretrained = None
    if options.config is not None:
        pretrained = configs.pretrained_beside(options.config)
    first_checks.validate_first(settings, options.run_dir)
    training.train_teacher(settings, options.run_dir, pretrained, options.force)
    next_steps.log_next(next_steps.after_teacher(options.run_dir))
