"""Directories that transformers and sentence-transformers load."""

import dataclasses
import pathlib

from kdkit import models
from kdkit.errors import UsageError
from kdkit.export.exportable import default_tokenizer
from kdkit.export.exporters import Exporter, get_exporter, register_exporter
from kdkit.export.inputs import DECODER, ENCODER, to_int32
from kdkit.exported import ExportReport
from kdkit.io.reading import read_json
from kdkit.models.conventions import PLAIN
from kdkit.models.hugging_face_saving import load_saved_hugging_face
from kdkit.models.places import MODULES
from kdkit.models.static import is_static_embedder


@register_exporter("hf")
class HuggingFace(Exporter):
    """The directory of a Hugging Face checkpoint, with its tokenizer."""

    title = "Hugging Face checkpoint"
    kinds = (ENCODER, DECODER)
    takes_threads = False  # TensorFlow sets them for the whole process
    is_checkpoint = True
    options = ("tokenizer", "class_names", "problem_type")

    def owns(self, path):
        file = path / "config.json"
        if not file.is_file():
            return False
        return "model_type" in read_json(file, "the config of a model")

    def file_name(self, label, precision):
        return f"{label}-hf"

    def prepare(
        self,
        source,
        precision,
        outputs,
        tokenizer=None,
        class_names=None,
        problem_type=None,
    ):
        tokenizer = default_tokenizer(source, tokenizer)
        source = dataclasses.replace(
            source, extras=(tokenizer, class_names, problem_type)
        )
        return super().prepare(source, precision, outputs)

    def write(self, source, path, precision):
        tokenizer, *names = source.extras
        models.save_hugging_face(source.model, tokenizer, path, *names)

    def open(self, path, threads=1):
        return _outputs_of(load_saved_hugging_face(path))


def _outputs_of(model):
    """Returns a function from a batch to the outputs of a model as an array."""
    return lambda batch: model(
        to_int32(batch, model.input), training=False
    ).numpy()


def to_hugging_face(
    model,
    path: str | pathlib.Path,
    tokenizer=None,
    class_names: tuple[str, ...] | None = None,
    problem_type: str | None = None,
    verification_data=None,
    overwrite: bool = False,
) -> ExportReport:
    """Writes a model as a directory for transformers, checked against Keras.

    transformers loads the directory with `AutoModelForSequenceClassification`,
    `AutoModelForTokenClassification`, `AutoModelForMultipleChoice` or
    `AutoModelForCausalLM`, and with `AutoTokenizer`. Its logits differ from the
    Keras model's only by rounding.
    `kdkit.models.load_classifier` and `kdkit evaluate` load it too.

    Args:
        model: `keras.Model`. A classifier of texts or tokens on a BERT,
            DistilBERT, RoBERTa, XLM-RoBERTa or ALBERT; a multiple choice on a
            BERT or ALBERT; or a GPT-2.
        path: string or path. The directory to write.
        tokenizer: the model's tokenizer, or `None`. Defaults to the
            tokenizer of the model's preprocessor, if it has one; otherwise no
            tokenizer is written.
        class_names: tuple of strings, one for each logit, for `id2label`.
            Defaults to `None`: `LABEL_0` and so on.
        problem_type: string or `None`, as in
            `kdkit.models.save_hugging_face`. Defaults to `None`.
        verification_data: batches, as in `to_litert`.
        overwrite: bool. Whether to replace such a directory. Defaults to
            `False`.

    Returns:
        An `ExportReport`. The differences are those of the model that is built
        again from the files.

    Warns:
        UserWarning: if transformers splits some texts differently from
            keras-hub's own tokenizer, and as in `to_litert`.

    Raises:
        UsageError: (a `ValueError`) if the path exists, or transformers has no
            such model. Nothing is written.
        RunError: (a `RuntimeError`) if outputs or token ids differ. No
            directory remains.

    Example:

    ```python
    names = ("negative", "positive")
    kdkit.export.to_hugging_face(student, "student-hf", tokenizer, names)
    ```
    """
    return get_exporter("hf").export(
        model,
        path,
        tokenizer=tokenizer,
        class_names=class_names,
        problem_type=problem_type,
        verification_data=verification_data,
        overwrite=overwrite,
    )


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
        tokenizer = default_tokenizer(source, tokenizer)
        source = dataclasses.replace(source, extras=(tokenizer, conventions))
        return super().prepare(source, precision, outputs)

    def write(self, source, path, precision):
        tokenizer, conventions = source.extras
        models.save_sentence_transformer(
            source.model, tokenizer, path, source.sequence_length, conventions
        )

    def open(self, path, threads=1):
        return _outputs_of(models.load_embedder(path).model)


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
