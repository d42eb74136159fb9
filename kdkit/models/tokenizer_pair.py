"""The vocabularies of an encoder-decoder's sides, one joint or two."""

import dataclasses

from kdkit.errors import UsageError
from kdkit.models.sentence_pieces import MassTokenizer

# Where a preset keeps the decoder's, if there are two. As keras-hub does, the
# other is in `tokenizer.json`.
DECODER_TOKENIZER = "decoder_tokenizer.json"


@dataclasses.dataclass(frozen=True, eq=False)
class TokenizerPair:
    """Two vocabularies of an encoder-decoder, which has no joint one.

    Stands wherever an encoder-decoder's tokenizer does.

    Args:
        encoder: `MassTokenizer`. Of what is read.
        decoder: `MassTokenizer`. Of what is written.
    """

    encoder: MassTokenizer
    decoder: MassTokenizer

    @property
    def vocabulary_sizes(self) -> dict[str, int]:
        """The sizes as `kdkit.models.MassBackbone` names them."""
        return {
            "vocabulary_size": self.encoder.vocabulary_size(),
            "decoder_vocabulary_size": self.decoder.vocabulary_size(),
        }


def tokenizers_of_sides(tokenizer) -> tuple:
    """Returns the tokenizers of the encoder's side and of the decoder's.

    Args:
        tokenizer: `TokenizerPair`, or a joint tokenizer, which is both.
    """
    if isinstance(tokenizer, TokenizerPair):
        return tokenizer.encoder, tokenizer.decoder
    return tokenizer, tokenizer


def languages_of(tokenizer) -> list[str]:
    """Returns the languages that have a token, on either side.

    Args:
        tokenizer: `MassTokenizer` or `TokenizerPair`.
    """
    sides = tokenizers_of_sides(tokenizer)
    return list(
        dict.fromkeys(language for one in sides for language in one.languages)
    )


def check_sentence_pieces(tokenizer) -> None:
    """Refuses a tokenizer that an encoder-decoder does not read the tokens of.

    Args:
        tokenizer: a keras-hub tokenizer, or a `TokenizerPair`.

    Raises:
        UsageError: (a `ValueError`) unless it is a `MassTokenizer`, or two.
    """
    for one in tokenizers_of_sides(tokenizer):
        if not isinstance(one, MassTokenizer):
            raise UsageError(
                "An encoder-decoder reads the tokens of a MassTokenizer, which "
                "has a mask and languages. Received: a "
                f"{type(one).__name__}. Name that of another encoder-decoder."
            )


def tokenizer_of(preprocessor):
    """Returns what texts are tokenized by: one tokenizer or two.

    Args:
        preprocessor: a keras-hub preprocessor, or `None`.

    Returns:
        A keras-hub tokenizer, a `TokenizerPair`, or `None` without any.
    """
    tokenizer = getattr(preprocessor, "tokenizer", None)
    decoder = getattr(preprocessor, "decoder_tokenizer", None)
    if decoder is None:
        return tokenizer
    return TokenizerPair(tokenizer, decoder)
