"""Writes a model as verified files: LiteRT, ONNX, SavedModel, Hugging Face.

kdkit compares each file with the Keras model on examples of the task, or on
generated ones if the task is unknown. An fp32 file that differs is not written;
the differences of other precisions are printed. For a run's model, kdkit also
measures the file's metrics on dev and logs them in the run. --arm teacher
writes the teacher's files, by default to RUN/exports/teacher: the report then
separates the gain from distillation from the gain from quantisation. Models
that have collapsed, or whose head was never trained, are reported.

LiteRT files of classifiers return probabilities, or logits with --logits. Those
of single texts also open with MediaPipe's TextClassifier, which reads strings;
kdkit prints how many texts of dev get the same token ids there, or why the
files have no metadata for it.

A LiteRT file of a decoder reads one token at a time, up to --sequence-length
tokens; kdkit compares it with the Keras model on text that the run held out. A
LiteRT file of an encoder-decoder reads a source (signature `encode`) and writes
token by token (`decode`), up to --sequence-length tokens on either side. Other
formats hold decoders that read whole sequences, and no encoder-decoders.

--precision static_int8 and int16x8 also quantise activations. Their ranges are
those on 256 training examples of the task, so they need its data. int4 needs no
data. docs/quantization.md compares the precisions.

With --bundle, the LiteRT files of a classifier are in one folder with the
vocabulary, the labels, the tokenizer's settings and test vectors for an app.
With --format saved_model --strings, the SavedModel contains the tokenizer.

The file of an embedder contains its pooling and normalization. kdkit compares
its vectors with the Keras model's by their cosines, on the run's texts or those
of --texts. --dimensions N writes the first N numbers of each vector. LiteRT
files also open with MediaPipe's TextEmbedder. --format sentence_transformers
writes a directory for SentenceTransformer(DIR).

ONNX files take any length. They need pip install '.[onnx]' in a clone of kdkit.

--format hf writes a directory with weights, config and tokenizer that
transformers loads. kdkit loads it too, as a MODEL.

example:
  kdkit export runs/tinybert --precision fp32 int8 --sequence-length 64
  kdkit export runs/tinybert --arm teacher --precision fp32 int8
  kdkit export runs/tinybert --precision int8 static_int8 int4
  kdkit export runs/tinybert --bundle
  kdkit export runs/tinybert --format onnx --precision fp32 int8
  kdkit export runs/tinybert --format hf
  kdkit export runs/embedder --precision fp32 int8 --dimensions 128
  kdkit export runs/embedder --format sentence_transformers
  kdkit export runs/gpt2 --precision int8 --sequence-length 512
  kdkit export runs/en_de --precision fp32 int8 --sequence-length 64
"""

import dataclasses
import os
import pathlib

from kdkit.cli.loading import load_tensorflow
from kdkit.cli.next_steps import after_export, log_next
from kdkit.cli.verb_flags import (
    LICENSED,
    MODEL,
    TASK,
    VECTORS,
    VerbParser,
    flag,
    many,
    reject_given,
    switch,
)
from kdkit.io.files import folder_beside
from kdkit.reporting.records import is_run, read_run
from kdkit.reporting.words import HELP
from kdkit.runs.events import Export

VALUES = {
    "model": flag(
        "a run, a directory with a model or a .keras file", metavar="MODEL"
    )
}
FLAGS = {
    "format": flag(
        "litert, onnx, saved_model, hf (for transformers), "
        "sentence_transformers, or a registered exporter. Defaults to litert.",
        default="litert",
    ),
    "precision": many(
        "one or more of fp32, fp16, int8 and, for LiteRT with "
        "pip install '.[quantization]', static_int8, int16x8 and int4. "
        "Defaults to those of fp32, fp16 and int8 that the format has.",
        metavar="P",
    ),
    "dynamic_length": switch(
        "write a LiteRT file that takes any length. By default it takes one "
        "length: --sequence-length, or the length of the run, preset or task."
    ),
    "bundle": switch(
        "write one folder for an app, RUN/exports/LABEL-bundle or --output: "
        "the LiteRT file (--precision, by default int8), vocabulary, labels, "
        "tokenizer settings, test vectors and a manifest"
    ),
    "strings": switch(
        "add the tokenizer to a SavedModel, as a signature from strings to "
        "scores. The program that loads it needs tensorflow-text."
    ),
    "output": flag(
        "the folder for the files. Defaults to RUN/exports for a run's "
        "models, to RUN/exports/teacher for a teacher outside of it, otherwise "
        "to exports.",
        metavar="DIR",
    ),
    "overwrite": switch("replace existing files"),
    "logits": switch(
        "write LiteRT files of classifiers that return logits. By default they "
        "return probabilities: softmax, for several labels sigmoid."
    ),
    "license": LICENSED,
}


