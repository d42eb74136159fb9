"""Model cards: the `README.md` next to exported files.

The card is in the form that the Hugging Face Hub and Kaggle show: metadata in
YAML, then Markdown. A line in it marks a card from kdkit; another `README.md`
is never replaced.
"""

import dataclasses
import itertools
import os
import pathlib
import re
from collections.abc import Sequence

import jinja2

from kdkit import export
from kdkit.exported import ExportReport
from kdkit.io.files import write_text
from kdkit.models.places import HUGGING_FACE as HUB
from kdkit.models.places import MODULES, find
from kdkit.reporting.formatting import millions, portable_path
from kdkit.reporting.records import RunRecords
from kdkit.reporting.results import (
    comparison_table,
    exported_files,
    metric_names,
    model_of,
)
from kdkit.reporting.tables import plain
from kdkit.reporting.words import (
    provenance,
    run_notes,
    run_title,
    verdict,
)
from kdkit.runs.events import LANGUAGE_MODELS
from kdkit.runs.steps import RESULT

CARD = "README.md"
MARKER = (
    "<!-- Written by kdkit, which replaces this file. To keep your changes, "
    "remove this line. -->"
)
NO_LICENSE = "unknown"
_LICENSE = re.compile(r"^license:[ \t]*[\"']?([\w.+-]+)[\"']?[ \t]*$", re.M)
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


def write_card(
    folder,
    run: RunRecords | None = None,
    arm: str = "student",
    reports: Sequence[ExportReport] = (),
    license: str | None = None,
) -> pathlib.Path | None:
    """Writes the model card of a folder with exported files."""
    path = pathlib.Path(folder) / CARD
    if path.is_file() and not is_card(path):
        return None
    write_text(path, render_card(folder, run, arm, reports, license))
    return path


def is_card(path: pathlib.Path) -> bool:
    """Whether a file is a model card from kdkit."""
    return MARKER in path.read_text("utf-8", errors="replace")


def license_in(path: pathlib.Path) -> str | None:
    """Returns the license in the metadata of a model card, or `None`."""
    _, start, rest = path.read_text("utf-8", "replace").partition("---\n")
    found = _LICENSE.search(rest.partition("\n---")[0]) if start else None
    name = found.group(1) if found else NO_LICENSE
    return None if name == NO_LICENSE else name


def render_card(
    folder, run=None, arm="student", reports=(), license=None, address=None
) -> str:
    """A model card, see `write_card`; `folder` may be an exported file.

    `address` is the place on a Hub from which its code loads the model.
    """
    folder = pathlib.Path(folder)
    if arm in LANGUAGE_MODELS:  # in records they are a student, or a teacher
        arm = run.trained_arm if run is not None else arm
    files = _files(folder, run, arm, reports)
    card = (folder.parent if folder.is_file() else folder) / CARD
    values = {"title": folder.resolve().name, "run": run, "trained": run}
    if run is not None:
        about = run_title(run)
        if arm == "control":
            about = f"control of {about}"
        if arm == "teacher" and not run.trains_a_teacher:
            about, values["trained"] = f"teacher of {about}", run.teacher_run
        commands, facts = provenance([*filter(None, [values["trained"]])])
        values |= {
            "title": f"{model_of(run, arm).name or arm}: {about}",
            "verdict": verdict(run),
            "table": comparison_table([run]).markdown(),
            "notes": run_notes(run),
            "training": facts,
            "commands": "\n".join(commands),
        }
    named, source = _license(run, arm)
    earlier = _license_of_earlier(card, values["title"], files)
    if license or earlier not in (None, named):  # chosen with --license
        named, source = license or earlier, None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
        autoescape=False,  # Markdown, which the filter `plain` escapes
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"plain": plain, "millions": millions}
    return environment.get_template("card.md.jinja").render(
        marker=MARKER,
        arm=arm,
        metadata=_metadata(folder, run, arm, files, named),
        files=files,
        labels=find(run.run_dir if run else folder).class_names,
        code=_code(folder, files, address),
        pipeline=_pipeline(folder) or "text-classification",
        license=named,
        source=source,
        **values,
    )


def _license_of_earlier(card, title, files):
    """The license in an earlier card, if it is about the same model."""
    if not (card.is_file() and is_card(card)):
        return None
    text = card.read_text("utf-8", errors="replace")
    names = [pathlib.Path(file.file).name for file in files]
    is_same = f"\n# {plain(title)}\n" in text and (
        not names or any(f"\n| {plain(name)} |" in text for name in names)
    )
    return license_in(card) if is_same else None


