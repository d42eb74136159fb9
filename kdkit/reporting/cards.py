"""Model cards: the `README.md` next to exported files.

The card is in the form that the Hugging Face Hub and Kaggle show: metadata in
YAML, then Markdown. A line in it marks a card from kdkit; another `README.md`
is never replaced.
"""

import json
import os
import pathlib
import re
from collections.abc import Sequence

import jinja2

from kdkit import export
from kdkit.io.files import write_text
from kdkit.models.places import HUGGING_FACE as HUB
from kdkit.models.places import find
from kdkit.recipes import RECIPES
from kdkit.reporting.card_examples import EXAMPLES
from kdkit.reporting.comparison import (
    comparison_table,
    files_table,
    metric_names,
)
from kdkit.reporting.formatting import (
    NOT_RUN,
    millions,
    portable_path,
)
from kdkit.reporting.notes import provenance, run_notes
from kdkit.reporting.records import RunRecords
from kdkit.reporting.selection import (
    ExportedFile,
    best_evaluation,
    exported_files,
    model_description,
)
from kdkit.reporting.summary import is_smoke, model_title, run_title, verdict
from kdkit.reporting.tables import code_block, plain
from kdkit.runs.steps import RESULT

CARD = "README.md"
MARKER = (
    "<!-- Written by kdkit, which replaces this file. To keep your changes, "
    "remove this line. -->"
)
MAX_BYTES = 1 << 20  # of a README that is searched for a license
UNKNOWN = (
    "Unknown. The teacher's checkpoint names no license: ask its authors "
    "before you publish a model that was trained from it, and pass --license."
)
NO_LICENSE = "unknown"
LICENSE = re.compile(r"^license:[ \t]*[\"']?([\w.+-]+)[\"']?[ \t]*$", re.M)
LICENSE_FILES = ("LICENSE", "LICENSE.txt", "LICENSE.md")
GLUE = (
    "cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli",
)  # fmt: skip
PIPELINES = {  # of the Hub, by the end of the class in `config.json`
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForMultipleChoice": "multiple-choice",
    "LMHeadModel": "text-generation",
}
CHECKPOINTS = ("hf", "sentence_transformers")  # directories with one card each
MODULES = "modules.json"  # of sentence-transformers
DOWNLOAD = "from huggingface_hub import hf_hub_download\n"

# The data of sentence encoders, in words.
EMBEDDING_TITLES = {
    "texts": "texts of",
    "translations": "translations of",
    "candidates": "queries with candidates of",
}


def write_card(
    folder,
    records: RunRecords | None = None,
    arm: str = "student",
    reports: Sequence = (),
    license: str | None = None,
) -> pathlib.Path | None:
    """Writes the model card of a folder with exported files."""
    folder = pathlib.Path(folder)
    path = folder / CARD
    if path.is_file() and not is_card(path):
        return None
    earlier = license_in(path) if path.is_file() else None
    text = render_card(folder, records, arm, reports, license, earlier)
    write_text(path, text)
    return path


def is_card(path: pathlib.Path) -> bool:
    """Whether a file is a model card from kdkit."""
    return MARKER in _start(path)


