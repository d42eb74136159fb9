"""Unigram models of SentencePiece in TensorFlow, as `tokenizers` runs them.

`tokenizers` splits a text into words and looks for the pieces of each word.
SentencePiece adds up scores over the whole text in single precision, which is
not enough for long ones, so here it gets one word at a time.
"""

from sentencepiece import sentencepiece_model_pb2 as sentencepiece_model

from kdkit.backends import tf
from kdkit.backends import tf_text
from kdkit.models.charsmap import Charsmap

UNDERLINE = "\u2581"  # SentencePiece's sign for a blank
# White space of `tokenizers`.
BLANKS = (
    r"[\t\n\v\f\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}"
    r"\x{202f}\x{205f}\x{3000}]+"
)
CUT = b"\xff"  # in no text of UTF-8
# A trie of nothing. Without any, SentencePiece writes a line on the terminal.
NO_CHARSMAP = (1024).to_bytes(4, "little") + bytes(1024) + b"\0"
Piece = sentencepiece_model.ModelProto.SentencePiece


def split_words(texts, add_prefix_space=True):
    """Splits texts at white space and before each sign for a blank.

    Args:
        texts: string tensor of shape `(num_texts,)`, UTF-8.
        add_prefix_space: bool. Whether each word gets the sign in front, unless
            it has it. Defaults to `True`.

    Returns:
        Ragged string tensor of shape `(num_texts, None)`.
    """
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
    words = tf.strings.split(texts, CUT)
    return tf.ragged.boolean_mask(words, words != "")


class Unigrams:
    """Ids of texts by a Unigram model of SentencePiece.

    Args:
        proto: bytes. The model. What it does to a text before it looks for
            pieces, its `precompiled_charsmap`, is done as `tokenizers` does it.
        wholes: tuple of ints. Ids of pieces that are no parts of words.
    """

    def __init__(self, proto: bytes, wholes=()):
        model = sentencepiece_model.ModelProto.FromString(proto)
        spec = model.normalizer_spec
        charsmap = spec.precompiled_charsmap
        self._charsmap = Charsmap(charsmap) if charsmap else None
        self._add_prefix_space = spec.add_dummy_prefix
        for number, piece in enumerate(model.pieces):
            if number in wholes or piece.type == Piece.USER_DEFINED:
                piece.type = Piece.CONTROL
        spec.CopyFrom(
            sentencepiece_model.NormalizerSpec(
                name="identity",
                precompiled_charsmap=NO_CHARSMAP,
                add_dummy_prefix=False,
                remove_extra_whitespaces=False,
                escape_whitespaces=False,
            )
        )
        self._pieces = tf_text.SentencepieceTokenizer(
            model=model.SerializeToString(), out_type=tf.int32
        )

    def normalize(self, texts):
        """Returns texts with the images of `precompiled_charsmap`."""
        return texts if self._charsmap is None else self._charsmap(texts)

    def __call__(self, texts):
        """Returns ids as a ragged int32 tensor of shape `(num_texts, None)`.

        Args:
            texts: string tensor of shape `(num_texts,)`, normalized.
        """
        words = split_words(texts, self._add_prefix_space)
        return words.with_values(
            self._pieces.tokenize(words.values)
        ).merge_dims(1, 2)
