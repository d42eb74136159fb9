"""A Distiller that takes texts: the same numbers as with encoded batches."""

import inspect
import string
from unittest import mock

import keras
import keras_hub
import numpy as np
import pandas
import pytest
from kit.backend import tensorflow_only
from kit.encoders import encoder, tokenizer
from kit.helpers import (
    LENGTH,
    VOCABULARY_SIZE,
    bert,
    cross_entropy,
    decoder,
    to_numpy,
)

import kdkit
from kdkit.distillation import strings, text_batches
from kdkit.errors import UsageError
from kdkit.late import tf

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


def preprocessor(cls=keras_hub.models.BertTextClassifierPreprocessor, **given):
    return cls(
        tokenizer("bert"),
        **{"sequence_length": LENGTH, "truncate": "round_robin", **given},
    )


class Counted(keras_hub.models.BertTextClassifierPreprocessor):
    """A preprocessor that counts the batches that it encodes."""

    calls = 0

    def call(self, *args, **kwargs):
        self.calls += 1
        return super().call(*args, **kwargs)


START = {}


def encoded(texts):
    return to_numpy(preprocessor()(texts, y=None))


@pytest.fixture(scope="module")
def model():
    """A distiller on labels too, whose models share one preprocessor."""
    teacher, student = bert(1, 12, seed=1), bert(1, 8, seed=2)
    teacher.preprocessor = student.preprocessor = preprocessor(Counted)
    model = kdkit.Distiller(
        teacher,
        student,
        kdkit.Objective(kdkit.losses.SoftCrossEntropy()),
        hard_label_weight=0.5,
    )
    model.compile("sgd", cross_entropy(), metrics=["accuracy"])
    # The first use of texts and of metrics draws from the generator of orders.
    START["weights"] = student.get_weights()
    model.fit(TEXTS, LABELS, batch_size=3, verbose=0)
    return model


@pytest.fixture(autouse=True)
def _from_the_start(model):
    model.student.set_weights(START["weights"])
    model.teacher.preprocessor.calls = 0
    keras.utils.set_random_seed(0)


def after(model, x, y=None, **given):
    """The student's weights after `fit`, and the history."""
    model.student.set_weights(START["weights"])
    keras.utils.set_random_seed(0)
    given = {"batch_size": 3, "epochs": 2, **given}
    if y is None:
        given = {**given, "batch_size": None, "shuffle": False}
    history = model.fit(x, y, verbose=0, **given)
    return model.student.get_weights(), history.history


def require_equal(received, expected):
    """Batches of unknown size are another program, which rounds otherwise."""
    keras.tree.map_structure(
        lambda one, other: np.testing.assert_allclose(one, other, 1e-5, 1e-6),
        received,
        expected,
    )


def watched(model, read):
    """Calls a function with the inputs of each of the student's batches."""
    original = model._hidden.run_student

    def run_student(x, training):
        read(x)
        return original(x, training)

    return mock.patch.object(model._hidden, "run_student", run_student)


@pytest.mark.parametrize("kind", ["column", "dataset", "split", "batch"])
def test_batches_of_texts_are_as_long_as_their_longest_text(kind):
    texts = ["good"] * 4 + ["a dull plot and a weak cast " * 4] * 4
    teacher, student = (
        encoder("bert", seed=seed, max_sequence_length=64) for seed in (1, 2)
    )
    teacher.preprocessor = student.preprocessor = preprocessor(
        sequence_length=64
    )
    objective = kdkit.Objective(kdkit.losses.LogitMSE())
    model = kdkit.Distiller(teacher, student, objective)
    model.compile("sgd", run_eagerly=True)
    full = to_numpy(student.preprocessor(texts, y=None))
    expected = model.evaluate(full, verbose=0)
    shapes, losses = set(), []
    with watched(model, lambda x: shapes.add(tuple(x["token_ids"].shape))):
        if kind == "column":
            losses.append(model.evaluate(texts, batch_size=4, verbose=0))
        elif kind == "dataset":
            dataset = tf.data.Dataset.from_tensor_slices(texts).batch(4)
            losses.append(model.evaluate(dataset, verbose=0))
        elif kind == "batch":
            losses.append(model.test_on_batch(texts))
        else:
            model.fit(
                texts[2:] + texts[:2],
                validation_split=0.25,
                batch_size=6,
                verbose=0,
            )
    lengths = {length for _, length in shapes}
    assert lengths == ({32} if kind == "batch" else {16, 32})
    require_equal(losses, [expected] * len(losses))
    logits = model.predict(texts, batch_size=4, verbose=0)
    require_equal(logits, model.predict(full, verbose=0))


