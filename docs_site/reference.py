"""The reference: pages about Python's names, the verbs and the settings.

They are made when the site is built, from the packages' `__init__.py`, from the
parsers of the verbs and from the dataclasses of settings. They are not
committed.
"""

import ast
import dataclasses
import functools
import html
import inspect
import pathlib
import re
import textwrap
import typing
from collections.abc import Iterator

# The sections of docstrings that are shown as text, not as a list of griffe's.
TITLES = (
    "Call arguments:",
    "Returns of a call:",
    "Returns:",
    "Yields:",
    "Example:",
    "References:",
)
NAMES = re.compile(r"(\*{0,2}\w+(?:,\s+\*{0,2}\w+)+): ")
DEEPER = "    options:\n      heading_level: 3"
ROOT = pathlib.Path(__file__).parent.parent
# From package to the names that a page shows first. The others follow.
PACKAGES = {
    "kdkit": ("distill", "Distiller", "Objective", "layer_map"),
    "kdkit.losses": (
        "SoftCrossEntropy",
        "LogitKLDivergence",
        "LogitMSE",
        "SoftBinaryCrossEntropy",
        "HiddenStateMSE",
        "HiddenStateCosine",
        "EmbeddingMSE",
        "PatienceMSE",
        "AttentionMSE",
        "RelationKLDivergence",
        "SimilarityKLDivergence",
        "Matryoshka",
        "InBatchContrastive",
        "MarginMSE",
        "SmoothedCrossEntropy",
        "DistillationLoss",
        "register_loss",
        "get_loss",
    ),
    "kdkit.taps": ("tapped", "TAPS", "SEQ2SEQ_TAPS", "TappedModel"),
    "kdkit.models": (
        "student",
        "initialize_from_teacher",
        "load_encoder",
        "load_classifier",
        "load_tokenizer",
        "load_language_model",
        "load_masked_lm",
        "save_preset",
        "PRESETS",
        "choose_blocks",
        "set_word_vectors",
        "Family",
        "BlockAdapter",
        "register_family",
    ),
    "kdkit.export": (
        "to_litert",
        "to_onnx",
        "to_saved_model",
        "export_model",
        "open_file",
        "measure_latency",
        "measure_latencies",
        "ExportReport",
        "LatencyReport",
        "Exporter",
        "BatchFile",
        "register_exporter",
    ),
    "kdkit.quantization": ("FakeQuantization", "read_quantization"),
    "kdkit.recipes": ("RECIPES", "Recipe", "Stage", "register_recipe"),
    "kdkit.tasks": (
        "from_table",
        "from_toml",
        "TASKS",
        "Task",
        "register_task",
        "get_task",
    ),
    "kdkit.data": (
        "TableLayout",
        "read_table",
        "encode",
        "EncodedExamples",
        "BatchStream",
        "Buckets",
        "FullBatches",
        "TokenBatches",
        "SequenceDataset",
    ),
    "kdkit.generation": ("generate", "TextWriter"),
    "kdkit.reporting": ("read_run", "read_records", "write_report"),
    "kdkit.runs": ("Pipeline",),
    "kdkit.training": ("distill", "train_teacher", "pretrain", "fill_cache"),
    "kdkit.teacher_cache": ("TeacherCache", "OutputsOfTeachers"),
    "kdkit.augmentation": ("Augmenter", "Augmentation"),
    "kdkit.doctor": ("Finding", "Findings"),
    "kdkit.distillation": (),
}


def pages() -> dict[str, str]:
    """Returns the text of each page of the reference, by path in `docs/`."""
    found = {f"reference/{name}.md": page for name, page in _api_pages()}
    found |= {f"reference/kdkit_{name}.md": page for name, page in _verbs()}
    found["reference/settings.md"] = _settings_page()
    found["reference/index.md"] = _index()
    return found


