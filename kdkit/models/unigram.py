"""Unigram models of SentencePiece in TensorFlow, as `tokenizers` runs them.

`tokenizers` splits a text into words and looks for the pieces of each word.
SentencePiece adds up scores over the whole text in single precision, which is
not enough for long ones, so here it gets one word at a time.
"""

from sentencepiece import sentencepiece_model_pb2 as sentencepiece_model

from kdkit.backends import tf
from kdkit.backends import tf_text

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
        proto: bytes. The model, of which the scores of its pieces count.
        vocabulary: list of strings. Its pieces, and others, by their ids.
        wholes: list of strings. Pieces in it that are no parts of words.

    Attributes:
        model: `tensorflow_text.SentencepieceTokenizer`.
    """

    def __init__(self, proto: bytes, vocabulary, wholes=()):
        old = sentencepiece_model.ModelProto.FromString(proto)
        pieces = {piece.piece: piece for piece in old.pieces}
        new = sentencepiece_model.ModelProto(trainer_spec=old.trainer_spec)
        for number, name in enumerate(vocabulary):
            kind = Piece.NORMAL
            if name not in pieces or name in wholes:
                kind = Piece.CONTROL
            elif pieces[name].type in (Piece.UNKNOWN, Piece.CONTROL):
                kind = pieces[name].type
            if kind == Piece.UNKNOWN:
                new.trainer_spec.unk_id = number
            score = pieces[name].score if name in pieces else 0.0
            new.pieces.add(piece=name, score=score, type=kind)
        new.normalizer_spec.CopyFrom(
            sentencepiece_model.NormalizerSpec(
                name="identity",
                precompiled_charsmap=NO_CHARSMAP,
                add_dummy_prefix=False,
                remove_extra_whitespaces=False,
                escape_whitespaces=False,
            )
        )
        self._add_prefix_space = old.normalizer_spec.add_dummy_prefix
        self.model = tf_text.SentencepieceTokenizer(
            model=new.SerializeToString(), out_type=tf.int32
        )

    def __call__(self, texts):
        """Returns ids as a ragged int32 tensor of shape `(num_texts, None)`.

        Args:
            texts: string tensor of shape `(num_texts,)`, normalized.
        """
        words = split_words(texts, self._add_prefix_space)
        ids = words.with_values(self.model.tokenize(words.values))
        return ids.merge_dims(1, 2)
