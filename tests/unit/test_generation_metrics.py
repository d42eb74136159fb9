"""BLEU and chrF of generated text against their definitions in NumPy."""

import collections

import numpy as np
import pytest
import sacrebleu

from kdkit.tasks import generation_metrics, generation_signatures

# Plain words, which sacrebleu's tokeniser splits at spaces alone.
HYPOTHESES = ["the cat sat on a mat", "two men ran home in the rain"]
REFERENCES = ["the cat sat on the mat", "two men ran home fast in the rain"]


def ngrams(units, size):
    return collections.Counter(
        tuple(units[start : start + size])
        for start in range(len(units) - size + 1)
    )


def matches_and_totals(split, largest):
    """Counts over all texts: matches, n-grams of hypotheses, of references.

    Of shape (3, largest), one column for each size of n-grams.
    """
    counts = np.zeros((3, largest))
    for pair in zip(HYPOTHESES, REFERENCES, strict=True):
        for size in range(1, largest + 1):
            written, wanted = (ngrams(split(text), size) for text in pair)
            counts[:, size - 1] += (
                (written & wanted).total(), written.total(), wanted.total(),
            )  # fmt: skip
    return counts


def test_bleu_is_the_geometric_mean_of_precisions_times_the_penalty():
    matches, written, wanted = matches_and_totals(str.split, 4)
    brevity_penalty = np.exp(1 - wanted[0] / written[0])
    assert matches.min() > 0
    assert brevity_penalty < 1
    expected = brevity_penalty * np.exp(np.mean(np.log(matches / written)))
    metrics = generation_metrics(HYPOTHESES, REFERENCES)
    assert metrics["bleu"] == pytest.approx(100 * expected)


def test_chrf_weighs_recall_twice_as_much_as_precision():
    matches, written, wanted = matches_and_totals(
        lambda text: text.replace(" ", ""), 6
    )
    precision, recall = np.mean(matches / written), np.mean(matches / wanted)
    expected = 5 * precision * recall / (4 * precision + recall)
    metrics = generation_metrics(HYPOTHESES, REFERENCES)
    assert metrics["chrf"] == pytest.approx(100 * expected)


def test_texts_are_tokenised_as_sacrebleu_does_with_their_case():
    hypotheses = ['"Yes," he said; "I am (not) here."', "ein Hund läuft"]
    references = ['"Yes", he said: "I am (not) here."', "Ein Hund läuft."]
    metrics = generation_metrics(hypotheses, references)
    assert metrics == {
        "bleu": sacrebleu.corpus_bleu(hypotheses, [references]).score,
        "chrf": sacrebleu.corpus_chrf(hypotheses, [references]).score,
    }
    assert generation_metrics(references, references) == {
        "bleu": pytest.approx(100),
        "chrf": pytest.approx(100),
    }


@pytest.mark.parametrize("language", ["zh", "zh_CN", "ZH-tw"])
def test_texts_without_spaces_are_split_as_their_language_is(language):
    hypotheses, references = ["我喜欢吃苹果和香蕉。"], ["我喜欢吃苹果与香蕉。"]
    metrics = generation_metrics(hypotheses, references, language)
    expected = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="zh")
    assert metrics["bleu"] == pytest.approx(expected.score)
    assert metrics["bleu"] > 50
    assert generation_metrics(hypotheses, references)["bleu"] == 0
    assert "tok:zh" in generation_signatures(language)["bleu"]
