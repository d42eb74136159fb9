"""Byte-level byte pairs in TensorFlow, as Hugging Face's `tokenizers` has them.

keras-hub's own tokenizer splits texts by two other patterns, one eagerly and
one in graphs. Here one function does both, and splits by GPT-2's pattern.
"""

import numpy as np
import tokenizers

from kdkit.backends import tf
from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.models.words import CUT
from kdkit.models.words import WHITE_SPACE
from kdkit.models.words import WordIds
from kdkit.models.words import cut_words

# What `tokenizers` takes for letters and digits and RE2's Unicode does not.
NEW_LETTERS = (
    r"\x{1c89}-\x{1c8a}\x{a7cb}-\x{a7cd}\x{a7da}-\x{a7dc}\x{105c0}-\x{105f3}"
    r"\x{10d4a}-\x{10d65}\x{10d6f}-\x{10d85}\x{10ec2}-\x{10ec4}"
    r"\x{11380}-\x{11389}\x{1138b}\x{1138e}\x{11390}-\x{113b5}\x{113b7}"
    r"\x{113d1}\x{113d3}\x{11bc0}-\x{11be0}\x{13460}-\x{143fa}"
    r"\x{16100}-\x{1611d}\x{16d40}-\x{16d6c}\x{18cff}\x{1e5d0}-\x{1e5ed}"
    r"\x{1e5f0}\x{2ebf0}-\x{2ee5d}"
)
NEW_DIGITS = (
    r"\x{10d40}-\x{10d49}\x{116d0}-\x{116e3}\x{11bf0}-\x{11bf9}"
    r"\x{16130}-\x{16139}\x{16d70}-\x{16d79}\x{1ccf0}-\x{1ccf9}"
    r"\x{1e5f1}-\x{1e5fa}"
)
LETTERS = rf"\p{{L}}{NEW_LETTERS}"
DIGITS = rf"\p{{N}}{NEW_DIGITS}"
# GPT-2's pattern but for its lookahead: the last of several blanks before a
# word goes with the word, or stands alone. `BEFORE_WORD` cuts there first.
BEFORE_WORD = rf"([{WHITE_SPACE}])([^{WHITE_SPACE}])"
WORD = (
    rf"'s|'t|'re|'ve|'m|'ll|'d| ?[{LETTERS}]+| ?[{DIGITS}]+"
    rf"| ?[^{WHITE_SPACE}{LETTERS}{DIGITS}]+|[{WHITE_SPACE}]+"
)
NO_RANK = np.iinfo("int64").max


