"""A Distiller that takes texts: the same numbers as with encoded batches."""

import inspect
import string

import keras
import keras_hub
import numpy as np
import pandas
import pytest
import tensorflow as tf
from kit.encoders import encoder, tokenizer
from kit.helpers import (
    LENGTH,
    VOCABULARY_SIZE,
    assert_same_weights,
    bert,
    cross_entropy,
    decoder,
    to_numpy,
)

import kdkit
from kdkit.losses import HiddenStateMSE, LogitMSE, SoftCrossEntropy

pytestmark = pytest.mark.usefixtures("eager")

TEXTS = [
    "a dull plot and a weak cast",
    "the cast is good",
    "good",
    "the end is superb",
    "weak",
    "a plot",
]
OTHERS = ["good", "dull", "the end", "a cast", "superb , yet dull", "is"]
LABELS = np.array([0, 2, 1, 2, 0, 1])
WEIGHTS = np.array([1.0, 0.0, 2.0, 1.0, 0.5, 3.0])
DATA = (TEXTS, LABELS, WEIGHTS)


class Preprocessor(keras_hub.models.BertTextClassifierPreprocessor):
    """A preprocessor that counts the batches that it encodes."""

    calls = 0

    def __init__(self, **given):
        given = {"sequence_length": LENGTH, "truncate": "round_robin"} | given
        super().__init__(tokenizer("bert"), **given)

    def call(self, *args, **kwargs):
        self.calls += 1
        return super().call(*args, **kwargs)


class Noting(kdkit.Distiller):
    """Notes the token ids of each step."""

    seen = []

    def run_student(self, x, *arguments, **training):
        self.seen.append(np.asarray(x["token_ids"]))
        return super().run_student(x, *arguments, **training)


def encoded(texts):
    return to_numpy(Preprocessor()(texts, y=None))


def batches(*parts, size=3):
    return tf.data.Dataset.from_tensor_slices(parts).batch(size)


def pair(loss=None, preprocessor=None, cls=kdkit.Distiller, **sizes):
    """A distiller of two models that share a preprocessor."""
    sizes = {"num_layers": 1} | sizes
    teacher, student = (encoder("bert", seed=seed, **sizes) for seed in (1, 2))
    teacher.preprocessor = student.preprocessor = preprocessor or Preprocessor()
    model = cls(
        teacher,
        student,
        kdkit.Objective(loss or SoftCrossEntropy()),
        hard_label_weight=0.5,
    )
    model.compile("sgd", cross_entropy(), metrics=["accuracy"])
    return model


@pytest.fixture(scope="module")
def shared():
    """A distiller with the weights that it starts from."""
    model = pair()
    return model, model.student.get_weights()


@pytest.fixture
def model(shared):
    model, weights = shared
    model.student.set_weights(weights)
    model.student.preprocessor.calls = 0
    model.reset_metrics()
    return model


def same(received, expected):
    """Batches of another shape are another program, which rounds otherwise."""
    keras.tree.map_structure(
        lambda one, other: np.testing.assert_allclose(one, other, 1e-5, 1e-6),
        received,
        expected,
    )


def logs_of(model, x, y=None, weights=None):
    """The logs of data by batches of three."""
    size = None if isinstance(x, tf.data.Dataset) else 3
    return model.evaluate(x, y, size, 0, weights, return_dict=True)


COLUMNS = [
    np.array,
    lambda texts: np.array(texts, dtype=object),
    lambda texts: np.array([text.encode() for text in texts]),
    pandas.Series,
    tf.constant,
    list,
]


def test_texts_of_any_form_have_the_numbers_of_their_encoded_batches(model):
    expected = logs_of(model, encoded(TEXTS), LABELS, WEIGHTS)
    for form in COLUMNS:
        same(logs_of(model, form(TEXTS), list(LABELS), WEIGHTS), expected)
    same(logs_of(model, batches(*DATA)), expected)
    x = encoded((TEXTS, OTHERS))
    assert x["segment_ids"].any()
    expected = logs_of(model, x, LABELS)
    series = pandas.Series(TEXTS), pandas.Series(OTHERS)
    for texts in ((TEXTS, OTHERS), series):
        same(logs_of(model, texts, LABELS), expected)
    same(logs_of(model, batches((TEXTS, OTHERS), LABELS)), expected)
    predicted = model.predict(x, verbose=0)
    same(predicted, to_numpy(model.student(x)))
    same(model.predict((TEXTS, OTHERS), batch_size=3, verbose=0), predicted)


