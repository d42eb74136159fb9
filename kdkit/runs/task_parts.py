"""The parts of runs on a task: task, tokenizer, models, examples, cache."""

import dataclasses
import itertools
import logging

import keras

from kdkit import models
from kdkit.doctor.data import given_texts
from kdkit.doctor.examination import (
    Subject,
    examine_first,
    examine_memory_first,
    examine_teacher_first,
)
from kdkit.io.files import staged
from kdkit.models import LoadedModel
from kdkit.models.saving import stored_size
from kdkit.quantization import RANGES_FILE, active_quantization
from kdkit.runs.build import Leg, Parts, require_fitting_objectives
from kdkit.runs.examples import (
    load_rows,
    require_fitting_stage,
    require_smoothable_labels,
    stages_with_teachers,
)
from kdkit.runs.inputs import data_inputs, distillation_inputs, model_digest
from kdkit.runs.log import evaluate_teachers, log_model
from kdkit.runs.pipeline import known_sizes, place_of_step
from kdkit.runs.predictions import write_predictions
from kdkit.runs.settings import (
    PRETRAINED,
    DistillSettings,
    PretrainSettings,
    TeacherSettings,
)
from kdkit.taps import own_names
from kdkit.training.answers import find_differences, summarize
from kdkit.training.caching import TeacherCaches
from kdkit.training.making import (
    CORPUS_LENGTH,
    DATA_LENGTH,
    load_teachers,
    load_text_teacher,
    make_model,
    require_length,
)
from kdkit.training.source import make_forward
from kdkit.training.tasks import (
    Evaluator,
    check_data,
    load_data,
    load_other_dev_splits,
    open_task,
    task_source,
)
from kdkit.training.text import load_text, require_readable

_log = logging.getLogger(__name__)


class TaskParts(Parts):
    """The parts of a run on a task."""

    def __init__(self, settings, place, pretrained=None):
        super().__init__(settings, place, pretrained)
        self.task = open_task(settings.data)

    def save(self, run, name, model):
        path, data = run.path / name, self.settings.data
        if run.is_read_only or path.exists():
            return
        dev = self.task.load(data.dev_split, data.data_dir)
        size = stored_size(model)
        with staged(path, size) as partial, own_names():
            loaded = LoadedModel(
                models.in_policy(model, "float32"),
                self.tokenizer,
                sequence_length=data.sequence_length,
                head=self.task.head,
            )
            texts = itertools.chain.from_iterable(given_texts(dev))
            models.save_model(loaded, partial, texts)
            quantization = active_quantization(loaded.model)
            if quantization is not None:
                quantization.save(partial / RANGES_FILE)

    def note_answers(self, run, arm):
        if run.is_read_only or arm.name == "control":
            return
        evaluator, data = self._evaluator, self.settings.data
        train_examples = self._train_examples
        logits = evaluator.logits(arm.forward)
        found = [summarize(arm.name, evaluator, logits, train_examples)]
        if evaluator.teachers_logits:
            teacher, *_ = evaluator.teachers_logits
            examples = self.task.load(data.dev_split, data.data_dir)
            differences = find_differences(evaluator, examples, logits, teacher)
            found = [
                summarize("teacher", evaluator, teacher, train_examples),
                dataclasses.replace(found[0], **differences),
            ]
        write_predictions(run.path, found)


