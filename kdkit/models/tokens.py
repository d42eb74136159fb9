"""Which tokenizers go with which models and each other; kept alone."""

import json
import pathlib

import keras
import keras_hub

from kdkit.errors import UsageError
from kdkit.models.families import FAMILIES
from kdkit.models.families import family_of
from kdkit.models.file_digests import write_digests
from kdkit.models.preset_tokenizers import save_rules
from kdkit.models.preset_tokenizers import with_saved_rules
from kdkit.models.ruled_tokenizers import WordPiece
from kdkit.models.ruled_tokenizers import plain_tokenizer
from kdkit.models.ruled_tokenizers import tokenizer_rules
from kdkit.models.ruled_tokenizers import with_rules
from kdkit.models.sentence_pieces import MassTokenizer
from kdkit.models.tokenizer_checks import checked_tokenizer
from kdkit.models.tokenizer_pair import TokenizerPair
from kdkit.models.tokenizer_pair import tokenizer_of
from kdkit.models.tokenizer_pair import tokenizers_of_sides
from kdkit.models.trust import check_directory
from kdkit.models.trust import loading
from kdkit.reading import read_json

BytePairs = keras_hub.tokenizers.BytePairTokenizer
CONFIG_FILE = "tokenizer.json"  # as keras-hub names it in presets
SIDES = ("encoder", "decoder")  # fields of a pair, and directories


def family_tokenizer(model, tokenizer):
    """Returns a tokenizer as the class that goes with a model.

    A DistilBERT or an ELECTRA can be distilled from a BERT on BERT's word
    pieces: their tokenizers differ by name alone. A BERT or a GPT-2 can be
    trained on a `kdkit.models.MassTokenizer`, as it stands.

    Args:
        model: `keras.Model`. A backbone or a task model around one.
        tokenizer: a `keras_hub.tokenizers.Tokenizer`, or the
            `kdkit.models.TokenizerPair` of an encoder-decoder.

    Returns:
        The tokenizer itself where its class is right, or one of the right
        class that gives the same ids.

    Raises:
        UsageError: (a `ValueError`) if there is none.
    """
    family = family_of(getattr(model, "backbone", model))
    return tokenizer_of_family(family, tokenizer)


def tokenizer_of_family(family, tokenizer):
    """As `family_tokenizer`, for a model that is not built yet.

    Args:
        family: `kdkit.models.Family`, or `None` for a model of no known one.
        tokenizer: as in `family_tokenizer`.

    Returns:
        As `family_tokenizer`.

    Raises:
        UsageError: (a `ValueError`) if there is none.
    """
    if family is None or isinstance(tokenizer, family.tokenizer):
        return tokenizer
    if isinstance(tokenizer, MassTokenizer) and family.reads_sentence_pieces:
        return tokenizer
    if not (isinstance(tokenizer, WordPiece) and _has_pieces(family)):
        raise UsageError(
            f"{family.title} does not read the tokens of a "
            f"{type(tokenizer).__name__}. Expected a "
            f"{family.tokenizer.__name__}. Use a student of the teacher's "
            "family, or with word pieces one of "
            f"{[one.name for one in FAMILIES.values() if _has_pieces(one)]}."
        )
    plain = plain_tokenizer(tokenizer)
    config = plain.get_config()
    del config["name"]
    converted = family.tokenizer.from_config(
        {**config, "vocabulary": plain.get_vocabulary()}
    )
    return with_rules(converted, tokenizer_rules(tokenizer))


def _has_pieces(family):
    return issubclass(family.tokenizer, WordPiece)


