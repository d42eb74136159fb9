"""Writes a recipe as a TOML file with comments, which kdkit distill runs.

The first lines are the recipe's required options: replace their values. The
other lines are comments with the defaults: remove a # to change one. Paths are
relative to the directory that kdkit runs in, as on the command line. Options on
the command line, and field.path=value, override the file. The table
[set.corpus] has the fields of the setting corpus, because [corpus] would be the
option.

example:
  kdkit init tinybert --task sst2 --output my.toml
  kdkit init lightpaff --model gpt2 --output my.toml
"""

import dataclasses
import inspect
import json
import pathlib
import re
import textwrap

from kdkit.cli import distill
from kdkit.cli.embedders import kind_of_data
from kdkit.cli.groups import DistillationOptions, StageOptions
from kdkit.cli.help_pages import LIKE_GPT2
from kdkit.cli.options import get_recipe
from kdkit.cli.parser import Model, changed, declared_options, names_in, option
from kdkit.cli.text_steps import text_pipeline
from kdkit.distillation.objective import Objective
from kdkit.errors import UsageError
from kdkit.io.files import write_text
from kdkit.recipes import Stage, TokenVectors
from kdkit.recipes.stages import OptimizerSettings
from kdkit.runs.settings import FREE, TeacherSettings
from kdkit.settings import to_dict
from kdkit.tasks import get_task
from kdkit.training.candidate_settings import CandidatesSettings
from kdkit.training.data_settings import (
    CorpusSettings,
    DataSettings,
    counting_padding,
)
from kdkit.training.embedding_settings import TextsSettings
from kdkit.training.translation_settings import (
    VOCABULARY_SIZE,
    TranslationsSettings,
)

WIDTH = 79
# The required options of a recipe on text, by family.
NEEDED_ON_TEXT = {
    "gpt2": {
        "decoder": "gpt2_medium_en",
        "vocabulary_size": 8000,
        "corpus": ["wiki.txt"],
        "task_text": ["ptb.train.txt"],
        "task_held_out": ["ptb.valid.txt"],
    },
    "mass": {
        "decoder": "mass_6_layer",
        "vocabulary_size": 32000,
        "corpus": ["train.en", "train.de"],
        "languages": ["en", "de"],
        "pairs": ["train.en", "train.de"],
        "task_held_out": ["val.en", "val.de"],
    },
}
NEEDED_ON_TEXT["llama3"] = {
    **NEEDED_ON_TEXT["gpt2"],
    "decoder": "lightpaff_llama3_4_layer_en",
}
NEEDED_ON_TEXT["qwen3"] = {
    **NEEDED_ON_TEXT["gpt2"],
    "decoder": "lightpaff_qwen3_4_layer_en",
}
# The help page of a sentence encoder with layers, its required options and its
# data, by kind of data.
EMBEDDERS = {
    TextsSettings.stage_data: (
        "sentence_embedding",
        {"texts": ["captions.txt"], "teacher": "all-MiniLM-L6-v2"},
        TextsSettings(),
    ),
    TranslationsSettings.stage_data: (
        "multilingual",
        {"parallel": ["train.en", "train.de"], "teacher": "all-MiniLM-L6-v2"},
        TranslationsSettings(vocabulary_size=VOCABULARY_SIZE),
    ),
    CandidatesSettings.stage_data: (
        "reranker_to_embedder",
        {"candidates": ["train.tsv"], "teacher": "runs/cross_encoder"},
        CandidatesSettings(),
    ),
}
# Options that tables have fields for, or that are useless in a file.
LEFT_OUT = ("recipe", "config", "smoke", "stages", "model")
# Fields that would turn a stage into another one.
FIXED = (
    "name",
    "data",
    "objectives",
    "optimizer",
    "task",
    "data_dir",
    "files",
    "table",
)
SAVING = {name: getattr(TeacherSettings, name) for name in FREE}
OF_OBJECTIVES = ("weight", "layer_map", "projection")


