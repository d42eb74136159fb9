"""The kind of runs on a task: its examples, classifiers and answers."""

import itertools
import logging

from kdkit import models
from kdkit.config.model import Bilstm
from kdkit.data.word_vectors import read_word_vectors, words_of_pieces
from kdkit.errors import UsageError
from kdkit.models import LoadedModel
from kdkit.models.heads import copy_head
from kdkit.runs.answers import answers
from kdkit.runs.kinds import (
    Kind,
    generated_tokenizer,
    load_text_teacher,
    require_length,
)
from kdkit.runs.log import log_other, log_teachers
from kdkit.runs.predictions import write_predictions
from kdkit.training import tasks, text

_log = logging.getLogger(__name__)


class TaskKind(Kind):
    """A classifier on a task, with teachers or without."""

    def read(self):
        data = self.config.data
        self.task = tasks.open_task(data)
        tasks.require_smoothable_labels(self.config.stages, self.task)
        splits = "train", data.dev_split
        self.rows = tasks.load_splits(self.task, data, splits)

    def fit(self):
        for one in self.teachers:
            self.require_length(one.model)
        weights = self.config.teacher_weights or None
        on_task = [one for one in self.config.stages if one.data == "task"]
        self.require_fit(self.compared, self.model, on_task, weights)
        self._text_teachers = self._load_text_teachers()

    def teacher(self, place):
        teacher = self.load(place)
        if not teacher.has_trained_head:
            raise UsageError(
                f"The teacher in {place} has no trained head of "
                f"{self.task.num_classes} classes for task "
                f"{self.task.name!r}. Train one with kdkit train-teacher."
            )
        return teacher

    def load(self, place):
        return models.load_classifier(place, self.task.head)

    def make(self):
        model = super().make()
        self.language_model = None  # of the model that was made last
        if self.config.corpus is not None:
            with self.devices.scope():
                encoder = models.backbone_of(model)
                self.language_model = models.language_model(encoder)
        return model

    def head(self, backbone):
        return models.add_head(backbone, self.task.head, self.tokenizer)

    def copied(self, student):
        model = super().copied(student)
        if self.copies_teacher:
            copy_head(model, self.teachers[0].model)
        return model

    def random(self, student):
        if not isinstance(student, Bilstm):
            return super().random(student)
        sizes, file = dict(student), student.word_vectors
        del sizes["word_vectors"]
        model = models.student(
            models.BilstmConfig(**sizes),
            num_classes=self.task.num_classes,
            vocabulary_size=self.tokenizer.vocabulary_size(),
            num_texts=self.task.num_texts,
        )
        if file is not None:
            words = words_of_pieces(self.tokenizer.get_vocabulary())
            vectors, found = read_word_vectors(file, words)
            models.set_word_vectors(model, vectors, found)
            _log.info(
                f"{found.sum()} of {len(found)} word pieces start from a "
                f"vector in {file}."
            )
        return model

    def make_tokenizer(self):
        """Returns the tokenizer of a task's own data. Most tasks have none."""
        if self.task.kind.vocabulary is not None:
            return models.word_piece_tokenizer(
                list(self.task.kind.vocabulary), lowercase=False
            )
        if self.task.generate is None:
            raise UsageError(
                "A model with random weights has no tokenizer for task "
                f"{self.task.name!r}. Pass --model."
            )
        return generated_tokenizer()

    def _load_text_teachers(self):
        """The teacher of the stages on a corpus, in a list of at most one."""
        corpus = self.config.corpus
        if corpus is None:
            return []
        text.require_readable(corpus, self.model)
        length = corpus.sequence_length
        require_length(length, self.model, "corpus.sequence_length")
        stages = [one for one in self.config.stages if one.data == "corpus"]
        if not any(stage.objectives for stage in stages):
            return []
        teacher = load_text_teacher(self.config.pretrained)
        models.require_same_ids(teacher.tokenizer, self.tokenizer)
        self.require_fit([teacher.model], self.language_model, stages)
        return [teacher.model]

    @property
    def num_rows(self):
        count = len(self.rows[0])
        return min(count, self.config.data.max_train_rows or count)

    def source(self):
        config, tokenizer = self.config, self.tokenizer
        self._evaluator, *self._others = tasks.make_evaluators(
            self.task, config.data, tokenizer, tuple(self.forwards)
        )
        return tasks.load_task(
            config, self._evaluator, self.rows[0], tokenizer, self.folder
        )

    def measure(self, run, source, caches):
        for evaluator in (self._evaluator, *self._others):
            log_teachers(run, self.teachers, evaluator)

    def legs(self, arm, model, source, caches):
        on_corpus, on_task = (
            tuple(one for one in self.arms[arm] if one.data == data)
            for data in ("corpus", "task")
        )
        if on_corpus:
            encoder, teachers = self.language_model, self._text_teachers
            with self.devices.chief_first():
                corpus = self.load_text(self.config.corpus, encoder)
            yield self.leg(arm, encoder, teachers, corpus, on_corpus)
        if arm == "control" and source.control is not None:
            source = source.control
        fields = {"teacher_weights": self.config.teacher_weights or None}
        fields["caches"] = caches
        yield self.leg(arm, model, self.compared, source, on_task, **fields)

    def finish_arm(self, run, arm, best):
        for evaluator in self._others:
            log_other(run, arm, best, evaluator)
        if not run.is_read_only and arm.name != "control":
            logits = self._evaluator.logits(arm.forward)
            found = answers(arm.name, self._evaluator, logits, self.rows[1])
            write_predictions(run.path, found)

    def saved(self, model):
        """Returns a model with what is saved next to it."""
        return LoadedModel(
            model,
            self.tokenizer,
            sequence_length=self.config.data.sequence_length,
            head=self.task.head,
        )

    def texts(self):
        """Returns texts on which a saved tokenizer is tried."""
        return itertools.chain.from_iterable(self.rows[1].rows)
