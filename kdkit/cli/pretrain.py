"""Trains a language model on text.

An encoder learns to predict masked tokens and is saved in RUN/encoder/. A
decoder learns to predict the next token and is saved in RUN/decoder/. An
encoder-decoder learns to write the hidden span of a sentence, or with --pairs
the target for a source, and is saved in RUN/encoder_decoder/. All are keras-hub
preset directories. Perplexity and accuracy are measured on held-out text. The
same command continues a stopped run.

With --recipe and --teacher, a student learns from a teacher with the recipe's
stages on text, such as TinyBERT's general distillation or DistilBERT's
pretraining, and is saved in RUN/student/. kdkit distill --general RUN continues
from it. --cache is for text that is the same in every epoch: the text of
decoders, pairs, and text without masks.

example:
  kdkit pretrain --corpus wiki.txt --model bert_base_en_uncased \\
      --run-dir runs/pretrained
  kdkit pretrain --recipe tinybert --teacher bert_base_en_uncased \\
      --corpus wiki.txt --run-dir runs/general
  kdkit pretrain --corpus reviews.tsv --column text --tokenizer ENCODER \\
      --student tinybert_4_layer_en_uncased --run-dir runs/from_scratch
  kdkit pretrain --corpus ptb.train.txt --held-out ptb.valid.txt \\
      --one-document --detokenizer ptb --student lightpaff_gpt2_4_layer_en \\
      --vocabulary-size 8000 --run-dir runs/gpt2
  kdkit pretrain --corpus train.en train.de --languages en de \\
      --student lightpaff_mass_6_4_layer --vocabulary-size 32000 \\
      --run-dir runs/mass
  kdkit pretrain --pairs train.en train.de --languages en de \\
      --held-out val.en val.de --model runs/mass --run-dir runs/en_de
"""

import dataclasses

from kdkit.cli.groups import (
    BenchmarkTextOptions,
    CacheOptions,
    CorpusOptions,
    ForceOptions,
    PretrainedModelOptions,
    RunOptions,
    SentenceOptions,
)


@dataclasses.dataclass
class Options(
    CorpusOptions,
    BenchmarkTextOptions,
    SentenceOptions,
    PretrainedModelOptions,
    CacheOptions,
    ForceOptions,
    RunOptions,
):
    """options"""


def run(options):
    from kdkit import training
    from kdkit.cli import next_steps, resolving
    from kdkit.runs import first_checks

    settings = resolving.pretrain_settings(options)
    first_checks.validate_first(settings, options.run_dir)
    training.pretrain(settings, options.run_dir, force=options.force)
    next_steps.log_next(next_steps.after_student(options.run_dir))
