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
from kdkit.cli.sweep import best_metrics
from kdkit.cli.verb_flags import flag, many, seed
from kdkit.config.model import Checkpoint
from kdkit.recipes import pretraining
from kdkit.recipes.ablations import get_ablation
from kdkit.reporting.comparison import WITHIN_NOISE, is_noise
from kdkit.reporting.formatting import metric_format
from kdkit.reporting.tables import Column, Row, Table
from kdkit.runs.directory import CONFIG, Run
from kdkit.runs.events import Evaluation, Measurement
from kdkit.runs.places import teachers_of
from kdkit.runs.steps import place_of_step, with_places
from kdkit.tasks import generation_signatures

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
PRETRAINING, FINE_TUNING = "pretraining", "fine_tuning"


def run(words):
    """Runs every arm with every seed, and prints the table."""
    needs = ("over", "run_dir")
    request = asked("ablate", __doc__, words, FLAGS, needs=needs)
    options, source = request.options, request.source
    of_run = request.tree.get("training", {}).get("seed", 0)
    seeds = dict.fromkeys(options.seeds or [of_run])
    configs = {seed: _config(request, seed) for seed in seeds}
    first = next(iter(configs.values()))
    ablation = get_ablation(source, options.over, options.arms)
    choose_devices(first.training.strategy, options.devices, source)
    if first.kind == "text":
        family = request.tree["model"]
        arms = [
            (
                arm,
                {seed: chain(arm, configs[seed], options) for seed in configs},
            )
            for arm in ablation.arms
        ]
        load_tensorflow()
        about, of_paper = {"model": family}, family
        found = _run_on_text(first, arms, options, is_written=family == "mass")
    else:
        load_tensorflow()
        # All configs first, so that mistakes are found before a run.
        arms = _arms(ablation, configs)
        about, of_paper = {"task": first.data.task}, first.data.task
        found = _run_on_task(first, arms, options)
    metric, metrics, examples, signature = found
    rows = [
        arm_row(arm, [one[metric] for one in of_arm], of_paper)
        for (arm, _), of_arm in zip(arms, metrics, strict=True)
    ]
    show_arms(
        source, options.over, ablation, about, metric, rows, signature, examples
    )


def _config(request, seed):
    """The config of a run with a seed, whose earlier steps have their own."""
    tree = copy.deepcopy(request.tree)
    tree["training"] = {**tree.get("training", {}), "seed": seed}
    return dataclasses.replace(request, tree=tree).config()


def _arms(ablation, configs):
    """Arms with their configs by seed, without those that the run lacks."""
    from kdkit.cli.models import task_of
    from kdkit.runs.build import with_enough_updates

    first, arms = next(iter(configs.values())).data, []
    task, folder = task_of(first)
    num_rows = len(task.load("train", folder))
    num_rows = min(num_rows, first.max_train_rows or num_rows)
    # Arms that join stages have the updates of all of them.
    whole = {
        seed: one.replace(stages=with_enough_updates(one, num_rows))
        for seed, one in configs.items()
    }
    for arm in ablation.arms:
        changed = {seed: of_arm(arm, whole[seed]) for seed in whole}
        if None in changed.values():
            print(
                f"{arm.name}: skipped, because it would be the same as "
                "another arm without the general run or the augmented "
                "examples. Pass --general and --augment to include it.",
                flush=True,
            )
            continue
        arms.append((arm, changed))
    return arms


def of_arm(arm, config):
    """Returns an arm's config; `None` if it removes a part that is not there.

    Args:
        arm: `kdkit.recipes.ablations.AblationArm`.
        config: `TaskConfig` of the whole recipe.
    """
    steps = dict(config.steps)
    changes = {"stages": arm.change(config.stages), "steps": steps}
    if "augment" in arm.without:
        if config.augmented is None:
            return None
        changes["augmented"] = None
        steps.pop("augmented", None)
    if "general" in arm.without:
        changes["student"] = _general_student(config)
        if changes["student"] is None:
            return None
        steps.pop("general", None)
    data = {stage.data for stage in changes["stages"]}
    if "corpus" not in data:
        changes["corpus"] = None
    if not any(
        stage.objectives for stage in changes["stages"] if stage.data == "task"
    ):
        # Fields that only a teacher on the task uses.
        changes |= {"cache": None, "unlabeled": None, "teacher_weights": ()}
        changes["teacher"] = config.teacher[:1]
    return config.replace(**changes)


def _general_student(config):
    """The student before general distillation, if there was one."""
    general = config.steps.get("general")
    place = getattr(config.student, "checkpoint", None)
    if general is None and place and pathlib.Path(place, CONFIG).is_file():
        general = Run(place).config
    if general is None or general.kind != "text" or not teachers_of(general):
        return None
    if getattr(general.student, "copy_from", None) == "teacher":
        return general.student.replace(copy_from=general.teacher)
    return general.student


