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

from kdkit.cli import options as shared


def add_arguments(parser):
    shared.add_task(parser, required=True)
    parser.add_argument(
        "--model",
        required=True,
        metavar="MODEL",
        help="a masked-language model: a run of kdkit pretrain, or a Hugging "
        "Face checkpoint with its head, such as BertForMaskedLM's",
    )
    parser.add_argument(
        "--word-vectors",
        metavar="FILE",
        help="the text file of vectors, such as glove.6B.300d.txt, of which "
        "the first 100,000 are used; words that it lacks, or all without it, "
        "have neighbours in the model's own embeddings",
    )
    parser.add_argument("--output", required=True, metavar="FILE.tsv")
    parser.add_argument(
        "--copies",
        type=int,
        metavar="N",
        help="copies of each text; 20 unless set, with --parity the task's",
    )
    parser.add_argument(
        "--probability",
        type=float,
        default=0.4,
        metavar="P",
        help="of each word to be replaced; 0.4 unless set",
    )
    parser.add_argument(
        "--candidates",
        type=int,
        default=15,
        metavar="M",
        help="words that one may become; 15 unless set",
    )
    parser.add_argument(
        "--sequential",
        action="store_true",
        help="predict from the copy so far, as the algorithm has it word for "
        "word, not from the original text",
    )
    parser.add_argument(
        "--parity",
        choices=["tinybert"],
        help="the authors' code: copies by task, the model also reads the "
        "unmasked text and texts up to its last place, the second text of a "
        "pair stands beside the last copy of the first",
    )
    parser.add_argument(
        "--stop-words",
        metavar="FILE",
        help="words that stay, one a line; scikit-learn's English ones unless "
        "set",
    )
    shared.add_shard(parser)
    parser.add_argument(
        "--seed", type=shared.a_seed, default=0, help="0 unless set"
    )


def run(options):
    from kdkit.cli.choosing import augment_settings
    from kdkit.runs.augmenting import augment

    augment(
        augment_settings(options), options.output, shared.part_of(options.shard)
    )