def nav() -> list:
    """Returns the entries of the reference in the navigation."""
    return [
        "reference/index.md",
        {"Python": [{name: f"reference/{name}.md"} for name in PACKAGES]},
        {
            "Command line": [
                {f"kdkit {name}": f"reference/kdkit_{name}.md"}
                for name in _verb_names()
            ]
        },
        {"Settings": "reference/settings.md"},
    ]


def addresses() -> dict[str, str]:
    """Returns where each public name and verb is described.

    The values are paths in `docs/`, with an anchor for a name.
    """
    found = {name: f"reference/{name}.md" for name in PACKAGES}
    for package, (entries, elsewhere, _) in api().items():
        for name in entries:
            public = f"{package}.{name}"
            found[public] = f"reference/{package}.md#{public}"
        for name, public in elsewhere.items():
            found[f"{package}.{name}"] = found[public]
    for verb in _verb_names():
        found[f"kdkit {verb}"] = f"reference/kdkit_{verb}.md"
    return found


def _index():
    packages = "\n".join(
        f"- [`{name}`]({name}.md): {_first_sentence(_docstring(name))}"
        for name in PACKAGES
    )
    from kdkit.cli.main import VERBS

    verbs = "\n".join(
        f"- [`kdkit {name}`](kdkit_{name}.md): {line}"
        for name, (_, line) in VERBS.items()
    )
    return (
        "# Reference\n\nEvery public name, every verb with its options, and "
        "every setting. These pages are made from the docstrings and the "
        f"parser of this version.\n\n## Python\n\n{packages}\n\n## Command "
        f"line\n\n{verbs}\n\n## Settings\n\nThe [settings of runs]"
        "(settings.md) are the fields of a run's `config.json`. Each can be "
        "changed with `field.path=value` on the command line.\n"
    )


# Python


def late_names(source: str) -> dict[str, str]:
    """Returns the names that a package imports late, and their modules.

    Args:
        source: string. The text of the package's `__init__.py`. The names are
            the dict `_DEFINED_IN`, or the dict in the call of `late_names`.

    Returns:
        Dict from name to module, as `kdkit.late_names.late_names` takes it.
    """
    for node in ast.walk(ast.parse(source)):
        found = None
        if isinstance(node, ast.Assign):
            names = [getattr(one, "id", "") for one in node.targets]
            if names == ["_DEFINED_IN"]:
                found = node.value
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "id", "") == "late_names"
        ):
            found = node.args[1]
        if isinstance(found, ast.Dict):
            return ast.literal_eval(found)
    return {}


def public_names(package: str) -> dict[str, str]:
    """Returns a package's public names, and the modules that define them.

    The package is parsed, not imported.

    Args:
        package: string, such as `"kdkit.losses"`.
    """
    source = _source(package)
    tree = ast.parse(source)
    imported, listed, defined = {}, set(), set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            for one in node.names:
                imported[one.asname or one.name] = node.module
                if one.asname == one.name:
                    listed.add(one.name)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = getattr(node, "targets", None) or [node.target]
            defined.update(getattr(one, "id", "") for one in targets)
            if "__all__" in {getattr(one, "id", "") for one in targets}:
                listed.update(_strings(node.value))
    late = {
        name: module if "." in module else f"{package}.{module}"
        for name, module in late_names(source).items()
    }
    names = listed | set(late)
    return {
        name: late.get(name)
        or imported.get(name)
        or (package if name in defined else "")
        for name in sorted(names)
        if name != "__version__"
        and not (ROOT.joinpath(*package.split("."), name).is_dir())
    }


def _strings(node):
    return [
        one.value
        for one in ast.iter_child_nodes(node)
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]


def _source(package):
    path = ROOT.joinpath(*package.split("."), "__init__.py")
    return path.read_text(encoding="utf-8")


def _docstring(package):
    return ast.get_docstring(ast.parse(_source(package)))


