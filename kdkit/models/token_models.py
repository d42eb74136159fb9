"""Byte-level BPE and unigram models in TensorFlow, equal to `tokenizers`.

keras-hub's own tokenizer splits texts by two other patterns, one eagerly and
one in graphs. Here one function does both, and splits by GPT-2's pattern.

`tokenizers` splits a text into words and adds up the scores of a word's pieces
in double precision. SentencePiece processes the whole text in single precision,
and chooses other pieces if two segmentations have nearly the same score.
"""

import numpy as np
import tokenizers
from sentencepiece import sentencepiece_model_pb2 as sentencepiece_model

from kdkit.late import tf
from kdkit.models.text_rules import CUT, WHITE_SPACE, WordIds, cut_words

# Letters and digits for `tokenizers`, but not for RE2's version of Unicode.
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
# GPT-2's pattern without its lookahead. The last of several blanks before a
# word belongs to the word, or is separate. `BEFORE_WORD` cuts there first.
BEFORE_WORD = rf"([{WHITE_SPACE}])([^{WHITE_SPACE}])"
WORD = (
    rf"'s|'t|'re|'ve|'m|'ll|'d| ?[{LETTERS}]+| ?[{DIGITS}]+"
    rf"| ?[^{WHITE_SPACE}{LETTERS}{DIGITS}]+|[{WHITE_SPACE}]+"
)
NO_RANK = np.iinfo("int64").max


