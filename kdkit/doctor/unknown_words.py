"""Counts examples with words that a tokenizer has no token for."""

import collections
import re
import unicodedata
from collections.abc import Iterable

import numpy as np

from kdkit.data.encoding import tokenize
from kdkit.doctor.findings import OK, RUINS, WARNING, Finding, share
from kdkit.doctor.leakage import UNSPACED
from kdkit.models import as_tokenizer

CHECK = "unknown words"
WARNED, RUINOUS = 0.01, 0.5  # shares of a split's examples
SHOWN = 5  # words
MAX_CHARACTERS = 20  # of a shown word
MISSING = -1  # the id of a byte without a token in byte pairs
ADVICE = (
    "A model reads all of these words as one token. Use a model whose "
    "vocabulary covers the language, script, capitals and accents of these "
    "texts, or replace the words."
)
# In scripts without blanks each character is a word here.
CHARACTER = re.compile(f"[{UNSPACED}]")
BLANKS = re.compile(r"[ \t\r\n]+")


def unknown_token_id(tokenizer) -> int:
    """Returns the id of a tokenizer's unknown token."""
    tokenizer = as_tokenizer(tokenizer)
    if tokenizer.kind == "BPE" or tokenizer.unknown_token_id is None:
        return MISSING
    return tokenizer.unknown_token_id


def has_unknown(encoded, tokenizer) -> np.ndarray:
    """Returns for each example whether it has an unknown token.

    Truncated tokens do not count, because no model reads them.

    Args:
        encoded: `kdkit.data.EncodedExamples`.
        tokenizer: the tokenizer that encoded the examples.

    Returns:
        A bool array of shape `(num_examples,)`.
    """
    is_unknown = encoded.token_ids == unknown_token_id(tokenizer)
    counts = np.add.reduceat(is_unknown.astype("int64"), encoded.starts)
    return counts.reshape(len(encoded), -1).any(axis=1)


def unknown_words(splits: dict[str, tuple], tokenizer) -> Finding:
    """Counts the examples with unknown tokens, and lists the words.

    A marker in a text, such as Penn Treebank's `<unk>`, is plain text to a
    tokenizer. It only counts if the tokenizer has no token for its parts.

    Args:
        splits: dict from the name of a split to its examples and, for each, a
            bool. An example is a tuple of strings, its texts or words.
        tokenizer: a tokenizer.
    """
    parts, highest, affected = [], 0.0, []
    for name, (examples, is_affected) in splits.items():
        count = int(np.sum(is_affected))
        highest = max(highest, count / max(len(examples), 1))
        parts.append(
            f"{count} of {len(examples)} examples of {name} "
            f"({share(count, len(examples))})"
        )
        affected += [examples[row] for row in np.flatnonzero(is_affected)]
    found = f"With words that the vocabulary lacks: {', '.join(parts)}."
    if not affected:
        return Finding(CHECK, OK, found)
    counts = _counts(affected, tokenizer)
    shown = [f"{_brief(word)} ({count})" for word, count in _commonest(counts)]
    if shown:
        more = len(counts) - len(shown)
        plural = "s" if more > 1 else ""
        others = f" and {more} other word{plural}" if more else ""
        found += f" The commonest: {', '.join(shown)}{others}."
    if highest < WARNED:
        return Finding(CHECK, OK, found)
    outcome = WARNING if highest < RUINOUS else RUINS
    return Finding(CHECK, outcome, found, ADVICE)


def texts_with_unknown(
    texts: Iterable[str], tokenizer
) -> tuple[list[tuple[str]], np.ndarray]:
    """Returns texts in the form of a split for `unknown_words`.

    Args:
        texts: iterable of strings, of running text.
        tokenizer: a tokenizer.
    """
    texts = list(texts)
    ids = tokenize(texts, tokenizer)
    unknown = unknown_token_id(tokenizer)
    return [(text,) for text in texts], np.array(
        [bool((ids[text] == unknown).any()) for text in texts], bool
    )


def _counts(examples, tokenizer):
    """Counts each unknown word in some examples."""
    words = collections.Counter(
        word
        for example in examples
        for text in example
        for word in BLANKS.split(text)
        if word
    )
    parts = {word: _parts(word) for word in words}
    ids = tokenize(
        [*words, *(part for of_word in parts.values() for part in of_word)],
        tokenizer,
    )
    unknown = unknown_token_id(tokenizer)
    lacking = {text for text, some in ids.items() if (some == unknown).any()}
    counts = collections.Counter()
    for word, count in words.items():
        if word in lacking:
            own = [part for part in parts[word] if part in lacking]
            # The characters that join the parts may be the unknown ones.
            for one in own or [word]:
                counts[one] += count
    return counts


def _parts(word):
    """Splits a word into runs of letters and single other characters."""
    parts, letters = [], ""
    for character in word:
        is_letter = unicodedata.category(character)[0] in "LMN"
        if is_letter and not CHARACTER.match(character):
            letters += character
            continue
        parts += filter(None, (letters, character.strip()))
        letters = ""
    return [*parts, *filter(None, (letters,))]


def _commonest(counts):
    """Returns the most frequent words; ties in alphabetical order."""
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return ranked[:SHOWN]


def _brief(word):
    if len(word) <= MAX_CHARACTERS:
        return word
    return f"{word[:MAX_CHARACTERS]}…"
