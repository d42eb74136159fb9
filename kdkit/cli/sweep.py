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
import itertools
import json
import pathlib
import random
from collections.abc import Iterator

from rich.console import Console

from kdkit.cli.flags import Asked, asked
from kdkit.cli.loading import choose_devices, load_tensorflow
from kdkit.cli.runs import RUN
from kdkit.cli.verb_flags import TASK, flag, many, switch
from kdkit.config.runs import AnyRun
from kdkit.errors import UsageError, unknown
from kdkit.io.files import write_text
from kdkit.recipes.ablations import SearchStep, get_search
from kdkit.reporting.formatting import metric_format
from kdkit.reporting.plots import plot_values
from kdkit.reporting.tables import Column, Row, Table
from kdkit.runs.names import parse_value, put
from kdkit.runs.steps import with_shared_steps

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
    "student.checkpoint", "student.copy_from",
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
        request.tree.setdefault("only_stages", "fine_tuning")
    steps = _steps(source, over, options)
    for step in steps:  # first, so that every mistake is found before a run
        config, axes = _resolved(request, step, {})
        if options.curves and len(axes) > 1:
            raise UsageError("--curves draws one field.")
    choose_devices(config.training.strategy, options.devices, source)
    load_tensorflow()
    fixed = {}
    results = []
    for number, step in enumerate(steps, start=1):
        config, axes = _resolved(request, step, fixed)
        folder = pathlib.Path(options.run_dir)
        if len(steps) > 1:
            folder /= f"step_{number}_{step.recipe}"
        metric, sign, split = _metric(config)
        tried = [*choices(axes, options.random, config.training.seed)]
        configs = [_with_values(request, step, values) for values in tried]
        if all(one.steps == configs[0].steps for one in configs):
            configs = [with_shared_steps(one, folder) for one in configs]
        trials = [
            _trial(values, one, folder, metric, options.force)
            for values, one in zip(tried, configs, strict=True)
        ]
        trials.sort(key=lambda trial: sign * trial[metric])
        best = trials[0]
        found = {"metric": metric, "split": split, "trials": trials}
        text = json.dumps(found, indent=2)
        write_text(folder / "sweep.json", f"{text}\n")
        _show(step.recipe, config, axes, found, options.curves)
        for name in step.fixes:
            fixed[name] = best["values"][find_field(config, name)]
        results.append(
            {
                "recipe": step.recipe,
                "trials": len(trials),
                "best": best["values"],
                "metric": best[metric],
                "run": str(folder / best["run"]),
            }
        )
    print(json.dumps({"steps": results}))


def _resolved(request, step, fixed):
    """A step's config, and the values to try by the path of their field.

    Values that earlier steps found become words of the request.
    """
    config = _with_values(request, step, {})
    for name, value in fixed.items():
        put(request.tree, find_field(config, name), value)
    axes = {find_field(config, name): step.over[name] for name in step.over}
    require_comparable(config, axes)
    for field, values in axes.items():
        for value in values:
            _with_values(request, step, {field: value})
    return config, axes


def _with_values(request: Asked, step: SearchStep, values: dict) -> AnyRun:
    """The config of a step's recipe, with more words `field=value`."""
    tree = copy.deepcopy(request.tree)
    for field, value in values.items():
        put(tree, field, value)
    return dataclasses.replace(request, source=step.recipe, tree=tree).config()


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
    """Requires that trials are measured on the same."""
    names = OF_DEV
    if config.kind == "text":
        names = MEASURED
        if not config.corpus.held_out:
            names += MEASURED_OF_FILES
        if config.has_random_weights:
            names += ("teacher",)  # whose tokenizer the student has
    for field in axes:
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


def choices(axes: dict[str, tuple], most: int | None, seed: int) -> Iterator:
    """Yields the choices of values that a sweep tries, in their order."""
    grid = [*itertools.product(*axes.values())]
    if most is not None:
        grid = random.Random(seed).sample(grid, min(most, len(grid)))
    for values in grid:
        yield dict(zip(axes, values, strict=True))


def _metric(config) -> tuple[str, int, str]:
    """The metric of the ranking, -1 if larger is better, and where it is of."""
    from kdkit.training.tasks import open_task

    if config.kind == "task":
        return open_task(config.data).primary_metric, -1, config.data.dev_split
    if config.kind == "text":
        return "perplexity", 1, "held_out"
    raise UsageError("A sweep ranks runs on a task or on text.")


def _trial(values, config, folder, metric, force) -> dict:
    """Runs one choice of values in `DIR/trials/`."""
    from kdkit.runs.run import run

    name = ",".join(
        f"{field.rpartition('.')[2]}={json.dumps(value)}".replace("/", "_")
        for field, value in values.items()
    )
    path = folder / "trials" / name
    print(f"\n{path}", flush=True)
    metrics = run(config, path, force, needs_models=False).metrics
    return {"values": values, "run": f"trials/{name}", metric: metrics[metric]}


def _show(recipe, config, axes, found, curves):
    """Prints the trials as a table, and draws them if a file is named."""
    metric = found["metric"]
    trials = found["trials"]
    shown = metric_format(metric)
    first, *fields = axes
    is_text = config.kind == "text"
    subject = "text" if is_text else config.data.task
    where = f" on {'text held out' if is_text else found['split']}"
    rows = [
        Row(
            json.dumps(trial["values"][first]),
            (
                *(json.dumps(trial["values"][field]) for field in fields),
                shown.number(trial[metric]),
                trial["run"].rpartition("/")[2],
            ),
        )
        for trial in trials
    ]
    columns = (
        *(Column(field, is_text=True) for field in fields),
        Column(shown.heading(where)),
        Column("run", is_text=True),
    )
    title = f"{recipe} on {subject}, best first"
    Console().print(Table(first, columns, tuple(rows), title).terminal())
    if curves:
        curve = sorted(
            (trial["values"][first], trial[metric]) for trial in trials
        )
        where += "" if is_text else f", {subject}"
        picture = plot_values(curve, metric, where, first)
        write_text(pathlib.Path(curves), picture)
        print(f"Written: {curves}")
