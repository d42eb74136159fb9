"""Word pieces as a graph of TensorFlow, for SavedModels that read strings.

The pieces are looked for in words that a table makes of each character, filled
by the tokenizer itself. The graph is compared with the tokenizer and refused if
one text gets other ids.
"""

import sys
import unicodedata

import numpy as np

from kdkit.errors import UsageError
from kdkit.late import tf, tf_text
from kdkit.models.tokenizer_kinds import as_tokenizer

# Changed by no normalizer, and never the result for another character.
SEPARATOR = "\u2581"
NO_PIECE = "[no piece {}]"  # no word has blanks
BYTES_PER_CHARACTER = 4


def string_encoder(tokenizer, sequence_length, num_texts, examples):
    """Returns a traced function from columns of texts to ids and segments.

    Args:
        tokenizer: as in `kdkit.data.encode`.
        sequence_length: int. The largest number of tokens in an example.
        num_texts: int. 1 for texts, 2 for pairs.
        examples: `kdkit.data.Examples`. The texts on which both are compared.

    Returns:
        A function of `num_texts` string tensors of shape `(batch_size,)`. It
        returns two ragged int32 tensors of shape `(batch_size, None)`.

    Raises:
        UsageError: (a `ValueError`) if the tokenizer has no word pieces, or the
            graph gives other ids.
    """
    tokenizer = as_tokenizer(tokenizer)
    if tokenizer.kind != "WordPiece":
        raise UsageError(
            "A SavedModel that reads strings needs word pieces. Received: a "
            f"tokenizer of kind {tokenizer.kind}. An app bundle has its "
            "tokenizer.json."
        )
    is_pair = num_texts > 1
    num_special = tokenizer.rust.num_special_tokens_to_add(is_pair)
    room = sequence_length - num_special
    with tf.init_scope():
        text_ids = _text_ids(tokenizer)

    @tf.function(
        input_signature=[tf.TensorSpec((None,), "string")] * num_texts,
        autograph=False,
    )
    def encode(*texts):
        parts = _truncated([*map(text_ids, texts)], room, tokenizer.side)
        rows = tf.shape(texts[0])[0]
        start = tf.fill((rows, 1), tokenizer.start_token_id)
        end = tf.fill((rows, 1), tokenizer.end_token_id)
        # Between two texts there may be several ends.
        first = [start, parts[0], *[end] * (num_special - 1 - is_pair)]
        second = [parts[1], end] if is_pair else []
        ids = tf.concat([*first, *second], axis=1)
        number = tokenizer.num_segments - 1
        segments = [*map(tf.zeros_like, first)]
        segments += [number * tf.ones_like(one) for one in second]
        return ids, tf.concat(segments, axis=1)

    _require_same_ids(encode, tokenizer, sequence_length, examples)
    return encode


