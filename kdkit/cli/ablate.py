"""Runs the arms of a paper's ablation table, with one teacher and its seeds.

Each arm is a run of its own in DIR/ARM/seed_N, which kdkit report reads; an arm
that is finished is not run again. The table has the paper's row beside the
measured one; the last line is a JSON object.

example:
  kdkit ablate tinybert --over layer_map --task mrpc --data-dir glue \\
      --teacher runs/teacher --seeds 0 1 2 --run-dir runs/layer_maps
"""

from kdkit.cli import distill as distill_verb
from kdkit.cli import options as shared


def add_arguments(parser):
    distill_verb.add_distillation(parser)
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
        type=int,
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

    run_ablation(options)
