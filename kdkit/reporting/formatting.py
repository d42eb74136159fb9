"""Numbers and texts for readers: units, few digits, no private paths."""

import dataclasses
import pathlib
import re
import shlex
import statistics
from collections.abc import Callable, Sequence

NONE = "–"  # not measured, or nothing to compare with

# Shown in percent; other metrics are shown as they are.
_PERCENT = "accuracy f1 precision recall exact_match same_(top_class|decisions)"
_PERCENT = re.compile(f"(.*_)?({_PERCENT.replace(' ', '|')})(_.*)?")
_LOWER_IS_BETTER = re.compile("perplexity|loss|error|divergence|difference|mse")
_CAPITALS = {
    "f1": "F1",
    "kl": "KL",
    "mse": "MSE",
    "bleu": "BLEU",
    "chrf": "chrF",
    "ndcg@10": "nDCG@10",
    "mrr@10": "MRR@10",
}


@dataclasses.dataclass(frozen=True)
class MetricFormat:
    """The title, the unit and the digits of a metric."""

    title: str
    unit: str
    higher_is_better: bool

    @property
    def scale(self) -> int:
        """The factor from the metric to the displayed number."""
        return 100 if self.unit else 1

    def number(self, value: float) -> str:
        """Returns the value without its unit."""
        if self.unit:
            return f"{100 * value:.1f}"
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"

    def heading(self, where: str = "") -> str:
        """Returns the title for a picture, such as "Accuracy (%)"."""
        title = f"{self.title[:1].upper()}{self.title[1:]}{where}"
        return f"{title} ({self.unit})" if self.unit else title

    def text(self, value: float) -> str:
        """Returns the value with its unit."""
        return f"{self.number(value)} {self.unit}".strip()

    def points(self, distance: float) -> str:
        """Returns a distance of two values, such as "5.5 points"."""
        return self.number(abs(distance)) + (" points" if self.unit else "")

    def difference(self, distance: float) -> str:
        """Returns "5.5 points more"; empty if none is in the digits shown."""
        if self.number(abs(distance)) == self.number(0.0):
            return ""
        return f"{self.points(distance)} {'less' if distance < 0 else 'more'}"


def metric_format(name: str) -> MetricFormat:
    """Returns the format of the metric `name`."""
    unit = "%" if _PERCENT.fullmatch(name) else ""
    return MetricFormat(words(name), unit, not _LOWER_IS_BETTER.search(name))


def metrics_in_words(metrics: dict[str, float]) -> str:
    """Returns metrics in one line, such as "83.8 % accuracy, 0.210 loss"."""
    shown = ((metric_format(name), value) for name, value in metrics.items())
    return ", ".join(f"{one.text(value)} {one.title}" for one, value in shown)


def over_seeds(number: Callable, values: Sequence[float]) -> str:
    """Returns the mean; of values that differ, also their deviation."""
    text = number(statistics.fmean(values))
    if len(set(values)) > 1:
        text += f" ± {number(statistics.stdev(values))}"
    return text


def significant(value: float) -> str:
    """Returns `value` with three significant digits, at most three decimals."""
    if value == 0:
        return "0"
    exponent = int(f"{value:.2e}".partition("e")[2])
    return f"{value:.{min(max(2 - exponent, 0), 3)}f}"


def millions(value: float) -> str:
    """Returns a count of parameters, or of bytes, in millions."""
    value = value / 1e6
    return f"{value:.2f}" if value >= 1 else significant(value)


def times(ratio: float) -> str:
    """Returns a ratio in readable form."""
    if ratio >= 10:
        return f"{ratio:.0f}×"
    return f"{ratio:.1f}×" if ratio >= 1 else f"{ratio:.2f}×"


def words(name: str) -> str:
    """Returns an identifier as words, with the usual capitals."""
    return " ".join(_CAPITALS.get(word, word) for word in name.split("_"))


def portable_path(text: str) -> str:
    """Returns the last part of an absolute or home path; else the text."""
    is_elsewhere = text.startswith(("/", "~", "../"))
    return pathlib.PurePath(text).name if is_elsewhere else text


def portable_command(text: str) -> str:
    """Returns a command with only the last part of absolute and home paths."""
    return shlex.join(
        "".join(map(portable_path, re.split("([][=,\"'])", word)))
        for word in shlex.split(text)
    )
