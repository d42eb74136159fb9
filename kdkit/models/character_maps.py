"""Maps from characters to short strings, applied to texts in TensorFlow.

Before it looks for word pieces, Hugging Face's `tokenizers` changes each
character separately: it removes control characters, separates Chinese
characters, strips accents and converts to lower case. A map contains the
result for every character, computed by `tokenizers` itself. So both produce
the same texts, even for characters that two versions of Unicode define
differently.

SentencePiece looks for the longest sequence of characters in the map. Hugging
Face's `tokenizers` takes one grapheme at a time, looks up the shortest sequence
that the grapheme begins with, and replaces the whole grapheme by its image. A
grapheme of more than five bytes is processed character by character.
"""

import base64
import functools
import json
import types
import unicodedata

import numpy as np
import tokenizers

from kdkit.late import tf

# `tokenizers` runs on each of these, and on the first of each block.
CHARACTERS = (*range(0xD800), *range(0xE000, 0x32400), *range(0xE0000, 0xE0200))
# Blocks that are unassigned or for private use: one result for each block.
BLOCKS = {
    0x32400: 0xDFFFF,
    0xE0200: 0xEFFFF,
    0xF0000: 0xFFFFD,
    0xFFFFE: 0xFFFFF,
    0x100000: 0x10FFFD,
    0x10FFFE: 0x10FFFF,
}
# Never changed, never the image of another one, never changes its neighbours.
SEPARATOR = "\u2581"
KEPT = -1  # marks a character that does not change


class CharacterMap:
    """A map from each character to a string, often the character itself."""

    def __init__(self, images):
        starts, rows, end = [0], [[KEPT]], 0
        for point in sorted(images):
            codes = map(ord, images[point])
            row = [KEPT if code == point else code for code in codes]
            if point > end:
                starts.append(end)
                rows.append([KEPT])
            starts.append(point)
            rows.append(row)
            end = BLOCKS.get(point, point) + 1
        starts.append(end)
        rows.append([KEPT])
        # Neighbours with the same row, such as unchanged ones, share it.
        first = [0] + [
            number
            for number in range(1, len(rows))
            if rows[number] != rows[number - 1]
        ]
        self._starts = np.array([starts[number] for number in first], "int32")
        rows = [rows[number] for number in first]
        self._splits = np.cumsum([0, *map(len, rows)]).astype("int32")
        self._values = np.array([one for row in rows for one in row], "int32")

    def __call__(self, texts):
        """Replaces every character in the texts by its image."""
        points = tf.strings.unicode_decode(texts, "UTF-8")
        rows = tf.searchsorted(self._starts, points.values, side="right") - 1
        begins = tf.gather(self._splits, rows)
        lengths = tf.gather(self._splits[1:] - self._splits[:-1], rows)
        ends = tf.concat([[0], tf.cumsum(lengths)], axis=0)
        # The index of each new character in the images, and its source.
        numbers = tf.repeat(tf.range(tf.size(lengths)), lengths)
        places = tf.range(tf.size(numbers)) - tf.gather(ends, numbers)
        images = tf.gather(self._values, tf.gather(begins, numbers) + places)
        kept = tf.gather(points.values, numbers)
        return tf.strings.unicode_encode(
            tf.RaggedTensor.from_row_splits(
                tf.where(images == KEPT, kept, images),
                tf.gather(ends, points.row_splits),
                validate=False,
            ),
            "UTF-8",
        )


def build_normalizer(step):
    """The normalizer in `tokenizers` for a step of a `tokenizer.json`."""
    if step["type"] == "Sequence":
        return tokenizers.normalizers.Sequence(
            [build_normalizer(one) for one in step["normalizers"]]
        )
    kwargs = {name: value for name, value in step.items() if name != "type"}
    if step["type"] == "Precompiled":
        kwargs = {name: base64.b64decode(text) for name, text in kwargs.items()}
    if step["type"] == "Replace":
        text, expression = map(step["pattern"].get, ("String", "Regex"))
        kwargs["pattern"] = text or tokenizers.Regex(expression)
    return getattr(tokenizers.normalizers, step["type"])(**kwargs)


