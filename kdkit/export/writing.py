"""LiteRT files that get their name when they have been compared with Keras."""

import pathlib
from collections.abc import Callable

from kdkit.export import metadata
from kdkit.export.report import ExportReport
from kdkit.export.verification import compare_file
from kdkit.files import staged
from kdkit.parameters import count_parameters
from kdkit.version import __version__


def write_verified(
    path: pathlib.Path,
    write: Callable[[pathlib.Path], None],
    open_file: Callable,
    model,
    batches: list[dict],
    expected: list,
    precision: str,
    sequence_length: int | None,
    examples: int | None = None,
    **about,
) -> ExportReport:
    """Writes a LiteRT file, compares it with the Keras model, and names it.

    Args:
        path: `pathlib.Path`. The name that it is to have.
        write: callable of the path where the file is to be written first.
        open_file: callable from a path to a callable from a batch to outputs.
        model: the Keras model.
        batches: list of dicts of arrays.
        expected: list of arrays, the model's outputs for them.
        precision: string. As in `kdkit.export.to_litert`.
        sequence_length: int or `None`. As in `ExportReport`.
        examples: int or `None`. What was compared, `None` for rows. Defaults to
            `None`.
        about: further fields of `kdkit.export.metadata.Metadata`.

    Raises:
        RunError: (a `RuntimeError`) if outputs are not finite, have another
            shape or, in fp32, differ by more than 1e-4. No file is left.
    """
    with staged(path) as partial:
        write(partial)
        entry = metadata.Metadata(
            precision=precision,
            parameters=count_parameters(model),
            kdkit_version=__version__,
            **about,
        )
        metadata.attach(partial, entry)
        comparison = compare_file(
            expected, open_file, partial, batches, path, precision
        )
        size_bytes = partial.stat().st_size
    return ExportReport(
        file=str(path),
        format="litert",
        precision=precision,
        size_bytes=size_bytes,
        sequence_length=sequence_length,
        max_abs_difference=comparison.max_abs_difference,
        same_top_class=comparison.same_top_class,
        examples=comparison.examples if examples is None else examples,
    )