def test_fit_on_texts_is_fit_on_their_encoded_batches(model, shared):
    def fitted(x, y=LABELS, **given):
        model.student.set_weights(shared[1])
        given = {"batch_size": 3, "epochs": 2, "shuffle": False} | given
        history = model.fit(x, y, verbose=0, **given).history
        return history, model.student.get_weights()

    x, data = encoded(TEXTS), batches(*DATA)
    weights = {"sample_weight": WEIGHTS}
    expected = fitted(x, validation_data=(x, LABELS, WEIGHTS), **weights)
    assert "val_accuracy" in expected[0]
    assert model.student.preprocessor.calls == 0
    same(fitted(TEXTS, validation_data=DATA, **weights), expected)
    assert model.student.preprocessor.calls == 2  # in two epochs
    same(fitted(data, None, batch_size=None, validation_data=data), expected)
    half = {"validation_split": 0.5}
    same(fitted(TEXTS, **half), fitted(x, **half))


def test_traced_steps_are_the_eager_ones(model, shared):
    eager = model.fit(batches(*DATA), shuffle=False, verbose=0).history
    student, objectives = model.student, model.objectives
    student.set_weights(shared[1])
    traced = kdkit.Distiller(model.teacher, student, objectives, 0.5)
    metrics = ["accuracy"]
    traced.compile("sgd", cross_entropy(), metrics=metrics, run_eagerly=False)
    given = {"sample_weight": WEIGHTS, "shuffle": False}
    same(traced.fit(TEXTS, LABELS, 3, 1, 0, **given).history, eager)
    fits = traced.fit, keras.Sequential().fit
    assert inspect.signature(fits[0]) == inspect.signature(fits[1])


def test_batches_of_texts_are_as_long_as_their_longest_text():
    texts = ["good"] * 4 + ["a dull plot and a weak cast " * 4] * 4
    y = np.zeros(8, "int32")
    long = Preprocessor(sequence_length=64)
    model = pair(LogitMSE(), long, Noting, max_sequence_length=64)
    model.seen.clear()
    full = to_numpy(long(texts, y=None))
    expected = model.evaluate(full, y, verbose=0)

    def require(lengths, logs):
        assert {ids.shape[1] for ids in model.seen} == lengths
        same(logs, expected)
        model.seen.clear()

    require({64}, expected)
    require({16, 32}, model.evaluate(texts, y, 4, 0))
    data = batches(texts, y, size=4)
    require({16, 32}, model.evaluate(data, verbose=0))
    logits = model.predict(texts, batch_size=4, verbose=0)
    same(logits, model.predict(full, verbose=0))
    model.fit(texts, y, 4, 1, 0, validation_data=(texts, y), shuffle=False)
    require({16, 32}, expected)


@pytest.mark.parametrize("shuffle", [True, False])
def test_texts_have_another_order_in_each_epoch(shuffle):
    vocabulary = tokenizer("bert").get_vocabulary()
    words = [word for word in vocabulary if word.isalpha()]
    model = pair(cls=Noting)
    model.seen.clear()
    y = np.zeros(len(words), "int32")
    model.fit(words, y, 5, 2, 0, shuffle=shuffle)
    rows = np.concatenate(model.seen)[:, 1]
    first, second = rows.reshape(2, -1).tolist()
    assert (first == second) == (not shuffle)
    assert sorted(first) == sorted(second)
    assert len(set(first)) == len(words) > 10


