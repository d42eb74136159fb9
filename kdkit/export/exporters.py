"""Formats of exported files: one `Exporter` each, in one registry.

`Exporter.export` is the only way to write a file: it verifies the file against
the Keras model before the file gets its name, whatever the format.
"""

import contextlib
import pathlib
from collections.abc import Callable

from kdkit import quantization
from kdkit.backends import need_tensorflow
from kdkit.errors import UsageError, unknown
from kdkit.export import metadata
from kdkit.export.exportable import exportable, model_kind
from kdkit.export.inputs import ENCODER
from kdkit.export.verification import (
    compare,
    reference_outputs,
    warn_untrained_layers,
)
from kdkit.exported import ExportReport
from kdkit.io.files import staged

_EXPORTERS = {}  # by name, in the order of registration


class Exporter:
    """A file format: how its files are written, opened and run.

    Subclasses define `write` and `open`, and register themselves with
    `kdkit.export.register_exporter`. Every function and verb that writes or
    reads exported files then knows the format.

    Attributes:
        name: string. Set by `register_exporter`; the value of `--format`.
        title: string. The format's name in texts.
        suffix: string. The end of the file's name, such as `".tflite"`. Empty
            if the format is a directory; then override `owns`.
        precisions: tuple of strings. The precisions that `write` accepts.
            Defaults to `("fp32",)`.
        default_precisions: tuple of strings. Those that the command line
            writes without `--precision`. Defaults to all.
        kinds: tuple of strings. The kinds of models that the format supports.
            Defaults to `("encoder",)`.
        in_steps: bool. Whether decoders and encoder-decoders become files that
            read one token at a time. Defaults to `False`: whole sequences.
        prefers_fixed_length: bool. Whether the command line exports for one
            sequence length by default. Defaults to `False`.
        options: tuple of strings. The arguments of `export` that only this
            format has, which `prepare` takes. Defaults to `()`.
        takes_threads: bool. Whether `open` sets the number of threads, so that
            files can be timed. Defaults to `True`.
        is_checkpoint: bool. Whether kdkit loads what the format writes as a
            Keras model, so that `exporter_of` does not return the format.
            Defaults to `False`.

    Example:

    ```python
    @kdkit.export.register_exporter("weights")
    class Weights(kdkit.export.Exporter):
        title = "Keras weights"
        suffix = ".npz"

        def write(self, source, path, precision):
            np.savez(path, *source.model.get_weights())

        def open(self, path, threads=1):
            return MyRuntime(path)  # called with a batch, returns the logits

    kdkit.export.export_model(student, "student.npz")
    ```
    """

    name = ""
    title = ""
    suffix = ""
    precisions = ("fp32",)
    default_precisions = ()
    kinds = (ENCODER,)
    in_steps = False
    prefers_fixed_length = False
    options = ()
    takes_threads = True
    is_checkpoint = False

    def owns(self, path: pathlib.Path) -> bool:
        """Whether a path is a file in this format, by its name."""
        return path.suffix == self.suffix

    def file_name(self, label: str, precision: str) -> str:
        """Returns the name for a file in a run's `exports/`."""
        return f"{label}-{precision}{self.suffix}"

    def require_packages(self) -> None:
        """Raises `UsageError` if a package that `write` needs is missing."""

    def prepare(self, source, precision: str, outputs: str | None, **options):
        """Takes the arguments of `export` that only this format has.

        Args:
            source: `Exportable` with a float32 model.
            precision: string, from `precisions`.
            outputs: string or `None`, as in `kdkit.export.to_litert`.
            **options: arguments of `export` whose names are in `options`.

        Returns:
            An `Exportable` whose model returns `outputs`, with `extras` for
            the format's other methods. The default has no extras.
        """
        return source.with_outputs(outputs)

    def write(self, source, path: pathlib.Path, precision: str) -> None:
        """Writes a model without verification.

        Args:
            source: `Exportable` with a float32 model.
            path: `pathlib.Path`. A temporary name.
            precision: string, from `precisions`.
        """

    def annotate(self, path: pathlib.Path, entry: metadata.Metadata) -> None:
        """Adds kdkit's metadata to a file. The default adds none."""

    def verify(self, source, partial: pathlib.Path, path: pathlib.Path) -> None:
        """Checks more of a written file than its outputs. By default nothing.

        Args:
            source: `Exportable`.
            partial: `pathlib.Path`. The file's temporary name.
            path: `pathlib.Path`. Its final name, for errors.

        Raises:
            RunError: if the file is wrong.
        """

    def limit_threads(self, threads: int) -> None:
        """Limits the threads of the whole process, before a file is timed.

        Called only if `takes_threads` is `False`.

        Args:
            threads: int.
        """
        raise NotImplementedError

    def open(self, path: pathlib.Path, threads: int = 1):
        """Returns an object that runs a file: a callable from batch to logits.

        Args:
            path: `pathlib.Path`.
            threads: int. The number of CPU threads. Defaults to `1`.

        Returns:
            A callable with the attributes `path`, `kind`, `sequence_length`,
            `batch_size` and `metadata`. For `kdkit benchmark`, a file that
            reads whole sequences also needs `input_names`, `set_inputs` and
            `invoke`, as in `kdkit.export.BatchFile`.
        """

    def run(self, file, batch):
        """Runs an opened file on one batch of `Exportable.batches`.

        Args:
            file: the result of `open`.
            batch: dict of int32 arrays.

        Returns:
            An array, the logits in the Keras model's shape.
        """
        return file(batch)

    def export(
        self,
        model,
        path: str | pathlib.Path,
        precision: str = "fp32",
        sequence_length: int | None = None,
        source_length: int | None = None,
        verification_data=None,
        overwrite: bool = False,
        outputs: str | None = None,
        dimensions: int | None = None,
        **options,
    ) -> ExportReport:
        """Writes a model, compares the file with Keras, and names the file.

        Args: as for `kdkit.export.to_litert`.

        Returns:
            An `ExportReport`.

        Raises:
            UsageError: (a `ValueError`) as for `kdkit.export.to_litert`.
                Nothing is written.
            RunError: (a `RuntimeError`) if outputs are not finite, or if the
                file's outputs have another shape or differ too much, as in
                `kdkit.export.to_litert`. No file remains.
        """
        need_tensorflow(f"Export to {self.title}")
        path = pathlib.Path(path)
        if precision not in self.precisions:
            raise unknown("precision", precision, self.precisions)
        require_free(path, overwrite, self.owns(path))
        self.require_packages()
        kind = model_kind(model)
        if kind not in self.kinds:
            raise unknown(f"kind of model in {self.title}", kind, self.kinds)
        source = exportable(
            model,
            self.in_steps,
            sequence_length,
            source_length,
            verification_data,
        )
        for name in options:
            if name not in self.options:
                raise unknown("argument", name, self.options)
        # A model that rounds as its file does is compared as it rounds.
        rounds = quantization.rounds_as(model, precision)
        if rounds and options.get("activation_ranges") is None:
            rounding = quantization.active_quantization(model)
            options["activation_ranges"] = rounding.ranges_by_path(model)
        warn_untrained_layers(source.model, source.batches[0])
        source = source.as_float32().with_dimensions(dimensions)
        source = self.prepare(source, precision, outputs, **options)
        with (
            contextlib.nullcontext()
            if rounds
            else quantization.full_precision(model)
        ):
            expected = reference_outputs(source.model, source.batches)
        with quantization.full_precision(model), staged(path) as partial:
            self.write(source, partial, precision)
            self.annotate(partial, metadata.describe(source, precision))
            file = self.open(partial)
            found = compare(
                expected,
                lambda batch: self.run(file, batch),
                source.batches,
                str(path),
                precision,
                source.outputs,
            )
            self.verify(source, partial, path)
            size_bytes = size_on_disk(partial)
        return ExportReport(
            file=str(path),
            format=self.name,
            title=self.title,
            precision=precision,
            size_bytes=size_bytes,
            sequence_length=source.sequence_length,
            examples=source.examples or sum(map(len, expected)),
            outputs=source.outputs,
            dimensions=(
                source.model.output.shape[-1] if source.is_embedder else None
            ),
            **found,
        )