def test_texts_have_another_order_in_each_epoch():
    numbers = np.arange(16)[:, np.newaxis]
    x = {"token_ids": numbers, "padding_mask": np.ones_like(numbers)}
    orders = []
    for shuffle in (True, False):
        batches = text_batches.text_batches(
            (x, numbers, None), 5, slice(None), shuffle, False
        )
        for _ in range(2):
            getattr(batches, "on_epoch_begin", int)()  # of a `PyDataset`
            rows = [to_numpy((x["token_ids"], y)) for x, y in batches]
            assert [len(y) for _, y in rows] == [5, 5, 5, 1]
            ids, labels = (
                np.concatenate(one) for one in zip(*rows, strict=True)
            )
            np.testing.assert_array_equal(ids, labels)
            orders.append(ids[:, 0].tolist())
    first, second, third, fourth = orders
    assert first != second
    assert sorted(first) == sorted(second) == third == fourth


@tensorflow_only
def test_a_model_with_text_vectorization_reads_strings():
    vectorization = keras.layers.TextVectorization(output_sequence_length=6)
    vectorization.adapt(TEXTS)

    def net(width):
        return keras.Sequential(
            [
                keras.Input((), dtype="string"),
                vectorization,
                keras.layers.Embedding(50, width),
                keras.layers.GlobalMaxPooling1D(),
                keras.layers.Dense(3),
            ]
        )

    teacher, student = net(8), net(4)
    model = kdkit.Distiller(
        teacher, student, kdkit.Objective(kdkit.losses.LogitMSE())
    )
    model.compile("sgd", run_eagerly=True)
    texts = tf.constant(TEXTS)
    expected = np.mean((teacher(texts) - student(texts)) ** 2)
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).batch(6)
    for x in (texts, dataset):
        logs = model.evaluate(x, return_dict=True, verbose=0)
        assert logs["logit_mse"] == pytest.approx(expected, rel=1e-5)
    model.fit(texts, verbose=0)
    np.testing.assert_allclose(
        model.predict(texts, verbose=0), student(texts), 1e-5
    )


KINDS = {
    "list": list,
    "strings": np.array,
    "objects": lambda texts: np.array(texts, dtype=object),
    "bytes": lambda texts: np.array([text.encode() for text in texts]),
    "column": pandas.Series,
    "tensor": lambda texts: tf.constant(texts),
}


@pytest.fixture(scope="module")
def on_arrays(model):
    """The result of training on encoded texts."""
    return after(
        model, encoded(TEXTS), LABELS, sample_weight=WEIGHTS, shuffle=False
    )


@pytest.fixture(scope="module")
def on_pairs(model):
    """The result of training on encoded pairs."""
    x = encoded((TEXTS, OTHERS))
    assert x["segment_ids"].any()
    return after(model, x, LABELS, shuffle=False)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_texts_train_as_their_encoded_batches(
    model, on_arrays, kind
):
    received = after(
        model,
        KINDS[kind](TEXTS),
        list(LABELS),
        sample_weight=WEIGHTS,
        shuffle=False,
    )
    require_equal(received, on_arrays)
    assert model.student.preprocessor.calls == 1  # in two epochs


PAIRS = {
    "tuple": lambda one, other: (one, other),
    "list": lambda one, other: [one, other],
    "columns": lambda one, other: (pandas.Series(one), pandas.Series(other)),
    "table": lambda one, other: np.array([one, other]).T,
}


@pytest.mark.parametrize("kind", PAIRS)
def test_two_columns_are_pairs(model, on_pairs, kind):
    received = after(model, PAIRS[kind](TEXTS, OTHERS), LABELS, shuffle=False)
    require_equal(received, on_pairs)


def test_datasets_of_texts_train_as_their_encoded_batches(model):
    x = (TEXTS, OTHERS)
    parts = (x, LABELS, WEIGHTS)
    dataset = tf.data.Dataset.from_tensor_slices(parts).batch(3)
    expected = after(
        model, encoded(x), LABELS, sample_weight=WEIGHTS, shuffle=False
    )
    require_equal(after(model, dataset), expected)


def test_validation_data_may_be_texts(model):
    arrays = encoded(TEXTS)
    expected = after(
        model,
        arrays,
        LABELS,
        validation_data=(arrays, LABELS, WEIGHTS),
        shuffle=False,
    )
    assert "val_accuracy" in expected[1]
    parts = (TEXTS, LABELS, WEIGHTS)
    dataset = tf.data.Dataset.from_tensor_slices(parts).batch(3)
    for x, validation in ((TEXTS, parts), (arrays, dataset)):
        received = after(
            model, x, LABELS, validation_data=validation, shuffle=False
        )
        require_equal(received, expected)


