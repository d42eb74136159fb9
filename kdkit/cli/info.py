"""The verbs that show what there is, and the demo that runs all of it."""

import dataclasses
import inspect
import json
import pathlib
import re
import textwrap

from kdkit.cli.loading import load_tensorflow
from kdkit.cli.verb_flags import VerbParser
from kdkit.config.fields import Strict, descriptions
from kdkit.config.runs import schema
from kdkit.errors import UsageError, unknown
from kdkit.io.files import write_text
from kdkit.models import PRESETS
from kdkit.recipes import RECIPES
from kdkit.runs.configure import config_of
from kdkit.runs.layers import LEAST_UPDATES, kind_of, one_length
from kdkit.runs.smoke import DEMO
from kdkit.settings import to_dict
from kdkit.tasks import TASKS, get_task

WIDTH = 79
FAMILY = {"default": "bert", "help": "bert, gpt2, llama3, qwen3 or mass."}
VALUES = {"recipe": {"metavar": "RECIPE"}}
RECIPE = {
    "task": {"default": "sst2", "help": "The task, which decides the epochs."},
    "parity": {"help": "The recipe's variant."},
}


def list_all(words):
    """Lists recipes, student presets with their sizes, and tasks.

    example:
      kdkit list
    """
    _options("list", list_all, words)
    from rich.console import Console
    from rich.table import Table

    recipes = Table("recipe", "what it does", "paper", title="Recipes")
    for recipe in RECIPES.values():
        paper = recipe.paper.replace("https://arxiv.org/abs/", "arXiv:")
        recipes.add_row(recipe.name, recipe.title, paper)
    presets = Table(
        "preset", "size", "heads", "source", title="Student presets"
    )
    for name, preset in PRESETS.items():
        presets.add_row(name, *_sizes(vars(preset.config)), preset.paper)
    tasks = Table(
        "task", "kind", "classes", "chosen by", "tokens", title="Tasks"
    )
    for task in TASKS.values():
        classes = "in the data"
        if not task.has_classes_in_data:
            classes = "" if task.is_regression else str(task.num_classes)
        tasks.add_row(
            task.name,
            task.kind.title,
            classes,
            task.primary_metric,
            str(task.sequence_length),
        )
    console = Console()
    for table in (recipes, presets, tasks):
        names, *others = table.columns
        names.no_wrap = True  # so that users can copy them
        for column in others:
            column.overflow = "fold"
        console.print(table)


def _sizes(config):
    """Layers × width and attention heads of a preset."""
    if "units" in config:
        return f"1 × {2 * config['units']}", ""
    layers = config.get("num_layers")
    if layers is None:
        sides = (config[f"{one}coder_num_layers"] for one in ("en", "de"))
        layers = f"({' + '.join(map(str, sides))})"
    return f"{layers} × {config['hidden_dim']}", str(config["num_heads"])


def show(words):
    """Shows a recipe's stages with all their settings.

    example:
      kdkit show tinybert --task cola --parity paper
    """
    options = _options("show", show, words, RECIPE, VALUES)
    recipe = _recipe(options.recipe)
    stages = recipe.stages_for(get_task(options.task), options.parity)
    general = recipe.prerequisites and recipe.stages_on_text(options.parity)
    print(f"{recipe.name}: {recipe.title}")
    print(f"paper: {recipe.paper}")
    print(f"student: {recipe.student}")
    print(f"parity: {', '.join(sorted(recipe.parities)) or 'none'}")
    if one_length(stages):
        print(
            "data.num_buckets: null, every batch padded to its full length, "
            "because a loss counts padding"
        )
    if options.parity is None:
        print(
            "epochs: on a small table as many as give "
            f"{LEAST_UPDATES} updates, at most 50"
        )
    for prefix, group in (("steps.general.", general), ("", stages)):
        for stage in group:
            print(f"\n{prefix}stages.{stage.name}")
            print(json.dumps(to_dict(stage), indent=2))


def _recipe(name):
    if name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    return RECIPES[name]


