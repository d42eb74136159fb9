"""The tokenizer of a model with random weights: read, or trained on text."""

from kdkit import data
from kdkit import models
from kdkit.errors import UsageError
from kdkit.io.files import staged
from kdkit.models.families import ALL_FAMILIES
from kdkit.runs.settings import PretrainSettings
from kdkit.training import text_data
from kdkit.training.model_settings import ModelSettings


def make_tokenizer(settings: PretrainSettings, directory):
    """Reads the tokenizer, or trains it, or finds what was trained before.

    Args:
        settings: `PretrainSettings`.
        directory: path. Where `keep_tokenizer` writes what was trained.

    Returns:
        A keras-hub tokenizer, or a `kdkit.models.TokenizerPair`.

    Raises:
        UsageError: if there is none, or the text does not have so many pieces.
    """
    if settings.tokenizer is not None:
        return models.load_tokenizer(settings.tokenizer)
    if settings.vocabulary_size is not None:
        if directory.is_dir():
            return models.load_saved_tokenizer(directory)
        settings.corpus.check()
        return _train(settings)
    if settings.corpus.files:
        raise UsageError(
            "A model with random weights needs a tokenizer. Expected the place "
            "of one: a run, a preset directory or a vocabulary file. Pass "
            "--tokenizer MODEL, or for a decoder or an encoder-decoder "
            "--vocabulary-size N to train one on the text."
        )
    return models.word_piece_tokenizer(
        data.sentiment_vocabulary(), lowercase=True
    )


def keep_tokenizer(tokenizer, directory) -> None:
    """Writes what was trained, for when the run goes on.

    Args:
        tokenizer: as `make_tokenizer` returns it.
        directory: path. What is there stays as it is.
    """
    if not directory.is_dir():
        with staged(directory) as partial:
            models.save_tokenizer(tokenizer, partial)


def readable_tokenizer(model: ModelSettings, tokenizer):
    """Returns a tokenizer as the class that goes with a model.

    Args:
        model: `ModelSettings` with sizes.
        tokenizer: as `make_tokenizer` returns it.

    Raises:
        UsageError: if the model does not read its tokens.
    """
    if model.mass is not None:
        models.require_sentence_pieces(tokenizer)
        return tokenizer
    return models.convert_tokenizer(ALL_FAMILIES.get(model.family), tokenizer)


def check_tokenizer(settings: PretrainSettings) -> None:
    """Refuses a tokenizer that the model of a run does not read.

    Args:
        settings: `PretrainSettings`. Nothing is checked where none is named.

    Raises:
        UsageError: if there is none in the place, or it does not fit.
    """
    if settings.tokenizer is None:
        return
    tokenizer = models.load_tokenizer(settings.tokenizer)
    readable_tokenizer(settings.model, tokenizer)
    if settings.reads_sentences:
        text_data.require_vocabulary(settings.corpus, tokenizer)


def vocabulary_sizes(tokenizer) -> dict[str, int]:
    """Returns the sizes as `kdkit.models.student` takes them.

    Args:
        tokenizer: as `make_tokenizer` returns it.
    """
    if isinstance(tokenizer, models.TokenizerPair):
        return tokenizer.vocabulary_sizes
    return {"vocabulary_size": tokenizer.vocabulary_size()}


def _train(settings):
    """One vocabulary of the text, or one for each side of its pairs."""
    corpus, size = settings.corpus, settings.vocabulary_size
    if settings.separate_vocabularies:
        return models.TokenizerPair(
            *(
                models.train_sentence_pieces(
                    corpus.side_texts(side, held_out=False),
                    size,
                    [language] if language else [],
                )
                for side, language in enumerate(corpus.sides)
            )
        )
    texts = corpus.texts(held_out=False)
    if settings.reads_sentences:
        return models.train_sentence_pieces(
            texts, size, corpus.different_languages
        )
    return models.train_byte_pairs(texts, size, settings.model.family)
