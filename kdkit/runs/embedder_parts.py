"""The parts of runs that distil a sentence encoder: models, texts, cache."""

import dataclasses
import logging
import pathlib

import keras

from kdkit import models
from kdkit.data import EncodedExamples
from kdkit.doctor import OK, RUINS, WARNING, Finding, Findings
from kdkit.doctor.text_examination import examine_text_words
from kdkit.errors import UsageError
from kdkit.io.files import staged
from kdkit.losses import HiddenStateMSE
from kdkit.models import LoadedModel, Pooling
from kdkit.models.conventions import COSINE, MANHATTAN
from kdkit.models.saving import stored_size
from kdkit.runs.build import Leg, Parts, require_fitting_objectives
from kdkit.runs.embedder_settings import EmbedderSettings
from kdkit.runs.events import Doctor, Evaluation, Unlabeled
from kdkit.runs.inputs import files_digest, model_digest, rows_digest
from kdkit.runs.log import decide, format_metrics, log_model
from kdkit.runs.pipeline import place_of_step
from kdkit.runs.reduced_teacher import (
    COMPONENTS,
    FILE,
    ReducedTeacher,
    saved_arrays,
    text_components,
)
from kdkit.taps import own_names
from kdkit.taps.names import SENTENCE_EMBEDDING
from kdkit.training.caching import TeacherCaches
from kdkit.training.making import DATA_LENGTH, require_length
from kdkit.training.source import Source, make_forward
from kdkit.training.texts import open_pairs, texts_source

_log = logging.getLogger(__name__)
TEXTS = "texts"  # the folder of the encoded texts in a run