@functools.cache
def api() -> dict[str, tuple[list[str], dict[str, str], list[str]]]:
    """Returns what the page of each package describes.

    A class or function that several packages offer has its entry on the page of
    the first.

    Returns:
        Dict from package to three things: the names with an entry, a dict from
        the other names to the public names of their entries, and the constants
        without an entry.
    """
    found, shown = {}, {}
    for package, first in PACKAGES.items():
        names = public_names(package)
        entries, elsewhere, constants = [], {}, []
        for name in [*first, *(name for name in names if name not in first)]:
            place = f"{names[name]}.{name}"
            if place in shown:
                elsewhere[name] = shown[place]
            elif _is_unpacked(names[name], name):
                constants.append(name)
            else:
                shown[place] = f"{package}.{name}"
                entries.append(name)
        found[package] = entries, elsewhere, constants
    return found


def _api_pages() -> Iterator[tuple[str, str]]:
    for package, (entries, elsewhere, constants) in api().items():
        parts = [f"# {package}", _docstring(package)]
        if elsewhere:
            links = [f"[`{name}`][{at}]" for name, at in elsewhere.items()]
            parts.append(f"Described on other pages: {', '.join(links)}.")
        first = [name for name in entries if name in PACKAGES[package]]
        others = [name for name in entries if name not in first]
        parts += [f"::: {package}.{name}" for name in first or others]
        if first and others:
            parts.append("## More names")
            parts += [f"::: {package}.{name}\n{DEEPER}" for name in others]
        if constants:
            names = ", ".join(f"`{name}`" for name in constants)
            parts.append(f"## Constants\n\n{names}")
        yield package, "\n\n".join(parts) + "\n"


@functools.cache
def _tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def _is_unpacked(module, name):
    """Whether a constant is assigned with others, which griffe does not read.

    Such an assignment is `NOTE, WARNING = "note", "warning"`.
    """
    path = ROOT.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return any(
        isinstance(target, ast.Tuple)
        and name in {getattr(one, "id", "") for one in target.elts}
        for node in _tree(path).body
        if isinstance(node, ast.Assign)
        for target in node.targets
    )


# The command line


def _verb_names():
    from kdkit.cli.main import VERBS

    return list(VERBS)


def _verbs() -> Iterator[tuple[str, str]]:
    from kdkit.cli.main import VERBS, make_verb_parser

    for verb in VERBS:
        yield verb, _verb_page(make_verb_parser(verb))


def _verb_page(parser):
    """A verb's text, examples and options, in groups."""
    text, _, examples = parser.text.partition("example:\n")
    positional = [
        one.label for one in parser.options.values() if one.positional
    ]
    usage = [parser.name, *positional]
    usage += ["[options]"] if len(parser.options) > len(positional) else []
    if "set" in parser.options:
        usage.append("[field.path=value ...]")
    parts = [f"# {parser.name}", _with_flags(text.strip())]
    parts.append(f"```text\n{' '.join(usage)}\n```")
    if examples:
        parts += ["## Examples", _code(examples)]
    groups = {}
    for one in parser.options.values():
        title = "options" if one.group is parser.kind else one.group.__doc__
        groups.setdefault(title.strip(), []).append(one)
    for title, members in groups.items():
        rows = [_option_row(one) for one in members]
        parts.append(f"## {title[:1].upper()}{title[1:]}")
        parts.append("\n".join(["| option | what |", "|---|---|", *rows]))
    if "set" in parser.options:
        parts.append(
            "`field.path=value` sets any of the [settings](settings.md)."
        )
    return "\n\n".join(parts) + "\n"


def _option_row(one):
    from kdkit.cli.parser import PAGES

    words = _with_flags(_cell(one.help))
    if not words.endswith("."):
        words += "."
    if one.required:
        words += " Required."
    if one.choices:
        words += f" One of {', '.join(f'`{each}`' for each in one.choices)}."
    if len(one.pages) < len(PAGES):
        words += f" For {' and '.join(PAGES[page] for page in one.pages)}."
    return f"| {_code_cell(one.usage)} | {words} |"