class TeacherParts(TaskParts):
    """The parts of a `TeacherSettings` run."""

    arms = ("teacher",)

    def __init__(self, settings, place, pretrained=None):
        super().__init__(settings, place, pretrained)
        self._start = settings.model
        if self._start.checkpoint == PRETRAINED:
            self._start = dataclasses.replace(
                self._start, checkpoint=str(pretrained)
            )

    def inputs(self):
        inputs = data_inputs(self.task, self.settings.data)
        place = self._start.checkpoint or self._start.copy_from
        if place is not None:
            inputs["model"] = model_digest(place)
        return inputs

    def build(self):
        settings, task = self.settings, self.task
        check_data(task, settings.data)  # before a model is downloaded
        require_smoothable_labels(settings.stages, task)
        keras.utils.set_random_seed(settings.seed)
        with self.distribution.scope(), own_names():
            model, self.tokenizer = make_model(self._start, task)
            self._model = models.in_policy(model, settings.dtype_policy)
        require_length(settings.data.sequence_length, model, DATA_LENGTH)

    def examine(self, run, force):
        return examine_teacher_first(
            run, self.settings, self.task, self._model, self.tokenizer, force
        )

    def load(self, run):
        data = self.settings.data
        train, dev = load_data(
            self.task, data, self.tokenizer, self.settings.seed
        )
        evaluator = Evaluator(self.task, dev, data.dev_split)
        self._evaluator, self._train_examples = evaluator, train.num_labeled
        self._source = task_source(train, evaluator, data.num_buckets)
        others = load_other_dev_splits(self.task, data, self.tokenizer)
        self.others = [
            Evaluator(self.task, rows, split) for split, rows in others.items()
        ]

    def legs(self, run, name):
        log_model(run, name, self._model, self.settings.model)
        return [Leg(self._model, None, self._source, self.settings.stages)]


