"""NumPy oracles, tiny models and tiny data for the tests."""

import contextlib
import dataclasses
import functools
import itertools
import json
import pathlib
import re
import socket
import subprocess
import sys

import keras
import keras_hub
import numpy as np
import pytest

import kdkit
from kdkit import data, models
from kdkit.data import synthetic
from kdkit.io.files import with_own_digest
from kdkit.recipes import RECIPES
from kdkit.runs.events import read_log
from kdkit.training.checkpoints import StageCheckpoints

ENGLISH = ["a man runs", "a dog sleeps on the grass", "two men", "the dog"]
GERMAN = ["ein mann rennt", "ein hund schläft im gras", "zwei männer", "hund"]
VOCABULARY_SIZE = 20
DEV_ROWS = 64  # of generated sentences, as many as most runs train on
LENGTH = 6
ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"


def document(name):
    """The text of docs/NAME.md."""
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def python_blocks(name):
    """The blocks of Python in docs/NAME.md."""
    return re.findall(r"^```python\n(.*?)^```", document(name), re.M | re.S)


def log_softmax(logits):
    """The logarithm of the softmax over the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def softmax(logits):
    """The softmax over the last axis."""
    return np.exp(log_softmax(logits))


def units(vectors):
    """The vectors with a length of 1."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def divergence(teacher, student):
    """Cross-entropy of rows of logits less the teacher's entropy."""
    of_teacher, of_student = log_softmax(teacher), log_softmax(student)
    return np.sum(np.exp(of_teacher) * (of_teacher - of_student), axis=-1)


def with_random_weights(model, scale=0.3, seed=0):
    """The model, further from its start, so that differences show."""
    rng = np.random.default_rng(seed)
    model.set_weights(
        [
            value + rng.normal(0, scale, value.shape)
            for value in model.get_weights()
        ]
    )
    return model


def bert(
    num_layers=2,
    hidden_dim=8,
    num_heads=2,
    num_classes=3,
    dropout=0.0,
    dtype=None,
    seed=0,
):
    """A tiny BERT classifier, or its backbone if `num_classes` is `None`."""
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=VOCABULARY_SIZE,
        num_layers=num_layers,
        num_heads=num_heads,
        hidden_dim=hidden_dim,
        intermediate_dim=2 * hidden_dim,
        max_sequence_length=LENGTH,
        dropout=dropout,
        dtype=dtype,
    )
    model = backbone
    if num_classes is not None:
        model = keras_hub.models.BertTextClassifier(
            backbone, num_classes=num_classes, dropout=dropout
        )
    spread_weights(model, seed)
    return model


# Sizes of tiny decoders that only one family has.
GROUPED = {"num_heads": 4, "num_key_value_heads": 2}
DECODER_SIZES = {"llama3": GROUPED, "qwen3": GROUPED}


def decoder(num_layers, seed=0, family="gpt2", **sizes):
    """A tiny decoder with a vocabulary of 40 and, if any, 12 positions."""
    backbone = models.student(
        {
            "family": family,
            "num_layers": num_layers,
            "hidden_dim": 16,
            "num_heads": 2,
            "intermediate_dim": 24,
            "vocabulary_size": 40,
            "max_sequence_length": 12,
            "dropout": 0.0,
            **DECODER_SIZES.get(family, {}),
            **sizes,
        }
    )
    model = models.language_model(backbone)
    spread_weights(model, seed)
    return model


def mass(words, encoder, decoder, heads, width, inner, **more):
    """A MASS language model of these sizes."""
    sizes = (encoder, decoder, width, heads, inner, words)
    backbone = models.student(models.MassConfig(*sizes, **more))
    return models.MassSeq2SeqLM(backbone)


def spread_weights(model, seed=0):
    """Draws weights so large that no tapped tensor is nearly constant."""
    generator = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        noise = generator.normal(size=weight.shape) / 2
        if weight.path.endswith(("gamma", "scale")):
            noise = 1 + noise / 2
        weight.assign(noise)