def test_validation_split_takes_the_last_texts(model):
    require_equal(
        after(model, TEXTS, LABELS, validation_split=0.5, shuffle=False),
        after(
            model, encoded(TEXTS), LABELS, validation_split=0.5, shuffle=False
        ),
    )


def test_arguments_may_be_positional(model):
    for x in (TEXTS, encoded(TEXTS)):
        model.fit(x, LABELS, 3, 1, 0)
    assert inspect.signature(model.fit) == inspect.signature(
        keras.Model(*[keras.Input((1,))] * 2).fit
    )


def test_evaluate_and_predict_read_texts(model):
    x = encoded(TEXTS)
    evaluated, predicted = (
        [
            model.evaluate(x, LABELS, 3, 0, WEIGHTS, return_dict=True)
            for x in (TEXTS, x)
        ],
        [model.predict(x, batch_size=3, verbose=0) for x in (TEXTS, x)],
    )
    require_equal(*evaluated)
    require_equal(*predicted)
    require_equal(predicted[0], to_numpy(model.student(x)))
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(3)
    logs = model.evaluate(dataset, verbose=0, return_dict=True)
    again = model.evaluate(x, LABELS, 3, 0, return_dict=True)
    require_equal(logs, again)


def test_single_batches_may_be_texts(model):
    x = encoded(TEXTS)
    np.testing.assert_array_equal(
        model.predict_on_batch(TEXTS), model.predict_on_batch(x)
    )
    for method in (model.test_on_batch, model.train_on_batch):
        received = []
        for given in (TEXTS, x):
            model.student.set_weights(START["weights"])
            model.reset_metrics()
            received.append(method(given, LABELS, WEIGHTS, return_dict=True))
        assert received[0] == received[1]


def test_many_texts_are_encoded_in_parts(model, monkeypatch):
    whole = strings.encode(model.student, (TEXTS, OTHERS), LABELS, WEIGHTS)
    monkeypatch.setattr(strings, "ROWS_AT_ONCE", 4)
    parts = strings.encode(model.student, (TEXTS, OTHERS), LABELS, WEIGHTS)
    keras.tree.map_structure(np.testing.assert_array_equal, whole, parts)


def test_a_decoders_preprocessor_makes_the_labels():
    letters = [*string.ascii_lowercase]
    pieces = enumerate(["<|endoftext|>", "Ġ", "th", *letters])
    reader = keras_hub.models.GPT2CausalLMPreprocessor(
        keras_hub.tokenizers.GPT2Tokenizer(
            vocabulary={piece: number for number, piece in pieces},
            merges=["t h"],
        ),
        sequence_length=LENGTH,
    )
    teacher, student = decoder(1, seed=1), decoder(1, seed=2)
    teacher.preprocessor = student.preprocessor = reader
    model = kdkit.Distiller(
        teacher,
        student,
        kdkit.Objective(kdkit.losses.SoftCrossEntropy()),
        hard_label_weight=0.5,
    )
    model.compile("sgd", cross_entropy(), run_eagerly=True)
    x, y, weights = to_numpy(reader(TEXTS))
    require_equal(
        model.evaluate(TEXTS, verbose=0),
        model.evaluate(x, y, sample_weight=weights, verbose=0),
    )


SIZES = {
    "num_layers": 1,
    "hidden_dim": 8,
    "num_heads": 2,
    "intermediate_dim": 8,
    "max_sequence_length": LENGTH,
}


def test_inputs_are_those_that_the_teacher_needs_too():
    teacher = bert(1, 12, seed=1)
    teacher.preprocessor = preprocessor()
    student = kdkit.models.student(
        {"family": "distil_bert", **SIZES}, teacher=teacher
    )
    assert "segment_ids" not in student.input
    model = kdkit.Distiller(
        teacher, student, kdkit.Objective(kdkit.losses.SoftCrossEntropy())
    )
    model.compile(run_eagerly=True)
    pairs = (TEXTS, OTHERS)
    require_equal(
        model.evaluate(pairs, verbose=0),
        model.evaluate(encoded(pairs), verbose=0),
    )


def test_a_student_gets_its_teachers_preprocessor_and_sizes():
    teacher = bert(1, 12, num_classes=5)
    teacher.preprocessor = preprocessor()
    student = kdkit.models.student(SIZES, teacher=teacher)
    assert student.preprocessor is teacher.preprocessor
    assert student.num_classes == 5
    assert student.backbone.vocabulary_size == VOCABULARY_SIZE
    loaded = kdkit.models.LoadedModel(
        bert(1, 12), tokenizer("bert"), True, sequence_length=LENGTH
    )
    student = kdkit.models.student(SIZES, teacher=loaded)
    require_equal(
        to_numpy(student.preprocessor((TEXTS, OTHERS), y=None)),
        encoded((TEXTS, OTHERS)),
    )
    teacher.preprocessor = None
    student = kdkit.models.student(SIZES, teacher=teacher)
    assert student.preprocessor is None