class EmbedderParts(Parts):
    """The parts of an `EmbedderSettings` run."""

    def __init__(self, settings, place, pretrained=None):
        super().__init__(settings, place, pretrained)
        self.task = open_pairs(settings.data)
        self.teacher_place = settings.teacher
        if not isinstance(settings.teacher, str):
            self.teacher_place = str(place_of_step(place, "teacher"))

    def inputs(self):
        data, student = self.settings.data, self.settings.student
        inputs = {TEXTS: files_digest(data.files)}
        if self.task is not None:
            rows = self.task.load(data.dev_split, data.data_dir)
            inputs[data.dev_split] = rows_digest(rows)
        if isinstance(self.settings.teacher, str):
            inputs["teacher"] = model_digest(self.settings.teacher)
        if student.checkpoint is not None:
            inputs["student"] = model_digest(student.checkpoint)
        return inputs

    @property
    def cache_settings(self):
        """The cache's settings, relative to the run directory."""
        settings = self.settings.cache
        place = pathlib.Path(self.place, settings.directory)
        return dataclasses.replace(settings, directory=str(place))

    def build(self):
        keras.utils.set_random_seed(self.settings.seed)
        with self.distribution.scope(), own_names():
            self.teacher = self.load_teacher()
        self.tokenizer = self.make_tokenizer()
        self.student = self.make_model()
        with self.distribution.scope():
            require_fitting_objectives(
                self.settings.stages, *self.make_compared()
            )
        self.check_conventions()
        self.forward = make_forward(self.teacher.model)

    def make_model(self) -> keras.Model:
        """Returns an arm's model, with the same first weights for each arm."""
        settings = self.settings
        keras.utils.set_random_seed(settings.seed)
        with self.distribution.scope(), own_names():
            model = self.make_student()
            require_length(settings.data.sequence_length, model, DATA_LENGTH)
            return models.in_policy(model, settings.dtype_policy)

    def load_teacher(self) -> LoadedModel:
        """Returns the teacher, which reads texts of the settings' length."""
        teacher = models.load_embedder(
            self.teacher_place, self.settings.pooling
        )
        length = self.settings.data.sequence_length
        require_length(length, teacher.model, DATA_LENGTH)
        if teacher.sequence_length and teacher.sequence_length > length:
            _log.info(
                f"the student reads texts of up to {length} tokens, the "
                f"teacher was made for {teacher.sequence_length}: "
                f"{DATA_LENGTH}{teacher.sequence_length}."
            )
        self.conventions = teacher.conventions
        return teacher

    def check_conventions(self) -> None:
        """Requires losses and data that keep what vectors are compared by."""
        similarity = self.conventions.similarity
        if similarity == COSINE:
            return
        is_free = not models.pooling_of(self.teacher.model).normalize
        others = [
            one.name
            for one in self.settings.objectives
            if one.tap == SENTENCE_EMBEDDING
            and not isinstance(one.loss, HiddenStateMSE)
            and is_free
        ]
        if similarity == MANHATTAN and self._reduced.is_reduced:
            others.append("principal components")
        if others:
            raise UsageError(
                f"The teacher's vectors are compared by {similarity}, which "
                "depends on their lengths. Expected hidden_state_mse. "
                f"Received: {', '.join(others)}."
            )

    def make_tokenizer(self):
        """Returns the student's tokenizer. The teacher is loaded before."""
        return self.teacher.tokenizer

    def make_compared(self) -> tuple:
        """Returns what objectives compare: a teacher and a student."""
        with own_names():
            self._reduced = self.make_reduced()
        return self._reduced.model, self.student

    def make_reduced(self) -> ReducedTeacher:
        """Returns the teacher whose vectors the student learns."""
        width = self.teacher.model.output_shape[-1]
        if any(map(compares_numbers, self.settings.objectives)):
            width = self.student.output_shape[-1]
        return ReducedTeacher(self.teacher.model, width)

    def make_student(self) -> keras.Model:
        """Returns the sentence encoder to train, with its first weights."""
        return make_student(self.settings, self.teacher)

    def examine(self, run, force):
        if run.is_read_only or run.events(Doctor):
            return None
        findings = Findings()
        self.examine_texts(findings)
        if not any(one.outcome in (WARNING, RUINS) for one in findings):
            return None
        decide(findings, force)
        return findings

    def examine_texts(self, findings: Findings) -> None:
        """Counts the texts with words that the tokenizer has no token for."""
        examine_text_words(
            "the texts", self.settings.data, self.tokenizer, findings
        )

    def open_caches(self):
        if self.settings.cache is not None:
            self.caches = TeacherCaches(
                self.cache_settings,
                [self._reduced.model],
                [self.teacher_place],
                distribution=self.distribution,
            )

    def load(self, run):
        self.source = self.load_source(run)
        components = self.read_components()
        if components is not None:
            self._reduced.set_components(components, self.distribution)

    def load_source(self, run) -> Source:
        """Returns the texts that the run trains on."""
        return texts_source(
            self.settings.data,
            self.task,
            self.tokenizer,
            self.place / TEXTS,
            self.conventions,
        )

    @property
    def teacher_texts(self) -> EncodedExamples:
        """The texts to train on, with the teacher's tokens."""
        return self.source.train

    def read_components(self):
        """Returns the components that vectors are reduced to, or `None`."""
        if not self._reduced.is_reduced:
            return None
        found = saved_arrays(
            self.place / FILE,
            {COMPONENTS: self._reduced.shape},
            lambda: {
                COMPONENTS: text_components(
                    self._reduced, self.teacher_texts, self.forward
                )
            },
            self.distribution,
        )
        return found[COMPONENTS]

    def measure(self, run):
        run.log(Unlabeled(**self.source.counts))
        if self.source.evaluate_teacher is None:
            return
        known = {
            event.arm for event in run.events(Evaluation) if event.stage is None
        }
        for arm, measured in self.measurements().items():
            if arm in known:
                continue
            found = measured()
            run.log(Evaluation(arm=arm, **found))
            what = "teacher" if arm == "teacher" else "student before training"
            _log.info(
                f"{what}: {format_metrics(found['metrics'])} on "
                f"{found['split']}."
            )

    def measurements(self) -> dict:
        """Returns what is measured before training."""
        source = self.source
        return {
            "teacher": lambda: source.evaluate_teacher(self.forward),
            "student": lambda: source.evaluate(self.start_forward()),
        }

    def start_forward(self):
        """Returns the forward pass of the student before training."""
        return make_forward(models.in_policy(self.student, "float32"))

    @property
    def arms(self):
        return tuple(self.settings.arms)

    def legs(self, run, name):
        settings, model = self.settings, self.student
        if name != "student":
            model = self.make_model()
        log_model(run, name, model, settings.student)
        log_model(run, "teacher", self.teacher.model)
        return [
            Leg(
                model,
                [self._reduced.model],
                self.source,
                settings.arms[name],
                caches=self.caches,
                on_text=True,
            )
        ]

    def save(self, run, name, model):
        path = self.place / name
        if run.is_read_only or path.exists():
            return
        size = stored_size(model)
        with staged(path, size) as partial, own_names():
            loaded = LoadedModel(
                models.in_policy(model, "float32"),
                self.tokenizer,
                sequence_length=self.settings.data.sequence_length,
                conventions=self.conventions,
            )
            texts = self.settings.data.texts(held_out=True)
            models.save_model(loaded, partial, texts)