def test_a_model_with_text_vectorization_reads_strings():
    vectorization = keras.layers.TextVectorization(output_sequence_length=6)
    vectorization.adapt(TEXTS)

    def net(width):
        parts = [
            keras.Input((), dtype="string"),
            vectorization,
            keras.layers.Embedding(50, width),
            keras.layers.GlobalMaxPooling1D(),
            keras.layers.Dense(3),
        ]
        return keras.Sequential(parts)

    teacher, student = net(8), net(4)
    model = kdkit.Distiller(teacher, student, kdkit.Objective(LogitMSE()))
    model.compile("sgd")
    texts = tf.constant(TEXTS)
    expected = np.mean((teacher(texts) - student(texts)) ** 2)
    for x in (texts, tf.data.Dataset.from_tensors(TEXTS)):
        logs = model.evaluate(x, return_dict=True, verbose=0)
        assert logs["logit_mse"] == pytest.approx(expected, rel=1e-5)
    model.fit(texts, verbose=0)
    same(model.predict(texts, verbose=0), to_numpy(student(texts)))


def test_a_decoders_preprocessor_makes_the_labels():
    pieces = ["<|endoftext|>", "Ġ", "th", *string.ascii_lowercase]
    reader = keras_hub.models.GPT2CausalLMPreprocessor(
        keras_hub.tokenizers.GPT2Tokenizer(
            vocabulary={piece: number for number, piece in enumerate(pieces)},
            merges=["t h"],
        ),
        sequence_length=LENGTH,
    )
    teacher, student = decoder(1, seed=1), decoder(1, seed=2)
    teacher.preprocessor = student.preprocessor = reader
    model = kdkit.Distiller(
        teacher, student, kdkit.Objective(SoftCrossEntropy()), 0.5
    )
    model.compile("sgd", cross_entropy())
    x, y, weights = to_numpy(reader(TEXTS))
    same(
        model.evaluate(TEXTS, verbose=0),
        model.evaluate(x, y, sample_weight=weights, verbose=0),
    )


# Students that take their preprocessor from a teacher.

SIZES = {
    "num_layers": 1,
    "hidden_dim": 8,
    "num_heads": 2,
    "intermediate_dim": 8,
    "max_sequence_length": LENGTH,
}


def test_inputs_are_those_that_the_teacher_needs_too():
    teacher = bert(1, 12, seed=1)
    teacher.preprocessor = Preprocessor()
    student = kdkit.models.student(
        {"family": "distil_bert", **SIZES}, teacher=teacher
    )
    assert "segment_ids" not in student.input
    objective = kdkit.Objective(SoftCrossEntropy())
    model = kdkit.Distiller(teacher, student, objective)
    model.compile()
    texts = (TEXTS, OTHERS)
    same(*(model.evaluate(x, verbose=0) for x in (texts, encoded(texts))))


def test_a_student_gets_its_teachers_preprocessor_and_sizes():
    teacher = bert(1, 12, num_classes=5)
    teacher.preprocessor = Preprocessor()
    student = kdkit.models.student(SIZES, teacher=teacher)
    assert student.preprocessor is teacher.preprocessor
    assert student.num_classes == 5
    assert student.backbone.vocabulary_size == VOCABULARY_SIZE
    loaded = kdkit.models.LoadedModel(
        bert(1, 12), tokenizer("bert"), True, sequence_length=LENGTH
    )
    student = kdkit.models.student(SIZES, teacher=loaded)
    texts = (TEXTS, OTHERS)
    same(to_numpy(student.preprocessor(texts, y=None)), encoded(texts))
    teacher.preprocessor = None
    student = kdkit.models.student(SIZES, teacher=teacher)
    assert student.preprocessor is None


# What would be read as other texts.

REFUSED = {
    "row": (("a plot", "good"), "columns"),
    "rows": ([("a plot", "good")] * 6, "columns"),
    "three": ((TEXTS, TEXTS, TEXTS), "columns"),
    "labels": (TEXTS[:5], "5 and 6"),
    "sequence_length": (TEXTS, "sequence_length"),
    "truncate": (TEXTS, "truncate"),
}
OTHER_SETTINGS = {"sequence_length": LENGTH - 1, "truncate": "waterfall"}


