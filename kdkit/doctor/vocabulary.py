"""Whether two models mean the same words by the same ids."""

from kdkit.doctor.findings import NOTE
from kdkit.doctor.findings import OK
from kdkit.doctor.findings import RUINS
from kdkit.doctor.findings import WARNING
from kdkit.doctor.findings import Finding
from kdkit.errors import UsageError
from kdkit.models import check_same_ids
from kdkit.models import tokenizers_of_sides
from kdkit.models import vocabulary_by_id

CHECK = "vocabulary"
SHOWN = 3
OF_STUDENT = (
    "Start the student from a checkpoint of the teacher's vocabulary, or from "
    "random weights."
)


def same_vocabulary(
    teacher,
    other,
    name: str,
    texts=(),
    check: str = CHECK,
    advice: str = OF_STUDENT,
) -> Finding:
    """Compares two tokenizers id by id, and on some texts.

    Args:
        teacher: the teacher's tokenizer, or the `kdkit.models.TokenizerPair`
            of an encoder-decoder.
        other: the other model's, likewise.
        name: string. What the other model is called.
        texts: iterable of strings. Both cut them to pieces. Defaults to none.
        check: string, as in `Finding`. Defaults to `"vocabulary"`.
        advice: string. What to do where ids differ. Defaults to that for a
            student.
    """
    if teacher is other:
        return Finding(
            check,
            OK,
            f"{_size(teacher)} ids, one tokenizer for teacher and {name}.",
        )
    different = _different_ids(teacher, other)
    try:
        check_same_ids(teacher, other)
    except UsageError as error:
        found = str(error)
        if different:
            found = (
                f"Of {_size(teacher)} ids of the teacher {len(different)} are "
                f"other words to the {name}: {'; '.join(different[:SHOWN])}"
                f"{'; …' if len(different) > SHOWN else '.'}"
            )
        return Finding(
            check,
            RUINS,
            found,
            advice,
        )
    apart = [text for text in texts if _ids(teacher, text) != _ids(other, text)]
    if apart:
        return Finding(
            check,
            WARNING,
            f"All {_size(teacher)} ids are the same words, and {len(apart)} of "
            f"{len(texts)} texts are cut to other pieces by the {name}'s "
            f"tokenizer, such as {apart[0][:40]!r}.",
            "The run uses the teacher's tokenizer. One of the two was made "
            "with other capitals or accents.",
        )
    return Finding(
        check,
        OK,
        f"All {_size(teacher)} ids, special ones included, are the same words "
        f"to teacher and {name}.",
    )


def table_size(
    tokenizer, rows: int | None, name: str, check: str = "token table"
) -> Finding | None:
    """Compares a model's table of embeddings with its vocabulary.

    Args:
        tokenizer: a keras-hub tokenizer.
        rows: int or `None`. Rows of the table, `None` where there is none.
        name: string. What the model is called.
        check: string, as in `Finding`. Defaults to `"token table"`.

    Returns:
        A `Finding`, or `None` where they are equal.
    """
    size = tokenizer.vocabulary_size()
    if rows is None or rows == size:
        return None
    if rows < size:
        return Finding(
            check,
            RUINS,
            f"The {name} has embeddings for {rows} ids and its tokenizer gives "
            f"{size}.",
            "Use the tokenizer that the model was trained with.",
        )
    return Finding(
        check,
        NOTE,
        f"The {name} has embeddings for {rows} ids, {rows - size} more than "
        "its tokenizer gives; they are never used.",
    )


def _size(tokenizer):
    return " + ".join(
        str(side.vocabulary_size())
        for side in dict.fromkeys(tokenizers_of_sides(tokenizer))
    )


def _different_ids(teacher, other):
    """A text for each id that is not the same word to both."""
    found = []
    for theirs, ours in zip(
        tokenizers_of_sides(teacher), tokenizers_of_sides(other), strict=True
    ):
        pieces = [vocabulary_by_id(side) for side in (theirs, ours)]
        for number in range(max(map(len, pieces))):
            first, second = (
                repr(side[number]) if number < len(side) else "nothing"
                for side in pieces
            )
            if first != second:
                found.append(f"{number} is {first} and {second}")
    return list(dict.fromkeys(found))


def _ids(tokenizer, text):
    return [
        list(map(int, side(text))) for side in tokenizers_of_sides(tokenizer)
    ]