def _run_on_task(first, arms, options):
    """Runs arms; their main metric, metrics by arm, and number of examples."""
    from kdkit.runs.run import run
    from kdkit.training.tasks import open_task

    metrics, examples = [], None
    for arm, configs in arms:
        metrics.append([])
        for number, config in configs.items():
            path = arm_place(options, arm.name, number)
            done = run(config, path, options.force, needs_models=False)
            metrics[-1].append(best_metrics(done))
            examples = examples or num_examples(done)
    return open_task(first.data).primary_metric, metrics, examples, None


@dataclasses.dataclass(frozen=True)
class Chain:
    """The student's runs for one arm and seed.

    Args:
        general: `TextConfig` or `None`. The run on general text.
        kind: string or `None`. `"kd"` or `"labels"`: the source of the
            general run's targets. Arms of the same seed and kind share it.
        student: `TextConfig`. The run on the task's text. Its model is the
            place of the general run's result.
    """

    general: object
    kind: str | None
    student: object


def chain(arm, config, options) -> Chain:
    """Returns the runs of an arm."""
    places = _places(config, options)
    begun = with_places(config.steps["general"], places)
    last = with_places(config.replace(steps={}), places)
    stages = {
        stage.name: stage for stage in arm.change((*begun.stages, *last.stages))
    }
    general = kind = None
    student = begun.student
    if PRETRAINING in stages:
        stage = stages[PRETRAINING]
        kind = "kd" if stage.objectives else "labels"
        general = _learning(begun, stage, student, begun.teacher)
        place = _general_place(options, kind, begun.training.seed)
        student = Checkpoint(checkpoint=str(place))
    student = _learning(last, stages[FINE_TUNING], student, begun.teacher)
    return Chain(general, kind, student)


def _places(config, options):
    """The places of the steps that all arms and seeds share."""
    folder = pathlib.Path(options.run_dir).absolute()
    return {name: place_of_step(config, name, folder) for name in config.steps}


def _learning(config, stage, student, pretrained):
    """The config with a stage, and a teacher only if the stage uses it."""
    changes = {"stages": (stage,), "student": student}
    if not stage.objectives:
        changes |= {"teacher": None, "recipe": pretraining.STAGES[0].name}
        changes["cache"] = None
        if not isinstance(student, Checkpoint):
            changes["tokenizer"] = pretrained
    return config.replace(**changes)


def _general_place(options, kind, seed):
    place = pathlib.Path(options.run_dir, f"general_{kind}", f"seed_{seed}")
    return place.absolute()


def _run_on_text(first, arms, options, is_written):
    """Runs what arms share, and arms; as `_run_on_task`, with a signature."""
    from kdkit.runs.run import run

    places = _places(first, options)
    teaches_task = any(
        of_seed.student.teacher is not None
        for _, chains in arms
        for of_seed in chains.values()
    )
    for name in ("pretrained", "teacher")[: 1 + teaches_task]:
        if name in first.steps:
            step = with_places(first.steps[name], places)
            run(step, places[name], options.force)
    metrics = []
    for arm, chains in arms:
        metrics.append([])
        for number, of_seed in chains.items():
            if of_seed.general is not None:
                place = _general_place(options, of_seed.kind, number)
                run(of_seed.general, place, options.force)
            path = arm_place(options, arm.name, number)
            done = run(of_seed.student, path, options.force)
            metrics[-1].append(
                written_metrics(path) if is_written else best_metrics(done)
            )
    if is_written:
        signature = metrics[0][0]["signatures"]["bleu"]
        found = [[one["metrics"] for one in of_arm] for of_arm in metrics]
        return "bleu", found, None, signature
    # Over words it is comparable across vocabularies.
    names = ("word_perplexity", "perplexity")
    metric = next(name for name in names if name in metrics[0][0])
    return metric, metrics, None, None


MARK = "≈"


def arm_place(options, name: str, seed: int) -> pathlib.Path:
    """Returns the run directory of an arm, and prints it."""
    path = pathlib.Path(options.run_dir, name, f"seed_{seed}")
    print(f"\n{name}, seed {seed}: {path}", flush=True)
    return path


def num_examples(done: Run) -> int | None:
    """Returns the number of examples that a finished run was measured on."""
    found = [event.examples for event in done.events(Evaluation)]
    return next((count for count in reversed(found) if count), None)


def written_metrics(path: pathlib.Path) -> dict:
    """The metrics of `kdkit evaluate RUN` for an encoder-decoder's run."""
    from kdkit import generation
    from kdkit.cli.evaluate import parser
    from kdkit.cli.measuring import measure_and_note
    from kdkit.cli.models import locate

    place = locate(str(path))
    text = place.corpus
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
    return measure_and_note(parser().parse_args([str(path)]))


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
    recipe: str,
    over: str,
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
        title=f"{recipe} over {over} on {subject}",
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
                "recipe": recipe,
                "over": over,
                **about,
                "metric": metric,
                **({"signature": signature} if signature else {}),
                "arms": rows,
            }
        )
    )
