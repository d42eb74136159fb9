"""What differs between runs of a classifier and of a language model.

A kind loads the teachers, makes the models to train, reads the data, and saves
the results. It is made once in a run, when the steps before it are finished.
Kinds of sentence encoders are in `embedders.py`.
"""

import dataclasses
import itertools
import logging

import keras

from kdkit import data, models
from kdkit.config.model import Bilstm, Checkpoint, Layers, Mass
from kdkit.distillation.distiller import Distiller
from kdkit.doctor.data import given_texts
from kdkit.errors import UsageError
from kdkit.io.files import staged
from kdkit.models import LoadedModel
from kdkit.models.heads import copy_head, is_causal, is_encoder_decoder
from kdkit.models.saving import stored_size
from kdkit.models.sizes import choose_blocks
from kdkit.models.tokenizer_files import load_saved_tokenizer
from kdkit.quantization import RANGES_FILE, active_quantization
from kdkit.runs.answers import answers
from kdkit.runs.log import log_other, log_teachers
from kdkit.runs.places import teachers_of
from kdkit.runs.predictions import write_predictions
from kdkit.taps import own_names
from kdkit.training import tasks, text
from kdkit.training.arm import Arm
from kdkit.training.caching import TeacherCaches
from kdkit.training.distribution import ONE_DEVICE
from kdkit.training.source import make_forward

_log = logging.getLogger(__name__)
TOKENIZER = "tokenizer"  # the folder of a trained one in a run


