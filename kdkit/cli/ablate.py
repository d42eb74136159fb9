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

import dataclasses
import json
import pathlib
import statistics

from rich.console import Console

from kdkit.cli import evaluate
from kdkit.cli.evaluate import measure_and_note
from kdkit.cli.groups import (
    ONE_MACHINE,
    DecoderOptions,
    DistillationOptions,
    ForceOptions,
    RunOptions,
    Seed,
)
from kdkit.cli.loading import load_tensorflow
from kdkit.cli.options import for_steps, get_recipe
from kdkit.cli.parser import option
from kdkit.cli.resolving import distill_settings
from kdkit.cli.text_steps import text_pipeline
from kdkit.recipes.ablations import get_ablation
from kdkit.reporting.comparison import WITHIN_NOISE, is_noise
from kdkit.reporting.formatting import metric_format
from kdkit.reporting.tables import Column, Row, Table
from kdkit.runs.directory import CONFIG, RunDirectory, read_config
from kdkit.runs.events import Evaluation, Measurement, RunFinished
from kdkit.runs.pipeline import Pipeline
from kdkit.runs.settings import PretrainSettings
from kdkit.settings import from_dict
from kdkit.tasks import generation_signatures
from kdkit.training.model_settings import ModelSettings
from kdkit.training.tasks import open_task


@dataclasses.dataclass
class Options(DistillationOptions, DecoderOptions, ForceOptions, RunOptions):
    """arms"""

    over: str | None = option(
        "the part of the recipe that the arms differ in",
        required=True,
        choices=("layer_map", "objectives", "stages"),
    )
    arms: list[str] | None = option(
        "only these arms of the table. Defaults to all arms.", metavar="ARM"
    )
    seeds: list[Seed] = option(
        "the seeds that every arm is run with. Defaults to 0.", default=[0]
    )
    strategy: str | None = ONE_MACHINE
    seed: None = None
    control: bool = False
    encoder: None = None


def run(options):
    if options.model != "bert":
        run_text_ablation(options)
    else:
        run_ablation(options)


def run_ablation(options) -> None:
    """Runs every arm with every seed, and prints the table."""
    ablation = get_ablation(options.recipe, options.over, options.arms)
    settings = distill_settings(options)
    load_tensorflow()
    # All settings first, so that every mistake is reported before the first
    # run.
    arms = []
    for arm in ablation.arms:
        changed = _settings_of(arm, settings)
        if changed is None:
            print(
                f"{arm.name}: skipped, because it would be the same as "
                "another arm without the general run or the augmented "
                "examples. Pass --general and --augment to include it.",
                flush=True,
            )
            continue
        seeds = dict.fromkeys(options.seeds)
        arms.append(
            (arm, [dataclasses.replace(changed, seed=seed) for seed in seeds])
        )
    task = open_task(settings.data)
    rows, examples = [], None
    for arm, seeds in arms:
        values = []
        for seeded in seeds:
            path = arm_place(options, arm.name, seeded.seed)
            Pipeline(seeded, path).run(options.force, needs_models=False)
            values.append(best_metrics(path)[task.primary_metric])
            examples = examples or num_examples(path)
        rows.append(arm_row(arm, values, task.name))
    show_arms(
        options,
        ablation,
        {"task": task.name},
        task.primary_metric,
        rows,
        examples=examples,
    )


def _settings_of(arm, settings):
    """An arm's settings; `None` if it removes a part that the run lacks."""
    changes = {"stages": arm.change(settings.stages)}
    if "augment" in arm.without:
        if settings.augmented is None:
            return None
        changes["augmented"] = None
    if "general" in arm.without:
        model = _general_model(settings)
        if model is None:
            return None
        changes |= {"student": model, "general": None}
    if not any(
        stage.objectives for stage in changes["stages"] if stage.data == "task"
    ):
        # Settings that only a teacher on the task uses.
        changes |= {
            "cache": None,
            "unlabeled": None,
            "more_teachers": (),
            "teacher_weights": (),
        }
    return dataclasses.replace(settings, **changes)


def _general_model(settings):
    """The sizes of the student of general distillation, if there is one."""
    if settings.general is not None:
        return settings.general.model
    place = settings.student.checkpoint
    if place is None or not pathlib.Path(place, CONFIG).is_file():
        return None
    config = read_config(place)
    if config.get("verb") != "pretrain" or config.get("teacher") is None:
        return None
    return from_dict(ModelSettings, config["model"])


PRETRAINING, FINE_TUNING = "pretraining", "fine_tuning"


@dataclasses.dataclass(frozen=True)
class Chain:
    """The student's runs for one arm and seed.

    Args:
        general: `PretrainSettings` or `None`. The run on general text.
        kind: string or `None`. `"kd"` or `"labels"`: the source of the
            general run's targets. Arms of the same seed and kind share it.
        student: `PretrainSettings`. The run on the task's text. Its model is
            the place of the general run's result.
    """

    general: PretrainSettings | None
    kind: str | None
    student: PretrainSettings


