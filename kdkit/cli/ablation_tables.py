"""Where the arms of an ablation are, what they found, and their table."""

import argparse
import json
import pathlib
import statistics

from rich.console import Console
from rich.table import Table

from kdkit import decoding
from kdkit.cli import evaluate
from kdkit.cli.evaluating import measure_and_note
from kdkit.cli.locating import locate
from kdkit.cli.writers import text_of_run
from kdkit.reporting.comparison import WITHIN_NOISE
from kdkit.reporting.comparison import is_noise
from kdkit.reporting.formatting import metric_format
from kdkit.tasks import generation_signatures
from kdkit.training.run_directory import RunDirectory

MARK = "≈"


def place_of_arm(options, name: str, seed: int) -> pathlib.Path:
    """Returns the run directory of an arm, and prints it."""
    path = pathlib.Path(options.run_dir, name, f"seed_{seed}")
    print(f"\n{name}, seed {seed}: {path}", flush=True)
    return path


def best_metrics(path: pathlib.Path) -> dict:
    """Returns the metrics on dev, or on what is held out, of a finished run.

    Args:
        path: path of a run with one trained model, or a student.
    """
    (finished,) = RunDirectory(path).events("run_finished")
    best = finished["best"]
    (only,) = [best["student"]] if "student" in best else best.values()
    return only["metrics"]


def num_examples(path: pathlib.Path) -> int | None:
    """Returns how many examples a finished run was measured on.

    Args:
        path: as in `best_metrics`.

    Returns:
        Int, `None` where the run's log does not have it.
    """
    run = RunDirectory(path)
    found = [event for event in run.events("evaluation") if "examples" in event]
    return found[-1]["examples"] if found else None


def written_metrics(path: pathlib.Path) -> dict:
    """Returns what `kdkit evaluate RUN` finds of a run's encoder-decoder.

    It is measured by what it writes of the pairs that the run held out, and
    that is noted in the run; what is noted there is not measured again.

    Args:
        path: path of a finished run on pairs.

    Returns:
        A dict with `metrics`, and `signatures` of some of them.
    """
    place = locate(str(path))
    text = text_of_run(place)
    beams = decoding.Beams()
    wanted = {
        "pairs": list(text.held_out or text.files),
        "columns": list(text.columns),
        "held_out_every": None if text.held_out else text.held_out_every,
        "languages": list(text.languages),
        "signatures": generation_signatures(text.sides[1]),
        "sequence_length": text.sequence_length,
        "beam_size": beams.beam_size,
        "length_penalty": beams.length_penalty,
        "file": None,
    }
    for event in place.run.events("measurement"):
        if all(event.get(name) == value for name, value in wanted.items()):
            return event
    parser = argparse.ArgumentParser()
    evaluate.add_arguments(parser)
    return measure_and_note(parser.parse_args([str(path)]))


def row_of_arm(arm, values: list[float], of_paper: str) -> dict:
    """Returns a row of the table, as JSON data.

    Args:
        arm: `AblationArm`.
        values: list of floats, one a seed.
        of_paper: string. Which of the paper's figures is the arm's.
    """
    return {
        "arm": arm.name,
        "values": values,
        "mean": statistics.fmean(values),
        "standard_deviation": (
            statistics.stdev(values) if len(values) > 1 else None
        ),
        "paper": arm.paper.get(of_paper),
    }


def show_arms(
    options,
    ablation,
    about: dict,
    metric: str,
    rows,
    signature=None,
    examples=None,
) -> None:
    """Prints the table and, last, one line of JSON.

    Arms within two standard errors of the first arm are marked.

    Args:
        options: the parsed options of `kdkit ablate`.
        ablation: `Ablation`.
        about: dict with one entry, what the arms were run on.
        metric: string. What is compared.
        rows: list of dicts as `row_of_arm` returns them.
        signature: string or `None`. sacrebleu's, of the metric. Defaults to
            `None`.
        examples: int or `None`. How many examples the metric was measured on.
            Defaults to `None`.
    """
    shown = metric_format(metric)
    first = rows[0]
    rows = [
        {
            **row,
            "within_two_standard_errors": row is not first
            and is_noise(metric, row["values"], first["values"], examples),
        }
        for row in rows
    ]
    where = "dev" if "task" in about else "what is held out"
    (subject,) = about.values()
    table = Table(
        "arm",
        f"{shown.title} on {where}",
        "seeds",
        "paper",
        title=f"{options.recipe} over {options.over} on {subject}",
        caption=f"Paper: {ablation.source}."
        + (f"\n{shown.title}: {signature}" if signature else "")
        + (
            f"\n{MARK}: {WITHIN_NOISE} of {first['arm']}."
            if any(row["within_two_standard_errors"] for row in rows)
            else ""
        ),
    )
    for row in rows:
        paper = row["paper"]
        table.add_row(
            row["arm"],
            shown.mean(row["values"])
            + (f" {MARK}" if row["within_two_standard_errors"] else ""),
            str(len(row["values"])),
            "not printed" if paper is None else f"{paper:.1f}",
        )
    Console().print(table)
    print(
        json.dumps(
            {
                "recipe": options.recipe,
                "over": options.over,
                **about,
                "metric": metric,
                **({"signature": signature} if signature else {}),
                "arms": rows,
            }
        )
    )