class Kind:
    """A kind of run.

    A subclass defines `teacher(place)` and `load(place)`, which return a
    `LoadedModel`; `head(backbone)`, the model to train; `source()`, the data;
    and what is saved with the model, `saved(model)`, and `texts()`, on which
    its saved tokenizer is tried.

    Attributes:
        teachers: list of `LoadedModel`.
        compared: list of the teachers' models, as objectives compare them.
        tokenizer: the tokenizer of the data and of the saved models.
        model: `keras.Model`, the student with its first weights.

    Args:
        config: the run's config, with the places of its steps.
        folder: `pathlib.Path` of the run directory.
        devices: `Distribution`. Defaults to one device.
    """

    entries = None  # that a cache has, if not those that objectives read

    def __init__(self, config, folder, devices=ONE_DEVICE):
        self.config, self.folder, self.devices = config, folder, devices
        self.tokenizer = None
        keras.utils.set_random_seed(config.training.seed)
        with devices.scope(), own_names():
            self.teachers = [self.teacher(place) for place in self.places]
        for other in self.teachers[1:]:
            models.require_same_ids(self.teachers[0].tokenizer, other.tokenizer)
        self.compared = [one.model for one in self.teachers]
        self.forwards = [make_forward(one.model) for one in self.teachers]
        self.tokenizer = self.first_tokenizer()
        self.model = self.make()

    @property
    def places(self) -> tuple[str, ...]:
        """The places of the teachers."""
        return teachers_of(self.config)

    @property
    def arms(self) -> dict:
        """The stages of each model that is trained, by its folder."""
        return self.config.arms

    def first_tokenizer(self):
        """Returns the tokenizer, `None` if it comes with the student."""
        return self.teachers[0].tokenizer if self.teachers else None

    def make(self) -> keras.Model:
        """Returns a model to train, with the same first weights each time."""
        keras.utils.set_random_seed(self.config.training.seed)
        with self.devices.scope(), own_names():
            model = self.start(self.config.student)
            self.require_length(model)
            policy = self.config.training.dtype_policy
            return models.in_policy(model, policy)

    def start(self, student) -> keras.Model:
        """Returns the model that a config's student describes."""
        if isinstance(student, Checkpoint):
            loaded = self.load(student.checkpoint)
            self.take(loaded.tokenizer)
            return loaded.model
        if isinstance(student, Layers):
            return self.copied(student)
        if self.tokenizer is None:
            self.tokenizer = self.make_tokenizer()
        return self.random(student)

    def copied(self, student: Layers) -> keras.Model:
        """Returns a model with layers of the teacher or another encoder."""
        if self.copies_teacher:
            encoder = self.teachers[0].model
        else:
            place = self.config.student.copy_from
            if place == "pretrained":
                place = self.config.pretrained
            encoder, tokenizer = models.load_encoder(place)
            self.take(tokenizer)
        layers = self.layers(student, encoder)
        return self.head(models.copy_blocks(encoder, layers))

    @property
    def copies_teacher(self) -> bool:
        """Whether the student's layers are the teacher's."""
        place = self.config.student.copy_from
        is_unknown = place == "pretrained" and self.config.pretrained is None
        return place == "teacher" or is_unknown

    def layers(self, student: Layers, encoder) -> tuple[int, ...]:
        """Returns the layers to copy by number, from 1."""
        if not student.layers:
            depth = models.backbone_of(encoder).num_layers
            chosen = self.choose(student, depth)
            student = student.replace(layers=chosen, num_layers=None)
            self.config = self.config.replace(student=student)
        return student.layers

    def choose(self, student: Layers, depth: int) -> tuple[int, ...]:
        """Returns the layers that a rule chooses."""
        count = student.num_layers or max(int(depth * student.share), 1)
        return choose_blocks(student.rule, depth, count)

    def random(self, student) -> keras.Model:
        """Returns a model with random weights."""
        size = self.tokenizer.vocabulary_size()
        sizes = dict(student)
        if isinstance(student, Mass):
            sizes = models.MassConfig(**sizes)
        return self.head(models.student(sizes, vocabulary_size=size))

    def take(self, tokenizer) -> None:
        """Takes the model's tokenizer, which must have the teacher's ids."""
        if self.teachers and tokenizer is not None:
            models.require_same_ids(self.teachers[0].tokenizer, tokenizer)
        self.tokenizer = self.tokenizer or tokenizer

    def require_length(self, model) -> None:
        """Requires that the sequences fit a model's positions."""
        part = "corpus" if self.config.kind == "text" else "data"
        require_length(getattr(self.config, part), model, part)

    def require_fit(self, teachers, model, stages, weights=None) -> None:
        """Requires that objectives fit teachers and student."""
        with self.devices.scope():
            for stage in stages:
                if stage.objectives:
                    Distiller(
                        teachers,
                        model,
                        stage.weighted_objectives(),
                        stage.label_weight,
                        weights,
                        chunk_size=stage.chunk_size,
                    )

    @property
    def num_rows(self) -> int | None:
        """About how many examples there are to train on, `None` if unknown."""
        return None

    def open_caches(self, part=None) -> TeacherCaches | None:
        """Returns the caches of the teachers' outputs, if the run has them."""
        cache = self.config.cache
        if cache is None:
            return None
        return TeacherCaches(
            cache.replace(directory=str(self.folder / cache.directory)),
            self.compared,
            self.places,
            part,
            self.devices,
            self.entries,
        )

    def load_text(self, corpus, model):
        """Returns the text of a config as a source for a model."""
        folder = self.folder / "corpus"
        return text.load_text(corpus, self.tokenizer, folder, model)

    def measure(self, run, source, caches) -> None:
        """Measures and logs what is known before training."""

    def legs(self, arm: str, model, source, caches):
        """Yields the parts of an arm's training, in their order."""
        stages = self.arms[arm]
        yield self.leg(arm, model, self.compared, source, stages, caches=caches)

    def leg(self, arm, model, teachers, source, stages, **fields) -> Arm:
        """Returns a part of an arm's training."""
        fields["distribution"] = self.devices
        training = self.config.training
        return Arm(arm, model, teachers, source, stages, training, **fields)

    def save(self, name: str, model) -> None:
        """Saves a trained model as a preset, unless it was saved before."""
        path = self.folder / name
        if path.exists():
            return
        with staged(path, stored_size(model)) as partial, own_names():
            loaded = self.saved(models.in_policy(model, "float32"))
            models.save_model(loaded, partial, self.texts())
            quantization = active_quantization(loaded.model)
            if quantization is not None:
                quantization.save(partial / RANGES_FILE)

    def finish_arm(self, run, arm: Arm, best) -> None:
        """Measures and logs what is known of a trained model only."""