def _with_flags(text):
    """A text with its flags as code."""
    return re.sub(r"(?<![\w`-])--[a-z][a-z-]*", r"`\g<0>`", text)


def _code(examples):
    lines = [line.removeprefix("  ") for line in examples.rstrip().splitlines()]
    return "```bash\n" + "\n".join(lines) + "\n```"


# Settings


def _settings_page():
    from kdkit.distillation.objective import Objective
    from kdkit.recipes.stages import OptimizerSettings, Stage
    from kdkit.runs import settings as runs
    from kdkit.training import data_settings, model_settings, sentence_settings

    kinds = {
        runs.TeacherSettings: "a run of `kdkit train-teacher`",
        runs.PretrainSettings: "a run of `kdkit pretrain`",
        runs.DistillSettings: "a run of `kdkit distill`",
        runs.Saving: "every run, on checkpoints",
        data_settings.DataSettings: "`data`",
        model_settings.ModelSettings: "`model`, and `student`",
        model_settings.BilstmSettings: "`model.bilstm`",
        model_settings.MassSettings: "`model.mass`",
        Stage: "`stages.NAME`, and `control.NAME`",
        OptimizerSettings: "`stages.NAME.optimizer`",
        Objective: "`stages.NAME.objectives.NAME`",
        data_settings.CorpusSettings: "`corpus`, for running text",
        sentence_settings.SentenceSettings: "`corpus`, for sentences",
        sentence_settings.PairSettings: "`corpus`, for pairs",
        data_settings.UnlabeledSettings: "`unlabeled`",
        data_settings.AugmentedSettings: "`augmented`",
        data_settings.AugmentSettings: "`augmented.augment`",
        data_settings.CacheSettings: "`cache`",
    }
    parts = [
        "# Settings of runs",
        "A run's `config.json` holds its settings, and is enough to run it "
        "again. On the command line `field.path=value`, or `--set "
        "field.path=value`, changes one of them: `data.sequence_length=64`, "
        "`stages.prediction_layer.epochs=3`, "
        "`stages.0.optimizer.clipnorm=1`. Stages and objectives are named, or "
        "counted from 0. `kdkit show RECIPE` prints a recipe's stages, and "
        "`kdkit init RECIPE` writes a file of settings with comments.",
    ]
    for kind, where in kinds.items():
        parts += [
            f"## {kind.__name__}",
            f"The settings of {where}.",
            _settings_table(kind, kinds),
        ]
    return "\n\n".join(parts) + "\n"


def _settings_table(kind, kinds):
    meanings = documented_arguments(inspect.getdoc(kind))
    hints = typing.get_type_hints(kind)
    rows = ["| field | default | what |", "|---|---|---|"]
    for field in dataclasses.fields(kind):
        if field.name == "verb":
            continue
        words = _cell(meanings.get(field.name, ""))
        for nested in _classes_in(hints[field.name]):
            if nested in kinds:
                name = nested.__name__
                link = f"[`{name}`](#{name.lower()})"
                words = re.sub(rf"(?<!\[)`{name}`", link, words)
        rows.append(f"| `{field.name}` | {_default(field)} | {words} |")
    return "\n".join(rows)


def one_entry_each(docstring: str) -> str:
    """Returns a docstring in which each argument has its own entry."""
    parts = re.split(r"(?m)^(\w[\w ]*:)$\n", docstring)
    for place in range(1, len(parts), 2):
        title, text = parts[place], parts[place + 1]
        if "arg" in title.lower():
            text = _separated(text)
        if title in TITLES:
            text = _plain(text, is_list="arg" in title.lower())
            title = f"**{title}**\n"
        parts[place], parts[place + 1] = f"{title}\n", text
    return "".join(parts)


