"""SentencePiece's `precompiled_charsmap`, applied as `tokenizers` applies it.

SentencePiece looks for the longest sequence of characters in the map. Hugging
Face's `tokenizers` looks at one grapheme at a time, takes the shortest sequence
that the grapheme begins with, and puts its image in the place of the whole
grapheme; one of more than five bytes it takes character by character.
"""

import unicodedata

import numpy as np
import tokenizers

from kdkit.backends import tf
from kdkit.errors import UsageError
from kdkit.models.character_maps import CharacterMap

MAX_BYTES = 5  # of a grapheme that is looked up as a whole
MAX_CHARACTERS = 3  # in it: what joins a character has two bytes or more
LABEL_MASK = (1 << 31) | 0xFF
# In no text of UTF-8.
MISSING = b"\xff"
CUT = b"\xfe"
ACUTE = "\u0301"  # joins the character before it
# Characters that may join others.
POINTS = (*range(1, 0xD800), *range(0xE000, 0x20000), *range(0xE0000, 0xE0200))
CONTROLS = ("Cc", "Cf", "Zl", "Zp")


def read_charsmap(charsmap: bytes) -> dict[str, str]:
    """Returns the sequences of at most five bytes in a map, with their images.

    Args:
        charsmap: bytes. The length of a double-array trie in four bytes, the
            trie, and the images, each with a zero byte at its end.

    Raises:
        UsageError: (a `ValueError`) if it is damaged.
    """
    size = int.from_bytes(charsmap[:4], "little")
    images = charsmap[4 + size :]
    if size % 4 or not size or not images.endswith(b"\0"):
        raise _damaged(f"a trie of {size} bytes and {len(images)} behind it")
    units = np.frombuffer(charsmap, "<u4", size // 4, 4).astype("int64")
    labels = np.arange(1, 256)
    keys, nodes = [b""], np.array([_offset(units[0])])
    sequences = {}
    for _ in range(MAX_BYTES):
        children = nodes[:, np.newaxis] ^ labels
        if children.size and children.max() >= len(units):
            raise _damaged("a trie that is cut off")
        found = units[children]
        parents, columns = np.nonzero((found & LABEL_MASK) == labels)
        if len(parents) > len(units):
            raise _damaged("a trie with a circle")
        keys = [
            keys[parent] + bytes([label])
            for parent, label in zip(parents, labels[columns], strict=True)
        ]
        found = found[parents, columns]
        nodes = children[parents, columns] ^ _offset(found)
        for number in np.flatnonzero((found >> 8) & 1):
            sequences[keys[number]] = _image(units, nodes[number], images)
    try:
        tokenizers.normalizers.Precompiled(charsmap)
    except Exception as error:  # it raises no other kind
        raise _damaged("what tokenizers cannot read") from error
    try:
        return {
            sequence.decode("utf-8"): image.decode("utf-8")
            for sequence, image in sequences.items()
        }
    except UnicodeDecodeError as error:
        raise _damaged("sequences that are not UTF-8") from error


def _offset(unit):
    return (unit >> 10) << ((unit & (1 << 9)) >> 6)


def _image(units, node, images):
    start = int(units[node]) & 0x7FFFFFFF if node < len(units) else len(images)
    if start >= len(images):
        raise _damaged("images that are cut off")
    return images[start : images.index(b"\0", start)]


def _damaged(received):
    return UsageError(
        "The precompiled_charsmap of a SentencePiece model is damaged. "
        f"Expected a trie and its images. Received: {received}. Restore the "
        "tokenizer's files from a copy."
    )


class Charsmap:
    """A `precompiled_charsmap` as a function of texts.

    Args:
        charsmap: bytes, as `read_charsmap` reads them.

    Raises:
        UsageError: (a `ValueError`) if they are damaged.
    """

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
        """Returns texts with every grapheme replaced by its image.

        Args:
            texts: string tensor of shape `(num_texts,)`, UTF-8.
        """
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
            images = tf.where(images == MISSING, self._image_of(begins), images)
        found = images != MISSING
        values = tf.tensor_scatter_nd_update(
            self._characters(parts.values), places[found], images[found]
        )
        return tf.strings.reduce_join(parts.with_values(values), axis=-1)

    def _image_of(self, sequences):
        """The images of sequences of at most five bytes, or `MISSING`."""
        numbers = tf.io.decode_raw(sequences, "int64", fixed_length=8)[:, 0]
        found = tf.searchsorted(self._numbers, numbers)
        found = tf.minimum(found, len(self._numbers) - 1)
        return tf.where(
            tf.gather(self._numbers, found) == numbers,
            tf.gather(self._images, found),
            MISSING,
        )


def _number(sequence):
    """The bytes of a sequence as one number."""
    return int.from_bytes(sequence.encode("utf-8"), "little")


def _grapheme(charsmap, sequences):
    """A pattern of RE2 for graphemes of several characters.

    Which characters join others is a matter of Unicode's version. `tokenizers`
    itself shows it, with a sequence of the map.

    Returns:
        String, or `None` where the map has no sequence that can be joined.
    """
    normalizer = tokenizers.normalizers.Precompiled(charsmap)
    used = {*"".join(sequences), *"".join(sequences.values())}
    separator = min({*map(chr, range(0x3400, 0xA000))} - used, default="")
    if not separator:
        raise _damaged("images of every character")

    def results(before="", behind=""):
        """By code point, what becomes of its character between texts."""
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
    """Ranges of code points, for a class of RE2."""
    ends = sorted(one for one in points if one + 1 not in points)
    starts = sorted(one for one in points if one - 1 not in points)
    return "".join(
        rf"\x{{{start:x}}}-\x{{{end:x}}}"
        for start, end in zip(starts, ends, strict=True)
    )
