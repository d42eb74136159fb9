"""Writes a model as verified LiteRT (.tflite) or ONNX files, or a SavedModel.

kdkit compares each file with the Keras model on examples of the task, or on
generated ones if the task is unknown. A file that differs is not written. For a
run's model, kdkit also measures the file's metrics on dev and logs them in the
run. With --format litert, a run's teacher is also exported, once, in int8, to
RUN/exports/teacher: the report then separates the gain from distillation from
the gain from quantisation. Models that have collapsed, or whose head was never
trained, are reported.

A LiteRT file of a decoder reads one token at a time, up to --sequence-length
tokens; kdkit compares it with the Keras model on text that the run held out. A
LiteRT file of an encoder-decoder reads a source (signature `encode`) and writes
token by token (`decode`), up to --sequence-length tokens on either side. Other
formats hold decoders that read whole sequences, and no encoder-decoders.

--precision static_int8 and int16x8 also quantise activations. Their ranges are
those on 256 training examples of the task, so they need its data. int4 needs no
data. docs/quantization.md compares the precisions.

ONNX needs: pip install 'kdkit[onnx]'. ONNX files take any length.

example:
  kdkit export runs/tinybert --precision fp32 int8 --sequence-length 64
  kdkit export runs/tinybert --precision int8 static_int8 int4
  kdkit export runs/tinybert --format onnx --precision fp32 int8
  kdkit export runs/gpt2 --precision int8 --sequence-length 512
  kdkit export runs/en_de --precision fp32 int8 --sequence-length 64
"""

import copy
import dataclasses
import os
import pathlib

from kdkit import data
from kdkit import export
from kdkit import models
from kdkit.cli.groups import ModelChoiceOptions
from kdkit.cli.groups import TaskOptions
from kdkit.cli.models import Opened
from kdkit.cli.models import locate
from kdkit.cli.models import open_model
from kdkit.cli.next_steps import after_export
from kdkit.cli.next_steps import log_next
from kdkit.cli.options import given_flags
from kdkit.cli.parser import Model
from kdkit.cli.parser import option
from kdkit.cli.task_data import table_flags
from kdkit.cli.texts import text_of_run
from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.export import quantization
from kdkit.io.disk import writing
from kdkit.io.files import digest
from kdkit.reporting.records import is_run
from kdkit.reporting.summary import HELP
from kdkit.runs import inputs
from kdkit.runs.events import Export
from kdkit.training import text_data
from kdkit.training.sentence_settings import PairSettings
from kdkit.training.task_data import predict_logits


@dataclasses.dataclass
class Options(ModelChoiceOptions, TaskOptions):
    """files"""

    model: Model | None = option(
        "a run, a preset directory or a .keras file",
        positional=True,
        required=True,
    )
    format: str = option(
        "litert, onnx, saved_model, or a registered exporter. Defaults to "
        "litert.",
        default="litert",
    )
    precision: list[str] | None = option(
        "one or more of fp32, fp16, int8 and, for LiteRT with "
        "pip install 'kdkit[quantization]', static_int8, int16x8 and int4. "
        "Defaults to those of fp32, fp16 and int8 that the format has.",
        metavar="P",
    )
    dynamic_length: bool = option(
        "write a LiteRT file that takes any length. By default it takes one "
        "length: --sequence-length, or the length of the run, preset or task.",
        default=False,
    )
    output: str | None = option(
        "the folder for the files. Defaults to RUN/exports for a run's "
        "models, otherwise to exports.",
        metavar="DIR",
    )
    teacher: bool = option(
        "do not export the run's teacher in int8",
        default=True,
        flag="--no-teacher",
    )
    overwrite: bool = option("replace existing files", default=False)


def run(options):
    export_model(options)


TIMED = ("litert", "onnx")  # formats that kdkit benchmark measures
VERIFICATION_ROWS = 256
DECODER_ROWS = 4  # read token by token