def register_exporter(name: str) -> Callable[[type], type]:
    """Registers a subclass of `Exporter` under a name, as a class decorator.

    Args:
        name: string. The value of `format` in `kdkit.export.export_model` and
            of `--format`.

    Returns:
        A decorator, which returns the class.

    Example:

    ```python
    @kdkit.export.register_exporter("my_format")
    class MyFormat(kdkit.export.Exporter):
        ...
    ```
    """

    def register(cls):
        if name in _EXPORTERS:
            raise UsageError(f"There is a format {name!r} already.")
        cls.name = name
        _EXPORTERS[name] = cls()
        return cls

    return register


def all_exporters() -> tuple[Exporter, ...]:
    """Returns all registered exporters."""
    return tuple(_EXPORTERS.values())


def get_exporter(name: str) -> Exporter:
    """Returns an exporter by its name.

    Args:
        name: string, such as `"litert"`.

    Raises:
        UsageError: (a `ValueError`) if there is no such exporter.
    """
    if name not in _EXPORTERS:
        raise unknown("format", name, _EXPORTERS)
    return _EXPORTERS[name]


def exporter_of(path: str | pathlib.Path) -> Exporter | None:
    """Returns the exporter for a path, `None` if no format matches.

    Checkpoints are models for kdkit, and have no exporter here.

    Args:
        path: string or path. A file with a known suffix, which need not exist,
            or the directory of a SavedModel.
    """
    path = pathlib.Path(path)
    for exporter in _EXPORTERS.values():
        if not exporter.is_checkpoint and exporter.owns(path):
            return exporter
    return None