def refuse(model, message, x, y=LABELS, **given):
    weights = model.student.get_weights()
    with pytest.raises(UsageError, match=message):
        model.fit(x, y, verbose=0, **given)
    for one, other in zip(weights, model.student.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (("a plot", "good"), "not in columns"),
        ([("a plot", "good")] * 6, "not in columns"),
        ((TEXTS, TEXTS, TEXTS), "not in columns"),
        (TEXTS[:5], r"\[5, 6\] entries"),
    ],
    ids=["row", "rows", "three", "labels"],
)
def test_texts_in_another_form_are_refused(model, x, message):
    refuse(model, message, x)


@pytest.mark.parametrize("setting", ["sequence_length", "truncate"])
def test_preprocessors_that_encode_differently_are_refused(
    model, monkeypatch, setting
):
    value = {"sequence_length": LENGTH - 1, "truncate": "waterfall"}[setting]
    other = preprocessor(**{setting: value})
    monkeypatch.setattr(model.student, "preprocessor", other)
    refuse(model, f"differ in {setting}", TEXTS)
    model.fit(encoded(TEXTS), LABELS, verbose=0)


def other_preprocessor():
    """One whose ids are other words, and whose sequences are shorter."""
    pieces = tokenizer("bert").get_vocabulary()
    return keras_hub.models.BertTextClassifierPreprocessor(
        keras_hub.tokenizers.BertTokenizer(
            vocabulary=[*pieces[:5], *pieces[:4:-1]]
        ),
        sequence_length=LENGTH - 1,
    )


@pytest.fixture(scope="module")
def separate():
    """A distiller whose models have different vocabularies."""
    teacher, student = bert(1, 12, seed=1), bert(1, 8, seed=2)
    teacher.preprocessor = other_preprocessor()
    student.preprocessor = preprocessor()
    model = kdkit.Distiller(
        teacher,
        student,
        kdkit.Objective(kdkit.losses.LogitMSE()),
        hard_label_weight=0.5,
    )
    model.compile("sgd", cross_entropy(), metrics=["accuracy"])
    return model, teacher


def test_models_of_different_vocabularies_share_logits(separate):
    model, teacher = separate
    texts = [teacher.preprocessor, model.student.preprocessor]
    theirs, ours = (to_numpy(one(TEXTS, y=None)) for one in texts)
    assert (theirs["token_ids"] != ours["token_ids"][:, : LENGTH - 1]).any()
    expected = np.mean(
        (teacher.predict(TEXTS) - model.student.predict(TEXTS)) ** 2
    )
    batch = ours | {f"teacher_{name}": one for name, one in theirs.items()}
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(3)
    for data in ((TEXTS, LABELS), (batch, LABELS), (dataset,)):
        logs = model.evaluate(*data, return_dict=True, verbose=0)
        np.testing.assert_allclose(logs["logit_mse"], expected, 1e-4)
    weights = model.student.get_weights()
    model.fit(TEXTS, LABELS, verbose=0)
    assert any(
        (one != other).any()
        for one, other in zip(weights, model.student.get_weights(), strict=True)
    )
    np.testing.assert_allclose(
        model.predict(TEXTS, verbose=0), model.student.predict(TEXTS), 1e-4
    )


def test_one_of_two_teachers_has_other_words(separate):
    _, teacher = separate
    same, student = bert(1, 12, seed=4), bert(1, 8, seed=5)
    same.preprocessor = student.preprocessor = preprocessor()
    objective = kdkit.Objective(kdkit.losses.LogitMSE())
    model = kdkit.Distiller([same, teacher], student, objective)
    model.compile("sgd")
    logs = model.evaluate(TEXTS, return_dict=True, verbose=0)
    ours = student.predict(TEXTS)
    expected = np.mean(
        [(one.predict(TEXTS) - ours) ** 2 for one in (same, teacher)]
    )
    np.testing.assert_allclose(logs["logit_mse"], expected, 1e-4)


def test_layers_of_different_vocabularies_are_not_compared(separate):
    _, teacher = separate
    student = bert(1, 12, seed=5)
    student.preprocessor = preprocessor()
    objective = kdkit.Objective(
        kdkit.losses.HiddenStateMSE(), tap="hidden_states"
    )
    with pytest.raises(UsageError, match="other vocabularies"):
        kdkit.Distiller(teacher, student, objective)