@dataclasses.dataclass
class Options:
    """recipe"""

    recipe: str | None = changed(DistillationOptions, "recipe")
    task: str = option(
        "the task, which decides the epochs. Defaults to sst2.", "sst2"
    )
    model: Model = option(
        "family: bert (default), gpt2, llama3, qwen3 or mass",
        "bert",
        metavar="FAMILY",
    )
    parity: str | None = option("the variant of the recipe")
    output: str | None = option(
        "the file to write. Defaults to printing the file. Existing files "
        "are never replaced.",
        metavar="FILE.toml",
    )


def run(options):
    text = toml(options)
    if options.output is None:
        print(text, end="")
        return
    path = pathlib.Path(options.output)
    if path.exists():
        raise UsageError(f"{path} already exists.")
    write_text(path, text)
    print(
        f"Written: {path}. Replace the values in its first lines, then run: "
        f"kdkit distill {path}"
    )


def toml(options) -> str:
    """Returns a recipe as a commented TOML file."""
    recipe = get_recipe(options.recipe)
    needed = {"recipe": recipe.name}
    page = LIKE_GPT2.get(options.model, options.model)
    if recipe.trains_embedder:
        page, *_ = EMBEDDERS[kind_of_data(recipe)]
        if isinstance(recipe.student, TokenVectors):
            page = "static_embedding"
        groups = list(_embedder_groups(recipe, options, needed))
    elif options.model == "bert":
        groups = list(_task_groups(recipe, options, needed))
    else:
        groups = list(_text_groups(recipe, options, needed))
    needed["run_dir"] = f"runs/{recipe.name}"
    student = recipe.for_families.get(options.model, recipe).student
    declared = declared_options(distill.Options)
    lines = [
        f"# {recipe.name}: {recipe.title}.",
        f"# {recipe.paper}",
        "# Lines with a # are defaults: remove the # to change one. Paths are",
        "# relative to the directory that kdkit runs in.",
        "",
    ]
    for name, value in needed.items():
        lines += _comment(declared[name].help)
        lines.append(f"{name} = {_value(value)}")
    left_out = {*LEFT_OUT, *needed, *names_in(StageOptions)}
    for name, one in declared.items():
        if name in left_out or page not in one.pages or name == "set":
            continue
        lines += ["", *_comment(one.help)]
        lines.append(f"# {name} = {_example(one, student)}")
    documented = set()
    for path, kind, values in [
        (None, TeacherSettings, SAVING),
        *groups,
    ]:
        lines += ["", f"[{path}]"] if path else [""]
        for name, value in values.items():
            if (kind, name) not in documented:
                lines += _comment(_documentation(kind).get(name, ""))
            documented.add((kind, name))
            text = "(not set)" if value is None else f"= {_value(value)}"
            lines.append(f"# {name} {text}")
    return "\n".join(lines) + "\n"


def _task_groups(recipe, options, needed):
    """The tables of a run on a task. Adds its required options to a dict."""
    task = get_task(options.task)
    stages = recipe.stages_for(task, options.parity)
    needed["task"] = options.task
    if task.generate is None and task.table is None:
        needed["data_dir"] = "glue" if task.tfds is not None else "data"
    needed["teacher"] = "runs/teacher"
    on_corpus = any(stage.data == "corpus" for stage in stages)
    if on_corpus:
        needed["corpus"] = ["wiki.txt"]
    if options.parity is not None:
        needed["parity"] = options.parity
    values = to_dict(DataSettings.of(task))
    if counting_padding(stages):
        values["num_buckets"] = None
    yield "data", DataSettings, _changeable(values)
    if on_corpus:
        masked = dataclasses.replace(CorpusSettings(), files=("wiki.txt",))
        values = _changeable(to_dict(masked))
        for name in ("column", "held_out", "masking", "detokenizer"):
            values.pop(name)
        values.pop("one_document")
        yield "set.corpus", CorpusSettings, values
    for stage in stages:
        yield from _stage_groups(f"stages.{stage.name}", stage)


