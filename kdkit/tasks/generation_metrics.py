"""Metrics of written text: BLEU and chrF, as sacrebleu computes them."""

from sacrebleu.metrics import BLEU
from sacrebleu.metrics import CHRF

from kdkit.errors import UsageError


def generation_metrics(
    hypotheses: list[str],
    references: list[str],
    language: str | None = None,
) -> dict[str, float]:
    """Returns how close texts come to references, over all of them at once.

    Counts of n-grams are summed over the texts before they are divided. Texts
    are plain: detokenised, with their cases. sacrebleu tokenises them itself.

    Args:
        hypotheses: list of strings. What a model wrote.
        references: list of strings. What it should have written, one text for
            each of `hypotheses`, in their order.
        language: string or `None`. The texts' own, such as `"de"` or
            `"zh-TW"`. Chinese, Japanese and Korean have other words than what
            stands between spaces: sacrebleu splits them in ways of their own.
            Defaults to `None`.

    Returns:
        A dict of floats from 0 to 100: `bleu`, over n-grams of 1 to 4 words,
        and `chrf`, over n-grams of 1 to 6 characters. `generation_signatures`
        says how each was computed.

    Raises:
        UsageError: (a `ValueError`) if the counts differ, there is no text, or
            sacrebleu lacks what it splits the language by.

    Example:

    >>> kdkit.tasks.generation_metrics(["A man runs home."], ["A man runs."])
    {'bleu': 42.7..., 'chrf': 75.7...}

    References:
     - [Post, 2018](https://arxiv.org/abs/1804.08771)
     - [Papineni et al., 2002](https://aclanthology.org/P02-1040)
     - [Popović, 2015](https://aclanthology.org/W15-3049)
    """
    if len(hypotheses) != len(references) or not references:
        raise UsageError(
            "BLEU and chrF need texts, each with one reference. Received: "
            f"{len(hypotheses)} hypotheses, {len(references)} references. Pass "
            "two lists of the same length, above 0."
        )
    return {
        name: float(metric.corpus_score(hypotheses, None).score)
        for name, metric in _metrics(references, language).items()
    }


def generation_signatures(language: str | None = None) -> dict[str, str]:
    """Returns sacrebleu's signature of each of `generation_metrics`.

    It names all that a score depends on: number of references, case,
    tokenisation, smoothing, sacrebleu's version. Scores with the same one
    compare.

    Args:
        language: string or `None`. As in `generation_metrics`. Defaults to
            `None`.

    Returns:
        A dict from the name of a metric to a string.

    Raises:
        UsageError: (a `ValueError`) if sacrebleu lacks what it splits the
            language by.
    """
    return {
        name: str(metric.get_signature())
        for name, metric in _metrics(["any"], language).items()
    }


def _metrics(references, language):
    """sacrebleu's metrics, as it sets them, for one reference a text."""
    # Without its script or country, which sacrebleu does not know.
    code = (language or "").lower().replace("_", "-").partition("-")[0]
    try:
        bleu = BLEU(references=[references], trg_lang=code)
    except RuntimeError as error:
        raise UsageError(
            f"sacrebleu needs more to split {language!r} into words. Install "
            f"it: pip install 'sacrebleu[{code}]'."
        ) from error
    return {"bleu": bleu, "chrf": CHRF(references=[references])}