def character_map(step: dict | None, splits: bool = False) -> CharacterMap:
    """Returns the map for a normalizer that changes characters separately."""
    return _character_map(json.dumps(step), splits)


@functools.lru_cache(maxsize=16)
def _character_map(step, splits):
    step = json.loads(step)
    images = character_images(step) if step else {}
    if splits:
        separated = _separated()
        for point in {*images, *separated}:
            text = images.get(point, chr(point))
            images[point] = "".join(
                separated.get(ord(character), character) for character in text
            )
    return CharacterMap(images)


def _points():
    points = [point for point in CHARACTERS if point != ord(SEPARATOR)]
    return points + list(BLOCKS)


def character_images(step: dict) -> dict[int, str]:
    """Returns the images of all characters that a normalizer changes."""
    points = _points()
    text = SEPARATOR.join(map(chr, points))
    texts = build_normalizer(step).normalize_str(text).split(SEPARATOR)
    return {
        point: text
        for point, text in zip(points, texts, strict=True)
        if text != chr(point)
    }


@functools.lru_cache(maxsize=1)
def _separated():
    """Returns blanks for white space, and punctuation with blanks around it."""
    points = _points()
    text = SEPARATOR.join(map(chr, points)) + SEPARATOR
    images, end = {}, 0
    splitter = tokenizers.pre_tokenizers.BertPreTokenizer()
    for word, (start, stop) in splitter.pre_tokenize_str(text):
        for place in range(end, start):
            images[ord(text[place])] = " "
        end = stop
        if len(word) == 1 and word != SEPARATOR:
            images[ord(word)] = f" {word} "
    return types.MappingProxyType(images)


MAX_BYTES = 5  # of a grapheme that is looked up as a whole
MAX_CHARACTERS = 3  # of such a grapheme: joining characters have 2+ bytes
LABEL_MASK = (1 << 31) | 0xFF
# Bytes that never occur in UTF-8.
MISSING = b"\xff"
CUT = b"\xfe"
ACUTE = "\u0301"  # joins the preceding character
# Characters that may join others.
POINTS = (*range(1, 0xD800), *range(0xE000, 0x20000), *range(0xE0000, 0xE0200))
CONTROLS = ("Cc", "Cf", "Zl", "Zp")


