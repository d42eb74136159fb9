"""Runs a recipe for each choice of some fields, and ranks the runs on dev.

Each choice is a run in DIR/trials/, which kdkit report reads. The same command
continues a stopped sweep. Name a field by its path (stages.NAME.learning_rate)
or by the end of its path. tensorboard --logdir DIR/trials shows the runs'
curves. The last line is a JSON object. A sweep never uses a test split.

With --corpus or --pairs, and without --task, the runs are runs of kdkit
pretrain: a recipe's stages on text, ranked by the perplexity on held-out text.
Fields that decide which tokens are measured, such as masks, the vocabulary or
the sequence length, cannot be varied.

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

import copy
import dataclasses
import json
import math
import pathlib
import random
from collections.abc import Iterator

import numpy as np
from rich.console import Console

from kdkit.cli.flags import asked
from kdkit.cli.loading import choose_devices, load_tensorflow
from kdkit.cli.runs import RUN
from kdkit.cli.verb_flags import TASK, flag, many, switch
from kdkit.config.runs import AnyRun
from kdkit.errors import UsageError, unknown
from kdkit.io.files import write_text
from kdkit.recipes.ablations import SearchStep, get_search
from kdkit.reporting import plot_values
from kdkit.reporting.formatting import metric_format
from kdkit.reporting.tables import Column, Row, Table
from kdkit.runs.directory import Run
from kdkit.runs.events import RunFinished
from kdkit.settings import from_dict, parse_value

FLAGS = {
    **RUN,
    "over": many("a field and the values to try", metavar="FIELD=V1,V2"),
    "paper": switch(
        "instead of --over: the search that the recipe's paper describes"
    ),
    "random": flag(
        "try N different choices, drawn at random with --seed. Defaults to "
        "all combinations.",
        type=int,
        metavar="N",
    ),
    "curves": flag(
        "also plot the metric over one field's values", metavar="FILE.svg"
    ),
}
# For runs on a task: the fields that decide which examples are measured.
OF_DEV = ("data.task", "data.data_dir", "data.dev_split", "data.table")
# For runs on text: the fields that decide which tokens a perplexity counts.
MEASURED = (
    "corpus.masking", "corpus.spans", "corpus.held_out",
    "corpus.held_out_every", "corpus.sequence_length", "corpus.column",
    "corpus.columns", "corpus.detokenizer", "corpus.one_document", "tokenizer",
)  # fmt: skip
# The same, if the held-out text is from the training files.
MEASURED_OF_FILES = ("corpus.files", "corpus.max_texts")


def run(words):
    """Runs the steps of a search."""
    over, words = _taken_over(words)
    about = "text" if _is_on_text(words) else None
    source, others = (words[0], words[1:]) if about else (None, words)
    request = asked("sweep", __doc__, others, FLAGS, about, ("run_dir",))
    source, options = source or request.source, request.options
    if about and options.paper:
        request.tree.setdefault("stage", "fine_tuning")
    steps = _steps(source, over, options)

    def resolved(step, fixed):
        """A step's config with the values of earlier ones, and its axes."""
        given = copy.deepcopy(request.tree)
        of_step = dataclasses.replace(request, source=step.recipe, tree=given)
        config = of_step.config()
        fixed = {find_field(config, name): fixed[name] for name in fixed}
        over = {find_field(config, name): step.over[name] for name in step.over}
        require_comparable(config, over)
        return with_values(config, fixed), over

    for step in steps:  # first, so that every mistake is found before a run
        config, axes = resolved(step, {})
        if options.curves and len(axes) > 1:
            raise UsageError("--curves draws one field.")
    choose_devices(config.training.strategy, options.devices, source)
    load_tensorflow()
    fixed, results = {}, []
    for number, step in enumerate(steps, start=1):
        config, axes = resolved(step, fixed)
        directory = pathlib.Path(options.run_dir)
        if len(steps) > 1:
            directory /= f"step_{number}_{step.recipe}"
        measure = measure_of(config)
        trials = [
            run_trial(config, values, measure, directory, options.force)
            for values in choices(axes, options.random, config.training.seed)
        ]
        trials.sort(key=lambda trial: measure.sign * trial.metric)
        _write_results(directory, trials, measure)
        _print_table(step, axes, trials, measure)
        if options.curves:
            _draw(options.curves, step, *axes, trials, measure)
        best = trials[0]
        for name in step.fixes:
            fixed[name] = best.values[find_field(config, name)]
        results.append(
            {
                "recipe": step.recipe,
                "trials": len(trials),
                "best": best.values,
                "metric": best.metric,
                "run": str(best.path),
            }
        )
    print(json.dumps({"steps": results}))


