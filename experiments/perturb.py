"""Measures models with noise on their weights, and draws the curves.

MODEL is as for kdkit evaluate, but not a LiteRT file. Every weight matrix gets
Gaussian noise of standard deviation σ times its mean, as in LightPAFF's section
6.2, or with --scale mean_magnitude times the mean magnitude of its entries;
each σ with several seeds. Points are saved in the model's run, and not measured
again on data with the same content. The last line is a JSON object with all
points.

example:
  python experiments/perturb.py runs/lightpaff runs/fine_tuning \\
      --scale mean_magnitude --curves noise.svg
  python experiments/perturb.py runs/gpt2_student --corpus valid.txt \\
      --sigmas 0 2 4
"""

import argparse
import contextlib
import dataclasses
import json
import math
import pathlib
import statistics
import sys

from rich.console import Console
from rich.table import Table

from kdkit import export
from kdkit import models
from kdkit.cli.evaluate import open_measurable
from kdkit.cli.groups import MeasuredOptions
from kdkit.cli.groups import Seed
from kdkit.cli.main import run_script
from kdkit.cli.parser import Model
from kdkit.cli.parser import option
from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.io.files import write_text
from kdkit.reporting import plot_noise
from kdkit.runs.events import Measurement


@dataclasses.dataclass(frozen=True, kw_only=True)
class Perturbation(Measurement, kind="perturbation"):
    """What was measured of a model with noise on its weights.

    Args:
        scale: string. What the noise is relative to.
        sigma: float. The noise's standard deviation.
        seed: int.
    """

    scale: str
    sigma: float
    seed: int


SEEDS = (0, 1, 2)
# Weights of both signs nearly cancel in the mean, so σ must be larger there.
SIGMAS = {
    "mean": (0, 5, 10, 20, 40, 80),
    "mean_magnitude": (0, 0.2, 0.4, 0.6, 0.8, 1.0),
}


@dataclasses.dataclass
class Options(MeasuredOptions):
    """noise"""

    models: list[Model] = option(
        "runs, preset directories or .keras files",
        default=[],
        positional=True,
        required=True,
        metavar="MODEL",
    )
    sigmas: list[float] | None = option(
        "multiples of --scale. Defaults to "
        + "; ".join(
            f"{' '.join(map(str, sigmas))} for {scale}"
            for scale, sigmas in SIGMAS.items()
        ),
        metavar="σ",
    )
    seeds: list[Seed] = option(
        f"seeds of the noise. Defaults to {' '.join(map(str, SEEDS))}.",
        default=[*SEEDS],
    )
    scale: str = option(
        "the factor of σ. Defaults to mean, as in the paper.",
        default="mean",
        choices=(*SIGMAS,),
    )
    metric: str | None = option(
        "the metric to show and draw. Defaults to the task's first one, or "
        "perplexity."
    )
    curves: str | None = option(
        "also plot the metric over σ, one colour per model",
        metavar="FILE.svg",
    )


def run(options) -> None:
    """Measures models under noise and prints, last, one line of JSON.

    Args:
        options: the parsed options.

    Raises:
        UsageError: if a model, its data or a number does not fit, before any
            is measured; for an unknown metric, after the first measurement.
    """
    sigmas = sorted(set(options.sigmas or SIGMAS[options.scale]))
    if sigmas[0] < 0 or not sigmas[-1] < float("inf"):
        raise UsageError(
            "--sigmas must be finite numbers of 0 or more. "
            f"Received: {' '.join(f'{sigma:g}' for sigma in sigmas)}."
        )
    files = [model for model in options.models if export.exporter_of(model)]
    if files:
        raise UsageError(
            "Noise is added to the weights of Keras models. Received: "
            f"{', '.join(files)}. Pass the run that they were exported from."
        )
    names = _names(options.models)
    metric, points = options.metric, []
    with contextlib.ExitStack() as stack:
        # All models first, so that errors are reported at once.
        opened = [
            stack.enter_context(
                open_measurable(
                    argparse.Namespace(**vars(options), model=model)
                )
            )
            for model in options.models
        ]
        _require_same_data(options.models, opened)
        for name, model in zip(names, opened, strict=True):
            for point in _points(model, options, sigmas):
                metric = metric or next(iter(point["metrics"]), None)
                _require_metric(metric, point["metrics"])
                points.append({"model": name, **point})
    curves = _curves(points, names, sigmas, metric)
    if not any(curves.values()):
        raise RunError("No measurement was finite. Begin with --sigmas 0.")
    about = opened[0].about
    table = _table(curves, sigmas, metric, options)
    signature = about.get("signatures", {}).get(metric)
    captions = [table.caption, signature]
    table.caption = "\n".join(filter(None, captions)) or None
    Console().print(table)
    if options.curves:
        write_text(
            pathlib.Path(options.curves),
            plot_noise(curves, metric, options.scale),
        )
        print(f"Written: {options.curves}")
    print(json.dumps({**about, "scale": options.scale, "points": points}))


