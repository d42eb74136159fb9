"""Models of every kind, their files, written once for all tests, and a format.

`FILES` has a row for each file. `Memory` is a format whose files stay in
memory: a test of what all formats have in common converts nothing.
"""

import dataclasses
import functools
import itertools
import json
import pathlib
from collections.abc import Callable

import filelock
import keras
import numpy as np
from keras import layers

from kdkit import data, export, models
from kit.encoders import MAKERS
from kit.helpers import decoder, mass, sentiment_student, with_random_weights

LENGTH = 16  # of files of one length, in tokens
QUANTIZED = ("static_int8", "int16x8", "int4")
LABELS = ("good", "bad", "fair")  # not in the order of the alphabet
INPUTS = ("token_ids", "segment_ids", "padding_mask")
SIZES = {
    "num_layers": 1,
    "hidden_dim": 64,  # two blocks of int4
    "num_heads": 4,
    "intermediate_dim": 128,
    "max_sequence_length": 40,
    "dropout": 0.5,  # shows where a file computes as in training
}
FIRST, SMALLEST_VOCABULARY = 5, 60  # token ids, without the special ones
IMAGES = np.random.default_rng(0).random((32, 6, 6, 2), "float32")


def word_pieces():
    return models.word_piece_tokenizer(data.sentiment_vocabulary(), True)


def classifier(num_classes=3, **sizes):
    return sentiment_student(num_classes, **{**SIZES, **sizes})[0]


def bilstm():
    """A model of a user's own, with a mask of booleans and no segments."""
    tokens = keras.Input((None,), dtype="int32", name="token_ids")
    mask = keras.Input((None,), dtype="bool", name="padding_mask")
    x = layers.Embedding(100, 16)(tokens)
    x = layers.Bidirectional(layers.LSTM(12))(x, mask=mask)
    logits = layers.Dense(2)(layers.Dropout(0.5)(x))
    return keras.Model({"token_ids": tokens, "padding_mask": mask}, logits)


def encoder_decoder():
    return mass(120, 1, 1, 2, 32, 40, max_sequence_length=12)


def embedder(mode="mean", dtype=None, **pooling):
    words = len(data.sentiment_vocabulary())
    backbone = models.student(SIZES, vocabulary_size=words, dtype=dtype)
    return models.make_embedder(backbone, models.Pooling(mode, **pooling))


def mapped():
    """An embedder in half precision with dense layers, of any length."""
    dense = (models.DenseSettings(10, activation="tanh"),)
    return embedder("max", "mixed_float16", normalize=False, dense=dense)


class Network(keras.Model):
    """A subclassed image model, large enough to be quantized."""

    def __init__(self):
        super().__init__(name="network")
        self.conv = layers.Conv2D(64, 3, activation="relu")
        self.pool = layers.GlobalAveragePooling2D()
        self.head = layers.Dense(32)
        self(IMAGES)

    def call(self, x):
        return self.head(self.pool(self.conv(x)))


def reader():
    """A model whose only input, in a dict, is token ids of another name."""
    ids = keras.Input((4,), dtype="int32", name="ids")
    steps = [keras.Input((4,)), layers.Embedding(100, 3), layers.GRU(4)]
    return keras.Model({"ids": ids}, keras.Sequential(steps)(ids))


def of_family(family):
    """A classifier of a family, with embeddings of another width if it can."""
    wide = {"embedding_dim": 16} if family in ("albert", "electra") else {}
    sizes = SIZES | wide | {"family": family, "vocabulary_size": 100}
    return models.student(sizes, num_classes=3)


MODELS = {
    "classifier": classifier,
    "bilstm": bilstm,
    "decoder": lambda: decoder(
        1, vocabulary_size=120, hidden_dim=32, max_sequence_length=32
    ),
    "encoder_decoder": encoder_decoder,
    "embedder": embedder,
    "max_embedder": lambda: embedder("max"),
    "mapped": mapped,
    "image": Network,
    "reader": reader,
    **{one: functools.partial(of_family, one) for one in MAKERS},
}


@functools.cache
def model_of(kind):
    """The model of a kind, the same in every process."""
    keras.utils.set_random_seed(0)
    return with_random_weights(MODELS[kind](), scale=0.2)


def rows(num_rows, length, seed=0):
    """A batch for all kinds of encoders, whose rows have unequal lengths."""
    rng = np.random.default_rng(seed)
    shape = (num_rows, length)
    real = np.arange(length) < rng.integers(1, length + 1, (num_rows, 1))
    batch = {
        "token_ids": rng.integers(FIRST, SMALLEST_VOCABULARY, shape) * real,
        "segment_ids": rng.integers(0, 2, shape) * real,
        "padding_mask": real,
    }
    return {name: values.astype("int32") for name, values in batch.items()}


def encoded(*columns, tokenizer=None, length=LENGTH):
    """A batch of texts or of pairs."""
    examples = data.Examples(tuple(map(list, columns)))
    tokens = data.encode(examples, tokenizer or word_pieces(), length)
    return tokens.inputs(np.arange(len(tokens)), length)


