"""Writes augmented examples for a task: copies with some words replaced.

This is TinyBERT's augmentation (algorithm 1). A masked language model proposes
replacements for a word of one piece, and the nearest word vectors for a word of
several pieces. The same command continues a stopped file. Several processes can
share the work with --shard 1/4 to 4/4; the same command without --shard then
makes what is missing and joins all of it.

example:
  kdkit augment --task sst2 --data-dir glue --model runs/pretrained \\
      --word-vectors glove.6B.300d.txt --output sst2_augmented.tsv
"""

import dataclasses

from kdkit.cli.groups import Seed, ShardOptions, TaskOptions
from kdkit.cli.parser import File, Model, option


@dataclasses.dataclass
class Options(TaskOptions, ShardOptions):
    """augmentation"""

    model: Model | None = option(
        "the masked language model that proposes words. A run of kdkit "
        "pretrain, or a Hugging Face checkpoint with its head, such as "
        "BertForMaskedLM.",
        required=True,
    )
    word_vectors: File | None = option(
        "a text file of word vectors, such as glove.6B.300d.txt. The first "
        "100,000 are used. Words without a vector, or all words by default, "
        "have their neighbours in the model's own embeddings."
    )
    output: str | None = option(
        "the file to write", required=True, metavar="FILE.tsv"
    )
    copies: int | None = option(
        "augmented examples per text. Defaults to 20, or with --parity to "
        "the authors' number for the task."
    )
    probability: float = option(
        "the probability that a word is replaced. Defaults to 0.4.",
        default=0.4,
        metavar="P",
    )
    candidates: int = option(
        "candidates for each word. Defaults to 15.", default=15, metavar="M"
    )
    sequential: bool = option(
        "predict from the copy so far, not from the original text. This is "
        "the literal reading of the paper's algorithm.",
        default=False,
    )
    parity: str | None = option(
        "follow the authors' code. The number of copies depends on the task; "
        "the model also reads the unmasked text, up to its last position; "
        "and the second text of a pair follows the last copy of the first.",
        choices=("tinybert",),
    )
    stop_words: File | None = option(
        "words that are never replaced, one per line. Defaults to "
        "scikit-learn's English stop words."
    )
    seed: Seed = option("the random seed. Defaults to 0.", default=0)


def run(options):
    from kdkit.cli.choosing import augment_settings
    from kdkit.cli.loading import load_tensorflow
    from kdkit.cli.options import shard_part

    settings = augment_settings(options)
    load_tensorflow()

    from kdkit.augmentation.run import augment
    from kdkit.training.tasks import open_task

    part = shard_part(options.shard)
    augment(settings, open_task(settings), options.output, part)