def byte_characters() -> list[str]:
    """Returns the character for each byte in a byte-level vocabulary."""
    alphabet = set(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    plain = [chr(byte) for byte in range(256) if chr(byte) in alphabet]
    others = iter(sorted(alphabet - set(plain)))
    return [
        chr(byte) if chr(byte) in alphabet else next(others)
        for byte in range(256)
    ]


def split_words(texts):
    """Splits texts into words as GPT-2's pattern does."""
    texts = tf.strings.regex_replace(texts, BEFORE_WORD, CUT + rb"\1\2")
    texts = tf.strings.regex_replace(texts, WORD, CUT + rb"\0")
    return cut_words(texts)


class ByteLevelPairs:
    """Converts texts to ids by a byte-level vocabulary and its merges."""

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
            pair = vocabulary[first] * self._size + vocabulary[second]
            # If a pair occurs twice, the last one counts.
            pairs[pair] = (rank, vocabulary[first + second])
        # The last entry is not a pair, so that every search ends before it.
        pairs[NO_RANK] = (NO_RANK, -1)
        self._pairs = np.array(sorted(pairs), "int64")
        ranked = [pairs[pair] for pair in sorted(pairs)]
        self._ranks, self._merged = np.array(ranked, "int64").T
        self._ids_of_words = WordIds(self._word_ids)

    def __call__(self, texts):
        """Returns ids as a ragged int32 tensor of shape `(num_texts, None)`."""
        if self.add_prefix_space:
            texts = tf.strings.regex_replace(texts, r"\A([^ ])", r" \1")
        return self._ids_of_words(split_words(texts))

    def _word_ids(self, words):
        """Merges each word's pair with the lowest rank until none is left."""
        splits = tf.strings.length(words)
        text = tf.io.decode_raw(
            tf.strings.reduce_join(words, axis=0)[tf.newaxis], "uint8"
        )[0]
        ids = tf.gather(self._byte_ids, tf.cast(text, "int32"))
        rows = tf.repeat(tf.range(tf.size(words)), splits)
        known = ids >= 0  # ignores bytes without a token
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
        """Merges one pair in every word; moves finished words away."""
        pairs = ids[:-1] * self._size + ids[1:]
        found = tf.searchsorted(self._pairs, pairs)
        is_pair = (tf.gather(self._pairs, found) == pairs) & (
            rows[:-1] == rows[1:]
        )
        ranks = tf.where(is_pair, tf.gather(self._ranks, found), NO_RANK)
        ranks = tf.concat([ranks, [NO_RANK]], axis=0)
        merged = tf.concat([tf.gather(self._merged, found), [-1]], axis=0)
        # Words by their index among the remaining ones.
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


UNDERLINE = "\u2581"  # SentencePiece's character for a blank
BLANKS = f"[{WHITE_SPACE}]+"
UNKNOWN_PENALTY = 10.0  # below the lowest score, as in SentencePiece
# Pieces are looked up by hashes: polynomials of their characters modulo 2**64.
BASE = 0x9E3779B97F4A7C15
INVERSE = pow(BASE, -1, 1 << 64)
Piece = sentencepiece_model.ModelProto.SentencePiece


def split_blanks(texts, add_prefix_space=True):
    """Splits texts at white space and before each `UNDERLINE`."""
    if add_prefix_space:
        texts = tf.strings.regex_replace(texts, BLANKS, " ")
        texts = tf.strings.regex_replace(
            texts, f"(?:^| )([^ {UNDERLINE}])", rf"{UNDERLINE}\1"
        )
        texts = tf.strings.regex_replace(texts, " ", "")
    else:
        texts = tf.strings.regex_replace(texts, BLANKS, CUT)
    texts = tf.strings.regex_replace(
        texts, UNDERLINE, CUT + UNDERLINE.encode("utf-8")
    )
    return cut_words(texts)


class Unigrams:
    """Converts texts to ids by a SentencePiece Unigram model."""

    def __init__(self, proto: bytes, vocabulary, wholes=()):
        model = sentencepiece_model.ModelProto.FromString(proto)
        self._add_prefix_space = model.normalizer_spec.add_dummy_prefix
        pieces = {piece.piece: piece for piece in model.pieces}
        unknown = pieces[model.pieces[model.trainer_spec.unk_id].piece]
        self._unknown_id = vocabulary.index(unknown.piece)
        self._unknown_score = (
            min(piece.score for piece in model.pieces) - UNKNOWN_PENALTY
        )
        parts = {
            name: number
            for number, name in enumerate(vocabulary)
            if name in pieces
            and name not in wholes
            and pieces[name].type not in (Piece.UNKNOWN, Piece.CONTROL)
        }
        self._longest = max(map(len, parts), default=1)
        hashes = _hashes(list(parts))
        order = np.argsort(hashes)
        self._hashes = hashes[order]
        self._ids = np.array(list(parts.values()), "int32")[order]
        scores = [pieces[name].score for name in parts]
        self._scores = np.array(scores, "float64")[order]
        self._ids_of_words = WordIds(self._word_ids)

    def __call__(self, texts):
        """Returns ids as a ragged int32 tensor of shape `(num_texts, None)`."""
        words = split_blanks(texts, self._add_prefix_space)
        return self._ids_of_words(words)

    def _word_ids(self, words):
        """Returns the pieces of each word with the highest total score."""
        characters = tf.strings.unicode_decode(words, "UTF-8")
        rows = tf.cast(characters.value_rowids(), "int32")
        starts = tf.cast(characters.row_starts(), "int32")
        places = tf.range(tf.size(rows)) - tf.gather(starts, rows)
        found = self._pieces_that_end(characters.values, places)
        lengths, numbers = _best_paths(*found, places, self._longest)
        is_end = _ends_on_path(lengths, places, rows)
        ids = tf.boolean_mask(numbers, is_end)
        rows = tf.boolean_mask(rows, is_end)
        # Consecutive unknown characters are one piece.
        again = (
            (ids[1:] == self._unknown_id)
            & (ids[:-1] == self._unknown_id)
            & (rows[1:] == rows[:-1])
        )
        left = tf.concat([tf.ones_like(ids[:1], "bool"), ~again], axis=0)
        left = left[: tf.size(ids)]
        return tf.RaggedTensor.from_value_rowids(
            ids[left], tf.cast(rows[left], "int64"), nrows=characters.nrows()
        )

    def _pieces_that_end(self, points, places):
        """Returns scores and ids of the pieces that end at each character."""
        size = tf.size(points)
        powers, inverses = (
            tf.math.cumprod(
                tf.fill([size + 1], tf.constant(_signed(base), "int64")),
                exclusive=True,
            )
            for base in (BASE, INVERSE)
        )
        terms = (tf.cast(points, "int64") + 1) * powers[:-1]
        sums = tf.concat([[0], tf.cumsum(terms)], axis=0)
        lengths = np.arange(self._longest, 0, -1, dtype="int32")
        ends = tf.range(1, size + 1)[:, tf.newaxis]
        begins = tf.maximum(ends - lengths, 0)
        hashes = (tf.gather(sums, ends) - tf.gather(sums, begins)) * tf.gather(
            inverses, begins
        )
        found = tf.searchsorted(self._hashes, tf.reshape(hashes, [-1]))
        found = tf.minimum(found, len(self._hashes) - 1)
        found = tf.reshape(found, tf.shape(hashes))
        is_piece = (tf.gather(self._hashes, found) == hashes) & (
            lengths <= places[:, tf.newaxis] + 1
        )
        none = np.where(lengths == 1, self._unknown_score, -np.inf)
        scores = tf.where(is_piece, tf.gather(self._scores, found), none)
        ids = tf.where(is_piece, tf.gather(self._ids, found), self._unknown_id)
        return scores, ids


def _best_paths(scores, ids, places, longest):
    """Returns length and id of the last piece on the best path to each
    character.
    """
    order = tf.argsort(places, stable=True)
    counts = tf.math.bincount(places)
    splits = tf.concat([[0], tf.cumsum(counts)], axis=0)
    lengths = np.arange(longest, 0, -1, dtype="int32")

    def step(place, best, chosen):
        here = order[splits[place] : splits[place + 1]]
        before = here[:, tf.newaxis] - lengths
        so_far = tf.where(
            lengths == place + 1,
            tf.constant(0.0, "float64"),
            tf.gather(best, tf.maximum(before, 0)),
        )
        paths = so_far + tf.gather(scores, here)
        # If several are equally good, the longest piece.
        which = tf.argmax(paths, axis=1, output_type="int32")
        highest = tf.reduce_max(paths, axis=1)
        here = here[:, tf.newaxis]
        return (
            place + 1,
            tf.tensor_scatter_nd_update(best, here, highest),
            tf.tensor_scatter_nd_update(chosen, here, which),
        )

    _, _, chosen = tf.while_loop(
        lambda place, *_: place < tf.size(counts),
        step,
        (0, tf.zeros_like(scores[:, 0]), tf.zeros_like(places)),
    )
    numbers = tf.gather(ids, chosen, batch_dims=1)
    return tf.gather(lengths, chosen), numbers


def _ends_on_path(lengths, places, rows):
    """Whether a piece on the best path ends at each character."""
    before = tf.range(tf.size(lengths)) - lengths
    is_last = tf.concat([rows[1:] != rows[:-1], [True]], axis=0)
    is_last = is_last[: tf.size(rows)]

    def step(is_end, new):
        new = tf.gather(before, new[tf.gather(lengths <= places, new)])
        updated = tf.tensor_scatter_nd_update(
            is_end, new[:, tf.newaxis], tf.ones_like(new, "bool")
        )
        return updated, new

    is_end, _ = tf.while_loop(
        lambda is_end, new: tf.size(new) > 0,
        step,
        (is_last, tf.cast(tf.where(is_last)[:, 0], "int32")),
        shape_invariants=(tf.TensorShape([None]), tf.TensorShape([None])),
    )
    return is_end


def _signed(number):
    """Converts a number modulo 2 ** 64 to a signed integer."""
    return number - (1 << 64) if number >> 63 else number


def _hashes(pieces):
    """Returns the hashes of pieces, of shape `(num_pieces,)`, int64."""
    points = np.frombuffer("".join(pieces).encode("utf-32-le"), "<u4")
    lengths = np.array(list(map(len, pieces)), "int64")
    starts = np.cumsum(lengths) - lengths
    places = np.arange(len(points)) - np.repeat(starts, lengths)
    base = np.full(max(lengths, default=0) + 1, BASE, "uint64")
    base[0] = 1
    terms = (points.astype("uint64") + 1) * np.cumprod(base)[places]
    return np.add.reduceat(terms, starts).astype("int64")