def _truncated(parts, room, side):
    """Truncates the longer text first, as `tokenizers` does."""
    sizes = [tf.cast(part.row_lengths(), "int32") for part in parts]
    kept = [tf.minimum(sizes[0], room)]
    if len(parts) > 1:
        least = tf.minimum(*sizes)
        most = tf.maximum(least, room - least)
        is_long = least + most > room
        least = tf.where(is_long, room // 2, least)
        most = tf.where(is_long, room - room // 2, most)
        is_first = sizes[0] > sizes[1]
        kept = [
            tf.where(is_first, most, least),
            tf.where(is_first, least, most),
        ]
    found = []
    for part, size, count in zip(parts, sizes, kept, strict=True):
        places = tf.ragged.range(size)
        if side == "left":
            places = size[:, tf.newaxis] - 1 - places
        found.append(tf.ragged.boolean_mask(part, places < count[:, None]))
    return found


def _text_ids(tokenizer):
    """Returns a function from texts to ragged ids of word pieces."""
    model = tokenizer.rust.model
    pieces = tokenizer.get_vocabulary()
    known = tokenizer.whole["model"]["vocab"]
    matcher = tf_text.FastWordpieceTokenizer(
        [
            piece if piece in known else NO_PIECE.format(number)
            for number, piece in enumerate(pieces)
        ],
        suffix_indicator=model.continuing_subword_prefix,
        max_bytes_per_word=BYTES_PER_CHARACTER * model.max_input_chars_per_word,
        token_out_type=tf.int32,
        unknown_token=model.unk_token,
        no_pretokenization=True,
    )
    starts, numbers, images = _table(tokenizer.rust)

    def ids(texts):
        points = tf.strings.unicode_decode(texts, "UTF-8")
        places = tf.searchsorted(starts, points.values, side="right") - 1
        number = tf.gather(numbers, places)
        characters = tf.strings.unicode_split(texts, "UTF-8")
        changed = tf.where(
            number == 0, characters.values, tf.gather(images, number)
        )
        changed = characters.with_values(changed)
        words = tf.strings.split(tf.strings.reduce_join(changed, axis=-1))
        lengths = tf.strings.length(words.values, unit="UTF8_CHAR")
        is_long = lengths > model.max_input_chars_per_word
        values = tf.where(is_long, model.unk_token, words.values)
        return matcher.tokenize(words.with_values(values)).merge_dims(-2, -1)

    return ids


def _table(rust):
    """Returns the first characters of runs with the same image, and images.

    Image 0 is the character itself. An image has a blank for white space, and
    blanks around words of one character.
    """
    points = [
        point
        for point in range(1, sys.maxunicode + 1)
        if not 0xD800 <= point < 0xE000 and chr(point) != SEPARATOR
    ]
    text = SEPARATOR.join(map(chr, points))
    normalizer = rust.normalizer
    images = normalizer.normalize_str(text).split(SEPARATOR)
    separate = _separate(rust, set("".join(images)))
    found, numbers = {None: 0, "": 1}, np.ones(sys.maxunicode + 1, "int32")
    for point, image in zip(points, images, strict=True):
        image = "".join(separate.get(one, one) for one in image)
        image = None if image == chr(point) else image
        numbers[point] = found.setdefault(image, len(found))
    numbers[ord(SEPARATOR)] = 0
    starts = np.flatnonzero(np.diff(numbers, prepend=-1)).astype("int32")
    return starts, numbers[starts], ["", *[*found][1:]]


def _separate(rust, characters):
    """Returns blanks for white space, and blanks around punctuation."""
    text = SEPARATOR.join(
        one for one in characters if unicodedata.category(one)[0] in "PSZ"
    )
    found, end = {}, 0
    for word, (start, stop) in rust.pre_tokenizer.pre_tokenize_str(text):
        found |= dict.fromkeys(text[end:start], " ")
        if len(word) == 1 and word != SEPARATOR:
            found[word] = f" {word} "
        end = stop
    return found | dict.fromkeys(text[end:], " ")


def _require_same_ids(encode, tokenizer, sequence_length, examples):
    """Raises an error for the first text with other ids in the graph."""
    added = [f"a {token}b" for token in tokenizer.added_tokens]
    columns = [[*column, *added] for column in examples.texts]
    ids, segments, lengths, _ = tokenizer.encode(columns, sequence_length)
    ends = np.cumsum(lengths)[:-1]
    found = [one.to_list() for one in encode(*map(tf.constant, columns))]
    for texts, *rows in zip(
        zip(*columns, strict=True),
        *found,
        np.split(ids, ends),
        np.split(segments, ends),
        strict=True,
    ):
        expected = [one.tolist() for one in rows[2:]]
        if rows[:2] != expected:
            raise UsageError(
                f"In a graph of TensorFlow the texts {texts!r} get other ids: "
                f"{rows[0]} and not {expected[0]}. Export without strings and "
                "ship the tokenizer.json of an app bundle."
            )
