"""Words of texts and their ids in TensorFlow, for `tokenizers`' models."""

from kdkit.backends import tf

# White space of `tokenizers`, for a class of RE2.
WHITE_SPACE = (
    r"\t\n\v\f\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}"
    r"\x{202f}\x{205f}\x{3000}"
)
CUT = b"\xff"  # in no text of UTF-8


def cut_words(texts):
    """Splits texts at `CUT`, without empty words.

    Args:
        texts: string tensor of shape `(num_texts,)`.

    Returns:
        Ragged string tensor of shape `(num_texts, None)`.
    """
    words = tf.strings.split(texts, CUT)
    return tf.ragged.boolean_mask(words, words != "")


class WordIds:
    """Ids of words, computed once for each different word of a batch.

    Args:
        ids_of_words: callable from a string tensor of shape `(num_words,)` to
            ragged ids. It is traced, since its loops take many steps.
    """

    def __init__(self, ids_of_words):
        with tf.init_scope():
            self._traced = tf.function(
                ids_of_words,
                input_signature=[tf.TensorSpec([None], "string")],
            ).get_concrete_function()

    def __call__(self, words):
        """Returns ids as a ragged int32 tensor of shape `(num_texts, None)`.

        Args:
            words: ragged string tensor of shape `(num_texts, None)`.
        """
        unique, numbers = tf.unique(words.values)
        ids = tf.gather(self._traced(unique), numbers)
        return tf.cast(
            tf.RaggedTensor.from_row_splits(
                ids.values, tf.gather(ids.row_splits, words.row_splits)
            ),
            "int32",
        )