def parser() -> VerbParser:
    """Returns the parser for the verb's words."""
    groups = {
        "files": FLAGS,
        "model": MODEL,
        "task": TASK,
        "sentence embeddings": VECTORS,
    }
    return VerbParser("export", __doc__, VALUES, groups)


def run(words):
    """Exports a model."""
    options = parser().parse_args(words)
    reject_given(options, ("test",), "by kdkit export, which measures on dev")
    load_tensorflow()

    from kdkit import export
    from kdkit.cli.places import locate

    place = locate(options.model, options.arm)
    options.pooling = options.pooling or place.pooling
    if options.bundle:
        options.precision = options.precision or ["int8"]  # needs no data
    exporter = export.get_exporter(options.format)
    targets = _targets(place, exporter, options)
    if _export(place, exporter, targets, options):
        print(f"{HELP}.", flush=True)
    if options.format in TIMED and not options.bundle:
        run = None
        if place.run is not None and options.output is None:
            run = options.model
        if run is not None and not is_run(pathlib.Path(run)):
            run = str(_as_written(place.run.path))  # the model is inside it
        paths = [*map(str, targets.values())]
        log_next(after_export(run, paths, options.sequence_length))


TIMED = ("litert", "onnx")  # formats that kdkit benchmark measures
PROBLEM_TYPES = {  # by the title of the task's kind, for transformers
    "multi-label": "multi_label_classification",
    "regression": "regression",
}


def export_to(path: pathlib.Path, *words: str) -> None:
    """Exports a MODEL in one precision to a path, by the verb's words."""
    from kdkit import export
    from kdkit.cli.places import locate

    options = parser().parse_args(words)
    place = locate(options.model, options.arm)
    exporter = export.get_exporter(options.format)
    precision, *_ = _targets(place, exporter, options)
    _export(place, exporter, {precision: path}, options)


def _targets(place, exporter, options):
    """The path of each precision."""
    exporter.require_packages()
    folder, label = _folder(place, options), place.label
    if options.bundle and options.output is None:
        folder /= f"{label}-bundle"
    if options.dimensions is not None:
        label = f"{label}-{options.dimensions}d"
    default = exporter.default_precisions or exporter.precisions
    return {
        precision: folder / exporter.file_name(label, precision)
        for precision in options.precision or default
    }


def _folder(place, options):
    if options.output is not None:
        return pathlib.Path(options.output)
    folder = _as_written(place.run.path) if place.run else pathlib.Path()
    folder /= "exports"
    return folder / "teacher" if place.is_from_elsewhere else folder


def _as_written(path):
    """A path, relative if it is in the working directory."""
    here = pathlib.Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _export(place, exporter, targets, options) -> bool:
    """Writes a model's files; returns whether one has collapsed."""
    from kdkit.cli.exported_models import read_model
    from kdkit.reporting.cards import CARD, write_card

    read = read_model(place, exporter, options)
    if options.bundle:
        written = _bundled(exporter, read, targets, options)
    else:  # each is noted before the next one is written
        written = (
            _written(exporter, read, precision, path, options)
            for precision, path in targets.items()
        )
    reports, has_collapsed = [], False
    for report, measured in written:
        _note(place, report, **measured, **read.noted)
        reports.append(report)
        has_collapsed |= measured.get("collapsed") is not None
    path = pathlib.Path(reports[0].file)
    if read.mediapipe is not None:
        read.mediapipe.report(path)
    folder = path if exporter.is_checkpoint else path.parent
    if place.arm == "control" and (folder / CARD).exists():
        return has_collapsed  # the student's card
    run = None if place.run is None else read_run(place.run.path)
    if write_card(folder, run, place.arm, reports, options.license) is None:
        print(f"{folder / CARD} is not from kdkit and was not changed.")
    return has_collapsed