def render_card(
    folder, records, arm, reports=(), license=None, earlier=None, address=None
) -> str:
    """A model card, see `write_card`; `folder` may be an exported file."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
        autoescape=False,  # Markdown, which the filter `plain` escapes
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plain"] = plain
    environment.filters["yaml"] = lambda value: json.dumps(
        value, ensure_ascii=False
    )
    files = _files(folder, records, arm, reports)
    named, source = license, None
    if named is None and records is not None:
        named, source = teacher_license(records)
    if license is None and earlier not in (None, named):
        named, source = earlier, None  # chosen with --license
    metrics = metric_names(records) if records else []
    names = [pathlib.PurePath(file.file).name for file in files]
    values = {
        "marker": MARKER,
        "about": _metadata(folder, records, arm, files, named, metrics),
        "title": f"{folder.resolve().name}",
        "verdict": "",
        "comparison": "",
        "notes": (),
        "files": files and files_table(files, names, metrics).markdown(),
        "labels": find(records.run_dir if records else folder).class_names,
        "examples": _examples(folder, files, address),
        "training": (),
        "commands": "",
        "license": _license_text(named, source),
        "limits": _limits(records, arm, files),
    }
    if records is not None:
        model = model_description(records, arm)
        made = provenance([records])
        name = model.name or model_title(records) or records.called(arm)
        values |= {
            "title": f"{name}: {run_title(records)}",
            "verdict": verdict(records),
            "comparison": comparison_table([records]).markdown(),
            "notes": run_notes(records),
            "training": [*_training(records), *made.facts],
            "commands": made.commands and code_block(made.commands),
        }
    text = environment.get_template("card.md.jinja").render(**values)
    return re.sub(r"\n{3,}", "\n\n", text).rstrip("\n") + "\n"


def license_in(path: pathlib.Path) -> str | None:
    """Returns the license in the metadata of a model card, or `None`."""
    start = _start(path)
    if not start.startswith("---"):
        return None
    found = LICENSE.search(start[3:].partition("\n---")[0])
    name = found.group(1) if found else NO_LICENSE
    return None if name == NO_LICENSE else name


def teacher_license(records: RunRecords) -> tuple[str | None, str | None]:
    """Returns the license of the checkpoint that a run's teacher comes from."""
    for source in _sources(records):
        for place in (source, records.run_dir / source):
            card = pathlib.Path(place, CARD)
            if _is_file(card) and license_in(card) and not is_card(card):
                return license_in(card), portable_path(source)
            for name in LICENSE_FILES:
                if _is_file(pathlib.Path(place, name)):
                    return "other", f"{portable_path(source)}/{name}"
    return None, None


def _sources(records):
    """Yields the checkpoints that a run's models come from, as given."""
    for run in (records, records.teacher_run):
        if run is None:
            continue
        config, sources = run.config, [*run.config.teachers[:1]]
        sources.append(getattr(config, "pretrained", None))
        if not run.is_distillation:
            sources.append(getattr(config.student, "checkpoint", None))
        for source in filter(None, sources):
            if not source.startswith(RESULT):
                yield source


def _is_file(path):
    return os.path.isfile(path)  # also for names that are too long