def init(words):
    """Writes a recipe as a TOML file with comments, which kdkit distill runs.

    The first lines are what the recipe needs: replace their values. The other
    lines are comments with the defaults: remove a # to change one. Paths are
    relative to the directory that kdkit runs in. --schema prints the JSON
    schema of all files, for editors.

    example:
      kdkit init tinybert --task sst2 --output my.toml
      kdkit init lightpaff --model gpt2 --output my.toml
    """
    more = {
        "model": FAMILY,
        "output": {"help": "The file to write. Defaults to printing it."},
        "schema": {"action": "store_true", "help": "Print the JSON schema."},
    }
    values = {"recipe": VALUES["recipe"] | {"nargs": "?"}}  # with --schema
    options = _options("init", init, words, RECIPE | more, values)
    if options.schema:
        print(json.dumps(schema(), indent=2))
        return
    text = "\n".join(_lines(options)) + "\n"
    if options.output is None:
        print(text, end="")
        return
    path = pathlib.Path(options.output)
    if path.exists():
        raise UsageError(f"{path} already exists.")
    write_text(path, text)
    print(
        f"Written: {path}. Replace the values in its first lines, then run: "
        f"kdkit distill {path} --run-dir RUN"
    )


# What a recipe needs, by what it is about: examples.
TEACHER = "all-MiniLM-L6-v2"
NEEDED = {
    "task": {"teacher": ["runs/teacher"]},
    "decoder": {
        "decoder": "gpt2_medium_en",
        "tokenizer": 8000,
        "general_text": {"files": ["wiki.txt"]},
        "corpus": {"files": ["ptb.train.txt"], "held_out": ["ptb.valid.txt"]},
    },
    "mass": {
        "decoder": "mass_6_layer",
        "tokenizer": 32000,
        "general_text": {
            "files": ["train.en", "train.de"],
            "languages": ["en", "de"],
        },
        "corpus": {
            "files": ["train.en", "train.de"],
            "held_out": ["val.en", "val.de"],
        },
    },
    "texts": {"teacher": TEACHER, "data": {"files": ["captions.txt"]}},
    "translations": {
        "teacher": TEACHER,
        "data": {"files": ["train.en", "train.de"]},
    },
    "candidates": {
        "teacher": "runs/cross_encoder",
        "data": {"files": ["train.tsv"]},
    },
}
# Fields that a recipe decides, or that are useless in a file.
FIXED = (
    *("kind", "name", "parity", "run_dir", "requested", "recipe", "table"),
    *("steps", "use_sample_weight", "least_updates"),
)


def _lines(options):
    """A recipe as the lines of a commented TOML file."""
    recipe = _recipe(options.recipe)
    named = {"recipe": recipe.name}
    if options.model != "bert":
        named["model"] = options.model
    about = kind_of(named)
    if options.parity is not None:
        named["parity"] = options.parity
    needed = NEEDED[about]
    if options.model in ("llama3", "qwen3"):
        needed = needed | {"decoder": f"lightpaff_{options.model}_4_layer_en"}
    if about == "task":
        task = get_task(options.task)
        data = {"task": task.name}
        if task.generate is None:
            data["data_dir"] = "glue" if task.tfds is not None else "data"
        needed = needed | {"data": data}
        on_text = [one for one in recipe.stages if one.data == "corpus"]
        if any(stage.objectives for stage in on_text):
            needed |= {"pretrained": "bert_base_en_uncased"}
        if on_text:
            needed |= {"corpus": {"files": ["wiki.txt"]}}
    config = config_of(recipe.name, {**needed, **named})
    yield f"# {recipe.name}: {recipe.title}."
    yield f"# {recipe.paper}"
    yield "# Lines with a # are defaults: remove the # to change one. Paths are"
    yield "# relative to the directory that kdkit runs in."
    yield ""
    for name, value in {**named, **needed}.items():
        if not isinstance(value, dict) or name not in type(config).model_fields:
            yield f"{name} = {_value(value)}"
    documented = set()
    yield from _table(config, "", needed, documented)
    for name, step in config.steps.items():
        for stage in step.stages:
            path = f"steps.{name}.stages.{stage.name}"
            yield ""
            yield f"[{path}]"
            yield from _table(stage, path, {}, documented)


