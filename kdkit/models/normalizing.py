"""The steps of a `tokenizer.json`'s normalizer as functions of texts."""

import base64
import functools
import re

from kdkit.backends import tf
from kdkit.backends import tf_text
from kdkit.errors import UsageError
from kdkit.models.character_maps import character_map
from kdkit.models.charsmap import Charsmap

BY_CHARACTER = ("BertNormalizer", "Lowercase", "StripAccents")
# By character if the accents that they take off are removed next.
DECOMPOSITIONS = ("NFD", "NFKD")


def normalization(steps):
    """Returns a function that applies a normalizer's steps to texts.

    Args:
        steps: tuple of dicts, as in `TextRules`.

    Raises:
        UsageError: (a `ValueError`) for a damaged `precompiled_charsmap`.
    """
    functions = [_function(step) for step in joined(steps)]

    def normalize(texts):
        for function in functions:
            texts = function(texts)
        return texts

    return normalize


def joined(steps) -> list[dict]:
    """Returns steps where those by character, one behind the other, are one.

    Args:
        steps: tuple of dicts, as in `TextRules`.

    Returns:
        List of dicts; a `Sequence` is by character.
    """
    runs = [[]]
    for number, step in enumerate(steps):
        following = [one["type"] for one in steps[number + 1 : number + 2]]
        if step["type"] in BY_CHARACTER or (
            step["type"] in DECOMPOSITIONS and following == ["StripAccents"]
        ):
            runs[-1].append(step)
        else:
            runs += [step, []]
    return [
        run
        if isinstance(run, dict)
        else {"type": "Sequence", "normalizers": run}
        for run in runs
        if run
    ]


def is_by_character(step) -> bool:
    """Whether a step that `joined` returned changes characters one by one."""
    return step["type"] == "Sequence"


def _function(step):
    if is_by_character(step):
        return character_map(step)
    if step["type"] == "Replace":
        return _replace(step["pattern"], step["content"])
    if step["type"] == "Precompiled":
        return charsmap_of(step["precompiled_charsmap"])
    return lambda texts: tf_text.normalize_utf8(texts, step["type"])


def _replace(pattern, content):
    found = pattern.get("Regex") or re.escape(pattern["String"])
    content = content.replace("\\", "\\\\")
    return lambda texts: tf.strings.regex_replace(texts, found, content)


@functools.lru_cache(maxsize=4)
def charsmap_of(text: str) -> Charsmap:
    """Returns a `precompiled_charsmap` as a function of texts.

    Args:
        text: string, as `decoded_charsmap` takes it.

    Raises:
        UsageError: (a `ValueError`) if it is damaged.
    """
    return Charsmap(decoded_charsmap(text))


def decoded_charsmap(text: str) -> bytes:
    """Returns the bytes of a `precompiled_charsmap`.

    Args:
        text: string, base64 as in a `tokenizer.json`.

    Raises:
        UsageError: (a `ValueError`) if it is not base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise UsageError(
            "A tokenizer has a precompiled_charsmap that is not in base64: "
            f"{error}. Restore its files from a copy."
        ) from error
