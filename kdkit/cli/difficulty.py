"""Pretrains a BERT, a MASS and a GPT-2 of like size, and compares their tasks.

All three read the same text by the same vocabulary, which is trained on it. The
table has how often each predicts a token of the held-out text, and the share of
the tokens that it sees then, beside LightPAFF's table 8. The runs are in
DIR/mass, DIR/bert and DIR/gpt2, as kdkit pretrain makes them; the same command
goes on where it was stopped. The last line is a JSON object.

example:
  kdkit difficulty --corpus wiki.txt --vocabulary-size 8000 --num-layers 4 \\
      --hidden-dim 256 --num-heads 4 --run-dir runs/difficulty
"""

from kdkit.cli import options as shared


def add_arguments(parser):
    parser.add_argument(
        "--corpus",
        nargs="+",
        required=True,
        metavar="FILE",
        help="files of one text a line; several need --held-out",
    )
    parser.add_argument(
        "--held-out",
        nargs="+",
        metavar="FILE",
        help="text to measure on, a file for each of --corpus; unless set, "
        "every 100th text of --corpus, which is then not trained on",
    )
    parser.add_argument(
        "--vocabulary-size",
        type=int,
        required=True,
        metavar="N",
        help="tokens of the vocabulary that is trained on the text",
    )
    for name, default, of in (
        ("layers", 12, "; MASS has half of them on each side"),
        ("heads", 12, " of a block"),
    ):
        parser.add_argument(
            f"--num-{name}",
            type=int,
            default=default,
            metavar="N",
            help=f"{name}{of}; {default} unless set",
        )
    parser.add_argument(
        "--hidden-dim",
        type=int,
        default=768,
        metavar="N",
        help="width of the states, a quarter of that of the feed-forward "
        "layers; 768 unless set",
    )
    parser.add_argument(
        "--run-dir",
        required=True,
        metavar="DIR",
        help="where the runs are kept, or go on",
    )
    parser.add_argument(
        "--seed", type=shared.a_seed, default=0, help="0 unless set"
    )
    shared.add_settings(parser)


def run(options):
    from kdkit.cli.task_difficulty import compare_difficulty

    compare_difficulty(options)
