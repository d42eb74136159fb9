"""Writes copies of a task's training rows in which words are replaced.

TinyBERT's augmentation (algorithm 1): a word of one piece is replaced by one of
the words that a masked-language model finds likeliest there, a word of several
pieces by one of those with the nearest vectors. The same command goes on with
a file that was stopped. Several processes share the work with --shard 1/4 to
4/4; the same command without it then puts their files together.

example:
  kdkit augment --task sst2 --data-dir glue --model runs/pretrained \\
      --word-vectors glove.6B.300d.txt --output sst2_augmented.tsv
"""

import dataclasses

from kdkit.cli import options as shared
from kdkit.cli.groups import Seed
from kdkit.cli.groups import ShardOptions
from kdkit.cli.groups import TaskOptions
from kdkit.cli.parser import File
from kdkit.cli.parser import Model
from kdkit.cli.parser import changed
from kdkit.cli.parser import option


@dataclasses.dataclass
class Options(TaskOptions, ShardOptions):
    """augmentation"""

    task: str | None = changed(TaskOptions, "task", required=True)
    model: Model | None = option(
        "a masked-language model. A run of kdkit pretrain, or a Hugging Face "
        "checkpoint with its head, such as BertForMaskedLM's.",
        required=True,
    )
    word_vectors: File | None = option(
        "the text file of vectors, such as glove.6B.300d.txt. Its first "
        "100,000 are used; words that it lacks, or all without it, have "
        "neighbours in the model's own embeddings."
    )
    output: str | None = option(
        "where to write", required=True, metavar="FILE.tsv"
    )
    copies: int | None = option(
        "augmented examples of each text. Defaults to 20, with --parity to the "
        "task's."
    )
    probability: float = option(
        "of each word to be replaced. Defaults to 0.4.",
        default=0.4,
        metavar="P",
    )
    candidates: int = option(
        "words that one may become. Defaults to 15.", default=15, metavar="M"
    )
    sequential: bool = option(
        "predict from the copy so far, not from the original text. As the "
        "algorithm has it word for word.",
        default=False,
    )
    parity: str | None = option(
        "the authors' code. Copies by task, the model also reads the unmasked "
        "text and texts up to its last position, the second text of a pair is "
        "next to the last copy of the first.",
        choices=("tinybert",),
    )
    stop_words: File | None = option(
        "words that stay, one a line. Defaults to scikit-learn's English ones."
    )
    seed: Seed = option("Defaults to 0.", default=0)


def run(options):
    from kdkit.cli.choosing import augment_settings
    from kdkit.runs.augmenting import augment

    augment(
        augment_settings(options), options.output, shared.part_of(options.shard)
    )
