"""The kind of runs on text: language models, with a teacher or without."""

import dataclasses

from kdkit import models
from kdkit.errors import UsageError
from kdkit.models import LoadedModel
from kdkit.models.families import DECODERS
from kdkit.models.heads import is_causal, is_encoder_decoder
from kdkit.runs.kinds import (
    TOKENIZER,
    Kind,
    generated_tokenizer,
    load_text_teacher,
    save_tokenizer,
    tokenizer_of,
)
from kdkit.training import text


class TextKind(Kind):
    """A language model on text, with a teacher or without."""

    @property
    def _has_head(self):
        return any(stage.trains_head for stage in self.config.stages)

    def fit(self):
        config, corpus = self.config, self.config.corpus
        text.require_readable(corpus, self.model)
        if corpus.kind != "corpus":
            text.require_vocabulary(corpus, self.tokenizer)
        for one in self.compared:
            self.require_length(one)
            if config.cache is not None and text.is_masked(corpus, one):
                raise UsageError(
                    "Masks are drawn again in every epoch. Expected no cache."
                )
        self.require_fit(self.compared, self.model, config.stages)

    def teacher(self, place):
        if self._has_head:
            return load_text_teacher(place)
        return self.load(place)

    def load(self, place):
        loaded = models.load_language_model(place)
        if self._has_head:
            return loaded
        return dataclasses.replace(loaded, model=loaded.model.backbone)

    def head(self, backbone):
        return models.language_model(backbone) if self._has_head else backbone

    def make_tokenizer(self):
        asked, corpus = self.config.tokenizer, self.config.corpus
        if asked is not None:
            return tokenizer_of(asked, self.folder / TOKENIZER, self._train)
        if corpus.files:
            raise UsageError(
                "A model with random weights needs --tokenizer MODEL or, to "
                "train one on the text, --vocabulary-size N."
            )
        return generated_tokenizer()

    def _train(self, size):
        """Trains a tokenizer on the text."""
        corpus = self.config.corpus
        texts = corpus.texts(held_out=False)
        if corpus.kind != "corpus":
            languages = tuple(dict.fromkeys(corpus.languages))
            return models.train_sentence_pieces(texts, size, languages)
        family = self.config.student.family
        if family in DECODERS:
            return models.train_byte_pairs(texts, size, family)
        return models.train_word_pieces(texts, size)

    @property
    def arms(self):
        if self.teachers:
            return self.config.arms
        name = "decoder" if is_causal(self.model) else "encoder"
        if is_encoder_decoder(self.model):
            name = "encoder_decoder"
        return {name: self.config.stages}

    def source(self):
        if isinstance(self.config.tokenizer, int):
            save_tokenizer(self.tokenizer, self.folder / TOKENIZER)
        return self.load_text(self.config.corpus, self.model)

    def saved(self, model):
        corpus = self.config.corpus
        sides = corpus.sides if corpus.kind == "pairs" else (None, None)
        return LoadedModel(
            model,
            self.tokenizer,
            languages=sides,
            sequence_length=corpus.sequence_length,
        )

    def texts(self):
        return self.config.corpus.texts(held_out=True)
