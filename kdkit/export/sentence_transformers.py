"""Exports embedders to directories that sentence-transformers loads."""

import dataclasses
import pathlib

from kdkit import models
from kdkit.errors import UsageError
from kdkit.export.exporters import Exporter, get_exporter, register_exporter
from kdkit.export.inputs import ENCODER
from kdkit.export.transformers_checkpoint import Checkpoint, default_tokenizer
from kdkit.exported import ExportReport
from kdkit.models.conventions import PLAIN
from kdkit.models.places import MODULES
from kdkit.models.static import is_static_embedder


@register_exporter("sentence_transformers")
class SentenceTransformers(Exporter):
    """The directory of an embedder, with its tokenizer."""

    title = "sentence-transformers directory"
    kinds = (ENCODER,)
    prefers_fixed_length = True  # the length to which texts are truncated
    takes_threads = False  # TensorFlow sets them for the whole process
    is_checkpoint = True
    options = ("tokenizer", "conventions")

    def owns(self, path):
        return (path / MODULES).is_file()

    def file_name(self, label, precision):
        return f"{label}-sentence_transformers"

    def prepare(
        self, source, precision, outputs, tokenizer=None, conventions=PLAIN
    ):
        is_static = is_static_embedder(source.model)
        if source.sequence_length is None and not is_static:
            raise UsageError(
                "sentence-transformers truncates texts to one length. Pass "
                "sequence_length."
            )
        source = default_tokenizer(source, tokenizer)
        source = dataclasses.replace(
            source, extras=(source.extras, conventions)
        )
        return super().prepare(source, precision, outputs)

    def write(self, source, path, precision):
        tokenizer, conventions = source.extras
        models.save_sentence_transformer(
            source.model, tokenizer, path, source.sequence_length, conventions
        )

    def open(self, path, threads=1):
        return Checkpoint(path, models.load_embedder(path).model)


def to_sentence_transformers(
    model,
    path: str | pathlib.Path,
    tokenizer,
    sequence_length: int = 128,
    verification_data=None,
    overwrite: bool = False,
    conventions=PLAIN,
) -> ExportReport:
    """Writes an embedder as a sentence-transformers directory, checked.

    `sentence_transformers.SentenceTransformer(path)` loads the directory. Its
    vectors differ from the Keras model's only by rounding.
    `kdkit.models.load_embedder` and `kdkit evaluate` load it too.

    Args:
        model: an embedder, see `kdkit.models.make_embedder`, on an encoder
            that transformers has.
        path: string or path. The directory to write.
        tokenizer: the model's tokenizer.
        sequence_length: int. The length in tokens to which texts are truncated.
            Defaults to 128.
        verification_data: batches, as in `to_litert`.
        overwrite: bool. Whether to replace such a directory. Defaults to
            `False`.
        conventions: `kdkit.models.Conventions`, such as those of
            `load_embedder`. Defaults to no prompts and the cosine.

    Returns:
        An `ExportReport`. The differences are those of the model that is built
        again from the files.

    Raises:
        UsageError: (a `ValueError`) if the path exists, or transformers has no
            such model. Nothing is written.
        RunError: (a `RuntimeError`) if vectors or token ids differ. No
            directory remains.

    Example:

    ```python
    kdkit.export.to_sentence_transformers(student, "student/", tokenizer)
    embedder = sentence_transformers.SentenceTransformer("student/")
    ```
    """
    return get_exporter("sentence_transformers").export(
        model,
        path,
        sequence_length=sequence_length,
        verification_data=verification_data,
        overwrite=overwrite,
        tokenizer=tokenizer,
        conventions=conventions,
    )
