"""Metrics, agreement and collapse of each kind of task, by definition."""

import collections

import keras
import keras_hub
import numpy as np
import pytest
import sacrebleu
from kit.encoders import MORE_SENTENCES, SENTENCES, encoder
from kit.encoders import tokenizer as family_tokenizer
from kit.tasks import VOCABULARY

from kdkit import data, tasks
from kdkit.data import TokenExamples, encode_tokens
from kdkit.tasks import (
    MultiLabel,
    MultipleChoice,
    Polyphones,
    Regression,
    SingleLabel,
    Tagging,
    agreement,
    generation_metrics,
)

NO_LABEL, UNKNOWN, CUT_OFF = -1, -2, -5
TWO, THREE = SingleLabel(("no", "yes")), SingleLabel(("a", "b", "c"))
SEVERAL = MultiLabel(("joy", "fear", "anger"))
SCORE = Regression()
SPANS = ("span_f1", "span_precision", "span_recall")
IOB = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def rng():
    return np.random.default_rng(0)


def f1(labels, answers):
    """Of each column: twice the hits by all that is labelled or answered."""
    found = labels.sum(0) + answers.sum(0)
    return 2 * (labels & answers).sum(0) / found


def ranks(values):
    return values.argsort().argsort()


def mean_f1_of_labels(labels, answers):
    """Whatever is said of classes that no row has."""
    classes = np.unique(labels)
    return np.mean([f1(labels == one, answers == one) for one in classes])


def per_class(function):
    """A metric of rows of zeros and ones."""
    return lambda labels, logits: function(labels, (logits > 0).astype(int))


def per_row(function):
    """A metric of classes."""
    return lambda labels, logits: function(labels, logits.argmax(axis=1))


def per_score(function):
    return lambda labels, logits: function(labels, logits[:, 0])