def _start(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(MAX_BYTES)


def _license_text(named, source):
    if named is None:
        return UNKNOWN
    if named == "other" and source:
        return (
            f"The teacher's checkpoint has its own license in {source}. Read "
            "it before you publish this model."
        )
    if source:
        return (
            f"{named}, the license of the checkpoint {source} that the teacher "
            "comes from. The training data may have other terms."
        )
    return f"{named}. The training data may have other terms."


def _files(folder, records, arm, reports):
    """Returns the exported files that a card in the folder is about."""
    place = os.path.abspath(folder)
    if records is None:
        files = [ExportedFile.of(report) for report in reports]
        known = {os.path.abspath(file.file) for file in files}
        here = [folder] if folder.is_file() else sorted(folder.iterdir())
        for path in here:
            exporter = export.exporter_of(path)
            if exporter is not None and os.path.abspath(path) not in known:
                size = path.stat().st_size if path.is_file() else None
                files.append(
                    ExportedFile(
                        str(path),
                        exporter.name,
                        exporter.title,
                        size_bytes=size,
                    )
                )
        return files
    files = exported_files(records, arm)
    return [
        file
        for file in files
        if place
        in (
            path := os.path.abspath(records.run_dir / file.file),
            os.path.dirname(path),
        )
        and (file.format not in CHECKPOINTS or path == place)
        and os.path.exists(path)
    ]


def _examples(folder, files, address):
    """Returns one example for each format, with the smallest file."""
    found = {}
    for file in files:
        if file.format in EXAMPLES:
            known = found.setdefault(file.format, file)
            if (file.size_bytes or 0) < (known.size_bytes or 0):
                found[file.format] = file
    if not found and (folder / "task.json").is_file():
        found["preset"] = None
    examples = []
    for format, file in found.items():
        kinds, name = [format], folder.name
        if file is not None and format not in CHECKPOINTS:
            name = pathlib.PurePath(file.file).name
            path = folder if folder.is_file() else folder / name
            kinds = filter(None, (export.mediapipe.opened_by(path), format))
        elif format == "hf" and _pipeline(folder) in EXAMPLES:
            kinds = [_pipeline(folder)]
        place, start = repr(name), ""
        if address is not None:
            repository = address.removeprefix(HUB)
            place = repr(address if format == "preset" else repository)
            if folder.is_file():
                place = f"hf_hub_download({repository!r}, {name!r})"
                start = DOWNLOAD
        for title, code in map(EXAMPLES.get, kinds):
            code = code.strip().format(place)
            pipeline = _pipeline(folder) or "text-classification"
            examples.append((title, start + code.replace("PIPELINE", pipeline)))
    return examples


def _pipeline(folder):
    """Returns the Hub's name for what a checkpoint does, or `None`."""
    if (folder / MODULES).is_file():
        return "sentence-similarity"
    start = _start(folder / "config.json") if _has_config(folder) else ""
    return next((PIPELINES[end] for end in PIPELINES if end in start), None)


def _has_config(folder):
    return (folder / "config.json").is_file()


def _metadata(folder, records, arm, files, license, metrics):
    """Returns the entries of the metadata, in the Hub's form."""
    formats = {file.format for file in files}
    about = {"license": license or NO_LICENSE}
    pipeline = _pipeline(folder)
    if pipeline is not None:
        is_embedder = (folder / MODULES).is_file()
        library = "sentence-transformers" if is_embedder else "transformers"
        about |= {"library_name": library, "pipeline_tag": pipeline}
    elif _has_config(folder):
        about["library_name"] = "keras-hub"
    tags = ["kdkit", "keras", *sorted(formats - {*CHECKPOINTS})]
    if any(file.dimensions for file in files):
        tags.append("sentence-similarity")
    if records is not None:
        if not records.trains_a_teacher and arm == "student":
            tags.append("knowledge-distillation")
        names = [
            source.removeprefix(HUB)
            for source in _sources(records)
            if source.startswith(HUB)
        ]
        if names:
            about["base_model"] = names[-1]
        if records.task in GLUE and records.embedding_data is None:
            about["datasets"] = ["nyu-mll/glue"]
        if metrics:
            about["metrics"] = metrics
    return {**about, "tags": tags}


def _training(records):
    """Returns how the model was trained, as pairs of label and text."""
    facts = []
    recipe = RECIPES.get(records.config.recipe)
    if recipe is not None and not records.trains_a_teacher:
        facts.append(("Recipe", f"{recipe.name}: {recipe.title}"))
        facts.append(("Paper", recipe.paper))
    if not records.trains_a_teacher:
        teacher = model_description(records, "teacher")
        text = [teacher.name or ""]
        if teacher.parameters:
            text.append(f"{millions(teacher.parameters)} M parameters")
        sources = [portable_path(source) for source in _sources(records)]
        if sources:
            text.append(f"from {sources[-1]}")
        facts.append(("Teacher", ", ".join(filter(None, text)) or NOT_RUN))
    data = getattr(records.config, "data", None)
    names = ", ".join(
        pathlib.PurePath(name).name for name in getattr(data, "files", ())
    )
    if records.embedding_data is not None:  # a task only measures these
        text = EMBEDDING_TITLES[records.embedding_data]
        text = f"{text} {names}" if names else "generated sentences"
        facts.append(("Training data", text))
    elif records.task:
        rows, text = data.max_train_rows, "the training rows"
        if rows:
            text = f"the first {rows} training rows"
        facts.append(("Training data", f"{text} of {records.task}"))
    return facts


def _limits(records, arm, files):
    limits = []
    if records is not None:
        if is_smoke(records):
            limits.append("A smoke run: the model is useless.")
        evaluation = best_evaluation(records, arm)
        if evaluation is not None and evaluation.examples:
            limits.append(
                f"The metrics are from {evaluation.examples} examples of "
                f"{evaluation.split}, on which the best epoch was also chosen. "
                "Other texts, domains and languages were not measured."
            )
        if not records.trains_a_teacher:
            limits.append(
                "The student learned from its teacher, including the teacher's "
                "mistakes and biases. kdkit did not examine these."
            )
    lengths = {file.sequence_length for file in files} - {None}
    if lengths:
        known = ", ".join(map(str, sorted(lengths)))
        limits.append(f"Longer texts are cut off after {known} tokens.")
    if not limits:
        limits.append(
            "kdkit knows only the files: how the model was trained, and on "
            "what, is not recorded."
        )
    return limits