def byte_characters() -> list[str]:
    """The character that represents each byte in a byte-level vocabulary."""
    alphabet = set(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    plain = [chr(byte) for byte in range(256) if chr(byte) in alphabet]
    others = iter(sorted(alphabet - set(plain)))
    return [
        chr(byte) if chr(byte) in alphabet else next(others)
        for byte in range(256)
    ]


def split_words(texts):
    """Splits texts into words as GPT-2's pattern does.

    Args:
        texts: string tensor of shape `(num_texts,)`, UTF-8.

    Returns:
        Ragged string tensor of shape `(num_texts, None)`. The words of a text,
        joined, are the text.
    """
    texts = tf.strings.regex_replace(texts, BEFORE_WORD, CUT + rb"\1\2")
    texts = tf.strings.regex_replace(texts, WORD, CUT + rb"\0")
    return cut_words(texts)


class ByteLevelPairs:
    """Ids of texts by a byte-level vocabulary and its merges.

    Args:
        vocabulary: dict from token to id.
        merges: iterable of strings, two tokens with a blank between them. Both
            and the two as one are in the vocabulary.
        add_prefix_space: bool. Whether a text that does not begin with a blank
            gets one in front. Defaults to `False`.

    Raises:
        UsageError: (a `ValueError`) if a merge does not fit the vocabulary.
    """

    def __init__(self, vocabulary, merges, add_prefix_space=False):
        self.add_prefix_space = add_prefix_space
        self._byte_ids = np.array(
            [vocabulary.get(char, -1) for char in byte_characters()], "int64"
        )
        self._size = max(vocabulary.values(), default=0) + 1
        pairs = {}
        for rank, merge in enumerate(merges):
            if merge.startswith("#version"):
                continue
            first, second = merge.split(" ")
            if not {first, second, first + second} <= vocabulary.keys():
                raise UsageError(
                    f"The merge {shortened(merge)} does not fit its vocabulary."
                    " Expected both tokens and the two as one in it. Restore "
                    "the tokenizer's files from a copy."
                )
            pair = vocabulary[first] * self._size + vocabulary[second]
            # Of a pair that is listed twice, the last counts.
            pairs[pair] = (rank, vocabulary[first + second])
        # The last is no pair: what is searched for is before it.
        pairs[NO_RANK] = (NO_RANK, -1)
        self._pairs = np.array(sorted(pairs), "int64")
        ranked = [pairs[pair] for pair in sorted(pairs)]
        self._ranks, self._merged = np.array(ranked, "int64").T
        self._ids_of_words = WordIds(self._word_ids)

    def __call__(self, texts):
        """Returns ids as a ragged int32 tensor of shape `(num_texts, None)`.

        Args:
            texts: string tensor of shape `(num_texts,)`, UTF-8.
        """
        if self.add_prefix_space:
            texts = tf.strings.regex_replace(texts, r"\A([^ ])", r" \1")
        return self._ids_of_words(split_words(texts))

    def _word_ids(self, words):
        """Merges each word's pair of the lowest rank until there is none."""
        splits = tf.strings.length(words)
        text = tf.io.decode_raw(
            tf.strings.reduce_join(words, axis=0)[tf.newaxis], "uint8"
        )[0]
        ids = tf.gather(self._byte_ids, tf.cast(text, "int32"))
        rows = tf.repeat(tf.range(tf.size(words)), splits)
        known = ids >= 0  # a byte without a token is passed over
        ids, rows = ids[known], rows[known]
        done_ids = tf.zeros((0,), "int64")
        done_rows = tf.zeros((0,), "int32")
        ids, rows, done_ids, done_rows = tf.while_loop(
            lambda ids, *_: tf.size(ids) > 0,
            self._merge_once,
            (ids, rows, done_ids, done_rows),
            shape_invariants=(tf.TensorShape([None]),) * 4,
        )
        order = tf.argsort(done_rows, stable=True)
        return tf.RaggedTensor.from_value_rowids(
            tf.gather(done_ids, order),
            tf.cast(tf.gather(done_rows, order), "int64"),
            nrows=tf.size(words, out_type=tf.int64),
        )

    def _merge_once(self, ids, rows, done_ids, done_rows):
        """Merges one pair of every word; sets finished words apart."""
        pairs = ids[:-1] * self._size + ids[1:]
        found = tf.searchsorted(self._pairs, pairs)
        is_pair = (tf.gather(self._pairs, found) == pairs) & (
            rows[:-1] == rows[1:]
        )
        ranks = tf.where(is_pair, tf.gather(self._ranks, found), NO_RANK)
        ranks = tf.concat([ranks, [NO_RANK]], axis=0)
        merged = tf.concat([tf.gather(self._merged, found), [-1]], axis=0)
        # Words by their place among those that are left.
        starts = tf.concat([[True], rows[1:] != rows[:-1]], axis=0)
        words = tf.cumsum(tf.cast(starts, "int32")) - 1
        lowest = tf.gather(tf.math.segment_min(ranks, words), words)
        goes_on = lowest < NO_RANK
        is_lowest = (ranks == lowest) & goes_on
        places = tf.range(tf.size(ids))
        first = tf.math.segment_min(
            tf.where(is_lowest, places, tf.size(ids)), words
        )
        is_merged = tf.gather(first, words) == places
        is_dropped = tf.concat([[False], is_merged[:-1]], axis=0)
        ids = tf.where(is_merged, merged, ids)
        left = goes_on & ~is_dropped
        return (
            ids[left],
            rows[left],
            tf.concat([done_ids, ids[~goes_on]], axis=0),
            tf.concat([done_rows, rows[~goes_on]], axis=0),
        )