def export_model(
    model,
    path: str | pathlib.Path,
    format: str | None = None,
    **options,
) -> ExportReport:
    """Writes a model in any registered format, checked against Keras.

    Args:
        model: `keras.Model`. An encoder with a head, a decoder or an
            encoder-decoder, as in `kdkit.export.to_litert`.
        path: string or path. The file or directory to write.
        format: string or `None`. The name of an exporter, such as `"litert"`,
            `"saved_model"` or `"onnx"`. Defaults to the exporter of the path's
            suffix.
        **options: `precision`, `sequence_length`, `source_length`,
            `verification_data`, `overwrite`, `outputs` and `dimensions`, as in
            `kdkit.export.to_litert`, and those of the format: for LiteRT
            `mediapipe`, `tokenizer`, `labels` and `texts`, for `"hf"`
            `tokenizer`.

    Returns:
        An `ExportReport`.

    Raises:
        UsageError: (a `ValueError`) if the format is unknown, or as in
            `kdkit.export.to_litert`.
        RunError: (a `RuntimeError`) if the file differs from the model. No
            file remains.

    Example:

    ```python
    kdkit.export.export_model(student, "student.onnx", precision="int8")
    ```
    """
    exporter = _known(path) if format is None else get_exporter(format)
    return exporter.export(model, path, **options)


def open_file(path: str | pathlib.Path, threads: int = 1):
    """Opens an exported model of any registered format.

    Args:
        path: string or path. A `.tflite` or `.onnx` file, or the directory of a
            SavedModel.
        threads: int. The number of CPU threads. Defaults to `1`. For a
            SavedModel TensorFlow decides.

    Returns:
        A `LiteRTModel`, `LiteRTDecoder`, `LiteRTSeq2Seq`, `ONNXModel` or
        `SavedModel`, or the result of a registered exporter.

    Raises:
        UsageError: (a `ValueError`) if the path is no exported model.
    """
    return _known(path).open(pathlib.Path(path), threads)


def _known(path):
    """Returns the exporter for a path, or raises an error with all formats."""
    exporter = exporter_of(path)
    if exporter is None:
        formats = [
            one.suffix or f"a {one.title}"
            for one in _EXPORTERS.values()
            if not one.is_checkpoint
        ]
        raise unknown("kind of file", str(path), formats)
    return exporter


def require_free(path: pathlib.Path, overwrite: bool, is_own: bool) -> None:
    """Protects what is at a path, unless it is the same kind of file."""
    if path.exists() and not (overwrite and is_own):
        fix = "Pass overwrite=True." if is_own else "Choose another path."
        raise UsageError(f"{path} exists already. {fix}")


def size_on_disk(path: pathlib.Path) -> int:
    """Returns the bytes of a file, or of all files in a directory."""
    if path.is_file():
        return path.stat().st_size
    return sum(
        file.stat().st_size for file in path.rglob("*") if file.is_file()
    )
