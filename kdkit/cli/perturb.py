"""Measures models while noise is on their weights, and draws the curves.

MODEL is as for kdkit evaluate, but no LiteRT file. Every weight matrix gets
Gaussian noise of standard deviation σ times its mean, as LightPAFF's section
6.2 writes it, or with --scale mean_magnitude times the mean size of its
entries; each σ with several seeds. Points of a run are noted in it and not
measured again on the same data, as its content tells. The last line is a JSON
object with all of them.

example:
  kdkit perturb runs/lightpaff runs/fine_tuning --scale mean_magnitude \\
      --curves noise.svg
  kdkit perturb runs/gpt2_student --corpus valid.txt --sigmas 0 2 4
"""

from kdkit.cli import options as shared

SEEDS = (0, 1, 2)
# Weights of both signs nearly cancel in the mean, so σ must be larger there.
SIGMAS = {
    "mean": (0, 5, 10, 20, 40, 80),
    "mean_magnitude": (0, 0.2, 0.4, 0.6, 0.8, 1.0),
}


def add_arguments(parser):
    parser.add_argument("models", nargs="+", metavar="MODEL")
    shared.add_measured(parser)
    parser.add_argument(
        "--sigmas",
        nargs="+",
        type=float,
        metavar="σ",
        help="; ".join(
            f"{' '.join(map(str, sigmas))} for {scale}"
            for scale, sigmas in SIGMAS.items()
        ),
    )
    parser.add_argument(
        "--seeds",
        nargs="+",
        type=shared.a_seed,
        metavar="SEED",
        default=SEEDS,
        help=f"of the noise; {' '.join(map(str, SEEDS))} unless set",
    )
    parser.add_argument(
        "--scale",
        choices=[*SIGMAS],
        default="mean",
        help="what σ is a multiple of; mean unless set, as the paper writes it",
    )
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="what is shown and drawn; the task's first metric, or perplexity, "
        "unless set",
    )
    parser.add_argument(
        "--curves",
        metavar="FILE.svg",
        help="also draw the metric over σ, a colour for each model",
    )


def run(options):
    from kdkit.cli.perturbing import perturb_models

    perturb_models(options, options.sigmas or SIGMAS[options.scale])
