"""The parts of runs that teach a sentence encoder further languages."""

import keras_hub

from kdkit import models
from kdkit.errors import UsageError
from kdkit.models.families import ALL_FAMILIES, family_of
from kdkit.models.heads import backbone_of
from kdkit.runs.embedder_parts import (
    TEXTS,
    EmbedderParts,
    load_student,
    make_student,
    random_student,
    require_no_prompts,
)
from kdkit.runs.inputs import files_digest, tokenizer_digest
from kdkit.runs.tokenizer import save_trained_tokenizer
from kdkit.training.translations import load_translations, vocabulary_texts

TOKENIZER = "tokenizer"  # the folder of a trained one in a run


class MultilingualParts(EmbedderParts):
    """The parts of an `EmbedderSettings` run on `TranslationsSettings`."""

    def inputs(self):
        data = self.settings.data
        inputs = super().inputs()
        inputs[TEXTS] = files_digest(data.all_files)
        if data.tokenizer is not None:
            inputs[TOKENIZER] = tokenizer_digest(data.tokenizer)
        return inputs

    def check_conventions(self):
        require_no_prompts(self.conventions)
        super().check_conventions()

    def make_tokenizer(self):
        data, student = self.settings.data, self.settings.student
        self._is_trained = False
        if student.checkpoint is not None:
            return None  # the checkpoint has one
        if data.tokenizer is not None:
            return models.load_tokenizer(data.tokenizer)
        self._is_trained = True
        directory = self.place / TOKENIZER
        if directory.is_dir():
            return models.load_saved_tokenizer(directory)
        family = ALL_FAMILIES.get(student.family)
        if student.copy_from is not None:
            family = family_of(backbone_of(self.teacher.model))
        _require_word_pieces(family)
        return models.train_word_pieces(
            vocabulary_texts(data),
            data.vocabulary_size,
            lowercase=getattr(self.teacher.tokenizer, "lowercase", True),
        )

    def make_student(self):
        settings, student = self.settings, self.settings.student
        if student.checkpoint is not None:
            loaded = load_student(settings, self.teacher)
            self.tokenizer = loaded.tokenizer
            return loaded.model
        if student.copy_from is None:
            return random_student(settings, self.teacher, self.tokenizer)
        copied = make_student(settings, self.teacher)
        return models.with_vocabulary(
            copied, self.teacher.tokenizer, self.tokenizer
        )

    def load_source(self, run):
        if self._is_trained and not run.is_read_only:
            save_trained_tokenizer(self.tokenizer, self.place / TOKENIZER)
        return load_translations(
            self.settings.data,
            self.task,
            self.tokenizer,
            self.teacher.tokenizer,
            self.place / TEXTS,
            self.conventions,
        )

    @property
    def teacher_texts(self):
        return self.source.train.sources


def _require_word_pieces(family):
    """Rejects a student that cannot read a trained vocabulary."""
    pieces = keras_hub.tokenizers.WordPieceTokenizer
    if not issubclass(family.tokenizer, pieces):
        raise UsageError(
            f"The trained vocabulary has word pieces, and {family.title} reads "
            f"the tokens of a {family.tokenizer.__name__}. Received: "
            "--vocabulary-size or its default. Pass --tokenizer PLACE, or a "
            "checkpoint with its own vocabulary as --student."
        )
