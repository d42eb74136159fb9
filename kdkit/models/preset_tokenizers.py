"""The tokenizers of presets and checkpoints, with their rules for texts."""

import pathlib

import keras_hub

from kdkit.models.extras import EXTRAS_FILE
from kdkit.models.extras import load_extras
from kdkit.models.extras import save_extras
from kdkit.models.families import family_of
from kdkit.models.hugging_face_config import family_of_checkpoint
from kdkit.models.hugging_face_tokenizers import read_tokenizer
from kdkit.models.ruled_tokenizers import WordPiece
from kdkit.models.ruled_tokenizers import tokenizer_rules
from kdkit.models.ruled_tokenizers import with_rules
from kdkit.models.text_rules import bert_rules
from kdkit.models.text_rules import read_rules
from kdkit.models.tokenizer_pair import DECODER_TOKENIZER
from kdkit.models.tokenizer_pair import TokenizerPair
from kdkit.reading import read_json

TEXT_RULES = "text_rules"  # the entry of `kdkit.json`


def load_preset_tokenizer(source):
    """Loads the tokenizer, or both, of a preset or a checkpoint.

    Args:
        source: path of a keras-hub preset directory or of a Hugging Face
            checkpoint directory, or the name of a keras-hub preset.

    Returns:
        A keras-hub tokenizer or a `kdkit.models.TokenizerPair`.

    Raises:
        UsageError: (a `ValueError`) if it cannot be followed.
    """
    directory = pathlib.Path(source)
    if not directory.is_dir():
        return _with_own_rules(_load(str(source)))
    family = hugging_face_family(directory)
    if family is not None:
        return read_tokenizer(directory, family)
    tokenizer = with_saved_rules(_load(str(directory)), directory)
    if not (directory / DECODER_TOKENIZER).is_file():
        return tokenizer
    decoder = _load(str(directory), config_file=DECODER_TOKENIZER)
    return TokenizerPair(tokenizer, decoder)


def hugging_face_family(directory):
    """Returns the family of a Hugging Face checkpoint, `None` for presets.

    Args:
        directory: `pathlib.Path` with a `config.json`.
    """
    config = read_json(directory / "config.json", "the config of a model")
    return family_of_checkpoint(config)


def with_saved_rules(tokenizer, directory):
    """Returns a tokenizer with the rules in a directory's `kdkit.json`.

    Args:
        tokenizer: a keras-hub tokenizer as it was loaded from there, a
            `kdkit.models.TokenizerPair`, or `None`.
        directory: path.

    Raises:
        UsageError: (a `ValueError`) if the rules cannot be followed.
    """
    entry = load_extras(directory).get(TEXT_RULES)
    if entry is None or tokenizer is None:
        return tokenizer
    rules = read_rules(entry, pathlib.Path(directory) / EXTRAS_FILE)
    return with_rules(tokenizer, rules)


def save_rules(tokenizer, directory) -> None:
    """Writes the rules of a tokenizer into a directory's `kdkit.json`.

    Args:
        tokenizer: a tokenizer with or without rules.
        directory: path. Where the plain tokenizer is saved.
    """
    rules = tokenizer_rules(tokenizer)
    save_extras(directory, **{TEXT_RULES: rules and rules.to_json()})


def _load(source, **kwargs):
    return keras_hub.tokenizers.Tokenizer.from_preset(source, **kwargs)


def _with_own_rules(tokenizer):
    """A tokenizer of keras-hub's with the rules of the paper's checkpoint."""
    if isinstance(tokenizer, WordPiece) and family_of(tokenizer):
        return with_rules(tokenizer, bert_rules(tokenizer.lowercase))
    return tokenizer