def batch(num_examples=4, length=LENGTH, seed=0):
    """Inputs of a BERT, with rows of unequal length, none of them empty."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(2, length + 1, size=(num_examples, 1))
    lengths[0] = length
    padding_mask = np.arange(length) < lengths
    token_ids = generator.integers(
        1, VOCABULARY_SIZE, size=(num_examples, length)
    )
    return {
        "token_ids": (token_ids * padding_mask).astype("int32"),
        "segment_ids": np.zeros((num_examples, length), "int32"),
        "padding_mask": padding_mask.astype("int32"),
    }


def inputs_of(model):
    """A batch with the inputs of a model."""
    everything = batch() | {"mask_positions": np.array([[1, 2]] * 4)}
    return {name: everything[name] for name in model.input}


class ArrayExamples(data.SequenceDataset):
    """Examples in nested arrays, whose batches are some of their rows."""

    sequence_length = 1

    def __init__(self, arrays):
        self._arrays = arrays
        count = len(keras.tree.flatten(arrays)[0])
        self.lengths = np.ones(count, "int32")

    def batch(self, rows, padded_length, seed):
        return keras.tree.map_structure(lambda array: array[rows], self._arrays)


def labels(num_examples=4, num_classes=3, seed=0):
    """Integer labels."""
    return np.random.default_rng(seed).integers(num_classes, size=num_examples)


def to_numpy(nested):
    """The same structure with NumPy arrays in it."""
    return keras.tree.map_structure(keras.ops.convert_to_numpy, nested)


class ProbedEncoder(keras_hub.layers.TransformerEncoder):
    """A transformer block that counts its forward passes."""

    def build(self, inputs_shape):
        super().build(inputs_shape)
        self.calls, self.training_calls = (
            self.add_weight(
                name=name,
                shape=(),
                dtype="int32",
                initializer="zeros",
                trainable=False,
            )
            for name in ("calls", "training_calls")
        )

    def call(self, inputs, padding_mask=None, training=None, **kwargs):
        self.calls.assign_add(1)
        self.training_calls.assign_add(int(bool(training)))
        return super().call(
            inputs, padding_mask=padding_mask, training=training, **kwargs
        )


class Hidden(keras.layers.Layer):
    """A function that a model's graph does not show."""

    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        self.function = function

    def call(self, inputs):
        return self.function(inputs)


class TinyBackbone(keras_hub.models.Backbone):
    """An encoder of a user's own, with probed blocks."""

    def __init__(self, num_layers=2, normalize_first=False, dropout=0.1):
        inputs = {
            "token_ids": keras.Input((None,), dtype="int32", name="token_ids"),
            "padding_mask": keras.Input(
                (None,), dtype="int32", name="padding_mask"
            ),
        }
        embedding = keras.layers.Embedding(VOCABULARY_SIZE, 8)
        state = embedding(inputs["token_ids"])
        blocks = [
            ProbedEncoder(
                intermediate_dim=16,
                num_heads=2,
                dropout=dropout,
                normalize_first=normalize_first,
                name=f"block_{index}",
            )
            for index in range(num_layers)
        ]
        for block in blocks:
            state = block(state, padding_mask=inputs["padding_mask"])
        super().__init__(inputs=inputs, outputs=state)
        self.token_embedding = embedding
        self.transformer_layers = blocks
        self.hidden_dim = 8

    def counts(self):
        """Forward passes of the blocks: all, and those in training mode."""
        return [
            (int(block.calls), int(block.training_calls))
            for block in self.transformer_layers
        ]


def classifier(backbone, num_classes=3, **dense):
    """A functional model of a user's own around a backbone."""
    inputs = {
        name: keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=name)
        for name, tensor in backbone.input.items()
    }
    states = backbone(inputs)
    logits = keras.layers.Dense(num_classes, **dense)(states[:, 0])
    return keras.Model(inputs, logits)


def objectives(include_logits=True):
    """TinyBERT's objectives: attention, hidden states and soft labels."""
    result = [
        kdkit.Objective(kdkit.losses.AttentionMSE(), tap="attention_logits"),
        kdkit.Objective(
            kdkit.losses.HiddenStateMSE(),
            tap="hidden_states",
            weight=0.5,
            projection="shared",
        ),
    ]
    if include_logits:
        result.append(kdkit.Objective(kdkit.losses.SoftCrossEntropy()))
    return result


def distiller(teacher=None, student=None, terms=None, **arguments):
    """An uncompiled distiller of tiny models, 2 × 12 to 1 × 8."""
    return kdkit.Distiller(
        teacher or bert(2, 12, seed=1),
        student or bert(1, 8, seed=2),
        objectives=objectives() if terms is None else terms,
        **arguments,
    )


