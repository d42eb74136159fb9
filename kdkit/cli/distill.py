"""Distils a fine-tuned teacher into a student, following a recipe.

The student is saved in RUN/student/, a keras-hub preset directory. The same
command continues a stopped run. Without --task and --train, the data is that of
the teacher's run.

example:
  kdkit distill tinybert --task sst2 --data-dir glue \\
      --teacher runs/teacher --control --run-dir runs/tinybert
  kdkit distill tinybert --teacher runs/teacher --run-dir runs/tinybert
  kdkit distill lightpaff --task sst2 --data-dir glue --corpus wiki.txt \\
      --encoder bert_base_en_uncased --run-dir runs/lightpaff
  kdkit distill lightpaff --model gpt2 --decoder gpt2_medium_en \\
      --vocabulary-size 8000 --corpus wiki.txt --task-text ptb.train.txt \\
      --task-held-out ptb.valid.txt --one-document --detokenizer ptb \\
      --run-dir runs/lightpaff_gpt2
  kdkit distill lightpaff --model mass --decoder mass_6_layer \\
      --vocabulary-size 32000 --corpus train.en train.de --languages en de \\
      --pairs train.en train.de --task-held-out val.en val.de \\
      --run-dir runs/lightpaff_en_de
  kdkit distill sentence_embedding --texts captions.txt reviews.txt \\
      --teacher all-MiniLM-L6-v2 --num-layers 3 --task stsb --data-dir glue \\
      --run-dir runs/encoder
  kdkit distill static_embedding --texts captions.txt --task stsb \\
      --data-dir glue --teacher all-MiniLM-L6-v2 --run-dir runs/table
  kdkit distill multilingual --parallel train.en train.de \\
      --teacher all-MiniLM-L6-v2 --run-dir runs/multilingual
  kdkit distill reranker_to_embedder --candidates train.tsv \\
      --teacher runs/cross_encoder --student all-MiniLM-L6-v2 \\
      --pooling mean --num-layers 3 --run-dir runs/retriever
  kdkit distill --config runs/tinybert/config.json --run-dir runs/again
"""

import dataclasses

from kdkit.cli.groups import (
    TASK,
    DecoderOptions,
    DistillationOptions,
    EmbedderOptions,
    ForceOptions,
    RunOptions,
)
from kdkit.cli.loading import load_tensorflow
from kdkit.cli.parser import changed, option
from kdkit.precisions import PRECISIONS


@dataclasses.dataclass
class Options(
    DistillationOptions,
    EmbedderOptions,
    DecoderOptions,
    ForceOptions,
    RunOptions,
):
    """options"""

    recipe: str | None = changed(
        DistillationOptions,
        "recipe",
        help="a name from kdkit list, or a file from kdkit init",
        required=False,
        metavar="RECIPE|CONFIG.toml",
        config_file=True,
    )
    quantize: str | None = option(
        "also train with the rounding of this precision. It is a "
        "stage after the recipe's. kdkit export writes that file with the same "
        "ranges. With --student RUN --stages quantization, continue "
        "a student of another run. See docs/quantization_aware.md.",
        choices=PRECISIONS,
        pages=TASK,
    )


def run(options):
    run_pipeline(options)

    from kdkit.cli.next_steps import after_student, log_next

    log_next(after_student(options.run_dir))


def run_pipeline(options) -> None:
    """Runs the chain of runs that the options describe."""
    pipeline, findings = distillation_pipeline(options), None
    load_tensorflow()

    from kdkit.doctor import text_examination
    from kdkit.runs.directory import is_finished
    from kdkit.runs.settings import PretrainSettings

    is_on_text = isinstance(pipeline.settings, PretrainSettings)
    if is_on_text and not is_finished(pipeline.run_dir):
        findings = text_examination.examine_steps_first(pipeline, options.force)
    pipeline.run(options.force, findings)


def distillation_pipeline(options):
    """Returns the `Pipeline` of runs that the options describe."""
    from kdkit.cli.embedders import embedder_settings, is_about_embedders
    from kdkit.cli.options import for_steps, get_recipe, is_on_text
    from kdkit.cli.resolving import distill_settings
    from kdkit.cli.text_steps import repeated_pipeline, text_pipeline
    from kdkit.runs.pipeline import Pipeline

    if is_about_embedders(options):
        return Pipeline(embedder_settings(options), options.run_dir)
    if options.config is not None and is_on_text(options.config):
        return repeated_pipeline(options)
    if options.model != "bert":
        return text_pipeline(get_recipe(options.recipe), for_steps(options))
    return Pipeline(distill_settings(options), options.run_dir)