def outputs(model, batch):
    """What Keras computes."""
    if not isinstance(batch, dict):
        return np.asarray(model(batch, training=False))
    if [*model.input] == ["ids"]:
        batch = {"ids": batch["token_ids"]}
    inputs = {name: batch[name] for name in model.input}
    return np.asarray(model(inputs, training=False), "float32")


def shortened(vectors):
    """The first 6 numbers of vectors, with length 1."""
    vectors = vectors[:, :6]
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@dataclasses.dataclass(frozen=True)
class File:
    """A row: the kind of model, the format, and the arguments of the export.

    `after` is what the file adds to the model's outputs.
    """

    kind: str
    format: str
    precision: str = "fp32"
    options: Callable = dict
    after: Callable = np.asarray

    @property
    def model(self):
        return model_of(self.kind)

    def expected(self, batch):
        """What the file should return for a batch."""
        return self.after(outputs(self.model, batch))


def for_mediapipe():
    settings = {"mediapipe": True, "tokenizer": word_pieces()}
    return settings | {"sequence_length": LENGTH, "labels": LABELS}


def calibrated():
    """LiteRT has no kernels for DeBERTa's positions at any length."""
    data = [rows(64, LENGTH, seed=1)]
    return {"sequence_length": LENGTH, "calibration_data": data}


def with_strings():
    inputs = export.TextInputs(word_pieces(), LENGTH, outputs="softmax")
    return {"strings": inputs}


def softmax(logits):
    return np.asarray(keras.ops.softmax(logits))


FILES = {
    "litert": File("classifier", "litert"),
    "litert_int8": File("classifier", "litert", "int8", for_mediapipe, softmax),
    "litert_bilstm": File(
        *("bilstm", "litert", "fp32", lambda: {"outputs": "sigmoid"}),
        lambda logits: 1 / (1 + np.exp(-logits)),
    ),
    "litert_embedder": File("embedder", "litert", "fp32", for_mediapipe),
    "litert_image": File(
        # The last batch has smaller activations than the first.
        *("image", "litert", "static_int8"),
        lambda: {"calibration_data": [IMAGES, IMAGES / 9]},
    ),
    "litert_reader": File("reader", "litert"),
    "onnx": File("classifier", "onnx"),
    "onnx_int8": File("classifier", "onnx", "int8"),
    "onnx_decoder": File("decoder", "onnx"),
    "onnx_roberta": File("roberta", "onnx"),  # with the exact GELU
    "onnx_embedder": File(
        *("max_embedder", "onnx", "fp32"),
        *(lambda: {"dimensions": 6}, shortened),
    ),
    "saved_model": File("classifier", "saved_model", "fp32", with_strings),
    "saved_model_mapped": File(
        *("mapped", "saved_model", "fp32", lambda: {"dimensions": 7}),
        lambda vectors: vectors[:, :7],
    ),
}
# Every format with every kind, precision and family, in `make test-large`.
LARGE_FILES = {
    f"{exporter.name}_{kind}_{precision}": File(kind, exporter.name, precision)
    for exporter in export.all_exporters()
    for kinds, kind in (
        *(("encoder", "classifier"), ("encoder", "bilstm")),
        *(("decoder", "decoder"), ("encoder_decoder", "encoder_decoder")),
        ("tensors", "image"),
    )
    for precision in export.PRECISIONS
    if kinds in exporter.kinds and precision in exporter.precisions
    if not exporter.is_checkpoint
} | {
    f"{family}_{format}_{precision}": File(family, format, precision, options)
    for family in MAKERS
    for format, precision, options in (
        *(("onnx", "fp32", dict), ("litert", "fp32", calibrated)),
        *(("litert", one, calibrated) for one in QUANTIZED),
    )
}


class Files:
    """Reports of the files in the table, each written when first asked for.

    Args:
        path: path of a folder, which all processes of the tests share.
    """

    def __init__(self, path):
        self.path = path
        path.mkdir(exist_ok=True)

    def __call__(self, name):
        note = self.path / f"{name}.json"
        with filelock.FileLock(self.path / f"{name}.lock"):
            if not note.exists():
                row = (FILES | LARGE_FILES)[name]
                # The place that the guides read, with no other file.
                folder = self.path / name / "runs" / "tinybert" / "exports"
                folder.mkdir(parents=True)
                exporter = export.get_exporter(row.format)
                file = folder / exporter.file_name("student", row.precision)
                settings = {"precision": row.precision, **row.options()}
                report = exporter.export(row.model, file, **settings)
                note.write_text(json.dumps(dataclasses.asdict(report)))
        return export.ExportReport(**json.loads(note.read_text()))


class Memory(export.Exporter):
    """A format whose file runs the Keras model, and changes its outputs.

    Args:
        change: function from the outputs and the number of the batch, 0 for
            the first, to the outputs of the file.
    """

    title, suffix = "Memory", ".memory"
    precisions, kinds = ("fp32", "fp16", "int8"), ("encoder", "tensors")

    def __init__(self, change=lambda outputs, number: outputs):
        self.change, self.numbers = change, itertools.count()

    def write(self, source, path, precision):
        self.source = source
        pathlib.Path(path).touch()

    def open(self, path, threads=1):
        return None

    def run(self, file, batch):
        found = np.asarray(self.source.model(batch, training=False))
        return self.change(found, next(self.numbers))