def cross_entropy(**options):
    """The loss on integer labels."""
    return keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, **options
    )


def batch_logs(model, x, y=None, sample_weight=None):
    """The logs of one batch that a compiled model measures, as floats."""
    model.reset_metrics()
    logs = model.test_on_batch(x, y, sample_weight, return_dict=True)
    return {name: float(value) for name, value in logs.items()}


def assert_same_weights(one, other, atol=0.0):
    """Compares two lists of weights, such as models' `get_weights()`."""
    for found, expected in zip(one, other, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=atol)


def save_classifier(model, tokens, path, length, head=None):
    one = models.LoadedModel(model, tokens, sequence_length=length, head=head)
    models.save_model(one, path)


def run_without_kdkit(program, folder):
    """Runs a program where kdkit cannot be imported; returns what it prints.

    Args:
        program: string of Python.
        folder: path. Where it runs.
    """
    return subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.modules['kdkit'] = None\n{program}",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def free_ports(number):
    """As many ports of this machine where nobody listens."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def read_events(run, kind=None):
    """The last event of each key in a run's log, all or those of a kind."""
    events, _ = read_log(run / "metrics.jsonl")
    found = [{"event": one.kind, **dataclasses.asdict(one)} for one in events]
    found = json.loads(json.dumps(found))
    return [event for event in found if kind in (None, event["event"])]


def change_events(run, change):
    """Writes a run's log as if `change` of each event had been logged."""
    events = read_events(run)
    for event in events:
        change(event)
    lines = [json.dumps(with_own_digest(event)) for event in events]
    (run / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))


def sentiment_student(num_classes=2, **sizes):
    """A student of one block for generated sentences, and its tokenizer."""
    vocabulary = data.sentiment_vocabulary()
    config = {
        "num_layers": 1,
        "hidden_dim": 8,
        "num_heads": 2,
        "intermediate_dim": 16,
        "vocabulary_size": len(vocabulary),
        **sizes,
    }
    tokenizer = keras_hub.tokenizers.BertTokenizer(vocabulary, lowercase=True)
    return models.student(config, num_classes=num_classes), tokenizer


@contextlib.contextmanager
def small_dev_set():
    """The generated sentences to measure on are `DEV_ROWS`."""
    data.load_sentiment("dev")  # all are kept for later
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(synthetic.NUM_EXAMPLES, "dev", DEV_ROWS)
        yield


def large_except(values, *quick):
    """Values for tests, of which all but the quick ones need `--run-large`."""
    assert all(value in values for value in quick), "no such value"
    marks = [() if value in quick else pytest.mark.large for value in values]
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)), marks=mark
        )
        for value, mark in zip(values, marks, strict=True)
    ]


ON_TASKS = tuple(
    name for name, recipe in RECIPES.items() if not recipe.trains_embedder
)


NUM_DEV_EXAMPLES = synthetic.NUM_EXAMPLES["dev"]
COMPILE = keras.Model.compile


@contextlib.contextmanager
def as_users():
    """Undoes `small_dev_set` and `eager_steps`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(synthetic.NUM_EXAMPLES, "dev", NUM_DEV_EXAMPLES)
        patch.setattr(keras.Model, "compile", COMPILE)
        yield


@contextlib.contextmanager
def eager_steps():
    """Models run their steps untraced; tracing is most of a short run."""
    compile_eagerly = functools.partialmethod(
        keras.Model.compile, run_eagerly=True
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.Model, "compile", compile_eagerly)
        yield


@contextlib.contextmanager
def stopped_after_save(number):
    """Stops the run in it when it saved within an epoch so many times."""
    save_step = StageCheckpoints.save_step
    left = itertools.count(1)

    def save_and_stop(self, *arguments):
        save_step(self, *arguments)
        if next(left) == number:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StageCheckpoints, "save_step", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            yield


@contextlib.contextmanager
def stopped_after_epoch(number):
    """Stops the run in it when a stage has saved so many epochs."""
    save_epoch = StageCheckpoints.save_epoch

    def save_and_stop(self, trainer, student, epoch, *arguments):
        save_epoch(self, trainer, student, epoch, *arguments)
        if epoch == number:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StageCheckpoints, "save_epoch", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            yield
