"""Runs the arms of a paper's ablation table, with one teacher and its seeds.

Each arm is a run of its own in DIR/ARM/seed_N, which kdkit report reads; an arm
that is finished is not run again. The table has the paper's row beside the
measured one; the last line is a JSON object.

With --model gpt2 or mass, where all is text, the teachers are made once, with
the options of kdkit distill, and arms share what they have in common. Those of
mass are compared by the BLEU of what they write of the pairs held out, as kdkit
evaluate RUN measures it.

example:
  kdkit ablate tinybert --over layer_map --task mrpc --data-dir glue \\
      --teacher runs/teacher --seeds 0 1 2 --run-dir runs/layer_maps
  kdkit ablate lightpaff --model gpt2 --over stages --corpus wiki.txt \\
      --decoder gpt2_medium_en --vocabulary-size 8000 \\
      --task-text ptb.train.txt --task-held-out ptb.valid.txt \\
      --one-document --detokenizer ptb --run-dir runs/ptb_arms
"""

from kdkit.cli import distill as distill_verb
from kdkit.cli import options as shared


def add_arguments(parser):
    distill_verb.add_distillation(parser)
    distill_verb.add_decoder(parser)
    parser.add_argument(
        "--over",
        required=True,
        choices=["layer_map", "objectives", "stages"],
        help="what the arms differ in",
    )
    parser.add_argument(
        "--arms",
        nargs="+",
        metavar="ARM",
        help="only these arms of the table; all of them unless set",
    )
    parser.add_argument(
        "--seeds",
        type=shared.a_seed,
        nargs="+",
        default=[0],
        metavar="N",
        help="every arm is run with each of them; 0 unless set",
    )
    shared.add_force(parser)
    shared.add_run(parser, seed=False, strategies=["mirrored"])
    parser.set_defaults(seed=None, control=False, encoder=None)


def run(options):
    from kdkit.cli.ablating import run_ablation
    from kdkit.cli.ablating_text import run_text_ablation
    from kdkit.cli.decoder_steps import reject_for_encoders

    if options.model != "bert":
        run_text_ablation(options)
        return
    reject_for_encoders(options)
    run_ablation(options)
