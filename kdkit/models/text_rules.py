"""Rules for texts that apply before a keras-hub tokenizer finds its pieces."""

import base64
import dataclasses
import functools
import re
from collections.abc import Mapping

from kdkit.errors import UsageError, unknown
from kdkit.late import tf, tf_text
from kdkit.models.character_maps import Charsmap, character_map

# Supported normalizers in a `tokenizer.json`.
BERT_NORMALIZER = "BertNormalizer"
NORMALIZERS = (
    BERT_NORMALIZER,
    "Lowercase",
    "StripAccents",
    "NFC",
    "NFD",
    "NFKC",
    "NFKD",
    "Replace",
    "Precompiled",
)
# The only supported regular expression: ALBERT's, for several blanks.
BLANKS_PATTERN = {"Regex": " {2,}"}
WORD_LENGTH = 100  # characters, as in BERT
# Replaces an unused id, or a token that no text contains. Words contain no
# blanks, so no word is equal to it.
NOT_A_PIECE = "[not a piece {}]"


@dataclasses.dataclass(frozen=True)
class AddedToken:
    """A token that is looked for in a text before the text is split."""

    content: str
    id: int
    normalized: bool = False
    lstrip: bool = False
    rstrip: bool = False
    is_piece: bool = False


@dataclasses.dataclass(frozen=True)
class TextRules:
    """How texts are normalized, and which tokens are looked for first."""

    normalizer: tuple[Mapping, ...] = ()
    added_tokens: tuple[AddedToken, ...] = ()
    max_input_chars_per_word: int = WORD_LENGTH
    truncation_side: str = "right"

    def to_json(self) -> dict:
        """Returns the rules as a JSON object."""
        side = self.truncation_side
        return {
            "normalizer": [dict(step) for step in self.normalizer],
            "added_tokens": [
                dataclasses.asdict(token) for token in self.added_tokens
            ],
            "max_input_chars_per_word": self.max_input_chars_per_word,
            **({} if side == "right" else {"truncation_side": side}),
        }

    @property
    def lowercase(self) -> bool:
        """Whether any step converts letters to lower case."""
        return any(
            step["type"] == "Lowercase" or step.get("lowercase", False)
            for step in self.normalizer
        )

    @property
    def strip_accents(self) -> bool:
        """Whether any step removes accents."""
        return any(
            step["type"] == "StripAccents" or step.get("strip_accents", False)
            for step in self.normalizer
        )


def bert_rules(
    lowercase: bool,
    strip_accents: bool | None = None,
    handle_chinese_chars: bool = True,
    **kwargs,
) -> TextRules:
    """Returns the rules of BERT's tokenizer."""
    step = {
        "type": BERT_NORMALIZER,
        "clean_text": True,
        "handle_chinese_chars": handle_chinese_chars,
        "strip_accents": lowercase if strip_accents is None else strip_accents,
        "lowercase": lowercase,
    }
    return TextRules((step,), **kwargs)


def read_rules(value) -> TextRules:
    """Returns the rules from a result of `TextRules.to_json`."""
    return TextRules(
        tuple(value["normalizer"]),
        tuple(AddedToken(**token) for token in value["added_tokens"]),
        value["max_input_chars_per_word"],
        value.get("truncation_side", "right"),
    )


def read_normalizer(value, where) -> tuple[dict, ...]:
    """Returns the steps of the normalizer in a `tokenizer.json`."""
    if value is None:
        return ()
    if value["type"] == "Sequence":
        return tuple(
            step
            for one in value["normalizers"]
            for step in read_normalizer(one, where)
        )
    if value["type"] not in NORMALIZERS:
        raise unknown(f"normalizer in {where}", value["type"], NORMALIZERS)
    pattern = value.get("pattern", BLANKS_PATTERN)
    if "String" not in pattern and pattern != BLANKS_PATTERN:
        raise UsageError(
            f"The normalizer in {where} replaces the pattern {pattern}. "
            f"Expected a String or {BLANKS_PATTERN}."
        )
    if value.get("strip_accents", 0) is None:
        value = {**value, "strip_accents": value.get("lowercase")}
    return (value,)


BY_CHARACTER = ("BertNormalizer", "Lowercase", "StripAccents")
# Character by character, if the next step removes the separated accents.
DECOMPOSITIONS = ("NFD", "NFKD")


def normalization(steps):
    """Returns a function that applies a normalizer's steps to texts."""
    functions = [_function(step) for step in joined(steps)]

    def normalize(texts):
        for function in functions:
            texts = function(texts)
        return texts

    return normalize


def joined(steps) -> list[dict]:
    """Merges consecutive steps that change characters separately."""
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
    """Whether a step from `joined` changes characters separately."""
    return step["type"] == "Sequence"


def _function(step):
    if is_by_character(step):
        return character_map(step)
    if step["type"] == "Replace":
        return _replace(step["pattern"], step["content"])
    if step["type"] == "Precompiled":
        return compiled_charsmap(step["precompiled_charsmap"])
    return lambda texts: tf_text.normalize_utf8(texts, step["type"])


def _replace(pattern, content):
    found = pattern.get("Regex") or re.escape(pattern["String"])
    content = content.replace("\\", "\\\\")
    return lambda texts: tf.strings.regex_replace(texts, found, content)


@functools.lru_cache(maxsize=4)
def compiled_charsmap(text: str) -> Charsmap:
    """Returns a `precompiled_charsmap` as a function on texts."""
    return Charsmap(base64.b64decode(text))


# White space as `tokenizers` defines it, for an RE2 character class.
WHITE_SPACE = (
    r"\t\n\v\f\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}"
    r"\x{202f}\x{205f}\x{3000}"
)
CUT = b"\xff"  # never occurs in UTF-8


def cut_words(texts):
    """Splits texts at `CUT`, without empty words."""
    words = tf.strings.split(texts, CUT)
    return tf.ragged.boolean_mask(words, words != "")


class WordIds:
    """Computes ids of words, only once per different word in a batch."""

    def __init__(self, word_ids):
        with tf.init_scope():
            self._traced = tf.function(
                word_ids,
                input_signature=[tf.TensorSpec([None], "string")],
            ).get_concrete_function()

    def __call__(self, words):
        """Returns ids as a ragged int32 tensor of shape `(num_texts, None)`."""
        unique, numbers = tf.unique(words.values)
        ids = tf.gather(self._traced(unique), numbers)
        return tf.cast(
            tf.RaggedTensor.from_row_splits(
                ids.values, tf.gather(ids.row_splits, words.row_splits)
            ),
            "int32",
        )


def tokenizer_rules(tokenizer) -> TextRules | None:
    """Returns a tokenizer's text rules, or `None`."""
    return getattr(tokenizer, "text_rules", None)