@pytest.mark.parametrize("mistake", REFUSED)
def test_texts_that_would_be_others_are_refused(model, monkeypatch, mistake):
    x, words = REFUSED[mistake]
    if mistake in OTHER_SETTINGS:
        other = Preprocessor(**{mistake: OTHER_SETTINGS[mistake]})
        monkeypatch.setattr(model.student, "preprocessor", other)
    weights = model.student.get_weights()
    with pytest.raises(ValueError, match=words):
        model.fit(x, LABELS, verbose=0)
    assert_same_weights(model.student.get_weights(), weights)
    model.evaluate(encoded(TEXTS), LABELS, verbose=0)


def test_pairs_that_are_joined_otherwise_are_refused():
    """RoBERTa has two ends between texts, the other families one."""
    words = tokenizer("roberta")
    teacher = encoder("roberta", vocabulary_size=words.vocabulary_size())
    made = keras_hub.models.RobertaTextClassifierPreprocessor
    teacher.preprocessor = made(words, sequence_length=LENGTH)
    sizes = {**SIZES, "family": "distil_bert"}
    student = kdkit.models.student(sizes, teacher=teacher)
    model = kdkit.Distiller(
        teacher, student, kdkit.Objective(SoftCrossEntropy())
    )
    model.compile("sgd")
    model.evaluate(TEXTS, verbose=0)
    with pytest.raises(ValueError, match="texts of a pair"):
        model.evaluate((TEXTS, OTHERS), verbose=0)


# Models of different vocabularies.


@pytest.fixture(scope="module")
def separate():
    """A teacher whose ids are other words, and a student."""
    pieces = tokenizer("bert").get_vocabulary()
    teacher, student = bert(1, 12, seed=1), bert(1, 8, seed=2)
    teacher.preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        keras_hub.tokenizers.BertTokenizer(
            vocabulary=[*pieces[:5], *pieces[:4:-1]]
        ),
        sequence_length=LENGTH - 1,
    )
    student.preprocessor = Preprocessor()
    return teacher, student


def logits(model):
    return to_numpy(model(model.preprocessor(TEXTS, y=None)))


def distance(teacher, student):
    """Between logits of texts."""
    return np.mean((logits(teacher) - logits(student)) ** 2)


def test_models_of_different_vocabularies_share_logits(separate):
    teacher, student = separate
    model = kdkit.Distiller(teacher, student, kdkit.Objective(LogitMSE()), 0.5)
    model.compile("sgd", cross_entropy(), metrics=["accuracy"])
    theirs, ours = (
        to_numpy(one.preprocessor(TEXTS, y=None)) for one in separate
    )
    assert (theirs["token_ids"] != ours["token_ids"][:, : LENGTH - 1]).any()
    expected = distance(teacher, student)
    batch = ours | {f"teacher_{name}": one for name, one in theirs.items()}
    for data in ((TEXTS, LABELS), (batch, LABELS), (batches(TEXTS, LABELS),)):
        logs = model.evaluate(*data, return_dict=True, verbose=0)
        np.testing.assert_allclose(logs["logit_mse"], expected, 1e-4)
    before = logits(student)
    model.fit(TEXTS, LABELS, verbose=0)
    after = model.predict(TEXTS, verbose=0)
    same(after, logits(student))
    assert not np.allclose(after, before)

    other = bert(1, 12, seed=4)  # with the student's words
    other.preprocessor = student.preprocessor
    model = kdkit.Distiller([other, teacher], student, model.objectives)
    model.compile("sgd")
    logs = model.evaluate(TEXTS, return_dict=True, verbose=0)
    expected = np.mean([distance(one, student) for one in (other, teacher)])
    np.testing.assert_allclose(logs["logit_mse"], expected, 1e-4)


def test_layers_of_different_vocabularies_are_not_compared(separate):
    objective = kdkit.Objective(
        HiddenStateMSE(), tap="hidden_states", projection="shared"
    )
    with pytest.raises(ValueError, match="token ids"):
        kdkit.Distiller(*separate, objective)