BINARY = rng().integers(2, size=50)
LOGITS = rng().normal(size=(50, 3))
PAIRS = LOGITS[:, :2]
FIVE = rng().uniform(0, 5, size=50).astype("float32")
CUBES = (FIVE**3 + rng().normal(size=50))[:, np.newaxis]
BITS = rng().integers(2, size=(50, 3))
# Kind, metric, labels, logits, and the definition.
METRICS = [
    (TWO, "accuracy", BINARY, PAIRS, per_row(lambda y, p: (y == p).mean())),
    (TWO, "f1", BINARY, PAIRS, per_row(f1)),
    # Of two binary variables it is their Pearson correlation.
    (
        TWO, "matthews_correlation", BINARY, PAIRS,
        per_row(lambda y, p: np.corrcoef(y, p)[0, 1]),
    ),
    (THREE, "macro_f1", BINARY, LOGITS, per_row(mean_f1_of_labels)),
    (
        SCORE, "pearson", FIVE, CUBES,
        per_score(lambda y, p: np.corrcoef(y, p)[0, 1]),
    ),
    (
        SCORE, "spearman", FIVE, CUBES,
        per_score(lambda y, p: np.corrcoef(ranks(y), ranks(p))[0, 1]),
    ),
    (
        SEVERAL, "micro_f1", BITS, LOGITS,
        per_class(lambda y, p: f1(y.ravel(), p.ravel())),
    ),
    (
        SEVERAL, "macro_f1", BITS, LOGITS,
        per_class(lambda y, p: f1(y, p).mean()),
    ),
    (
        SEVERAL, "subset_accuracy", BITS, LOGITS,
        per_class(lambda y, p: (y == p).all(axis=1).mean()),
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", METRICS, ids=lambda row: row[1])
def test_a_metric_is_its_definition(row):
    kind, name, labels, logits, definition = row
    metrics = kind.compute_metrics((name,), labels, logits)
    assert metrics == {name: pytest.approx(definition(labels, logits))}
    assert type(metrics[name]) is float


@pytest.mark.parametrize(
    ("kind", "labels", "logits", "expected"),
    [
        (SCORE, [0, 1], [[1.0], [1.0]], {"pearson": 0.0, "spearman": 0.0}),
        (
            TWO,
            [0, 1],
            [[1.0, 0.0]] * 2,
            {"matthews_correlation": 0.0, "accuracy": 0.5, "f1": 0.0},
        ),
        (
            SEVERAL,
            [[1, 0, 1]],
            [[-1.0] * 3],
            {"micro_f1": 0.0, "macro_f1": 0.0},
        ),
        (
            Tagging(IOB),
            [np.array([0, 0])],
            np.eye(5)[[0, 0]],
            dict.fromkeys(SPANS, 0.0),
        ),
    ],
)
def test_metrics_of_constant_answers_are_defined(
    kind, labels, logits, expected
):
    assert kind.compute_metrics(tuple(expected), labels, logits) == expected


def softmax(logits):
    exponentials = np.exp(logits)
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def test_agreement_is_its_definition():
    teacher, student = rng().normal(size=(2, 20, 3))
    p, q = softmax(teacher), softmax(student)
    assert agreement(teacher, student) == {
        "same_top_class": pytest.approx(np.mean(p.argmax(1) == q.argmax(1))),
        "kl_divergence": pytest.approx(np.mean((p * np.log(p / q)).sum(1))),
    }
    p, q = (1 / (1 + np.exp(-logits)) for logits in (teacher, student))
    divergence = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    assert SEVERAL.agreement(teacher, student) == {
        "same_decisions": pytest.approx(np.mean((p > 0.5) == (q > 0.5))),
        "kl_divergence": pytest.approx(divergence.sum(axis=1).mean()),
    }
    assert agreement([[1.0], [2.0]], [[1.5], [4.0]]) == {
        "mean_squared_difference": pytest.approx((0.25 + 4.0) / 2)
    }
    extreme = agreement([[1e4, -1e4]], [[-1e4, 1e4]])
    assert extreme["kl_divergence"] == pytest.approx(2e4)


def spans_of(tags):
    """Kind, start and end of each span, by walking over IOB2 tags."""
    found, start = set(), None
    for position, tag in enumerate([*tags, "O"]):
        if start is not None and not tag.startswith("I-"):
            found.add((tags[start][2:], start, position))
            start = None
        if tag.startswith("B-"):
            start = position
    return found


def test_span_metrics_count_whole_spans():
    gold = [[1, 2, 0, 3], [0, 1, 0, 3, 4], [3, 0]]
    predicted = [[1, 2, 0, 1], [0, 1, 2, 3, 4], [3, 0]]
    hits = wanted = found = 0
    for row, answers in zip(gold, predicted, strict=True):
        true, given = (
            spans_of([IOB[number] for number in numbers])
            for numbers in (row, answers)
        )
        hits += len(true & given)
        wanted += len(true)
        found += len(given)
    assert 0 < hits < wanted
    logits = np.eye(len(IOB))[np.concatenate(predicted)]
    metrics = Tagging(IOB).compute_metrics(
        SPANS, list(map(np.array, gold)), logits
    )
    assert metrics == {
        "span_f1": pytest.approx(2 * hits / (wanted + found)),
        "span_precision": pytest.approx(hits / found),
        "span_recall": pytest.approx(hits / wanted),
    }  # fmt: skip


def encoded_words(labels, length):
    """Words of one piece each, of which a length leaves some out."""
    pieces = keras_hub.tokenizers.BertTokenizer(VOCABULARY, lowercase=False)
    words = ("ab", "cd", "ef", "gh", "ij")[: len(labels)]
    rows = TokenExamples([words], [np.array(labels, "int32")])
    return encode_tokens(rows, pieces, length)


@pytest.mark.parametrize(
    ("length", "recall"), [(16, 1.0), (6, 0.5), (5, 0.5), (3, 0.0)]
)
def test_spans_that_were_cut_off_are_missed(length, recall):
    """At 6 and 3 a span loses its end."""
    encoded = encoded_words([1, 2, 0, 3, 4], length)
    right = np.eye(len(IOB))[encoded.labels[encoded.labels != NO_LABEL]]
    metrics = Tagging(IOB).compute_metrics(SPANS, encoded.targets, right)
    assert metrics["span_recall"] == recall


@pytest.mark.parametrize(("length", "accuracy"), [(16, 0.75), (4, 0.25)])
def test_other_labels_that_were_cut_off_count_as_wrong(length, accuracy):
    targets = encoded_words([0, 1, 0, 0], length).targets
    logits = np.array([[1.0, 0.0]] * (targets[0] >= UNKNOWN).sum())
    readings = Polyphones(("le5", "liao3"))
    metrics = readings.compute_metrics(("accuracy",), targets, logits)
    assert metrics == {"accuracy": accuracy}


@pytest.mark.parametrize("kind", [Tagging, Polyphones])
def test_the_baseline_is_of_the_words_that_were_read(kind):
    """Those that were cut off are not the model's mistakes."""
    labels = np.array([0, 1, 0, 0])
    for length, num_read in ((16, 4), (5, 3), (4, 2)):
        encoded = encoded_words(labels, length)
        right = np.eye(2)[encoded.labels[encoded.labels != NO_LABEL]]
        baseline = kind(("O", "B-PER")).baseline(encoded.targets, right)
        constant = np.mean(labels[:num_read] == 0)
        assert (baseline.model, baseline.constant) == (1.0, constant)
        assert baseline.num_answers == num_read
    nothing = kind(("O", "B-PER")).baseline(
        [CUT_OFF - labels], np.zeros((0, 2))
    )
    assert nothing.model == 0.0


def test_unknown_labels_count_as_wrong():
    """Not as the class that is so far from the end of the classes."""
    logits = np.eye(len(IOB))[[len(IOB) + UNKNOWN, 0, 1]]
    labels = [np.array([UNKNOWN, 0, 1])]
    metrics = Tagging(IOB).compute_metrics(SPANS, labels, logits)
    assert metrics["span_precision"] == metrics["span_recall"] == 0.5
    labels = [np.array([0]), np.array([UNKNOWN]), np.array([1])]
    metrics = Polyphones(("le5", "liao3")).compute_metrics(
        ("accuracy",), labels, np.array([[1.0, 0.0]] * 3)
    )
    assert metrics == {"accuracy": pytest.approx(1 / 3)}


ROWS = 400
SAME, CHANCE = "the same answer", "do not depend on the labels"
LABELS = rng().integers(2, size=ROWS)
RARE = (np.arange(ROWS) < 4).astype(int)
HALVES = np.arange(60) % 2
REAL = rng().normal(size=ROWS)
NOISE = np.random.default_rng(1).normal(size=ROWS)
BITS_10 = (rng().random((ROWS, 3)) < 0.1).astype(int)
COIN_10 = (np.random.default_rng(1).random((ROWS, 3)) < 0.1).astype(int)
TAGS_OF_WORDS = [np.array([0, 1, 0, 0])] * 50
FOUND_10 = np.where(LABELS[:, None], BITS_10, COIN_10)
TAGS, FOUR = Tagging(IOB[:2]), MultipleChoice(tuple("ABCD"))
OPTIONS = rng().integers(4, size=ROWS)
UNEQUAL = np.repeat([0, 1], [40, 360])  # half of the rare ones are found
FOUND_RARE = np.repeat([1, 0, 0, 1], [20, 20, 20, 340])


def one_hot(answers, num_classes=2):
    return np.eye(num_classes)[answers]


@pytest.mark.parametrize(
    ("kind", "labels", "logits", "reason"),
    [
        (TWO, LABELS, one_hot([1] * ROWS), SAME),
        (TWO, (NOISE > -1).astype(int), one_hot([0] * ROWS), SAME),
        # Labels that are all alike tell nothing.
        (TWO, 0 * LABELS, one_hot(0 * LABELS), None),
        # As right as the commonest class, and yet no collapse.
        (TWO, UNEQUAL, one_hot(FOUND_RARE), None),
        # Few rows accuse nobody but of one answer.
        (TWO, HALVES, one_hot(np.arange(60) // 2 % 2), None),
        (TWO, HALVES, one_hot(0 * HALVES), SAME),
        (TWO, HALVES[:10], one_hot([0] * 10), SAME),
        (TWO, HALVES[:8], one_hot([0] * 8), None),
        (TWO, RARE, one_hot(0 * RARE), None),
        (SCORE, REAL, np.full((ROWS, 1), 0.3), SAME),
        (SCORE, REAL, NOISE[:, None], CHANCE),
        (SCORE, REAL, (REAL + NOISE)[:, None] / 100 + 5, None),
        # The wrong way round, which is another thing.
        (SCORE, REAL, -REAL[:, None], None),
        (SEVERAL, BITS_10, np.full((ROWS, 3), -1.0), SAME),
        (SEVERAL, BITS_10, 2.0 * COIN_10 - 1, CHANCE),
        (SEVERAL, BITS_10, 2.0 * FOUND_10 - 1, None),
        (TAGS, TAGS_OF_WORDS, one_hot([0] * 200), SAME),
        (TAGS, TAGS_OF_WORDS, one_hot([0, 1, 0, 0] * 50), None),
        (FOUR, OPTIONS, one_hot(np.roll(OPTIONS, 1), 4), ""),
        (FOUR, OPTIONS, one_hot(OPTIONS, 4), None),
        # Readings differ from character to character: nothing is concluded.
        (Polyphones(("le5", "liao3")), TAGS_OF_WORDS, one_hot([0] * 200), None),
    ],
)  # fmt: skip
def test_collapse(kind, labels, logits, reason):
    found = kind.collapse(labels, logits)
    assert found is None if reason is None else reason in found


@pytest.mark.parametrize("num_classes", [2, 3, 5])
def test_coins_collapse_and_models_do_not(num_classes):
    """A coin is taken for a model in about one of 370 cases."""
    kind, generator = SingleLabel(tuple("abcde"[:num_classes])), rng()
    missed = 0
    for _ in range(100):
        labels = generator.integers(num_classes, size=ROWS)
        coin = generator.integers(num_classes, size=ROWS)
        missed += kind.collapse(labels, one_hot(coin, num_classes)) is None
        better = np.where(generator.random(ROWS) < 0.4, labels, coin)
        assert kind.collapse(labels, one_hot(better, num_classes)) is None
    assert missed <= 2


# Plain words, which sacrebleu's tokeniser splits at spaces alone.
HYPOTHESES = ["the cat sat on a mat", "two men ran home in the rain"]
REFERENCES = ["the cat sat on the mat", "two men ran home fast in the rain"]


def ngrams(units, size):
    return collections.Counter(
        tuple(units[start : start + size])
        for start in range(len(units) - size + 1)
    )


def matches_and_totals(split, largest):
    """Counts over all texts: matches, n-grams of hypotheses, of references."""
    counts = np.zeros((3, largest))
    for pair in zip(HYPOTHESES, REFERENCES, strict=True):
        for size in range(1, largest + 1):
            written, wanted = (ngrams(split(text), size) for text in pair)
            counts[:, size - 1] += (
                (written & wanted).total(), written.total(), wanted.total(),
            )  # fmt: skip
    return counts


def test_bleu_and_chrf_are_their_definitions():
    matches, written, wanted = matches_and_totals(str.split, 4)
    brevity_penalty = np.exp(1 - wanted[0] / written[0])
    assert brevity_penalty < 1
    bleu = brevity_penalty * np.exp(np.mean(np.log(matches / written)))
    matches, written, wanted = matches_and_totals(
        lambda text: text.replace(" ", ""), 6
    )
    precision, recall = np.mean(matches / written), np.mean(matches / wanted)
    chrf = 5 * precision * recall / (4 * precision + recall)
    assert generation_metrics(HYPOTHESES, REFERENCES) == {
        "bleu": pytest.approx(100 * bleu),
        "chrf": pytest.approx(100 * chrf),
    }


def test_texts_are_tokenised_as_sacrebleu_does_with_their_case():
    hypotheses = ['"Yes," he said; "I am (not) here."', "ein Hund läuft"]
    references = ['"Yes", he said: "I am (not) here."', "Ein Hund läuft."]
    assert generation_metrics(hypotheses, references) == {
        "bleu": sacrebleu.corpus_bleu(hypotheses, [references]).score,
        "chrf": sacrebleu.corpus_chrf(hypotheses, [references]).score,
    }


@pytest.mark.parametrize("language", ["zh", "zh_CN", "ZH-tw"])
def test_texts_without_spaces_are_split_as_their_language_is(language):
    hypotheses, references = ["我喜欢吃苹果和香蕉。"], ["我喜欢吃苹果与香蕉。"]
    metrics = generation_metrics(hypotheses, references, language)
    expected = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="zh")
    assert metrics["bleu"] == pytest.approx(expected.score)
    assert metrics["bleu"] > 50
    assert generation_metrics(hypotheses, references)["bleu"] == 0
    assert "tok:zh" in tasks.generation_signatures(language)["bleu"]


TEXTS = [*SENTENCES, *MORE_SENTENCES, SENTENCES[0]]


def test_each_text_has_the_vector_of_the_model():
    backbone = encoder("bert", num_classes=None)
    embedder = keras.Model(backbone.input, backbone.output["pooled_output"])
    read = family_tokenizer("bert")
    rows = data.encode(data.Examples((TEXTS,)), read, 8)
    expected = [
        embedder(rows.inputs(np.array([row]), 8))[0]
        for row in range(len(TEXTS))
    ]
    vectors = tasks.embed_texts(embedder, iter(TEXTS), read, 8)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert vectors.dtype == np.float32


def test_a_text_is_embedded_once_by_any_callable():
    counts = []

    def predict(batch):
        counts.append(len(batch["token_ids"]))
        return batch["token_ids"][:, :2].astype("float64")

    read = family_tokenizer("bert")
    vectors = tasks.embed_texts(predict, TEXTS * 3, read)
    assert sum(counts) == len({*TEXTS})
    assert vectors.shape == (3 * len(TEXTS), 2)