def _embedder_groups(recipe, options, needed):
    """The tables of a sentence encoder. Adds required options to a dict."""
    _, example, settings = EMBEDDERS[kind_of_data(recipe)]
    needed |= example
    if options.parity is not None:
        needed["parity"] = options.parity
    yield "data", type(settings), _changeable(to_dict(settings))
    if isinstance(recipe.student, TokenVectors):
        yield "student.static", TokenVectors, to_dict(recipe.student)
    for stage in recipe.variant(options.parity).stages:
        yield from _stage_groups(f"stages.{stage.name}", stage)


def _text_groups(recipe, options, needed):
    """The tables of four steps on text. Adds required options to a dict."""
    needed["model"] = options.model
    needed.update(NEEDED_ON_TEXT.get(options.model, {}))
    pipeline = text_pipeline(
        recipe, distill.Options(**needed, run_dir="runs/new")
    )
    for step in pipeline.steps:
        name, settings = step.name, step.settings
        if name == "student":
            corpus = _changeable(to_dict(settings.corpus))
            length = {"sequence_length": corpus["sequence_length"]}
            yield "set.corpus", type(settings.corpus), length
        for stage in settings.stages:
            path = f"set.{name}.stages.{stage.name}"
            yield from _stage_groups(path, stage, settings.reads_sentences)


def _stage_groups(path, stage, reads_sentences=False):
    """The tables of a stage: its fields, its optimiser, its objectives."""
    values = to_dict(stage)
    own = _changeable(values)
    del own["batch_size" if reads_sentences else "batch_tokens"]
    yield path, Stage, own
    yield f"{path}.optimizer", OptimizerSettings, values["optimizer"]
    for loss_of, objective in zip(
        stage.objectives, values["objectives"], strict=True
    ):
        place = f"{path}.objectives.{objective['name']}"
        shown = {
            name: objective[name]
            for name in OF_OBJECTIVES
            if objective[name] is not None
        }
        yield place, Objective, shown
        loss = {
            name: value
            for name, value in objective["loss"].items()
            if name not in ("name", "parity")
        }
        if loss:
            yield f"{place}.loss", type(loss_of.loss), loss


def _changeable(values):
    return {name: value for name, value in values.items() if name not in FIXED}


def _documentation(kind) -> dict[str, str]:
    """The descriptions of arguments in a class's docstring, by name."""
    text = (inspect.getdoc(kind) or "").partition("Args:\n")[2]
    text = re.split(r"\n\n", text)[0]
    found = {}
    for entry in re.split(r"\n(?=    \w)", f"\n{text}"):
        names, _, words = " ".join(entry.split()).partition(": ")
        # The first sentence is the type.
        words = re.split(r"(?<=[^.])\. ", words, maxsplit=1)[-1]
        words = re.sub(r" ?Defaults to [^.]*(\.\d+)?[^.]*\.", "", words)
        for name in names.split(", "):
            found[name] = words
    return found


def _comment(text):
    return [
        f"# {line}"
        for line in textwrap.wrap(text, WIDTH - 2, break_on_hyphens=False)
    ]


def _example(declared, student):
    """A TOML line's value for an option: its default, or an example."""
    default = getattr(distill.Options, declared.name, None)
    if default is not None:
        return _value(default)
    if declared.name == "student" and isinstance(student, str):
        return _value(student)
    value = declared.usage.partition(" ")[2].removesuffix(" ...")
    is_text = getattr(declared.kind, "__origin__", declared.kind) is str
    text = _value(value) if is_text else value
    return f"[{text}]" if declared.is_list else text


def _value(value):
    """A value in TOML's syntax."""
    if isinstance(value, dict):
        entries = (f"{json.dumps(k)} = {_value(v)}" for k, v in value.items())
        return f"{{{', '.join(entries)}}}"
    return json.dumps(value)