def check_same_ids(teacher, student):
    """Checks that the same ids are the same words to two models.

    Args:
        teacher: the teacher's tokenizer; of an encoder-decoder with two
            vocabularies its `kdkit.models.TokenizerPair`.
        student: the student's, likewise.

    Raises:
        UsageError: (a `ValueError`) if their vocabularies, special tokens or
            separators differ, on either side of an encoder-decoder.
    """
    if TokenizerPair in (type(teacher), type(student)):
        problems = [
            f"on the {name}'s side {problem}"
            for name, *sides in zip(
                SIDES,
                tokenizers_of_sides(teacher),
                tokenizers_of_sides(student),
                strict=True,
            )
            for problem in _differences(*sides)
        ]
    else:
        problems = _differences(teacher, student)
    if problems:
        raise UsageError(
            "Teacher and student do not share their token ids, so the same "
            f"ids are different words to them: {'; '.join(problems)}. "
            f"Received: {type(teacher).__name__} and {type(student).__name__}. "
            "Use a student that was trained with the teacher's tokenizer, or "
            "build one from random weights with its vocabulary."
        )


def _differences(teacher, student):
    """What differs between two tokenizers, one text each."""
    problems = []
    sizes = teacher.vocabulary_size(), student.vocabulary_size()
    if _with_merges(teacher) != _with_merges(student):
        problems.append(
            f"vocabularies differ, teacher of {sizes[0]} pieces, student of "
            f"{sizes[1]}"
        )
    if tokenizer_rules(teacher) != tokenizer_rules(student):
        problems.append(
            "they normalize texts differently, or find other added tokens in "
            "them (what kdkit 0.1 saved has keras-hub's own rules)"
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
                f"sentences of a pair stand apart by {separators[0]} tokens "
                f"for the teacher, {separators[1]} for the student"
            )
    return problems


def vocabulary_by_id(tokenizer) -> list[str]:
    """Returns the pieces of a keras-hub tokenizer in the order of their ids."""
    pieces = list(tokenizer.get_vocabulary())
    if not isinstance(tokenizer, BytePairs):
        return pieces
    return sorted(pieces, key=tokenizer.token_to_id)


def _with_merges(tokenizer):
    """The vocabulary by id, and the merges of byte pairs."""
    pieces = vocabulary_by_id(tokenizer)
    if not isinstance(tokenizer, BytePairs):
        return pieces
    return pieces, list(tokenizer.merges)


def check_shared_ids(teacher, student):
    """As `check_same_ids`, for two models; says nothing where one has none.

    Args:
        teacher: `keras.Model`. A keras-hub task model may have a tokenizer in
            its preprocessor.
        student: likewise.
    """
    tokenizers = [
        tokenizer_of(getattr(model, "preprocessor", None))
        for model in (teacher, student)
    ]
    if None not in tokenizers:
        check_same_ids(*tokenizers)


def save_tokenizer(tokenizer, directory) -> None:
    """Writes a tokenizer without a model, which keras-hub's presets need.

    Args:
        tokenizer: a keras-hub tokenizer, or a `kdkit.models.TokenizerPair`.
        directory: path. It is made.
    """
    directory = pathlib.Path(directory)
    if isinstance(tokenizer, TokenizerPair):
        for side in SIDES:
            save_tokenizer(getattr(tokenizer, side), directory / side)
        return
    directory.mkdir(parents=True)
    config = keras.saving.serialize_keras_object(plain_tokenizer(tokenizer))
    (directory / CONFIG_FILE).write_text(
        f"{json.dumps(config, indent=1)}\n", encoding="utf-8"
    )
    tokenizer.save_assets(str(directory))
    save_rules(tokenizer, directory)
    write_digests(directory)


def load_saved_tokenizer(directory):
    """Loads what `save_tokenizer` wrote."""
    directory = pathlib.Path(directory)
    if (directory / SIDES[0]).is_dir():
        return TokenizerPair(
            *(load_saved_tokenizer(directory / side) for side in SIDES)
        )
    check_directory(directory)
    config = read_json(directory / CONFIG_FILE, "the config of a tokenizer")
    with loading(directory):
        tokenizer = keras.saving.deserialize_keras_object(config)
        checked_tokenizer(tokenizer, directory)
        tokenizer.load_assets(str(directory))
    return with_saved_rules(tokenizer, directory)
