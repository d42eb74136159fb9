"""The parts of runs that teach a sentence encoder further languages."""

from kdkit import models
from kdkit.models.tokenizer_files import load_saved_tokenizer
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
from kdkit.training.translations import (
    translations_source,
    vocabulary_texts,
)

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
            return load_saved_tokenizer(directory)
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
        return translations_source(
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