def _table(config, path, needed, documented):
    """The lines of a config's fields, then the tables of those in it."""
    texts, inner = _texts(type(config)), {}
    for name, value in _fields(config).items():
        if isinstance(value, dict) and name != "layer_map":
            inner |= {name: value} if value else {}
        elif isinstance(value, Strict) or dataclasses.is_dataclass(value):
            inner[name] = value
        elif value and isinstance(value, tuple) and hasattr(value[0], "name"):
            inner |= {f"{name}.{one.name}": one for one in value}
        elif name not in FIXED and (path or name not in needed):
            if (type(config), name) not in documented:
                yield from _comment(texts.get(name, ""))
            documented.add((type(config), name))
            yield _line(name, needed.get(name, value), name in needed)
    for name, one in inner.items():
        at = f"{path}.{name}".strip(".")
        yield ""
        yield f"# [{at}]" if name == "student" else f"[{at}]"
        yield from _table(one, at, needed.get(name, {}), documented)


def _line(name, value, is_needed):
    """A field's line, with a # before a default."""
    if value is None:
        return f"# {name} (not set)"
    return f"{'' if is_needed else '# '}{name} = {_value(value)}"


def _fields(config):
    """The fields of a config, a stage or a loss that a file may change."""
    if isinstance(config, dict):
        return {one: config[one] for one in config if one not in FIXED}
    found = dict(config) if isinstance(config, Strict) else vars(config)
    found = {one: found[one] for one in found if one not in FIXED}
    if "loss" in found:
        found["loss"] = _fields(found["loss"].to_setting())
    return found


def _texts(kind) -> dict[str, str]:
    """The descriptions of a class's fields, by name."""
    if issubclass(kind, Strict):
        return descriptions(kind)
    text = (inspect.getdoc(kind) or "").partition("Args:\n")[2]
    text = re.split(r"\n\n", text)[0]
    found = {}
    for entry in re.split(r"\n(?=    \w)", f"\n{text}"):
        names, _, words = " ".join(entry.split()).partition(": ")
        # The first sentence is the type.
        words = re.split(r"(?<=[^.])\. ", words, maxsplit=1)[-1]
        words = re.sub(r" ?Defaults to [^.]*(\.\d+)?[^.]*\.", "", words)
        found |= dict.fromkeys(names.split(", "), words)
    return found


def _comment(text):
    lines = textwrap.wrap(text, WIDTH - 2, break_on_hyphens=False)
    return [f"# {line}" for line in lines]


def _value(value):
    """A value in TOML's syntax."""
    if isinstance(value, dict):
        entries = (f"{name} = {_value(one)}" for name, one in value.items())
        return f"{{{', '.join(entries)}}}"
    return json.dumps(value)


def demo(words):
    """Runs every step from teacher to report, without data or network.

    The demo generates English sentences about films, whose sentiment depends on
    negation and contrast. It trains a transformer teacher, distils it with
    TinyBERT and a control, exports LiteRT files of both, measures their
    latency, and writes a report. It takes minutes.

    example:
      kdkit demo --run-dir runs/demo
    """
    place = {"default": "runs/demo", "help": "Where the run is or continues."}
    options = _options("demo", demo, words, {"run_dir": place})
    load_tensorflow()
    from kdkit.cli.main import DONE, main
    from kdkit.cli.next_steps import no_next_steps
    from kdkit.runs.run import run

    folder = options.run_dir
    run(config_of("tinybert", DEMO, smoke=True), folder)
    teacher = ["--arm", "teacher", "--precision", "fp32", "int8"]
    for command in (
        ["export", folder, "--overwrite"],
        ["export", folder, *teacher, "--overwrite"],
        ["benchmark", folder],
        ["report", folder],
    ):
        print(f"\n$ kdkit {' '.join(command)}", flush=True)
        with no_next_steps():
            status = main(command)
        if status != DONE:
            return status
    return DONE


def _options(verb, function, words, options=None, values=None):
    """The options in a verb's words."""
    more = "[options]" if options else ""
    about = function.__doc__
    parser = VerbParser(verb, about, values or {}, {"": options or {}}, more)
    return parser.parse_args(words)
