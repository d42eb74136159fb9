"""LiteRT files that MediaPipe Tasks' text classifier and embedder open.

`TextClassifier` and `TextEmbedder` read a string. They need the vocabulary, the
labels (of a classifier) and a description of the tensors in the file:
TensorFlow Lite's metadata, a flat buffer inside the file's flat buffer, and
text files in the ZIP archive after it. The names `ids`, `mask` and
`segment_ids` are in this description only; the tensors and the signature have
the names that kdkit always writes.
"""

import dataclasses
import pathlib
import zipfile

import keras
import numpy as np

from kdkit.errors import RunError, UsageError
from kdkit.export import metadata
from kdkit.export.exportable import default_tokenizer
from kdkit.export.inputs import ENCODER, INPUT_NAMES
from kdkit.export.litert_files import (
    flatbuffers,
    input_name,
    packed_model,
    schema,
)
from kdkit.export.mediapipe_tokens import (
    MediaPipeTokenizer,
    extra_lines,
    lines_problem,
)
from kdkit.models.tokenizer_kinds import as_tokenizer

METADATA_IDENTIFIER = b"M001"
BUFFER = "TFLITE_METADATA"  # the name of the metadata in a `.tflite` file
OLDEST_PARSER = "1.1.0"  # the first one that knows BERT's tokenizer
VOCABULARY, LABELS = "vocab.txt", "labels.txt"
TENSOR_NAMES = {
    "token_ids": "ids",
    "segment_ids": "segment_ids",
    "padding_mask": "mask",
}
# Numbers in the schema of the metadata.
AXIS_LABELS, VOCABULARY_FILE = 2, 5  # types of associated files
FEATURES, BERT_TOKENIZER = 1, 4  # members of unions


@dataclasses.dataclass(frozen=True)
class TextTask:
    """What a file contains for MediaPipe's text classifier or embedder."""

    lines: tuple[str, ...]
    labels: tuple[str, ...] | None
    vocabulary_size: int
    targets: np.ndarray

    def model_ids(self, token_ids):
        """Returns the model's ids for the ids of `lines`."""
        if not len(self.targets):
            return token_ids
        last = self.vocabulary_size - 1
        extra = np.arange(len(self.targets)) + self.vocabulary_size
        # Added to ids, so that all ids of the model need one entry.
        shifts = np.concatenate([[0], self.targets - extra]).astype("int32")
        places = keras.ops.maximum(token_ids - last, 0)
        return token_ids + keras.ops.take(shifts, places, axis=0)

    def text_ids(self, texts, sequence_length: int) -> list[list[int]]:
        """Returns the ids of the model that MediaPipe makes from texts."""
        tokenizer = MediaPipeTokenizer(self.lines)
        ids = [*range(self.vocabulary_size), *self.targets.tolist()]
        return [
            [ids[number] for number in tokenizer(text, sequence_length)]
            for text in texts
        ]

    def add_to(self, path: pathlib.Path) -> None:
        """Adds the metadata, the vocabulary and the labels to a file."""
        model = schema.ModelT.InitFromPackedBuf(bytearray(path.read_bytes()), 0)
        graph = model.subgraphs[0]
        names = [
            input_name(graph.tensors[number].name.decode())
            for number in graph.inputs
        ]
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(self._metadata(names), "uint8")
        entry = schema.MetadataT()
        entry.name, entry.buffer = BUFFER, len(model.buffers)
        model.buffers.append(buffer)
        model.metadata = [*(model.metadata or ()), entry]
        path.write_bytes(packed_model(model))
        files = {VOCABULARY: self.lines}
        if self.labels is not None:
            files[LABELS] = self.labels
        metadata.add_files(
            path,
            {
                name: "".join(f"{line}\n" for line in lines)
                for name, lines in files.items()
            },
        )

    def verify(self, file, path: pathlib.Path) -> None:
        """Compares the outputs for the extra lines with those for their ids."""
        ids = np.arange(len(self.targets)) + self.vocabulary_size
        sequence_length = file.sequence_length
        for start in range(0, len(ids), sequence_length):
            part = slice(start, start + sequence_length)
            ours, theirs = (
                file(_one_row(some[part])) for some in (self.targets, ids)
            )
            if not np.array_equal(ours, theirs):
                raise RunError(
                    f"{path} was not written: other spellings in its "
                    f"{VOCABULARY} have other outputs than the pieces."
                )

    def _metadata(self, input_names):
        """Returns the metadata, for inputs in the file's order."""
        builder = flatbuffers.Builder()
        features = {0: FEATURES, 1: {}}
        vocabulary = {0: VOCABULARY, 1: "The word pieces", 2: VOCABULARY_FILE}
        output, name = {0: "embedding", 3: features}, "Text embedder"
        if self.labels is not None:
            names = {0: LABELS, 1: "The names of the classes", 2: AXIS_LABELS}
            output = {0: "score", 3: features, 6: [names]}
            name = "Text classifier"
        # Keys are the fields' numbers in the tables of the schema.
        graph = {
            2: [{0: TENSOR_NAMES[one], 3: features} for one in input_names],
            3: [output],
            5: [{0: BERT_TOKENIZER, 1: {0: [vocabulary]}}],
        }
        metadata = {0: name, 3: [graph], 7: OLDEST_PARSER}
        builder.Finish(_packed(builder, metadata), METADATA_IDENTIFIER)
        return builder.Output()


