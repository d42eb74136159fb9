"""Loads, saves, pairs and compares the tokenizers of models."""

import json
import pathlib

import keras
import keras_hub

from kdkit.errors import UsageError, unknown
from kdkit.io.files import write_text
from kdkit.io.reading import read_json
from kdkit.models.families import ALL_FAMILIES, family_of
from kdkit.models.hugging_face import checkpoint_family
from kdkit.models.hugging_face_tokenizers import read_tokenizer
from kdkit.models.ruled_tokenizers import WordPiece, plain_tokenizer, with_rules
from kdkit.models.text_rules import bert_rules, read_rules, tokenizer_rules
from kdkit.models.variants import load_extras, save_extras
from kdkit.models.vocabularies import MassTokenizer
from kdkit.models.whole_tokenizer import WholeTokenizer

TEXT_RULES = "text_rules"  # the entry of `kdkit.json`


def load_preset_tokenizer(source):
    """Loads the tokenizer of a preset or a checkpoint."""
    directory = pathlib.Path(source)
    if not directory.is_dir():
        return _with_own_rules(
            keras_hub.tokenizers.Tokenizer.from_preset(str(source))
        )
    family = hugging_face_family(directory)
    if family is not None:
        return read_tokenizer(directory, family)
    tokenizer = keras_hub.tokenizers.Tokenizer.from_preset(str(directory))
    return with_saved_rules(tokenizer, directory)


def hugging_face_family(directory):
    """Returns the family of a Hugging Face checkpoint, `None` for presets."""
    config = read_json(directory / "config.json", "the config of a model")
    return checkpoint_family(config)


def with_saved_rules(tokenizer, directory):
    """Returns a tokenizer with the text rules in a directory's `kdkit.json`."""
    entry = load_extras(directory).get(TEXT_RULES)
    if entry is None or tokenizer is None:
        return tokenizer
    return with_rules(tokenizer, read_rules(entry))


def save_rules(tokenizer, directory) -> None:
    """Writes a tokenizer's text rules into a directory's `kdkit.json`."""
    rules = tokenizer_rules(tokenizer)
    save_extras(directory, **{TEXT_RULES: rules and rules.to_json()})


def _with_own_rules(tokenizer):
    """Adds the rules of the paper's checkpoint to a keras-hub tokenizer."""
    if isinstance(tokenizer, WordPiece) and family_of(tokenizer):
        return with_rules(tokenizer, bert_rules(tokenizer.lowercase))
    return tokenizer


CONFIG_FILE = "tokenizer.json"  # keras-hub's name for it in presets


def family_tokenizer(model, tokenizer):
    """Converts a tokenizer to the class that belongs to a model.

    A DistilBERT or an ELECTRA can be distilled from a BERT on BERT's word
    pieces, because their tokenizers differ only by name. A BERT or a GPT-2 can
    be trained on a `kdkit.models.MassTokenizer` without conversion.

    Args:
        model: `keras.Model`. A backbone or a task model around one.
        tokenizer: a `keras_hub.tokenizers.Tokenizer`.

    Returns:
        The tokenizer itself if its class is right, or a tokenizer of the right
        class that returns the same ids.

    Raises:
        UsageError: (a `ValueError`) if the tokenizer cannot be converted.
    """
    family = family_of(getattr(model, "backbone", model))
    return convert_tokenizer(family, tokenizer)


def convert_tokenizer(family, tokenizer):
    """Does the same as `family_tokenizer`, for a model that is not built yet.

    Args:
        family: `kdkit.models.Family`, or `None` for an unknown family.
        tokenizer: as in `family_tokenizer`.

    Returns:
        The result of `family_tokenizer`.

    Raises:
        UsageError: (a `ValueError`) if the tokenizer cannot be converted.
    """
    if family is None or isinstance(tokenizer, family.tokenizer):
        return tokenizer
    if _reads_sentence_pieces(family, tokenizer):
        return tokenizer
    has_pieces = issubclass(family.tokenizer, WordPiece)
    if not (isinstance(tokenizer, WordPiece) and has_pieces):
        raise UsageError(
            f"{family.title} cannot use the tokens of a "
            f"{type(tokenizer).__name__}. Expected a "
            f"{family.tokenizer.__name__}."
        )
    plain = plain_tokenizer(tokenizer)
    config = plain.get_config()
    del config["name"]
    converted = family.tokenizer.from_config(
        {**config, "vocabulary": plain.get_vocabulary()}
    )
    return with_rules(converted, tokenizer_rules(tokenizer))


def _reads_sentence_pieces(family, tokenizer):
    """Whether a family without sentence pieces of its own reads these."""
    if not family.reads_sentence_pieces:
        return False
    if isinstance(tokenizer, MassTokenizer):
        return True
    xlm_roberta = keras_hub.tokenizers.XLMRobertaTokenizer
    return isinstance(tokenizer, xlm_roberta) and not family.is_decoder


def save_tokenizer(tokenizer, directory) -> None:
    """Writes a tokenizer without a model; keras-hub's presets need a model.

    Args:
        tokenizer: a keras-hub tokenizer, or a static embedder's
            `WholeTokenizer`.
        directory: path. It is created.
    """
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True)
    if isinstance(tokenizer, WholeTokenizer):
        write_text(directory / CONFIG_FILE, tokenizer.content)
        return
    config = keras.saving.serialize_keras_object(plain_tokenizer(tokenizer))
    (directory / CONFIG_FILE).write_text(
        f"{json.dumps(config, indent=1)}\n", encoding="utf-8"
    )
    tokenizer.save_assets(str(directory))
    save_rules(tokenizer, directory)


def load_saved_tokenizer(directory):
    """Loads a tokenizer that `save_tokenizer` wrote."""
    directory = pathlib.Path(directory)
    config = read_json(directory / CONFIG_FILE, "the config of a tokenizer")
    if "model" in config:  # not keras-hub's, which has the same name
        return read_whole_tokenizer(directory / CONFIG_FILE)
    tokenizer = keras.saving.deserialize_keras_object(config)
    checked_tokenizer(tokenizer, directory)
    tokenizer.load_assets(str(directory))
    return with_saved_rules(tokenizer, directory)


def read_whole_tokenizer(path) -> WholeTokenizer:
    """Returns the tokenizer of a `tokenizer.json`."""
    return WholeTokenizer(path.read_text(encoding="utf-8"))


def checked_tokenizer(tokenizer, source):
    """Returns a loaded tokenizer if kdkit can encode texts with it."""
    if tokenizer is None:
        return None
    if not (isinstance(tokenizer, MassTokenizer) or family_of(tokenizer)):
        names = [one.tokenizer.__name__ for one in ALL_FAMILIES.values()]
        names.append(MassTokenizer.__name__)
        raise unknown("tokenizer", type(tokenizer).__name__, names)
    if tokenizer.sequence_length is not None:
        raise UsageError(
            f"The tokenizer in {source} truncates and pads texts. Expected "
            f"sequence_length=None. Received: {tokenizer.sequence_length}."
        )
    return tokenizer
