"""Generated data: sentiment sentences, and their synthetic translation.

For demonstrations and tests without a network. A sentence is one clause, or
two, mostly of opposite verdicts. What it says follows from its structure:

- negation turns a clause round: "the plot is not clever";
- contrast lets one of two clauses win: the main clause with "although", the
  last with "but";
- intensity does so with "and": "the plot is a bit clever and the cast is
  truly dull"; two plain clauses with "and" agree.

The same words occur in sentences of both classes, so that counting words does
not find the label.

For smoke runs of encoder-decoders, the sentences are translated: into English
with each word spelled backwards.
"""

import functools
import itertools
import zlib
from collections.abc import Iterator

import numpy as np

from kdkit.data.retrieval import Candidates
from kdkit.data.tables import Examples

ASPECTS = (
    "plot", "acting", "story", "ending", "cast", "script", "music", "pace",
    "dialogue", "camera work", "humor", "direction", "first half", "hero",
)  # fmt: skip
POSITIVE = (
    "superb", "clever", "moving", "charming", "fresh", "funny", "gripping",
    "brilliant", "warm", "smart", "elegant", "memorable",
)  # fmt: skip
NEGATIVE = (
    "thin", "dull", "boring", "clumsy", "stale", "awful", "messy", "shallow",
    "cold", "silly", "tedious", "forgettable",
)  # fmt: skip
VERBS = ("is", "was", "feels", "seems")
NEGATIONS = ("never", "hardly", "not at all", "by no means")
STRONG = ("truly", "very", "extremely", "deeply")
WEAK = ("a bit", "slightly", "somewhat", "mildly")
CONTRASTS = ("although", "though", "while")
# shares that a small transformer learns from scratch within minutes: plain
# clauses teach the adjectives first
FORMS = ("single", "both", "concessive", "but", "and")
FORM_PROBABILITIES = (0.35, 0.15, 0.2, 0.15, 0.15)
NEGATION_PROBABILITY = 0.25
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

NUM_QUERIES, NUM_CANDIDATES = 400, 4
NUM_EXAMPLES = {"train": 8000, "dev": 1000, "test": 1000}
# of 10 sentences, by the hash of their text, so that no two splits share one
HASHES = {"train": range(8), "dev": range(8, 9), "test": range(9, 10)}


def generate_sentiment(
    num_examples: int, seed: int, split: str = "train"
) -> Examples:
    """Generates different labelled sentences.

    Args:
        num_examples: int. Number of sentences.
        seed: int. Seed; the same seed gives the same sentences.
        split: string. `"train"`, `"dev"` or `"test"`. Splits never share a
            sentence, whatever the seeds.

    Returns:
        `Examples` with labels 0, negative, and 1, positive.

    >>> len(generate_sentiment(3, seed=0))
    3
    """
    generator = np.random.default_rng(seed)
    labels = {}
    while len(labels) < num_examples:
        label = int(generator.integers(2))
        sentence = _sentence(generator, label)
        if zlib.crc32(sentence.encode()) % 10 in HASHES[split]:
            labels[sentence] = label
    return Examples((list(labels),), np.array(list(labels.values()), "int32"))


def load_sentiment(split: str) -> Examples:
    """Returns a split's standard sentences: 8,000, 1,000 and 1,000."""
    return _standard(split).take(range(NUM_EXAMPLES[split]))


@functools.cache
def _standard(split):
    """All sentences of a split. Tests read fewer of them."""
    return generate_sentiment(NUM_EXAMPLES[split], seed=0, split=split)


def load_similarity(split: str) -> Examples:
    """Returns pairs of a split's sentences with the share of common words."""
    (sentences,) = load_sentiment(split).texts
    pairs = sentences[::2], sentences[1::2]
    scores = [5 * _common_share(*pair) for pair in zip(*pairs, strict=True)]
    return Examples(pairs, np.array(scores, "float32"))


def load_candidates() -> Candidates:
    """Returns sentences, each with others to rank.

    The relevant candidate has the largest share of words in common with the
    query, of as many sentences as there are candidates.
    """
    (sentences,) = load_sentiment("train").texts
    queries, documents = [], []
    for number in range(NUM_QUERIES):
        first = number * (1 + NUM_CANDIDATES)
        query, *others = sentences[first : first + 1 + NUM_CANDIDATES]
        others.sort(key=lambda one, query=query: -_common_share(query, one))
        queries.append(query)
        documents.append(tuple(others))
    return Candidates(queries, documents)


def _common_share(first, second):
    """The share of words that two sentences have in common."""
    first, second = set(first.split()), set(second.split())
    return len(first & second) / len(first | second)


def sentiment_vocabulary() -> list[str]:
    """Returns the WordPiece vocabulary of the sentences.

    It has the special tokens, the words, and letters and punctuation as whole
    words and as continuations, for other words.

    >>> sentiment_vocabulary()[:3]
    ['[PAD]', '[UNK]', '[CLS]']
    """
    phrases = itertools.chain(
        ASPECTS, POSITIVE, NEGATIVE, VERBS, NEGATIONS, STRONG, WEAK, CONTRASTS,
        ("the not but and",),
    )  # fmt: skip
    words = {word for phrase in phrases for word in phrase.split()}
    characters = "abcdefghijklmnopqrstuvwxyz"
    pieces = [*characters, *(f"##{letter}" for letter in characters)]
    return [*SPECIAL_TOKENS, *",.", *sorted(words - set(pieces)), *pieces]


def _sentence(generator, label):
    form = generator.choice(FORMS, p=FORM_PROBABILITIES)
    if form == "single":
        degree = generator.choice(["plain", "strong", "weak"])
        aspect = _pick(generator, ASPECTS)
        return f"{_clause(generator, label, aspect, degree)} ."
    first, second = generator.choice(ASPECTS, 2, replace=False)
    degrees = ("strong", "weak") if form == "and" else ("plain", "plain")
    other = label if form == "both" else 1 - label
    clauses = [
        _clause(generator, label, first, degrees[0]),
        _clause(generator, other, second, degrees[1]),
    ]
    if form == "and":
        generator.shuffle(clauses)
    winner, loser = clauses
    if form in ("both", "and"):
        return f"{winner} and {loser} ."
    if form == "but":
        return f"{loser} , but {winner} ."
    contrast = _pick(generator, CONTRASTS)
    if generator.integers(2):
        return f"{contrast} {loser} , {winner} ."
    return f"{winner} , {contrast} {loser} ."


def _clause(generator, label, aspect, degree):
    verb = _pick(generator, VERBS)
    is_negated = generator.random() < NEGATION_PROBABILITY
    adjectives = POSITIVE if label != is_negated else NEGATIVE
    words = ["the", aspect, verb]
    if is_negated:
        words.append(_pick(generator, NEGATIONS))
    if degree != "plain":
        words.append(_pick(generator, STRONG if degree == "strong" else WEAK))
    words.append(_pick(generator, adjectives))
    return " ".join(words)


def _pick(generator, choices):
    return choices[generator.integers(len(choices))]


# The second one is English with each word spelled backwards.
GENERATED_LANGUAGES = ("en", "de")


def generated_pairs() -> Iterator[tuple[str, str]]:
    """Yields 8,000 English sentences and their translations.

    >>> next(generated_pairs())[1].split()[0]
    'eht'
    """
    for sentence in load_sentiment("train").texts[0]:
        yield sentence, " ".join(word[::-1] for word in sentence.split())