def title(is_embedder: bool) -> str:
    """Returns the name of the class of MediaPipe that runs a model."""
    return "TextEmbedder" if is_embedder else "TextClassifier"


def opened_by(path: pathlib.Path) -> str | None:
    """Returns the class of MediaPipe that opens a file, `None` without one."""
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    return title(LABELS not in names) if VOCABULARY in names else None


def _one_row(ids):
    ids = ids[np.newaxis].astype("int32")
    return {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
    }


def obstacle(source, tokenizer, num_texts: int = 1) -> str | None:
    """Returns why MediaPipe cannot run a model, `None` if it can."""
    if source.kind != ENCODER:
        return "it runs no decoders and no models on numbers"
    if num_texts != 1:
        return f"it reads one text, and the model reads {num_texts}"
    if source.rows_per_output != 1 or len(source.model.output.shape) != 2:
        return "it runs models of whole texts only"
    if source.model.output.shape[-1] < 2:
        return "it needs several outputs, and the model returns one number"
    if source.input_names != INPUT_NAMES:
        return (
            "it needs the inputs token_ids, segment_ids and padding_mask, and "
            f"the model has {' and '.join(source.input_names)} only"
        )
    if source.sequence_length is None:
        return "it needs a fixed length"
    if tokenizer is None:
        return "the model's tokenizer is unknown"
    if tokenizer.kind != "WordPiece":
        return (
            "it reads BERT's word pieces, and the model reads "
            f"{tokenizer.kind} tokens"
        )
    if not tokenizer.lowercase:
        return "it lower-cases all texts, and the vocabulary is cased"
    return lines_problem(tokenizer)


def text_task(source, tokenizer, labels, texts=()) -> TextTask:
    """Returns what a file of a model needs for MediaPipe."""
    tokenizer = default_tokenizer(source, tokenizer)
    if tokenizer is not None:
        tokenizer = as_tokenizer(tokenizer)
    problem = obstacle(source, tokenizer)
    if problem is not None:
        raise UsageError(
            f"MediaPipe's {title(source.is_embedder)} cannot run this model: "
            f"{problem}."
        )
    if source.is_embedder:
        labels = None
    else:
        labels = checked_labels(labels, source.model.output.shape[-1])
    lines = list(tokenizer.get_vocabulary())
    size = source.vocabulary_size
    if len(lines) > size:
        raise UsageError(
            f"The tokenizer has {len(lines)} pieces, the model only {size}."
        )
    extra = extra_lines(tokenizer, texts)
    lines += [f"[not a piece {number}]" for number in range(len(lines), size)]
    return TextTask(
        (*lines, *extra), labels, size, np.array([*extra.values()], "int32")
    )


def checked_labels(labels, num_classes: int) -> tuple[str, ...]:
    """Returns the lines of `labels.txt`, one for each output of a model."""
    labels = tuple(map(str, labels))
    are_lines = "\n".join(labels).splitlines() == [*labels]
    if not are_lines or not len(set(labels)) == len(labels) == num_classes:
        raise UsageError(
            f"A model of {num_classes} classes needs {num_classes} different "
            f"labels of one line. Received: {labels}."
        )
    return labels


def with_text_task(source, mediapipe, tokenizer, labels, texts):
    """Returns an `Exportable` whose model reads the ids of all lines."""
    task = mediapipe or None
    if mediapipe is True:
        task = text_task(source, tokenizer, labels, texts)
    if task is None or not len(task.targets):
        return source, task
    inputs = {
        name: keras.Input((source.sequence_length,), dtype="int32", name=name)
        for name in source.input_names
    }
    ids = task.model_ids(inputs["token_ids"])
    outputs = source.model({**inputs, "token_ids": ids})
    model = keras.Model(inputs, outputs, name=source.model.name)
    return dataclasses.replace(source, model=model), task


def _packed(builder, value):
    """Writes a string, a vector of tables or a table; returns its offset."""
    if isinstance(value, str):
        return builder.CreateString(value)
    if isinstance(value, list):
        offsets = [_packed(builder, one) for one in value]
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return builder.EndVector()
    offsets = {
        field: _packed(builder, one)
        for field, one in value.items()
        if not isinstance(one, int)
    }
    builder.StartObject(max(value, default=-1) + 1)
    for field, one in value.items():
        if isinstance(one, int):
            builder.PrependUint8Slot(field, one, 0)
        else:
            builder.PrependUOffsetTRelativeSlot(field, offsets[field], 0)
    return builder.EndObject()