def read_charsmap(charsmap: bytes) -> dict[str, str]:
    """Returns a map's sequences of at most five bytes, with their images."""
    size = int.from_bytes(charsmap[:4], "little")
    images = charsmap[4 + size :]
    units = np.frombuffer(charsmap, "<u4", size // 4, 4).astype("int64")
    labels = np.arange(1, 256)
    keys, nodes = [b""], np.array([_offset(units[0])])
    sequences = {}
    for _ in range(MAX_BYTES):
        children = nodes[:, np.newaxis] ^ labels
        found = units[children]
        parents, columns = np.nonzero((found & LABEL_MASK) == labels)
        keys = [
            keys[parent] + bytes([label])
            for parent, label in zip(parents, labels[columns], strict=True)
        ]
        found = found[parents, columns]
        nodes = children[parents, columns] ^ _offset(found)
        for number in np.flatnonzero((found >> 8) & 1):
            sequences[keys[number]] = _image(units, nodes[number], images)
    return {
        sequence.decode("utf-8"): image.decode("utf-8")
        for sequence, image in sequences.items()
    }


def _offset(unit):
    return (unit >> 10) << ((unit & (1 << 9)) >> 6)


def _image(units, node, images):
    start = int(units[node]) & 0x7FFFFFFF
    return images[start : images.index(b"\0", start)]


class Charsmap:
    """A `precompiled_charsmap` as a function of texts."""

    def __init__(self, charsmap: bytes):
        sequences = read_charsmap(charsmap)
        self._characters = CharacterMap(
            {
                ord(sequence): image
                for sequence, image in sequences.items()
                if len(sequence) == 1
            }
        )
        self._grapheme = _grapheme(charsmap, sequences)
        numbers = {_number(key): image for key, image in sequences.items()}
        self._numbers = np.array(sorted(numbers), "int64")
        self._images = [numbers[number] for number in sorted(numbers)]

    def __call__(self, texts):
        """Replaces every grapheme in the texts by its image."""
        if self._grapheme is None:
            return self._characters(texts)
        cut = tf.strings.regex_replace(
            texts, self._grapheme, CUT + rb"\0" + CUT
        )
        parts = tf.strings.split(cut, CUT)
        places = tf.where(
            tf.strings.regex_full_match(parts.values, self._grapheme)
            & (tf.strings.length(parts.values) <= MAX_BYTES)
        )
        graphemes = tf.gather_nd(parts.values, places)
        images = tf.fill(tf.shape(graphemes), MISSING)
        for length in range(1, MAX_CHARACTERS + 1):
            begins = tf.strings.substr(graphemes, 0, length, "UTF8_CHAR")
            images = tf.where(images == MISSING, self._lookup(begins), images)
        found = images != MISSING
        values = tf.tensor_scatter_nd_update(
            self._characters(parts.values), places[found], images[found]
        )
        return tf.strings.reduce_join(parts.with_values(values), axis=-1)

    def _lookup(self, sequences):
        """Returns the images of sequences up to five bytes, or `MISSING`."""
        numbers = tf.io.decode_raw(sequences, "int64", fixed_length=8)[:, 0]
        found = tf.searchsorted(self._numbers, numbers)
        found = tf.minimum(found, len(self._numbers) - 1)
        return tf.where(
            tf.gather(self._numbers, found) == numbers,
            tf.gather(self._images, found),
            MISSING,
        )


def _number(sequence):
    """Returns the bytes of a sequence as one number."""
    return int.from_bytes(sequence.encode("utf-8"), "little")


def _grapheme(charsmap, sequences):
    """Returns an RE2 pattern for graphemes of several characters."""
    normalizer = tokenizers.normalizers.Precompiled(charsmap)
    used = {*"".join(sequences), *"".join(sequences.values())}
    separator = min({*map(chr, range(0x3400, 0xA000))} - used)

    def results(before="", behind=""):
        """Yields code points with the result for each between two strings."""
        points = [point for point in POINTS if chr(point) != separator]
        text = separator.join(before + chr(one) + behind for one in points)
        texts = normalizer.normalize_str(text).split(separator)
        return zip(points, texts, strict=True)

    ordered = sorted(sequences, key=lambda key: (len(key.encode()), key))
    probes = [
        key
        for key in ordered
        if sequences[key]
        and normalizer.normalize_str(key + ACUTE) == sequences[key]
    ]
    if not probes:
        return None
    # A grapheme that becomes longer than five bytes keeps its accent.
    image = sequences[probes[0]]
    joined = {
        point
        for point, result in results(before=probes[0] + ACUTE)
        if result != image + sequences.get(chr(point), chr(point))
    }
    pairs = [key for key in probes if len(key) == 2]
    before = set()
    if pairs:
        before = {
            point
            for point, result in results(behind=pairs[0])
            if not result.endswith(sequences[pairs[0]])
        } - joined
    apart = {
        point
        for point in POINTS
        if unicodedata.category(chr(point)) in CONTROLS
    }
    apart -= joined | before
    joined, apart, before = map(_ranges, (joined, apart, before))
    several = rf"[^{apart}][{joined}]+|\r\n"
    if before:
        several = rf"[{before}]+[^{apart}][{joined}]*|{several}"
    return several


def _ranges(points):
    """Returns the ranges of code points, for an RE2 character class."""
    ends = sorted(one for one in points if one + 1 not in points)
    starts = sorted(one for one in points if one - 1 not in points)
    return "".join(
        rf"\x{{{start:x}}}-\x{{{end:x}}}"
        for start, end in zip(starts, ends, strict=True)
    )