class TaskKind(Kind):
    """A classifier on a task, with teachers or without."""

    def __init__(self, config, folder, devices=ONE_DEVICE):
        self.task = tasks.open_task(config.data)
        tasks.require_smoothable_labels(config.arms, self.task)
        # Before models are loaded.
        self.rows = tasks.read_train_and_dev(self.task, config.data)
        super().__init__(config, folder, devices)
        for one in self.teachers:
            self.require_length(one.model)
        weights = config.teacher_weights or None
        on_task = [one for one in config.stages if one.data == "task"]
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
        if file is not None:
            words = data.words_of_pieces(self.tokenizer.get_vocabulary())
            vectors, found = data.read_word_vectors(file, words)
        model = models.student(
            models.BilstmConfig(**sizes),
            num_classes=self.task.num_classes,
            vocabulary_size=self.tokenizer.vocabulary_size(),
            num_texts=self.task.num_texts,
        )
        if file is not None:
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
        require_length(corpus, self.model, "corpus")
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
        found = tasks.load_task(
            self.config, self.task, self.rows, self.tokenizer, self.folder
        )
        self.rows = None  # encoded now
        evaluators = found.evaluators(self.task, tuple(self.forwards))
        self._evaluator, *self._others = evaluators
        self._num_labeled = found.train.num_labeled
        return found.source(self._evaluator)

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
            source = source.control()
        fields = {"teacher_weights": self.config.teacher_weights or None}
        fields["caches"] = caches
        yield self.leg(arm, model, self.compared, source, on_task, **fields)

    def finish_arm(self, run, arm, best):
        for evaluator in self._others:
            log_other(run, arm, best, evaluator)
        if not run.is_read_only and arm.name != "control":
            logits = self._evaluator.logits(arm.forward)
            examples, count = self._dev_examples(), self._num_labeled
            write_predictions(
                run.path,
                answers(arm.name, self._evaluator, logits, examples, count),
            )

    def _dev_examples(self):
        return self.task.load(
            self.config.data.dev_split, self.config.data.data_dir
        )

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
        return itertools.chain.from_iterable(given_texts(self._dev_examples()))


class TextKind(Kind):
    """A language model on text, with a teacher or without."""

    def __init__(self, config, folder, devices=ONE_DEVICE):
        self._has_head = any(stage.trains_head for stage in config.stages)
        super().__init__(config, folder, devices)
        corpus = config.corpus
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
        if corpus.kind == "corpus":
            family = self.config.student.family
            return models.train_byte_pairs(texts, size, family)
        languages = dict.fromkeys(corpus.languages)
        return models.train_sentence_pieces(texts, size, tuple(languages))

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


def load_text_teacher(place: str) -> LoadedModel:
    """Loads a language model with a trained head."""
    teacher = models.load_language_model(place)
    if not teacher.has_trained_head:
        raise UsageError(
            f"The encoder in {place} has no trained head for masked tokens. "
            "Train one with kdkit pretrain."
        )
    return teacher


def require_length(rows, model, part: str) -> None:
    """Requires that the sequences of some data fit a model's positions."""
    positions = models.num_positions(model)
    if positions is not None and rows.sequence_length > positions:
        raise UsageError(
            f"Sequences of {rows.sequence_length} tokens are longer than the "
            f"model's {positions} positions. Use --set "
            f"{part}.sequence_length={positions}."
        )


def tokenizer_of(asked: str | int, folder, train):
    """Loads a tokenizer, or trains one of a size, once in a run."""
    if isinstance(asked, str):
        return models.load_tokenizer(asked)
    return load_saved_tokenizer(folder) if folder.is_dir() else train(asked)


def save_tokenizer(tokenizer, folder) -> None:
    """Saves a trained tokenizer, for when the run continues."""
    if not folder.is_dir():
        with staged(folder) as partial:
            partial.mkdir()
            tokenizer.save_assets(partial)


def generated_tokenizer():
    """Returns the tokenizer of the generated sentences."""
    vocabulary = data.sentiment_vocabulary()
    return models.word_piece_tokenizer(vocabulary, lowercase=True)