class DistillParts(TaskParts):
    """The parts of a `DistillSettings` run."""

    def __init__(self, settings, place, pretrained=None):
        super().__init__(settings, place, pretrained)
        first = settings.teacher
        if isinstance(first, TeacherSettings):
            first = place_of_step(place, "teacher")
        self.places = [first, *settings.more_teachers]
        self.pretrained = settings.pretrained
        if isinstance(settings.pretrained, PretrainSettings):
            self.pretrained = place_of_step(place, "pretrained")

    def inputs(self):
        return distillation_inputs(self.settings, self.task)

    def needs(self, step):
        # To check that the student fits its teachers before the long steps.
        return step in ("pretrained", "teacher")

    def check(self, run, force, has_steps):
        settings = self.settings
        require_smoothable_labels(
            (*settings.stages, *settings.control), self.task
        )
        examine_memory_first(run, settings, force)

    def build(self, on_task_alone: bool = False):
        """Loads the teachers and makes the student, once each."""
        self._on_task_alone = on_task_alone
        check_data(self.task, self.settings.data)  # before models load
        with self.distribution.scope(), own_names():
            self.teachers = load_teachers(self.places, self.task)
        self.tokenizer = self.teachers[0].tokenizer
        self._sizes = known_sizes(self.settings)
        self._student = self._make("student", self._sizes)
        with self.distribution.scope():
            self._check_fit()
        self.forwards = [make_forward(one.model) for one in self.teachers]

    def _make(self, name, sizes):
        """A student, with the same random weights for every arm."""
        keras.utils.set_random_seed(self.settings.seed)
        with self.distribution.scope(), own_names():
            model, tokenizer = make_model(
                sizes, self.task, self.teachers[0], self.pretrained, _log.info
            )
            model = models.in_policy(model, self.settings.dtype_policy)
        language_model = None
        if self._stages(name, "corpus"):
            with self.distribution.scope():
                language_model = models.language_model(
                    models.backbone_of(model)
                )
        return Student(name, model, tokenizer, language_model)

    def _stages(self, name, data):
        """An arm's stages on one kind of data."""
        stages = self.settings.arms[name]
        if data == "corpus" and self._on_task_alone:
            return ()
        return tuple(stage for stage in stages if stage.data == data)

    def _check_fit(self):
        """Validates that the stages fit the models."""
        settings, student = self.settings, self._student
        for model in (student.model, *(one.model for one in self.teachers)):
            require_length(settings.data.sequence_length, model, DATA_LENGTH)
        for stage in stages_with_teachers(settings):
            require_fitting_stage(settings, stage, student.model, self.teachers)
        self._text_teacher = None
        if student.language_model is not None:
            self._text_teacher = load_corpus_teacher(
                settings, student, self.tokenizer, self.pretrained
            )

    def examine(self, run, force):
        return examine_first(
            run,
            Subject(
                self.settings,
                self.task,
                self.place,
                self.teachers,
                self.places,
                self.forwards,
                student=self._student.model,
                tokenizer=self._student.tokenizer,
                fitting=stages_with_teachers(self.settings),
            ),
            force,
        )

    def open_caches(self, part=None):
        settings = self.settings.cache
        if settings is not None:
            teachers = [teacher.model for teacher in self.teachers]
            self.caches = TeacherCaches(
                settings, teachers, self.places, part, self.distribution
            )

    def load(self, run):
        self._rows = load_rows(
            self.settings, self.task, self.tokenizer, self.place / "augmented"
        )

    def measure(self, run):
        self._rows.log(run)
        data = self.settings.data
        others = load_other_dev_splits(self.task, data, self.tokenizer)
        evaluator, *self.others = [
            evaluate_teachers(
                run, self.task, self.teachers, self.forwards, rows, split
            )
            for split, rows in {
                data.dev_split: self._rows.dev,
                **others,
            }.items()
        ]
        self._evaluator = evaluator
        self._train_examples = self._rows.train.num_labeled
        self._sources = {
            "student": self._rows.source(evaluator),
            "control": self._rows.control_source(evaluator),
        }

    @property
    def arms(self):
        return tuple(
            name for name in self.settings.arms if self._stages(name, "task")
        )

    def legs(self, run, name):
        settings, student = self.settings, self._student
        if student.name != name or self._sizes is not settings.student:
            # The control, or a student whose checkpoint general distillation
            # made after `build`.
            student = self._make(name, settings.student)
        log_model(run, name, student.model, settings.student)
        legs = []
        if student.language_model is not None:
            with self.distribution.chief_first():
                source = load_text(
                    settings.corpus,
                    self.tokenizer,
                    self.place / "corpus",
                    student.language_model,
                )
            legs.append(
                Leg(
                    student.language_model,
                    self._text_teacher and self._text_teacher.model,
                    source,
                    self._stages(name, "corpus"),
                    on_text=True,
                )
            )
        on_task = Leg(
            student.model,
            [teacher.model for teacher in self.teachers],
            self._sources[name],
            self._stages(name, "task"),
            settings.teacher_weights or None,
            self.caches,
        )
        return [*legs, on_task]

    def fill_cache(self) -> None:
        """Runs the teachers on all examples that the stages read."""
        settings = self.settings
        stages = stages_with_teachers(settings)
        self.load(None)
        dev = Evaluator(self.task, self._rows.dev, settings.data.dev_split)
        source = self._rows.source(dev)
        student = self._student.model
        self.caches.expect(stages, student)
        for stage in stages:
            features = self.caches.features(stage, student)
            source.training_stream(stage, settings.seed, features)
            source.validation_stream(stage, features)


@dataclasses.dataclass(frozen=True, eq=False)
class Student:
    """A student, also with a masked-language-modelling head on its encoder."""

    name: str
    model: keras.Model
    tokenizer: object
    language_model: keras.Model | None


def load_corpus_teacher(
    settings: DistillSettings, student: Student, tokenizer, pretrained
) -> LoadedModel | None:
    """Loads the teacher of the stages on a corpus, `None` if none has one."""
    corpus = settings.corpus
    require_readable(corpus, student.model)
    require_length(corpus.sequence_length, student.model, CORPUS_LENGTH)
    stages = [
        stage
        for stage in settings.stages
        if stage.objectives and stage.data == "corpus"
    ]
    if not stages:
        return None
    teacher = load_text_teacher(pretrained, needs_head=True)
    models.require_same_ids(teacher.tokenizer, tokenizer)
    require_fitting_objectives(stages, teacher.model, student.language_model)
    return teacher
