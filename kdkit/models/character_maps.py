"""Maps from characters to short strings, applied to texts in TensorFlow.

What Hugging Face's `tokenizers` does to a text before it looks for word pieces
(removing control characters, separating Chinese characters, stripping accents,
lower-casing) changes each character on its own. A map has the result for every
character, computed by `tokenizers` itself, so both give the same texts, also
for the characters of which two versions of Unicode say different things.
"""

import base64
import functools
import json
import types

import numpy as np
import tokenizers

from kdkit.backends import tf

# `tokenizers` is run on each of these, and on the first of each block.
CHARACTERS = (*range(0xD800), *range(0xE000, 0x32400), *range(0xE0000, 0xE0200))
# Not assigned or for private use: one result for the whole block.
BLOCKS = {
    0x32400: 0xDFFFF,
    0xE0200: 0xEFFFF,
    0xF0000: 0xFFFFD,
    0xFFFFE: 0xFFFFF,
    0x100000: 0x10FFFD,
    0x10FFFE: 0x10FFFF,
}
# Never changed, the image of no other, and never changes its neighbours.
SEPARATOR = "\u2581"
KEPT = -1  # in the place of a character that stays as it is


class CharacterMap:
    """A map from each character to a string, often the character itself.

    Args:
        images: dict from code point to string. Characters that are not in it
            stay as they are. The first of `BLOCKS` is there for its block.
    """

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
        # Neighbours with the same row, such as nothing, share it.
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
        """Returns texts with every character replaced by its image.

        Args:
            texts: string tensor of shape `(num_texts,)`.
        """
        points = tf.strings.unicode_decode(texts, "UTF-8")
        rows = tf.searchsorted(self._starts, points.values, side="right") - 1
        begins = tf.gather(self._splits, rows)
        lengths = tf.gather(self._splits[1:] - self._splits[:-1], rows)
        ends = tf.concat([[0], tf.cumsum(lengths)], axis=0)
        # Where each new character is in the images, and what it comes from.
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


def normalizer_of(step):
    """Returns the normalizer of `tokenizers` for a step of a `tokenizer.json`.

    Args:
        step: dict, as `tokenizer.json` has it.
    """
    if step["type"] == "Sequence":
        return tokenizers.normalizers.Sequence(
            [normalizer_of(one) for one in step["normalizers"]]
        )
    kwargs = {name: value for name, value in step.items() if name != "type"}
    if step["type"] == "Precompiled":
        kwargs = {name: base64.b64decode(text) for name, text in kwargs.items()}
    if step["type"] == "Replace":
        text, expression = map(step["pattern"].get, ("String", "Regex"))
        kwargs["pattern"] = text or tokenizers.Regex(expression)
    return getattr(tokenizers.normalizers, step["type"])(**kwargs)


def character_map(step: dict | None, splits: bool = False) -> CharacterMap:
    """Returns the map of a normalizer that changes each character on its own.

    Args:
        step: dict. A normalizer as in `tokenizer.json`, `None` for none.
        splits: bool. Whether blanks are then put around punctuation, as BERT's
            pre-tokenizer separates it, and in the place of other white space.
            Defaults to `False`.
    """
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
    """Returns what becomes of the characters that a normalizer changes.

    Args:
        step: dict, as in `character_map`.

    Returns:
        Dict from code point to string, the first of `BLOCKS` for its block.
    """
    points = _points()
    text = SEPARATOR.join(map(chr, points))
    texts = normalizer_of(step).normalize_str(text).split(SEPARATOR)
    return {
        point: text
        for point, text in zip(points, texts, strict=True)
        if text != chr(point)
    }


@functools.lru_cache(maxsize=1)
def _separated():
    """Blanks for white space, and blanks around punctuation."""
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