def run_text_ablation(options) -> None:
    """Runs every arm with every seed, and prints the table."""
    ablation = get_ablation(options.recipe, options.over, options.arms)
    recipe = get_recipe(options.recipe)
    seeds = dict.fromkeys(options.seeds)
    pipelines = {
        seed: text_pipeline(
            recipe, dataclasses.replace(for_steps(options), seed=seed)
        )
        for seed in seeds
    }
    first = next(iter(pipelines.values()))
    arms = [
        (
            arm,
            {
                seed: chain(arm, pipelines[seed].settings, options)
                for seed in seeds
            },
        )
        for arm in ablation.arms
    ]
    load_tensorflow()

    from kdkit.doctor import text_examination

    findings = text_examination.examine_steps_first(first, options.force)
    teaches_task = any(
        of_seed.student.teacher is not None
        for _, chains in arms
        for of_seed in chains.values()
    )
    for step in first.steps:
        if step.name == "pretrained" or (
            step.name == "teacher" and teaches_task
        ):
            Pipeline(step.settings, step.place).run(findings=findings)
    rows, signature = [], None
    for arm, chains in arms:
        paths = [
            _run(arm, seed, of_seed, options, findings)
            for seed, of_seed in chains.items()
        ]
        if options.model == "mass":
            measured = [written_metrics(path) for path in paths]
            metric = "bleu"
            signature = measured[0]["signatures"][metric]
            found = [of_seed["metrics"] for of_seed in measured]
        else:
            found = [best_metrics(path) for path in paths]
            # Over words it is comparable across vocabularies.
            names = ("word_perplexity", "perplexity")
            metric = next(name for name in names if name in found[0])
        values = [metrics[metric] for metrics in found]
        rows.append(arm_row(arm, values, options.model))
    show_arms(
        options, ablation, {"model": options.model}, metric, rows, signature
    )


def chain(arm, settings, options) -> Chain:
    """Returns the runs of an arm."""
    begun = settings.steps_before["general"]
    last = dataclasses.replace(settings, steps_before={})
    stages = {
        stage.name: stage for stage in arm.change((*begun.stages, *last.stages))
    }
    general = kind = None
    model = begun.model
    if PRETRAINING in stages:
        stage = stages[PRETRAINING]
        kind = "kd" if stage.objectives else "labels"
        general = _learning(begun, stage, model, begun.teacher)
        place = _general_place(options, kind, begun.seed)
        model = ModelSettings(checkpoint=str(place))
    student = _learning(last, stages[FINE_TUNING], model, begun.teacher)
    return Chain(general, kind, student)


def _learning(settings, stage, model, pretrained):
    """The settings with a stage, and a teacher only if the stage uses it."""
    changes = {"stages": (stage,), "model": model}
    if not stage.objectives:
        changes |= {"teacher": None, "recipe": None, "cache": None}
        if model.has_random_weights:
            changes["tokenizer"] = pretrained
    return dataclasses.replace(settings, **changes)


def _general_place(options, kind, seed):
    return pathlib.Path(
        options.run_dir, f"general_{kind}", f"seed_{seed}"
    ).absolute()


def _run(arm, seed, of_seed, options, findings):
    """Runs the missing steps of an arm and returns its run directory."""
    if of_seed.general is not None:
        place = _general_place(options, of_seed.kind, seed)
        Pipeline(of_seed.general, place).run(findings=findings)
    path = arm_place(options, arm.name, seed)
    Pipeline(of_seed.student, path).run(findings=findings)
    return path


MARK = "≈"


def arm_place(options, name: str, seed: int) -> pathlib.Path:
    """Returns the run directory of an arm, and prints it."""
    path = pathlib.Path(options.run_dir, name, f"seed_{seed}")
    print(f"\n{name}, seed {seed}: {path}", flush=True)
    return path


def best_metrics(path: pathlib.Path) -> dict:
    """Returns a finished run's metrics on dev or on its held-out text."""
    (finished,) = RunDirectory(path).events(RunFinished)
    best = finished.best
    (only,) = [best["student"]] if "student" in best else best.values()
    return only.metrics


def num_examples(path: pathlib.Path) -> int | None:
    """Returns the number of examples that a finished run was measured on."""
    run = RunDirectory(path)
    found = [event.examples for event in run.events(Evaluation)]
    return next((count for count in reversed(found) if count), None)


def written_metrics(path: pathlib.Path) -> dict:
    """The metrics of `kdkit evaluate RUN` for an encoder-decoder's run."""
    from kdkit import generation
    from kdkit.cli.models import locate
    from kdkit.cli.texts import text_of_run

    place = locate(str(path))
    text = text_of_run(place)
    beams = generation.Beams()
    wanted = {
        "pairs": text.held_out or text.files,
        "columns": text.columns,
        "held_out_every": None if text.held_out else text.held_out_every,
        "languages": text.languages,
        "signatures": generation_signatures(text.sides[1]),
        "sequence_length": text.sequence_length,
        "beam_size": beams.beam_size,
        "length_penalty": beams.length_penalty,
        "file": None,
    }
    for event in place.run.events(Measurement):
        if all(getattr(event, name) == value for name, value in wanted.items()):
            return event.to_dict()
    return measure_and_note(evaluate.Options(model=str(path)))


def arm_row(arm, values: list[float], of_paper: str) -> dict:
    """Returns a row of the table, as JSON data."""
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
    """Prints the table, and then one line of JSON."""
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
    where = "dev" if "task" in about else "held-out text"
    (subject,) = about.values()

    def cells(row):
        paper = row["paper"]
        mark = f" {MARK}" if row["within_two_standard_errors"] else ""
        return Row(
            row["arm"],
            (
                shown.mean(row["values"]) + mark,
                str(len(row["values"])),
                "not printed" if paper is None else f"{paper:.1f}",
            ),
        )

    table = Table(
        "arm",
        (Column(f"{shown.title} on {where}"), Column("seeds"), Column("paper")),
        tuple(map(cells, rows)),
        title=f"{options.recipe} over {options.over} on {subject}",
        caption=f"Paper: {ablation.source}."
        + (f"\n{shown.title}: {signature}" if signature else "")
        + (
            f"\n{MARK}: {WITHIN_NOISE} of {first['arm']}."
            if any(row["within_two_standard_errors"] for row in rows)
            else ""
        ),
    )
    Console().print(table.terminal())
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
