"""Which words the token ids of two models mean, and whether they are the same.

Reads tokenizers only, no files.
"""

import keras_hub

from kdkit.errors import UsageError
from kdkit.models.text_rules import tokenizer_rules
from kdkit.models.whole_tokenizer import WholeTokenizer

BytePairs = keras_hub.tokenizers.BytePairTokenizer


def preprocessor_tokenizer(preprocessor):
    """Returns a preprocessor's tokenizer, `None` without one."""
    return getattr(preprocessor, "tokenizer", None)


def check_same_ids(teacher, student):
    """Raises an error if ids mean different words to two models.

    Args:
        teacher: the teacher's tokenizer.
        student: the student's tokenizer.

    Raises:
        UsageError: (a `ValueError`) if their vocabularies, rules for texts or
            special tokens differ.
    """
    different = _difference(teacher, student)
    if different is not None:
        raise UsageError(
            "Teacher and student do not share their token ids. They have other "
            f"{different}."
        )


def require_shared_ids(teacher, student):
    """Does the same as `check_same_ids` for models that have tokenizers."""
    tokenizers = [
        preprocessor_tokenizer(getattr(model, "preprocessor", None))
        for model in (teacher, student)
    ]
    if None not in tokenizers:
        check_same_ids(*tokenizers)


def _difference(teacher, student):
    """Returns the first difference between two tokenizers, or `None`."""
    if _with_merges(teacher) != _with_merges(student):
        sizes = teacher.vocabulary_size(), student.vocabulary_size()
        return f"vocabularies, of {sizes[0]} and {sizes[1]} tokens"
    if tokenizer_rules(teacher) != tokenizer_rules(student):
        return "rules for texts, or other added tokens"
    for name in ("start_token_id", "end_token_id", "pad_token_id"):
        ids = getattr(teacher, name), getattr(student, name)
        if ids[0] != ids[1]:
            return f"special tokens: {name} is {ids[0]} and {ids[1]}"
    return None


def vocabulary_by_id(tokenizer) -> list[str]:
    """Returns the pieces of a keras-hub tokenizer in the order of their ids."""
    pieces = list(tokenizer.get_vocabulary())
    if not isinstance(tokenizer, BytePairs):
        return pieces
    return sorted(pieces, key=tokenizer.token_to_id)


def _with_merges(tokenizer):
    """Returns the vocabulary by id, and what else decides the ids."""
    if isinstance(tokenizer, WholeTokenizer):
        return tokenizer.content
    pieces = vocabulary_by_id(tokenizer)
    if not isinstance(tokenizer, BytePairs):
        return pieces
    return pieces, list(tokenizer.merges)