def _taken_over(words):
    """The values of --over, which look like fields, and the other words."""
    if "--over" not in words:
        return [], words
    begin = words.index("--over")
    end = begin + 1
    while end < len(words) and not words[end].startswith("--"):
        end += 1
    return words[begin + 1 : end], [*words[:begin], *words[end:]]


def _is_on_text(words) -> bool:
    """Whether a sweep is of runs on running text, without a task."""
    flags = {word.partition("=")[0] for word in words if word[:2] == "--"}
    names = {name[2:].replace("-", "_") for name in flags}
    return bool(names & {"corpus", "pairs"}) and names.isdisjoint(TASK)


def _steps(source, over, options):
    if options.paper:
        if over:
            raise UsageError("--over is not read with --paper.")
        return get_search(source)
    if not over:
        raise UsageError("Missing: --over.")
    values = {}
    for text in over:
        name, _, some = text.partition("=")
        if name in values:
            raise UsageError(f"--over names {name!r} twice.")
        values[name] = tuple(map(parse_value, split_values(some)))
    return (SearchStep(source, values),)


def split_values(text: str) -> list[str]:
    """Splits a text at commas outside of brackets and quotes."""
    parts, depth, is_quoted = [""], 0, False
    for character in text:
        if character == '"':
            is_quoted = not is_quoted
        elif not is_quoted:
            depth += (character in "[{") - (character in "]}")
        if character == "," and not (depth or is_quoted):
            parts.append("")
        else:
            parts[-1] += character
    # If brackets or quotes do not match, the text is not JSON.
    return text.split(",") if depth or is_quoted else parts


def find_field(config: AnyRun, name: str) -> str:
    """Returns the dotted path of the field with a name, the end of its path."""
    paths = [*_leaves(config.model_dump(mode="json"), "")]
    if name in paths:
        return name
    # Fields of earlier steps have their whole path.
    found = [
        path
        for path in paths
        if path.endswith(f".{name}") and not path.startswith("steps.")
    ]
    if not found:
        ends = {path.rpartition(".")[2] for path in paths}
        raise unknown("field", name, ends)
    if len(found) > 1:
        raise UsageError(f"{name!r} matches {' and '.join(found)}.")
    return found[0]


def _leaves(value, path):
    """Yields the dotted paths of all values except dicts with entries."""
    if not (isinstance(value, dict) and value):
        yield path
        return
    for key, one in value.items():
        yield from _leaves(one, f"{path}.{key}" if path else key)


def require_comparable(config: AnyRun, axes: dict[str, tuple]) -> None:
    """Requires that trials are measured on the same, and that values fit."""
    names = OF_DEV
    if config.kind == "text":
        names = MEASURED
        if not config.corpus.held_out:
            names += MEASURED_OF_FILES
    for field, values in axes.items():
        if field in ("recipe", "parity", "kind"):
            raise UsageError(
                f"{field} names the stages and does not change them. Make a "
                "sweep for each value."
            )
        if any(f"{field}.".startswith(f"{name}.") for name in names):
            raise UsageError(
                f"{field} decides what is measured, so the trials could not be "
                "compared. Make a sweep for each value."
            )
        for value in values:
            with_values(config, {field: value})