def require_no_prompts(conventions) -> None:
    """Raises an error for prompts in a run that does not follow them."""
    prompts = [one for one in conventions.prompts.values() if one]
    if prompts:
        raise UsageError(
            "The sentence encoder has prompts, and this recipe trains without. "
            f"Received: {', '.join(map(repr, prompts))}."
        )


def compares_numbers(objective) -> bool:
    """Returns whether an objective needs vectors of the teacher's width."""
    return (
        objective.tap == SENTENCE_EMBEDDING
        and objective.projection is None
        and objective.loss.needs_same_width
    )


def make_student(
    settings: EmbedderSettings, teacher: LoadedModel
) -> keras.Model:
    """Returns the sentence encoder to train."""
    student = settings.student
    if student.copy_from is not None:
        if student.copy_from != "teacher":
            raise UsageError(
                'Expected student.copy_from="teacher", whose layers a sentence '
                f"encoder starts from. Received: {student.copy_from!r}."
            )
        # Each text has a vector of its own to learn, so dropout is only noise.
        return models.dropped_layers(
            teacher.model, student.copy_layers, dropout=0.0
        )
    if student.checkpoint is not None:
        loaded = load_student(settings, teacher)
        models.require_same_ids(teacher.tokenizer, loaded.tokenizer)
        return loaded.model
    return random_student(settings, teacher, teacher.tokenizer)


def load_student(
    settings: EmbedderSettings, teacher: LoadedModel
) -> LoadedModel:
    """The student's checkpoint, an encoder with the teacher's pooling."""
    place, pooling = settings.student.checkpoint, _pooling(teacher)
    if models.find(place).kind == "embedder":
        pooling = pooling.mode  # its normalization is described there
    return models.load_embedder(place, pooling)


def random_student(
    settings: EmbedderSettings, teacher: LoadedModel, tokenizer
) -> keras.Model:
    """Returns a sentence encoder with random weights."""
    backbone = models.student(
        settings.student.config(), vocabulary_size=tokenizer.vocabulary_size()
    )
    return models.make_embedder(backbone, _pooling(teacher))


def _pooling(teacher):
    """The teacher's pooling without dense layers."""
    pooling = models.pooling_of(teacher.model)
    return Pooling(pooling.mode, pooling.normalize)


def diagnose_embedder(parts: EmbedderParts) -> Findings:
    """Returns the findings about a run, without training or writing."""
    findings = Findings()
    if not isinstance(parts.settings.teacher, str):
        return findings
    parts.build()
    findings.add(Finding("models", OK, "Teacher and student fit."))
    parts.examine_texts(findings)
    return findings
