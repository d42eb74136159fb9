"""Uploads a model to the Hugging Face Hub or to Kaggle.

MODEL is a run, a preset directory, a directory from kdkit export --format hf,
or an exported file. TO is hf://USER/MODEL or, for presets,
kaggle://USER/MODEL/keras/VARIATION. A run's student is uploaded as a keras-hub
preset, which loads without kdkit, with a model card from the run; an exported
file with a card and labels.txt, the names of its classes. kdkit lists the files
first, and uploads only with --yes. A new model on the Hub is private without
--public; Kaggle decides for its own.

The token is that of `hf auth login` or of HF_TOKEN; for Kaggle it is in
KAGGLE_API_TOKEN or ~/.kaggle/.

example:
  kdkit push runs/tinybert hf://ada/tinybert-sst2
  kdkit push runs/tinybert hf://ada/tinybert-sst2 --yes --license apache-2.0
  kdkit push runs/tinybert/exports/student-hf hf://ada/tinybert-hf --yes
  kdkit push runs/tinybert/exports/student-int8.tflite hf://ada/tinybert-phone
  kdkit push runs/tinybert kaggle://ada/tinybert/keras/sst2 --yes
"""

import contextlib
import pathlib
import re
import shutil
import tempfile

from kdkit.cli.loading import load_tensorflow
from kdkit.cli.verb_flags import LICENSED, VerbParser, flag, switch
from kdkit.errors import UsageError
from kdkit.io.files import write_text
from kdkit.io.machine import byte_size
from kdkit.models.places import HUGGING_FACE, KAGGLE, find

NAME = r"[A-Za-z0-9][\w.-]{0,95}"
PLACES = {
    HUGGING_FACE: re.compile(rf"hf://({NAME}/{NAME})"),
    KAGGLE: re.compile(rf"kaggle://({NAME}/{NAME}/keras/{NAME})"),
}
LABELS = "labels.txt"
FORMS = "hf://USER/MODEL or kaggle://USER/MODEL/keras/VARIATION"


VALUES = {
    "model": flag(
        "a run, a preset directory, a Hugging Face directory or an exported "
        "file",
        metavar="MODEL",
    ),
    "to": flag(f"where to upload it: {FORMS}", metavar="TO"),
}
FLAGS = {
    "yes": switch("upload the listed files"),
    "dry_run": switch("only list the files"),
    "public": switch("make a new model on the Hugging Face Hub public"),
    "license": LICENSED,
}


def run(words):
    """Lists the files of a model and uploads them with --yes."""
    parser = VerbParser("push", __doc__, VALUES, {"upload": FLAGS})
    options = parser.parse_args(words)
    kind, name = _target(options.to)
    load_tensorflow()
    source = source_of_push(options.model)
    is_preset = source.is_dir() and "registered_name" in find(source).config
    with _staged(source, is_preset, options) as folder:
        _list_files(folder, source, options.to)
        if options.dry_run:
            return
        if not options.yes:
            raise UsageError(
                "Nothing was uploaded. Pass --yes, because others may see "
                f"what is at {options.to}."
            )
        _upload(folder, is_preset, kind, name, options)
    print(f"Uploaded to {options.to}.")


def _target(uri):
    """Returns the kind of a URI and the name in it."""
    for kind, pattern in PLACES.items():
        found = pattern.fullmatch(uri)
        if found:
            return kind, found.group(1)
    raise UsageError(
        f"Unknown place to upload to. Expected {FORMS}. Received: {uri!r}."
    )


def source_of_push(model: str) -> pathlib.Path:
    """Returns the directory, or the exported file, that can be uploaded."""
    from kdkit import export

    path = pathlib.Path(model)
    if path.is_file() and export.exporter_of(path) is not None:
        return path
    place = find(path)
    if not {"registered_name", "model_type"} & place.config.keys():
        raise UsageError(
            f"{path} has no model to upload. Expected a finished run, a preset "
            "directory or a directory from kdkit export --format hf."
        )
    return place.path


@contextlib.contextmanager
def _staged(source, is_preset, options):
    """Yields a copy of the directory, or of the file, with a model card."""
    from kdkit.cli.places import locate
    from kdkit.reporting.cards import CARD, is_card, render_card
    from kdkit.reporting.records import read_run

    with tempfile.TemporaryDirectory(prefix="kdkit-push-") as parent:
        folder = pathlib.Path(parent, source.resolve().name)
        place = locate(str(source))
        if source.is_file():
            _copy_file(source, folder, place)
        else:
            ignored = shutil.ignore_patterns(".*", "*.lock")
            shutil.copytree(source, folder, ignore=ignored)
        card, license = folder / CARD, options.license
        is_own = card.is_file() and is_card(card)
        in_run = place.run is not None and (is_preset or is_own)
        if in_run or not card.is_file() or (is_own and license):
            notes = card.read_text("utf-8") if card.is_file() else ""
            records = None if place.run is None else read_run(place.run.path)
            text = render_card(
                source, records, place.arm, (), license, options.to
            )
            if notes and not is_own:
                text += f"\n{notes.replace('# ', '## ', 1)}"
            write_text(card, text)
        elif license and not is_own:
            raise UsageError(
                f"{source / CARD} is not from kdkit, so --license does not "
                "change it."
            )
        yield folder


def _copy_file(source, folder, place):
    """Copies an exported file, the card next to it and its labels."""
    from kdkit.reporting.cards import CARD

    folder.mkdir()
    for file in (source, source.parent / CARD):
        if file.is_file():
            shutil.copy(file, folder)
    labels = find(source if place.run is None else place.run.path).class_names
    if labels:
        write_text(folder / LABELS, "".join(f"{name}\n" for name in labels))


def _list_files(folder, source, uri):
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    print(f"{source} to {uri}:")
    for file in files:
        size = byte_size(file.stat().st_size)
        print(f"  {file.relative_to(folder).as_posix()}  {size}")
    total = byte_size(sum(file.stat().st_size for file in files))
    print(f"{len(files)} files, {total}.", flush=True)


def _upload(folder, is_preset, kind, name, options):
    """Uploads a directory; presets through keras-hub."""
    import huggingface_hub
    import keras_hub

    from kdkit.reporting.cards import CARD

    if kind == HUGGING_FACE:
        api = huggingface_hub.HfApi()
        api.create_repo(name, private=not options.public, exist_ok=True)
        if not is_preset:
            api.upload_folder(repo_id=name, folder_path=str(folder))
            return
        # With a card on the Hub, keras-hub does not write its own.
        api.upload_file(
            repo_id=name,
            path_or_fileobj=str(folder / CARD),
            path_in_repo=CARD,
        )
    keras_hub.upload_preset(options.to, str(folder))
