"""Runs the arms of a paper's ablation table, with one teacher and its seeds.

Each arm and seed is a run in DIR/ARM/seed_N, which kdkit report reads. The same
command continues and skips finished runs. The table shows the paper's numbers
next to the measured ones; the last line is a JSON object.

With --model gpt2 or mass, all data is text: the options of kdkit distill
describe the teachers, which are trained once, and arms share the steps that
they have in common. Arms of mass are compared by BLEU on the held-out pairs,
as kdkit evaluate RUN measures it.

example:
  kdkit ablate tinybert --over layer_map --task mrpc --data-dir glue \\
      --teacher runs/teacher --seeds 0 1 2 --run-dir runs/layer_maps
  kdkit ablate lightpaff --model gpt2 --over stages --corpus wiki.txt \\
      --decoder gpt2_medium_en --vocabulary-size 8000 \\
      --task-text ptb.train.txt --task-held-out ptb.valid.txt \\
      --one-document --detokenizer ptb --run-dir runs/ptb_arms
"""

import copy
import dataclasses
import json
import pathlib
import statistics

from rich.console import Console

from kdkit.cli.flags import asked
from kdkit.cli.loading import choose_devices, load_tensorflow
from kdkit.cli.runs import RUN
from kdkit.cli.verb_flags import flag, many, seed
from kdkit.recipes.ablations import get_ablation
from kdkit.reporting.formatting import metric_format, over_seeds
from kdkit.reporting.results import WITHIN_NOISE, is_noise
from kdkit.reporting.tables import Column, Row, Table

FLAGS = {
    **RUN,
    "over": flag(
        "the part of the recipe that the arms differ in",
        choices=("layer_map", "objectives", "stages"),
    ),
    "arms": many(
        "only these arms of the table. Defaults to all arms.", metavar="ARM"
    ),
    "seeds": many(
        "the seeds that every arm is run with. Defaults to --seed.",
        type=seed,
        metavar="N",
    ),
}
MARK = "≈"


def run(words):
    """Runs every arm with every seed, and prints the table."""
    needs = ("over", "run_dir")
    request = asked("ablate", __doc__, words, FLAGS, needs=needs)
    options, source = request.options, request.source
    of_run = request.tree.get("training", {}).get("seed", 0)
    seeds = dict.fromkeys(options.seeds or [of_run])
    configs = [_config(request, number) for number in seeds]
    ablation = get_ablation(source, options.over, options.arms)
    choose_devices(configs[0].training.strategy, options.devices, source)
    load_tensorflow()
    # All configs first, so that mistakes are found before a run.
    arms = _arms(ablation, configs, options.run_dir)
    results = [
        [_result(arm, config, options) for config in of_arm]
        for arm, of_arm in arms
    ]
    first = results[0][0]
    of_paper, metric = _subject(request, configs[0], first)
    found = [[one["metrics"][metric] for one in of_arm] for of_arm in results]
    rows = [
        {
            "arm": arm.name,
            "values": values,
            "mean": statistics.fmean(values),
            "standard_deviation": (
                statistics.stdev(values) if len(values) > 1 else None
            ),
            "paper": arm.paper.get(of_paper),
            "within_two_standard_errors": values is not found[0]
            and is_noise(metric, values, found[0], first.get("examples")),
        }
        for (arm, _), values in zip(arms, found, strict=True)
    ]
    is_text = configs[0].kind == "text"
    answer = {
        "recipe": source,
        "over": options.over,
        "model" if is_text else "task": of_paper,
        "metric": metric,
        **first.get("signature", {}),
        "arms": rows,
    }
    where = "held-out text" if is_text else configs[0].data.dev_split
    _print_table(answer, ablation.source, where)
    print(json.dumps(answer))


def _config(request, number):
    """The config of a run with a seed, whose earlier steps have their own."""
    tree = copy.deepcopy(request.tree)
    tree["training"] = {**tree.get("training", {}), "seed": number}
    return dataclasses.replace(request, tree=tree).config()


def _arms(ablation, configs, run_dir):
    """Arms with their configs, without those that the run lacks."""
    from kdkit.cli.ablation import arm_configs

    folder = pathlib.Path(run_dir).absolute()
    of_seeds = [arm_configs(ablation.arms, one, folder) for one in configs]
    arms = [*zip(ablation.arms, zip(*of_seeds, strict=True), strict=True)]
    for arm, of_arm in arms:
        if None in of_arm:
            print(
                f"{arm.name}: skipped, because it would be the same as "
                "another arm without the general run or the augmented "
                "examples. Pass --general and --augment to include it.",
                flush=True,
            )
    return [(arm, of_arm) for arm, of_arm in arms if None not in of_arm]


def _result(arm, config, options) -> dict:
    """Runs an arm; its metrics, and what they were measured on."""
    from kdkit.cli.ablation import num_examples
    from kdkit.cli.evaluate import measured_once
    from kdkit.runs.run import run

    number = config.training.seed
    path = pathlib.Path(options.run_dir, arm.name, f"seed_{number}")
    print(f"\n{arm.name}, seed {number}: {path}", flush=True)
    is_text = config.kind == "text"
    done = run(config, path, options.force, needs_models=is_text)
    if is_text and config.corpus.kind == "pairs":
        noted = measured_once(str(path))
        signature = {"signature": noted["signatures"]["bleu"]}
        return {"metrics": noted["metrics"], "signature": signature}
    examples = None
    if not is_text:
        examples = num_examples(done, config.data.dev_split)
    return {"metrics": done.metrics, "examples": examples}


def _subject(request, config, result):
    """The task or the models, as the paper's table has them, and the metric."""
    from kdkit.training.tasks import open_task

    if config.kind == "task":
        return config.data.task, open_task(config.data).primary_metric
    # Over words, a perplexity is comparable across vocabularies.
    names = ("bleu", "word_perplexity", "perplexity")
    metric = next(name for name in names if name in result["metrics"])
    return request.tree["model"], metric


def _print_table(answer, source, where):
    shown = metric_format(answer["metric"])

    def cells(row):
        paper = row["paper"]
        mark = f" {MARK}" if row["within_two_standard_errors"] else ""
        return Row(
            row["arm"],
            (
                over_seeds(shown.number, row["values"]) + mark,
                str(len(row["values"])),
                "not printed" if paper is None else f"{paper:.1f}",
            ),
        )

    rows = answer["arms"]
    notes = [f"Paper: {source}."]
    if "signature" in answer:
        notes.append(f"{shown.title}: {answer['signature']}")
    if any(row["within_two_standard_errors"] for row in rows):
        notes.append(f"{MARK}: {WITHIN_NOISE} of {rows[0]['arm']}.")
    subject = answer.get("task", answer.get("model"))
    table = Table(
        "arm",
        (Column(f"{shown.title} on {where}"), Column("seeds"), Column("paper")),
        tuple(map(cells, rows)),
        title=f"{answer['recipe']} over {answer['over']} on {subject}",
        caption="\n".join(notes),
    )
    Console().print(table.terminal())