def export_model(options) -> None:
    """Exports a MODEL in every requested precision.

    Args:
        options: the parsed options of `kdkit export`.

    Raises:
        UsageError: if the model is not a Keras model, or a file exists.
        RunError: if a file's outputs differ from the model's.
    """
    place = locate(options.model, options.arm)
    if export.exporter_of(place.path) is not None:
        raise UsageError(
            f"{place.path} is an exported file. Expected a Keras model."
        )
    has_collapsed = _export_place(place, options)
    if _has_teacher_to_export(place, options):
        has_collapsed = _export_teacher(place, options) or has_collapsed
    if has_collapsed:
        print(f"{HELP}.", flush=True)
    if options.format in TIMED:
        run = None if place.run is None else options.model
        if run is not None and not is_run(pathlib.Path(run)):
            run = str(place.run.path)  # the model is inside it
        files = _paths(place, export.get_exporter(options.format), options)
        log_next(after_export(run, [str(path) for path in files.values()]))


def export_to(path: pathlib.Path, options) -> None:
    """Exports a MODEL in one precision to a path.

    Args:
        path: `pathlib.Path`.
        options: the options of `kdkit export`, with one precision.

    Raises:
        UsageError: as in `export_model`.
        RunError: as in `export_model`.
    """
    place = locate(options.model, options.arm)
    _export_place(place, options, path)


def _export_place(place, options, path=None, **noted):
    """Writes a model's files; `noted` is added to each file's event.

    Returns whether a file's predictions have collapsed.
    """
    exporter = export.get_exporter(options.format)
    targets = _targets(place, exporter, options, path)
    read = _read(place, exporter, options)
    has_collapsed = False
    for precision, path in targets.items():
        report = exporter.export(
            read.model,
            path,
            precision,
            read.sequence_length,
            verification_data=read.verification_data,
            overwrite=options.overwrite,
            calibration_data=read.calibration_data,
        )
        measured = {}
        if read.opened is not None:
            measured = _measured(read.opened, path, read.encoded)
        _note(place, report, **measured, **read.noted, **noted)
        has_collapsed |= measured.get("collapsed") is not None
    return has_collapsed


@dataclasses.dataclass(frozen=True)
class _Read:
    """A model, with the data for verifying and measuring its files.

    Args:
        model: `keras.Model`.
        sequence_length: int or `None`. The length to export with.
        verification_data: as in `kdkit.export.to_litert`.
        calibration_data: as in `kdkit.export.to_litert`.
        opened: `Opened` for a model of a task, otherwise `None`.
        encoded: encoded examples to measure files on, or `None`.
        noted: dict. The task and the split that the metrics are from.
    """

    model: object
    sequence_length: int | None
    verification_data: object = None
    calibration_data: object = None
    opened: Opened | None = None
    encoded: object = None
    noted: dict = dataclasses.field(default_factory=dict)


def _read(place, exporter, options):
    """Loads the model, after rejecting options that its kind cannot use."""
    for has_one, kind, read in (
        (models.has_decoder, "decoder", _read_decoder),
        (
            models.has_encoder_decoder,
            "encoder_decoder",
            _read_encoder_decoder,
        ),
    ):
        if has_one(place.path):
            exporter.require_kind(kind)
            _require_precisions(exporter, options, kind)
            _reject_options_of_classifiers(options)
            return read(place, exporter, options)
    return _read_classifier(place, exporter, options)


def _read_classifier(place, exporter, options):
    opened = open_model(place, options)
    noted, encoded, batches = {}, None, None
    if opened.has_data and opened.tokenizer is not None:
        split = _split(place, opened)
        noted = {"task": opened.task.name, "split": split}
        encoded = opened.encode(split)
        some_rows = opened.encode(split, VERIFICATION_ROWS)
        batches = data.BatchStream(some_rows, data.Buckets(16)).evaluation()
    else:
        print(
            "The data directory is unknown, so files are compared on "
            "generated examples and their metrics are not measured. Pass "
            "--data-dir."
        )
    calibration = _calibration_data(exporter, options, opened)
    _warn_of_untrained_head(opened)
    has_fixed_length = (
        exporter.prefers_fixed_length and not options.dynamic_length
    )
    length = opened.sequence_length if has_fixed_length else None
    return _Read(
        opened.model, length, batches, calibration, opened, encoded, noted
    )


