"""What a tokenizer from a file must be for texts to be encoded with it."""

import keras
import keras_hub

from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.models.families import ALL_FAMILIES
from kdkit.models.families import family_of
from kdkit.models.sentence_pieces import MassTokenizer
from kdkit.models.tokenizer_pair import tokenizers_of_sides


def checked_tokenizer(tokenizer, source):
    """Returns a tokenizer that was loaded, if texts can be encoded with it.

    Configs may say what keras-hub allows and kdkit has no use for: a length to
    pad to, which kdkit does by batch, or texts in the place of ids.

    Args:
        tokenizer: what was loaded as a tokenizer, a
            `kdkit.models.TokenizerPair`, or `None` where a model has none.
        source: path or string, for the message.

    Returns:
        The tokenizer itself.

    Raises:
        UsageError: (a `ValueError`) if it is of no known family, or gives
            anything but lists of ids.
    """
    if tokenizer is None:
        return None
    for one in tokenizers_of_sides(tokenizer):
        problem = _problem(one)
        if problem is not None:
            raise UsageError(
                f"The tokenizer in {source} is not one that texts can be "
                f"encoded with: {problem}. Restore its config from a copy, or "
                "make it again."
            )
    return tokenizer


def _problem(tokenizer):
    if not (
        isinstance(tokenizer, keras_hub.tokenizers.Tokenizer)
        and (isinstance(tokenizer, MassTokenizer) or family_of(tokenizer))
    ):
        names = [family.tokenizer.__name__ for family in ALL_FAMILIES.values()]
        return (
            f"expected one of {[*names, MassTokenizer.__name__]}. Received: a "
            f"{type(tokenizer).__name__}"
        )
    if tokenizer.sequence_length is not None:
        return (
            "expected sequence_length=null, since kdkit pads by batch. "
            f"Received: {shortened(tokenizer.sequence_length)}"
        )
    if "int" not in keras.backend.standardize_dtype(tokenizer.compute_dtype):
        return (
            "expected a dtype of whole numbers. Received: "
            f"{shortened(tokenizer.compute_dtype)}"
        )
    if not getattr(tokenizer, "split", True):
        return "expected split=true. Received: false"
    return None