def _separated(section):
    entries = []
    for entry in re.split(r"\n(?=    \S)", section):
        match = NAMES.match(entry.strip())
        if match is None:
            entries.append(entry)
            continue
        text = entry.strip("\n ")[match.end() :]
        end = re.search(r"\n*\Z", entry)[0]
        names = [name.strip() for name in match[1].split(",")]
        entries.append("\n".join(f"    {name}: {text}" for name in names) + end)
    return "\n".join(entries)


def _plain(section, is_list):
    """A section as text, with its entries as a list."""
    match = re.match(r"((?: +.*(?:\n|\Z)|\n)*)(.*)", section, re.S)
    text = textwrap.dedent(match[1])
    if is_list:
        text = re.sub(r"(?m)^(?=\S)", "- ", text)
        text = re.sub(r"(?m)^- (\*{0,2}\w+): ", r"- **`\1`** – ", text)
    return f"{text}\n{match[2]}"


def documented_arguments(docstring: str) -> dict[str, str]:
    """Returns the texts under `Args:`, by name."""
    docstring = one_entry_each(docstring)
    part = re.search(r"^Args:\n((?:    .*\n|\n)+)", docstring + "\n", re.M)
    texts = {}
    if part is None:
        return texts
    for entry in re.split(r"\n(?=    \S)", part[1].rstrip()):
        name, _, words = entry.strip().partition(": ")
        texts[name] = " ".join(words.split())
    return texts


def _classes_in(hint):
    if inspect.isclass(hint):
        yield hint
    for one in typing.get_args(hint):
        yield from _classes_in(one)


def _default(field):
    if field.default is not dataclasses.MISSING:
        value = field.default
    elif field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        return "required"
    if dataclasses.is_dataclass(value):
        return f"`{type(value).__name__}()`"
    text = repr(value)
    if isinstance(value, str):
        text = f'"{value}"'
    return _code_cell(text)


def _code_cell(text):
    """Code in a table, where a bar in backticks would end the cell."""
    return f"<code>{html.escape(text).replace('|', '&#124;')}</code>"


def _cell(text):
    return " ".join(text.split()).replace("|", "\\|").replace("*", "\\*")


def stages_table(name: str, family: str = "bert") -> str:
    """Returns a table of a recipe's stages.

    Args:
        name: string. A key of `kdkit.recipes.RECIPES`.
        family: string. A key of the recipe's `for_families`, or `"bert"`.
    """
    from kdkit.recipes import RECIPES

    recipe = RECIPES[name].for_families.get(family, RECIPES[name])
    rows = ["| stage | reads | epochs | learning rate | learns |"]
    rows.append("|---|---|---:|---:|---|")
    for stages in (*recipe.prerequisites.values(), recipe.stages):
        rows += map(_stage_row, stages)
    return "\n".join(rows)


def _stage_row(stage):
    learns = []
    share = stage.soft_label_weight
    labels = stage.hard_label_weight if share is None else 1 - share
    if labels:
        what = "tokens" if stage.data == "corpus" else "labels"
        learns.append(f"{what} × {labels:g}")
    for one in stage.objectives:
        is_shared = share is not None and one.tap == "logits"
        weight = one.weight * (share if is_shared else 1)
        text = f"`{type(one.loss).__name__}` on `{one.tap}` × {weight:g}"
        if one.layer_map is not None:
            text += f", map `{one.layer_map}`"
        learns.append(text)
    reads = "text" if stage.data == "corpus" else "the task"
    return (
        f"| `{stage.name}` | {reads} | {stage.epochs} | "
        f"{_rate(stage.learning_rate)} | {'<br>'.join(learns)} |"
    )


def _rate(number):
    """A learning rate, such as 5e-5."""
    return re.sub(r"e-0", "e-", f"{number:.0e}")


def _first_sentence(text):
    return re.split(r"(?<=\.)\s", " ".join(text.split()))[0]