def _bundled(exporter, read, targets, options):
    """Writes the files of an app bundle; their reports and metrics."""
    from kdkit import export

    path = next(iter(targets.values())).parent
    path.parent.mkdir(parents=True, exist_ok=True)
    with folder_beside(path) as folder:
        files = {one: folder / file.name for one, file in targets.items()}
        written = [
            _written(exporter, read, precision, file, options)
            for precision, file in files.items()
        ]
        metrics = {
            file.name: measured.get("metrics")
            for file, (_, measured) in zip(files.values(), written, strict=True)
        }
        split = read.noted.get("split")
        bundle = export.to_bundle(
            [*files.values()],
            path,
            read.opened.task,
            read.opened.tokenizer,
            None if split is None else read.opened.read(split),
            metrics,
            options.overwrite,
        )
    names = [file["name"] for file in bundle["files"]]
    print(f"{path}: {', '.join(names)} and {export.MANIFEST}.", flush=True)
    return [
        (dataclasses.replace(report, file=str(file)), measured)
        for file, (report, measured) in zip(
            targets.values(), written, strict=True
        )
    ]


def _written(exporter, read, precision, path, options):
    """Writes a file; its report, and its metrics if they can be measured."""
    from kdkit import export
    from kdkit.training.source import predict_logits

    report = exporter.export(
        read.opened.model,
        path,
        precision,
        read.sequence_length,
        verification_data=read.verification_data,
        overwrite=options.overwrite,
        dimensions=options.dimensions,
        **_arguments(exporter, read, options),
    )
    if read.encoded is None:
        return report, {}
    task, targets = read.opened.task, read.encoded.targets
    file = export.file_logits(exporter.open(path))
    logits = predict_logits(file, read.encoded)
    return report, {
        "metrics": task.compute_metrics(targets, logits),
        "collapsed": task.kind.collapse(targets, logits),
    }


def _arguments(exporter, read, options):
    """The arguments of `export` that only some formats have."""
    from kdkit import export

    opened = read.opened
    task = getattr(opened, "task", None)
    found = {
        "tokenizer": opened.tokenizer,
        "calibration_data": read.calibration_data,
        "conventions": opened.loaded.conventions,
    }
    if task is not None:
        found["class_names"] = task.head.class_names
        found["problem_type"] = PROBLEM_TYPES.get(task.kind.title)
    if options.strings:
        if "strings" not in exporter.options:
            reject_given(options, ("strings",), f"by {exporter.title}")
        found["strings"] = export.TextInputs(
            opened.tokenizer,
            opened.sequence_length,
            task.num_texts,
            task.kind.output_function,
        )
    if read.mediapipe is not None:
        found["mediapipe"] = read.mediapipe.task or False
    found = {name: found[name] for name in exporter.options if name in found}
    if task is not None and read.mediapipe is not None:  # LiteRT
        function = task.kind.output_function
        found["outputs"] = "logits" if options.logits else function
    return found


def _note(place, report, metrics=None, **noted):
    """Prints the result for a file and logs it in the run."""
    event = {**dataclasses.asdict(report), "metrics": metrics, **noted}
    _print(event)
    if place.run is not None:
        path = pathlib.Path(report.file).resolve()
        event["file"] = os.path.relpath(path, place.run.path)
        place.run.note(Export(arm=place.arm, **event))


def _print(event):
    measured = "".join(
        f", {name} {value:.4f}"
        for name, value in (event["metrics"] or {}).items()
    )
    if measured:
        measured += f" on {event['split']}"
    if event.get("collapsed"):
        measured += f". It has collapsed: it {event['collapsed']}"
    same = event["same_top_class"]
    agreement = "" if same is None else f", same class {100 * same:.1f} %"
    if event["smallest_cosine"] is not None:
        agreement = (
            f", smallest cosine {event['smallest_cosine']:.5f}, mean "
            f"{event['mean_cosine']:.5f}"
        )
    print(
        f"{event['file']}: {event['size_bytes'] / 1e6:.2f} MB, largest "
        f"difference {event['max_abs_difference']:.2g} on "
        f"{event['examples']} examples{agreement}{measured}",
        flush=True,
    )
