"""Which words the token ids of two models mean, and whether they are the same.

Reads tokenizers only, no files.
"""

import keras_hub

from kdkit.errors import UsageError
from kdkit.models.families import family_of
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
        UsageError: (a `ValueError`) if their vocabularies, special tokens or
            separators differ.
    """
    problems = _differences(teacher, student)
    if problems:
        raise UsageError(
            "Teacher and student do not share their token ids, so the same "
            f"ids are different words to them: {'; '.join(problems)}. "
            f"Received: {type(teacher).__name__} and {type(student).__name__}. "
            "Use a student that was trained with the teacher's tokenizer, or "
            "build one from random weights with its vocabulary."
        )


def require_shared_ids(teacher, student):
    """Does the same as `check_same_ids` for models that have tokenizers."""
    tokenizers = [
        preprocessor_tokenizer(getattr(model, "preprocessor", None))
        for model in (teacher, student)
    ]
    if None not in tokenizers:
        check_same_ids(*tokenizers)


def _differences(teacher, student):
    """Returns the differences between two tokenizers, as a list of strings."""
    problems = []
    sizes = teacher.vocabulary_size(), student.vocabulary_size()
    if _with_merges(teacher) != _with_merges(student):
        problems.append(
            f"vocabularies differ, teacher of {sizes[0]} pieces, student of "
            f"{sizes[1]}"
        )
    if tokenizer_rules(teacher) != tokenizer_rules(student):
        problems.append(
            "they normalize texts differently, or look for other added tokens"
        )
    for name in ("start_token_id", "end_token_id", "pad_token_id"):
        ids = getattr(teacher, name), getattr(student, name)
        if ids[0] != ids[1]:
            problems.append(
                f"{name} differs, teacher {ids[0]}, student {ids[1]}"
            )
    families = family_of(teacher), family_of(student)
    if None not in families:
        separators = [family.num_separators for family in families]
        if separators[0] != separators[1]:
            problems.append(
                f"the sentences of a pair are separated by {separators[0]} "
                f"tokens for the teacher, {separators[1]} for the student"
            )
    return problems


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
