"""Runs a recipe for each choice of some settings, and shows the best on dev.

Each choice is a run of its own in DIR/trials/, which kdkit report reads; a
sweep that was stopped goes on when the same command is given again. A setting
is named as --set does (stages.0.learning_rate, with an index or the stage's
name), or by the end of its path. tensorboard --logdir
DIR/tensorboard shows the choices in its hparams view. The last line is a JSON
object. Nothing is ever chosen on a test split.

With --corpus or --pairs and without --task the runs are those of kdkit
pretrain: a recipe's stages on running text, compared by the perplexity of what
is held out. Settings that decide which tokens that is of, such as masks, the
vocabulary or the length of rows, are refused.

example:
  kdkit sweep vanilla_kd --task mrpc --data-dir glue --teacher runs/teacher \\
      --over temperature=5,10,20 learning_rate=5e-5,2e-5 --run-dir runs/sweep
  kdkit sweep pkd --paper --task mrpc --data-dir glue \\
      --teacher runs/teacher --run-dir runs/pkd_search
  kdkit sweep lightpaff --corpus wiki.txt --teacher bert_base_en_uncased \\
      --over soft_label_weight=0.0,0.2,0.4,0.6,0.8,1.0 \\
      --curves lambda.svg --run-dir runs/lambda
  kdkit sweep lightpaff --paper --corpus ptb.train.txt \\
      --held-out ptb.valid.txt --one-document --detokenizer ptb \\
      --teacher runs/gpt2_ptb --student runs/general --run-dir runs/ptb_lambda
"""

from kdkit.cli import distill as distill_verb
from kdkit.cli import options as shared


def add_arguments(parser):
    distill_verb.add_distillation(parser)
    parser.add_argument(
        "--over",
        nargs="+",
        metavar="FIELD=V1,V2",
        help="a setting and the values that it is tried with",
    )
    parser.add_argument(
        "--paper",
        action="store_true",
        help="in place of --over: the search that the recipe's paper describes",
    )
    parser.add_argument(
        "--random",
        type=int,
        metavar="N",
        help="try N different choices drawn at random by --seed, not all "
        "combinations in their order",
    )
    parser.add_argument(
        "--stage",
        metavar="NAME",
        help="on running text alone, as kdkit pretrain --stage; with --paper "
        "the last unless set",
    )
    shared.add_benchmark_text(parser)
    shared.add_sentences(parser)
    parser.add_argument(
        "--curves",
        metavar="FILE.svg",
        help="also draw the metric over the values of the one setting",
    )
    shared.add_force(parser)
    shared.add_run(parser, strategies=["mirrored"])
    parser.set_defaults(control=False, encoder=None)


def run(options):
    from kdkit.cli.sweeping import sweep

    sweep(options)
