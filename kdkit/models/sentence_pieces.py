"""Sub-word vocabularies of one or several languages, for encoder-decoders."""

import io
import re
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

import keras
import keras_hub
import sentencepiece

from kdkit.errors import UsageError
from kdkit.models.mass import MassBackbone

PAD, UNKNOWN, START, END, MASK = "<pad>", "<unk>", "<s>", "</s>", "<mask>"
LANGUAGE = "<{}>"
NUM_BYTES = 256
# Its trainer leaves out longer lines, and says so in a log alone.
LONGEST_LINE = 4192  # bytes
# What is surely no longer: 1,000 characters at most, of whole words if it can.
SHORT_LINE = re.compile(r"\S.{0,999}(?!\S)|\S{1,1000}", re.DOTALL)


@keras.saving.register_keras_serializable(package="kdkit")
class MassTokenizer(keras_hub.tokenizers.SentencePieceTokenizer):
    """A SentencePiece vocabulary with a mask and tokens of languages.

    Args:
        proto: bytes or string. The model of SentencePiece, or its file, in
            which `<pad>`, `<unk>`, `<s>`, `</s>` and `<mask>` are. `None` for a
            tokenizer whose files are loaded later. Defaults to `None`.
        kwargs: of `keras_hub.tokenizers.SentencePieceTokenizer`.

    Attributes:
        pad_token_id, start_token_id, end_token_id, mask_token_id: ints.

    Raises:
        UsageError: (a `ValueError`) if a special token is not in it.
    """

    backbone_cls = MassBackbone

    def __init__(self, proto=None, **kwargs):
        super().__init__(proto, **kwargs)

    def set_proto(self, proto):
        super().set_proto(proto)
        if proto is None:
            return
        pieces = self.get_vocabulary()
        missing = [
            token
            for token in (PAD, UNKNOWN, START, END, MASK)
            if token not in pieces
        ]
        if missing:
            raise UsageError(
                "The SentencePiece model lacks tokens that an encoder-decoder "
                f"needs. Missing: {', '.join(missing)}. Train one with "
                "kdkit.models.train_sentence_pieces."
            )
        processor = sentencepiece.SentencePieceProcessor(model_proto=self.proto)
        self._control_ids = tuple(
            token for token in range(len(pieces)) if processor.IsControl(token)
        )
        self.pad_token_id = self.token_to_id(PAD)
        self.start_token_id = self.token_to_id(START)
        self.end_token_id = self.token_to_id(END)
        self.mask_token_id = self.token_to_id(MASK)

    @property
    def special_token_ids(self) -> list[int]:
        """Tokens that no text spells: not the unknown one, which some does."""
        return list(self._control_ids)

    @property
    def languages(self) -> list[str]:
        """The languages that have a token, in the order of their ids."""
        own = (PAD, START, END, MASK)
        return [
            piece.strip("<>")
            for piece in map(self.id_to_token, self.special_token_ids)
            if piece not in own
        ]

    def language_token_id(self, language: str | None) -> int:
        """The id of a language's token, or that of `<s>` for `None`.

        Raises:
            UsageError: (a `ValueError`) for a language without a token.
        """
        if language is None:
            return self.start_token_id
        if language not in self.languages:
            raise UsageError(
                f"The vocabulary has no token for the language {language!r}. "
                f"Expected one of {self.languages}."
            )
        return self.token_to_id(LANGUAGE.format(language))


def train_sentence_pieces(
    texts: Iterable[str],
    vocabulary_size: int,
    languages: Sequence[str] = (),
    model_type: str = "bpe",
) -> MassTokenizer:
    """Trains one vocabulary on the text of all languages together.

    What no piece spells is spelled by bytes, so that nothing is unknown.

    Args:
        texts: iterable of strings.
        vocabulary_size: int. Number of tokens: `<pad>`, `<unk>`, `<s>`,
            `</s>`, `<mask>`, one for each language, 256 bytes and the pieces.
        languages: sequence of strings, such as `["en", "de"]`. Defaults to
            `()`.
        model_type: string. `"bpe"` for byte pairs (Sennrich et al., 2016), as
            MASS has them, or `"unigram"` (Kudo, 2018). Defaults to `"bpe"`.

    Returns:
        `MassTokenizer`.

    Raises:
        UsageError: (a `ValueError`) if a language is named twice or not of
            letters, digits, `_` and `-`, there is no room for pieces, or the
            texts do not have so many.
    """
    wrong = [
        name
        for name in languages
        if languages.count(name) > 1
        or not name.replace("_", "").replace("-", "").isalnum()
        or LANGUAGE.format(name) in (PAD, UNKNOWN, START, MASK)
    ]
    if wrong:
        raise UsageError(
            "Languages must differ and be named by letters, digits, _ and -, "
            f"and not as a special token is. Received: {sorted(set(wrong))}."
        )
    control = [MASK, *map(LANGUAGE.format, languages)]
    least = NUM_BYTES + 4 + len(control)
    if vocabulary_size <= least:
        raise UsageError(
            f"The special tokens and {NUM_BYTES} bytes are {least} tokens. "
            "Expected more, so that there are pieces. Received: "
            f"vocabulary_size={vocabulary_size}."
        )
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_lines(texts),
            model_writer=model,
            vocab_size=vocabulary_size,
            model_type=model_type,
            byte_fallback=True,
            pad_id=0,
            unk_id=1,
            bos_id=2,
            eos_id=3,
            pad_piece=PAD,
            unk_piece=UNKNOWN,
            bos_piece=START,
            eos_piece=END,
            control_symbols=control,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise UsageError(
            "SentencePiece could not make a vocabulary of "
            f"{vocabulary_size} tokens of these texts. It said: {error}. Use "
            "another size, or more text."
        ) from error
    return MassTokenizer(model.getvalue())


def _lines(texts: Iterable[str]) -> Iterator[str]:
    """Yields the texts, long ones in parts, between words where there are."""
    for text in texts:
        if len(text.encode("utf-8")) > LONGEST_LINE:
            yield from SHORT_LINE.findall(text)
        else:
            yield text