def with_values(config: AnyRun, values: dict) -> AnyRun:
    """Returns a config with the values of some dotted paths changed."""
    tree = config.model_dump(mode="json")
    for path, value in values.items():
        *parents, last = path.split(".")
        part = tree
        for name in parents:
            part = part[name]
        part[last] = value
        if last == "epochs":  # as many as given, also on a small table
            part["least_updates"] = 0
    return from_dict(type(config), tree)


def choices(axes: dict[str, tuple], most: int | None, seed: int) -> Iterator:
    """Yields the choices of values that a sweep tries, in their order."""
    sizes = [len(values) for values in axes.values()]
    numbers = range(math.prod(sizes))
    if most is not None:
        numbers = random.Random(seed).sample(numbers, min(most, len(numbers)))
    for number in numbers:
        places = np.unravel_index(number, sizes)  # the last varies fastest
        yield {
            field: values[place]
            for (field, values), place in zip(axes.items(), places, strict=True)
        }


@dataclasses.dataclass(frozen=True)
class Measure:
    """The metric that ranks the trials; `sign` is -1 if larger is better."""

    metric: str
    sign: int
    split: str
    what: str

    @property
    def where(self) -> str:
        """The data that is measured on, in words."""
        return "text held out" if self.split == "held_out" else self.split


def measure_of(config: AnyRun) -> Measure:
    """Returns the metric that runs with this config are ranked by."""
    from kdkit.training.tasks import open_task

    if config.kind == "task":
        task = open_task(config.data)
        return Measure(task.primary_metric, -1, "dev", task.name)
    if config.kind == "text":
        return Measure("perplexity", 1, "held_out", "text")
    raise UsageError("A sweep ranks runs on a task or on text.")


@dataclasses.dataclass(frozen=True)
class Trial:
    """A finished run of a sweep."""

    values: dict
    path: pathlib.Path
    metric: float


def run_trial(config, values, measure, directory, force) -> Trial:
    """Runs one choice of values in `DIR/trials/`."""
    from kdkit.runs.run import run

    name = ",".join(
        f"{field.rpartition('.')[2]}={json.dumps(value)}".replace("/", "_")
        for field, value in values.items()
    )
    path = directory / "trials" / name
    print(f"\n{path}", flush=True)
    done = run(with_values(config, values), path, force, needs_models=False)
    return Trial(values, path, best_metrics(done)[measure.metric])


def best_metrics(done: Run) -> dict:
    """Returns a finished run's metrics on dev or on its held-out text."""
    (finished,) = done.events(RunFinished)
    best = finished.best
    return best.get("student", next(iter(best.values()))).metrics


def _write_results(directory, trials, measure):
    found = {
        "metric": measure.metric,
        "split": measure.split,
        "trials": [
            {
                "values": trial.values,
                "run": trial.path.relative_to(directory).as_posix(),
                measure.metric: trial.metric,
            }
            for trial in trials
        ],
    }
    text = json.dumps(found, indent=2)
    write_text(directory / "sweep.json", f"{text}\n")


def _print_table(step, axes, trials, measure):
    shown = metric_format(measure.metric)
    first, *fields = axes
    rows = [
        Row(
            json.dumps(trial.values[first]),
            (
                *(json.dumps(trial.values[field]) for field in fields),
                shown.number(trial.metric),
                trial.path.name,
            ),
        )
        for trial in trials
    ]
    columns = (
        *(Column(field, is_text=True) for field in fields),
        Column(shown.heading(f" on {measure.where}")),
        Column("run", is_text=True),
    )
    title = f"{step.recipe} on {measure.what}, best first"
    Console().print(Table(first, columns, tuple(rows), title).terminal())


def _draw(file, step, field, trials, measure):
    curve = sorted((trial.values[field], [trial.metric]) for trial in trials)
    task = "" if measure.what == "text" else f", {measure.what}"
    picture = plot_values(
        {step.recipe: curve},
        measure.metric,
        f" on {measure.where}{task}",
        field,
    )
    write_text(pathlib.Path(file), picture)
    print(f"Written: {file}")