def _require_precisions(exporter, options, kind):
    for precision in options.precision or ():
        exporter.require_precision(kind, precision)


def _calibration_data(exporter, options, opened):
    """Some training examples, `None` if no precision needs any."""
    _require_precisions(exporter, options, "encoder")
    needing = [
        precision
        for precision in options.precision or ()
        if precision in quantization.CALIBRATED
    ]
    if not needing:
        return None
    batches = None
    if opened.has_data and opened.tokenizer is not None:
        rows = opened.encode("train", quantization.CALIBRATION_ROWS)
        batches = list(data.BatchStream(rows, data.Buckets(16)).evaluation())
        batches = [
            batch[0] if isinstance(batch, tuple) else batch for batch in batches
        ]
    quantization.require_calibration(needing[0], batches)
    return batches


def _warn_of_untrained_head(opened):
    """Warns about a head that was never trained, if its bias shows it."""
    layers = models.untrained_head(opened.model)
    if layers and opened.task.head.kind != "multiple_choice":
        print(
            f"The head was never trained ({', '.join(layers)}), so its "
            "predictions are random. Train a stage whose objectives or "
            "labels reach the "
            "logits.",
            flush=True,
        )


def _has_teacher_to_export(place, options):
    """Whether the model was distilled from a teacher in its run."""
    return (
        options.teacher
        and options.format == "litert"
        and place.run is not None
        and place.config.get("teacher") is not None
        and place.arm not in ("teacher", "control")
    )


def _export_teacher(place, options):
    """Exports a run's teacher in int8, unless that file exists.

    The report compares the student's files with it. A teacher that is missing
    or cannot be exported is reported without an error.
    """
    options = copy.copy(options)
    options.precision, options.overwrite = ["int8"], True
    options.output = place.run.path / "exports" / "teacher"
    try:
        teacher = _teacher_of(place)
        made_from = {
            "model": inputs.model_digest(str(teacher.path)),
            "sequence_length": options.sequence_length,
            "dynamic_length": options.dynamic_length,
            "data": place.config.get("data"),
        }
        file = _file_of_teacher(place, made_from)
        if file is not None:
            print(f"{file}: already exists, from the same teacher.", flush=True)
            return False
        return _export_place(teacher, options, made_from=made_from)
    except (UsageError, RunError) as error:
        print(
            "The run's teacher was not exported in int8, so the report will "
            f"not contain that file: {error}",
            flush=True,
        )
        return False


def _teacher_of(place):
    """The teacher's `Place`, as one of the run's models."""
    source = place.config["teacher"]
    if isinstance(source, dict):
        source = place.run.path / "teacher_run"
    found = locate(str(source))
    return dataclasses.replace(
        found, run=place.run, arm="teacher", config=place.config
    )


def _file_of_teacher(place, made_from):
    """The teacher's exported file, `None` if the teacher has changed since."""
    events = [
        event
        for event in place.run.events(Export)
        if event.arm == "teacher" and event.made_from == made_from
    ]
    if not events or made_from["model"] is None:
        return None
    file = place.run.path / events[-1].file
    is_same = file.is_file() and digest(file) == events[-1].file_digest
    return file if is_same else None


def _split(place, opened):
    """The split that chose the best epoch in the model's run."""
    is_of_run = opened.task.name == place.data_setting("task", None)
    return (is_of_run and place.data_setting("dev_split", None)) or "dev"


def _read_decoder(place, exporter, options):
    """A decoder, with its run's held-out text."""
    model = models.load_language_model(place.path).model
    length = options.sequence_length
    if length is None and exporter.in_steps:
        length = models.num_positions(model)
        if length is None:
            raise UsageError(
                f"{place.path} reads texts of any length, but a file needs a "
                "fixed one. Pass --sequence-length N."
            )
    texts = None
    if place.run is not None:
        texts = _held_out(place.run.path / "corpus" / "held_out", length)
    return _Read(model, length, texts)