def _require_same_data(models, opened):
    """Raises an error for models that are measured on other data."""
    data = [
        {
            name: value
            for name, value in (model.about | (model.origin or {})).items()
            if name != "examples"
        }
        for model in opened
    ]
    for model, about in zip(models, data, strict=True):
        if about != data[0]:
            raise UsageError(
                "Models must be compared on the same data. Received: "
                f"{models[0]} on {data[0]}, {model} on {about}. Pass the "
                "text, --data-dir, --sequence-length or the split. For "
                "encoders of runs with other masks, pass RUN/encoder and "
                "--corpus, to use BERT's masks."
            )


def _require_metric(metric, metrics):
    """Raises an error for a metric that is not measured."""
    if metrics and metric not in metrics:
        raise UsageError(
            f"--metric must be one of {', '.join(sorted(metrics))}. "
            f"Received: {metric}."
        )


def _points(opened, options, sigmas):
    """Returns the measurements of a model, including those of its run."""
    known = [] if opened.run is None else opened.run.events(Perturbation)
    for sigma in sigmas:
        # Without noise every seed is the same.
        for seed in options.seeds if sigma else options.seeds[:1]:
            point = {"sigma": sigma, "seed": seed}
            fields = {
                **opened.about,
                **opened.content,
                "arm": opened.arm,
                "scale": options.scale,
                **point,
            }
            metrics = _known(known, fields)
            if metrics is None:
                metrics = _measure(opened, sigma, seed, options.scale)
                if opened.run is not None:
                    opened.run.log(Perturbation(**fields, metrics=metrics))
            yield {**point, "metrics": metrics}


def _known(events, fields):
    """Returns a point's metrics from its run, for the same data."""
    for event in events:
        if fields.items() <= event.line.items():
            return event.metrics
    return None


def _measure(opened, sigma, seed, scale):
    with models.perturbed(opened.model, sigma, seed, scale):
        try:
            return opened.measure()
        except RunError:  # a loss that is not finite
            return {}


def _curves(points, names, sigmas, metric):
    """Returns for each model a list of (σ, values of the seeds).

    NaN represents a seed that was not finite. If no seed was finite, σ is
    omitted.
    """
    curves = {name: [] for name in names}
    for name in names:
        for sigma in sigmas:
            values = [
                point["metrics"].get(metric, math.nan)
                for point in points
                if (point["model"], point["sigma"]) == (name, sigma)
            ]
            if any(map(math.isfinite, values)):
                curves[name].append((sigma, values))
    return curves


def _table(curves, sigmas, metric, options):
    table = Table("σ", title=f"{metric}, noise of σ × {options.scale}")
    for name in curves:
        table.add_column(name, justify="right")
    for sigma in sigmas:
        cells = [_cell(dict(curve).get(sigma, ())) for curve in curves.values()]
        table.add_row(f"{sigma:g}", *cells)
    some_left_out = any(
        not all(map(math.isfinite, values))
        for curve in curves.values()
        for _, values in curve
    )
    if some_left_out:
        table.caption = "(n of m): the mean of the n seeds that were finite"
    return table


def _cell(values):
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return "not finite"
    text = f"{statistics.fmean(finite):.4f}"
    if len(finite) > 1:
        text += f" ± {statistics.stdev(finite):.4f}"
    if len(finite) < len(values):
        text += f" ({len(finite)} of {len(values)})"
    return text


def _names(models):
    """Returns the shortest names that distinguish the models."""
    for parts in range(1, 9):
        names = [
            "/".join(pathlib.Path(model).resolve().parts[-parts:])
            for model in models
        ]
        if len(set(names)) == len(models):
            return names
    raise UsageError(
        "Expected models that differ. Received: " + ", ".join(models) + "."
    )


def main(arguments=None) -> int:
    """Runs the script; returns its exit status."""
    return run_script(sys.modules[__name__], arguments)


if __name__ == "__main__":
    sys.exit(main())