def _license(run, arm):
    """The license of a model's checkpoints, if those that name one agree."""
    found = {}
    for source in _sources(run, arm) if run else ():
        for license, place in itertools.islice(_licenses(source, run), 1):
            key = license if license != "other" else place
            found.setdefault(key, (license, place))
    return [*found.values()][0] if len(found) == 1 else (None, None)


def _licenses(source, run):
    """Yields the licenses that a checkpoint's files name, each with a file."""
    for place in (source, run.run_dir / source):
        card = pathlib.Path(place, CARD)
        # Not `is_file`, which fails where names are too long.
        if os.path.isfile(card) and license_in(card) and not is_card(card):
            yield license_in(card), portable_path(source)
        for name in LICENSE_FILES:
            if os.path.isfile(pathlib.Path(place, name)):
                yield "other", f"{portable_path(source)}/{name}"


def _sources(run, arm):
    """The checkpoints that a model comes from, as given, its own first."""
    found = []
    for one in filter(None, (run, run.teacher_run)):
        config = one.config
        if one is not run or arm != "teacher" or run.trains_a_teacher:
            names = ("checkpoint", "copy_from")
            found += [getattr(config.student, name, None) for name in names]
            found.append(getattr(config, "pretrained", None))
        found += config.teachers
    found = [one for one in found if one not in (None, "teacher", "pretrained")]
    return [one for one in found if not one.startswith(RESULT)]


def _files(folder, run, arm, reports):
    """The reports on the exported files that a card in the folder is about."""
    place = os.path.abspath(folder)
    if run is None:
        return list(reports)
    found = []
    for file, _ in exported_files(run, arm):
        path = os.path.abspath(run.run_dir / file.file)
        is_here = place == path or (
            place == os.path.dirname(path) and file.format not in CHECKPOINTS
        )
        if is_here and os.path.exists(path):
            found.append(dataclasses.replace(file, file=path))
    return found


def _code(folder, files, address):
    """Pairs of a kind of code and what it opens: of each format, one file."""
    found = {}
    for file in sorted(files, key=lambda one: one.size_bytes, reverse=True):
        path = pathlib.Path(file.file)
        if file.format == "litert":
            found[export.mediapipe.opened_by(path)] = path
        found[_pipeline(folder) if file.format == "hf" else file.format] = path
    if not found and (folder / "task.json").is_file():
        found["preset"] = folder
    repository = address and address.removeprefix(HUB)
    code = []
    for kind, path in found.items():
        place = repr(path.name)
        if repository and path.is_dir():
            place = repr(address if kind == "preset" else repository)
        elif repository:
            place = f"hf_hub_download({repository!r}, {path.name!r})"
        code.append((kind, place))
    return [one for one in code if one[0]]


def _pipeline(folder):
    """The Hub's name for what a checkpoint does, `None` for others."""
    if (folder / MODULES).is_file():
        return "sentence-similarity"
    config = folder / "config.json"
    text = config.read_text("utf-8") if config.is_file() else ""
    return next((PIPELINES[end] for end in PIPELINES if end in text), None)


def _metadata(folder, run, arm, files, license):
    """The metadata of a card, in the Hub's form."""
    pipeline, about = _pipeline(folder), {}
    if pipeline is not None:
        is_embedder = pipeline == "sentence-similarity"
        library = "sentence-transformers" if is_embedder else "transformers"
        about = {"library_name": library, "pipeline_tag": pipeline}
    elif (folder / "config.json").is_file():
        about["library_name"] = "keras-hub"
    formats = {file.format for file in files} - {*CHECKPOINTS}
    tags = ["kdkit", "keras", *sorted(formats)]
    if any(file.dimensions for file in files):
        tags.append("sentence-similarity")
    if run is not None:
        if not run.trains_a_teacher and arm == "student":
            tags.append("knowledge-distillation")
        names = [one for one in _sources(run, arm) if one.startswith(HUB)]
        if names:
            about["base_model"] = names[0].removeprefix(HUB)
        if run.task in GLUE and run.config.kind == "task":
            about["datasets"] = ["nyu-mll/glue"]
        about["metrics"] = metric_names(run)
    return {"license": license or NO_LICENSE, **about, "tags": tags}