def _read_encoder_decoder(place, exporter, options):
    """An encoder-decoder, with its run's held-out pairs."""
    loaded = models.load_language_model(place.path)
    text = text_of_run(place)
    length = options.sequence_length
    if length is None:
        length = loaded.sequence_length
    pairs = None
    if isinstance(text, PairSettings):
        pairs = _held_out_pairs(text, loaded.tokenizer, length)
    return _Read(loaded.model, length, pairs)


def _held_out_pairs(text, tokenizer, length):
    """Some of a run's held-out pairs, `None` if their files are missing."""
    try:
        found = text_data.load_sentences(
            dataclasses.replace(text, sequence_length=length),
            tokenizer,
            is_held_out=True,
        )
    except UsageError as error:
        print(f"Compared on generated pairs: {error}", flush=True)
        return None
    return found.first_pairs(DECODER_ROWS)


def _reject_options_of_classifiers(options):
    clashing = given_flags(options, ("task", "data_dir", "tokenizer"))
    clashing += table_flags(options)
    if options.dynamic_length:
        clashing.append("--dynamic-length")
    if clashing:
        raise UsageError(
            f"{', '.join(clashing)}: not used for a decoder or an "
            "encoder-decoder, whose files hold --sequence-length tokens. "
            f"Remove {' and '.join(clashing)}."
        )


def _held_out(directory, length):
    """Some sequences of a run's held-out text, `None` if there are none."""
    rows = data.open_packed(directory)
    if rows is None:
        return None
    return [
        row[row != data.PADDING][:length] for row in rows.rows[:DECODER_ROWS]
    ]


def _note(place, report, metrics=None, **noted):
    """Prints the result for a file and logs it in the run.

    `noted` contains the task and the split of the metrics, and more.
    """
    event = {**dataclasses.asdict(report), "metrics": metrics, **noted}
    _print(event)
    if place.run is not None:
        path = pathlib.Path(report.file).resolve()
        event["file"] = os.path.relpath(path, place.run.path)
        if path.is_file():
            event["file_digest"] = digest(path)
        place.run.log(Export(arm=place.arm, **event))


def _output_directory(place, options):
    if options.output is not None:
        return pathlib.Path(options.output)
    return (place.run.path if place.run else pathlib.Path()) / "exports"


def _paths(place, exporter, options):
    """The default paths by precision."""
    directory = _output_directory(place, options)
    return {
        precision: directory / exporter.file_name(place.label, precision)
        for precision in options.precision
        or exporter.default_precisions
        or exporter.precisions
    }


def _targets(place, exporter, options, path=None):
    """Paths by precision. Rejects wrong precisions and existing files."""
    exporter.require_packages()
    precisions = (
        options.precision or exporter.default_precisions or exporter.precisions
    )
    wrong = [name for name in precisions if name not in exporter.precisions]
    if wrong:
        raise UsageError(
            f"--precision: {exporter.title} files have "
            f"{' or '.join(exporter.precisions)}. Received: "
            f"{', '.join(wrong)}."
        )
    targets = _paths(place, exporter, options)
    if path is not None:
        targets = {precisions[0]: path}
    directory = next(iter(targets.values())).parent
    existing = [str(path) for path in targets.values() if path.exists()]
    if existing and not options.overwrite:
        raise UsageError(
            f"These files exist already: {', '.join(existing)}. Pass "
            "--overwrite to replace them, or --output for another folder."
        )
    with writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    return targets


def _measured(opened, path, encoded):
    """The metrics of an exported file, and how it collapsed if it did."""
    if encoded is None:
        return {"metrics": None, "collapsed": None}
    logits = predict_logits(export.open_file(path), encoded)
    task = opened.task
    return {
        "metrics": task.compute_metrics(encoded.targets, logits),
        "collapsed": task.kind.collapse(encoded.targets, logits),
    }


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
    print(
        f"{event['file']}: {event['size_bytes'] / 1e6:.2f} MB, largest "
        f"difference {event['max_abs_difference']:.2g} on "
        f"{event['examples']} examples{agreement}{measured}",
        flush=True,
    )
