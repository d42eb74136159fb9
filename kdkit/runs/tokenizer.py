"""Loads or trains the tokenizer of a model with random weights."""

from kdkit import data, models
from kdkit.errors import UsageError
from kdkit.io.files import staged
from kdkit.models.tokenizer_files import load_saved_tokenizer
from kdkit.runs.settings import PretrainSettings


def make_tokenizer(settings: PretrainSettings, directory):
    """Loads the tokenizer, or trains it if the run has not trained it yet."""
    if settings.tokenizer is not None:
        return models.load_tokenizer(settings.tokenizer)
    if settings.vocabulary_size is not None:
        if directory.is_dir():
            return load_saved_tokenizer(directory)
        return _train(settings)
    if settings.corpus.files:
        raise UsageError(
            "A model with random weights needs --tokenizer MODEL or, to train "
            "one on the text, --vocabulary-size N."
        )
    return models.word_piece_tokenizer(
        data.sentiment_vocabulary(), lowercase=True
    )


def save_trained_tokenizer(tokenizer, directory) -> None:
    """Saves a trained tokenizer, for when the run continues."""
    if not directory.is_dir():
        with staged(directory) as partial:
            partial.mkdir()
            tokenizer.save_assets(partial)


def _train(settings):
    """Trains a tokenizer on the text."""
    corpus, size = settings.corpus, settings.vocabulary_size
    texts = corpus.texts(held_out=False)
    if settings.reads_sentences:
        return models.train_sentence_pieces(
            texts, size, corpus.different_languages
        )
    return models.train_byte_pairs(texts, size, settings.model.family)
