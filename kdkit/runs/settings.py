"""The settings of a run: all that decides its numbers."""

import dataclasses
import math

from kdkit import taps
from kdkit.backends import validate_policy
from kdkit.errors import UsageError
from kdkit.models.families import DECODERS
from kdkit.recipes.stages import Stage
from kdkit.training.data_settings import AugmentedSettings
from kdkit.training.data_settings import CacheSettings
from kdkit.training.data_settings import CorpusSettings
from kdkit.training.data_settings import DataSettings
from kdkit.training.data_settings import UnlabeledSettings
from kdkit.training.model_settings import ModelSettings
from kdkit.training.model_settings import check_jit_compile
from kdkit.training.model_settings import check_parts
from kdkit.training.model_settings import check_seed
from kdkit.training.model_settings import check_strategy
from kdkit.training.sentence_settings import PairSettings
from kdkit.training.sentence_settings import SentenceSettings


def check_kept_text(settings) -> None:
    """Refuses to keep what is drawn anew, or what no one reads.

    Args:
        settings: `PretrainSettings` with `cache`.

    Raises:
        UsageError: with all that is wrong.
    """
    objectives = [
        objective for stage in settings.stages for objective in stage.objectives
    ]
    problems = settings.cache.problems(objectives, 1)
    if settings.teacher is None:
        problems.append("it is of a teacher, and there is none")
    if settings.cache.teacher_file is not None:
        problems.append("a teacher's exported file is for tasks")
    if isinstance(settings.corpus, SentenceSettings):
        problems.append(
            "hidden spans are drawn anew in every epoch; what a teacher "
            "says of them cannot be kept"
        )
    others = [
        f"{objective.name} ({objective.tap})"
        for objective in objectives
        if taps.reads_source(objective.tap)
    ]
    if others:
        problems.append(
            "of pairs, what the decoder gives is kept, and "
            f"{', '.join(others)} compare what the encoder reads"
        )
    if problems:
        raise UsageError(f"--cache: {'; '.join(problems)}.")


def check_tokenizer_source(settings) -> None:
    """Refuses a tokenizer where the model, or a teacher, brings one.

    Args:
        settings: `PretrainSettings`.

    Raises:
        UsageError: if there are several, or none is needed.
    """
    sources = {
        name: getattr(settings, name)
        for name in ("tokenizer", "vocabulary_size", "teacher")
        if getattr(settings, name) is not None
    }
    if len(sources) > 1:
        raise UsageError(
            "A tokenizer is read, trained, or a teacher's. Received: "
            f"{sources}. Leave all but one out."
        )
    sources.pop("teacher", None)
    if sources and not settings.model.has_random_weights:
        raise UsageError(
            f"{' and '.join(sources)} is for a model with random weights; "
            f"a checkpoint brings its own tokenizer. Received: {sources}. "
            "Leave it out, or name a --student, which begins at random, in "
            "place of the --model."
        )
    writes_text = (
        settings.model.mass is not None or settings.model.family in DECODERS
    )
    if settings.vocabulary_size is not None and not writes_text:
        raise UsageError(
            "A vocabulary is trained for decoders and encoder-decoders. "
            f"Received: family={settings.model.family!r}. Name a tokenizer."
        )
    if not settings.separate_vocabularies:
        return
    if not isinstance(settings.corpus, PairSettings):
        raise UsageError(
            "Two vocabularies are of the two sides of pairs. The words of "
            "a hidden span stand on both sides, so that sentences need a "
            "joint one. Received: separate_vocabularies=True, "
            f"{type(settings.corpus).__name__}. Use --pairs, or leave it out."
        )
    if settings.vocabulary_size is None:
        raise UsageError(
            "separate_vocabularies is of vocabularies that are trained, "
            "each of so many tokens. Expected --vocabulary-size N. "
            "Received: none."
        )


# Fields of settings that a run may go on with other values of, also those of
# the runs in it.
FREE = ("checkpoint_minutes", "keep_checkpoints")
# What stands there for the record: these runs have their own settings.
RECORDED = ("steps_before",)


@dataclasses.dataclass(frozen=True)
class Saving:
    """When checkpoints are made, and which are kept.

    Args:
        checkpoint_minutes: float, at least 0. The time between two checkpoints
            within an epoch; 0 for one after each step. Defaults to `10.0`.
        keep_checkpoints: int, at least 1. How many of the last epochs are kept.
            Defaults to `1`.

    Raises:
        UsageError: (a `ValueError`) for other numbers.
    """

    checkpoint_minutes: float = 10.0
    keep_checkpoints: int = 1

    def __post_init__(self):
        problems = [
            f"{name} must be at least {least}, received {value}"
            for name, least, value in (
                ("checkpoint_minutes", 0, self.checkpoint_minutes),
                ("keep_checkpoints", 1, self.keep_checkpoints),
            )
            if not value >= least
        ]
        if problems:
            raise UsageError(f"Wrong settings: {'; '.join(problems)}.")

    @classmethod
    def of(cls, settings) -> "Saving":
        """Returns that of the settings of a run."""
        return cls(*(getattr(settings, name) for name in FREE))


def without_free(settings):
    """Returns the settings of a run, as a dict, without what may differ.

    Args:
        settings: dict, list or value, as `kdkit.settings.to_dict` makes them.
    """
    if isinstance(settings, dict):
        return {
            name: without_free(value)
            for name, value in settings.items()
            if name not in FREE + RECORDED
        }
    if isinstance(settings, list):
        return [without_free(value) for value in settings]
    return settings


# In the settings of a teacher that a run trains itself: the place of the run's
# pretrained encoder.
PRETRAINED = "pretrained"


def _check_run(settings, *arms):
    """Checks what settings of all runs have, and the stages of each arm."""
    check_seed(settings.seed)
    validate_policy(settings.dtype_policy)
    check_jit_compile(settings.jit_compile)
    check_strategy(settings)
    check_parts(settings)
    Saving.of(settings)
    for stages in arms:
        names = [stage.name for stage in stages]
        if len(set(names)) < len(names):
            raise UsageError(
                "Stages keep their checkpoints by their names, so each needs "
                f"one of its own. Received: {names}."
            )


@dataclasses.dataclass(frozen=True)
class TeacherSettings:
    """A run of `kdkit train-teacher`.

    Args:
        data: `DataSettings`.
        model: `ModelSettings`. In a distillation its checkpoint may be
            `"pretrained"`, the run's pretrained encoder.
        stages: tuple of `Stage`, without objectives.
        seed: int. Seed of weights, dropout and order.
        jit_compile: bool or `"update"`. Whether XLA compiles the step, or only
            the optimiser's update of the weights.
        dtype_policy: string. What is trained computes in it: `"float32"`,
            `"mixed_bfloat16"` or `"mixed_float16"`. It is measured and kept in
            float32.
        strategy: string or `None`. `"mirrored"` to train on all devices of
            this machine, the rows of each batch divided among them;
            `"multi_worker"` for those of several; `None` for one device.
        checkpoint_minutes, keep_checkpoints: as in `Saving`. A run may go on
            with others.
        verb: string. `"train-teacher"`.
    """

    data: DataSettings
    model: ModelSettings
    stages: tuple[Stage, ...]
    seed: int = 0
    jit_compile: bool | str = True
    dtype_policy: str = "float32"
    strategy: str | None = None
    checkpoint_minutes: float = Saving.checkpoint_minutes
    keep_checkpoints: int = Saving.keep_checkpoints
    verb: str = "train-teacher"

    def __post_init__(self):
        _check_run(self, self.stages)
        if any(stage.objectives for stage in self.stages):
            named = [stage.name for stage in self.stages if stage.objectives]
            raise UsageError(
                "A teacher learns from labels alone. Expected stages without "
                f"objectives. Received: objectives in {', '.join(named)}. "
                "Leave them out, or train a student with kdkit distill."
            )


@dataclasses.dataclass(frozen=True)
class PretrainSettings:
    """A run of `kdkit pretrain`.

    Args:
        corpus: `CorpusSettings`; for an encoder-decoder `SentenceSettings` of
            masked sequence-to-sequence modelling, or `PairSettings`.
        model: `ModelSettings`. A checkpoint keeps its masked-language-modelling
            head, if it has one.
        stages: tuple of `Stage`, without objectives unless there is a teacher.
        tokenizer: string or `None`. Where the tokenizer of a model with random
            weights is, as `kdkit.models.load_tokenizer` takes it; `None` for
            that of the generated sentences. With a teacher it is the
            teacher's.
        vocabulary_size: int or `None`. Of a decoder or an encoder-decoder with
            random weights: a byte-pair tokenizer of so many tokens is trained
            on the corpus, in `tokenizer/`.
        separate_vocabularies: bool. Whether it is one of the sources and
            another, as large, of the targets of pairs.
        teacher: string or `None`. A pretrained encoder that the model learns
            from, as `kdkit.models.load_language_model` takes it.
        recipe: string or `None`. The recipe that the stages are of.
        steps_before: dict from name to `PretrainSettings`. Of the last step of
            a recipe on text alone: what was made before it, in `NAME_run/`.
        cache: `CacheSettings` or `None`. Where the teacher's outputs are kept,
            of rows that are the same in every epoch: those of decoders and of
            pairs, and of encoders without a head.
        seed: int. Seed of weights, dropout, order and masks.
        jit_compile: bool or `"update"`. Whether XLA compiles the step, or only
            the optimiser's update of the weights.
        dtype_policy: string. What is trained computes in it: `"float32"`,
            `"mixed_bfloat16"` or `"mixed_float16"`. It is measured and kept in
            float32.
        strategy: string or `None`. `"mirrored"` to train on all devices of
            this machine, the rows of each batch divided among them;
            `"multi_worker"` for those of several; `None` for one device.
        checkpoint_minutes, keep_checkpoints: as in `Saving`. A run may go on
            with others.
        verb: string. `"pretrain"`.
    """

    corpus: CorpusSettings | SentenceSettings | PairSettings
    model: ModelSettings
    stages: tuple[Stage, ...]
    tokenizer: str | None = None
    vocabulary_size: int | None = None
    separate_vocabularies: bool = False
    teacher: str | None = None
    recipe: str | None = None
    steps_before: dict[str, "PretrainSettings"] = dataclasses.field(
        default_factory=dict
    )
    cache: CacheSettings | None = None
    seed: int = 0
    jit_compile: bool | str = True
    dtype_policy: str = "float32"
    strategy: str | None = None
    checkpoint_minutes: float = Saving.checkpoint_minutes
    keep_checkpoints: int = Saving.keep_checkpoints
    verb: str = "pretrain"

    def __post_init__(self):
        _check_run(self, self.stages)
        has_sizes = self.model.has_random_weights
        if has_sizes and (self.model.mass is None) == self.reads_sentences:
            raise UsageError(
                "Sentences and pairs are for a MASS, running text is for "
                f"others. Received: {type(self.corpus).__name__}, and the "
                f"sizes of a {'MASS' if self.model.mass else 'BERT or GPT-2'}."
            )
        if self.reads_sentences and self.jit_compile is True:
            raise UsageError(
                "XLA compiles a step for every shape of a batch, and batches "
                "of sentences have many. Received: jit_compile=True. Use "
                "jit_compile=update or jit_compile=false."
            )
        has_objectives = any(stage.objectives for stage in self.stages)
        if has_objectives != (self.teacher is not None):
            raise UsageError(
                "Pretraining has objectives if and only if there is a teacher. "
                f"Received: teacher={self.teacher!r}, "
                f"{'' if has_objectives else 'no '}objectives."
            )
        check_tokenizer_source(self)
        if self.cache is not None:
            check_kept_text(self)

    @property
    def reads_sentences(self) -> bool:
        """Whether the text is for an encoder-decoder."""
        return not isinstance(self.corpus, CorpusSettings)


@dataclasses.dataclass(frozen=True)
class DistillSettings:
    """A run of `kdkit distill`.

    Args:
        recipe: string. A key of `kdkit.recipes.RECIPES`.
        data: `DataSettings`.
        teacher: string, where the teacher is, as
            `kdkit.models.load_classifier` takes it; or `TeacherSettings` of a
            teacher that is trained first, in `teacher_run/`. With several it
            is the first: the one that agreement is measured with.
        student: `ModelSettings`.
        stages: tuple of `Stage`.
        control: tuple of `Stage` without objectives for the same student
            without a teacher; empty for no such arm.
        pretrained: string, `PretrainSettings` or `None`. The encoder before
            fine-tuning: the student may start as its blocks, and it is the
            teacher of stages on a corpus. Settings are run first, in
            `pretrained_run/`.
        corpus: `CorpusSettings` or `None`. The text of stages on a corpus.
        unlabeled: `UnlabeledSettings` or `None`. Further rows for stages with
            objectives on the task.
        augmented: `AugmentedSettings` or `None`. Copies of the training rows,
            for all arms.
        general: `PretrainSettings` or `None`. How the student's checkpoint, a
            run of general distillation, is made where it is not finished.
        cache: `CacheSettings` or `None`. Where the teachers' outputs on the
            task are kept; `None` to run them in every epoch.
        more_teachers: tuple of strings. Further teachers of stages on the
            task, with the first one's token ids.
        teacher_weights: tuple of floats, one per teacher, or empty for equal
            ones. What counts is their ratio.
        parity: string or `None`. The variant of the recipe.
        seed: int. Seed of weights, dropout and order.
        jit_compile: bool or `"update"`. Whether XLA compiles the step, or only
            the optimiser's update of the weights.
        dtype_policy: string. What is trained computes in it: `"float32"`,
            `"mixed_bfloat16"` or `"mixed_float16"`. It is measured and kept in
            float32.
        strategy: string or `None`. `"mirrored"` to train on all devices of
            this machine, the rows of each batch divided among them;
            `"multi_worker"` for those of several; `None` for one device.
        checkpoint_minutes, keep_checkpoints: as in `Saving`. A run may go on
            with others.
        verb: string. `"distill"`.
    """

    recipe: str
    data: DataSettings
    teacher: str | TeacherSettings
    student: ModelSettings
    stages: tuple[Stage, ...]
    control: tuple[Stage, ...] = ()
    pretrained: str | PretrainSettings | None = None
    corpus: CorpusSettings | None = None
    unlabeled: UnlabeledSettings | None = None
    augmented: AugmentedSettings | None = None
    general: PretrainSettings | None = None
    cache: CacheSettings | None = None
    more_teachers: tuple[str, ...] = ()
    teacher_weights: tuple[float, ...] = ()
    parity: str | None = None
    seed: int = 0
    jit_compile: bool | str = True
    dtype_policy: str = "float32"
    strategy: str | None = None
    checkpoint_minutes: float = Saving.checkpoint_minutes
    keep_checkpoints: int = Saving.keep_checkpoints
    verb: str = "distill"

    def __post_init__(self):
        _check_run(self, *self.arms.values())
        on_corpus = [
            stage
            for stages in self.arms.values()
            for stage in stages
            if stage.data == "corpus"
        ]
        problems = []
        if not any(stage.data == "task" for stage in self.stages):
            problems.append(
                "no stage is on the task, so there would be no student for "
                "it. Keep one, or use kdkit pretrain"
            )
        if on_corpus and self.corpus is None:
            problems.append(
                f"stage {on_corpus[0].name!r} trains on a corpus, and none is "
                "given"
            )
        needs_encoder = self.student.copy_from == "pretrained" or any(
            stage.objectives for stage in on_corpus
        )
        if needs_encoder and self.pretrained is None:
            problems.append(
                "the student starts from, or learns from, a pretrained "
                "encoder, and none is given"
            )
        if self.general is not None and self.student.checkpoint is None:
            problems.append(
                "general distillation makes the student's checkpoint, and the "
                "student has none"
            )
        problems += self._teacher_problems()
        problems += self._strategy_problems()
        if problems:
            raise UsageError(f"Recipe {self.recipe!r}: {'; '.join(problems)}.")

    def _teacher_problems(self):
        """What is wrong with unlabelled rows, more teachers and a cache."""
        problems = []
        has_objectives = any(
            stage.objectives and stage.data == "task" for stage in self.stages
        )
        given = [
            name
            for name in ("unlabeled", "more_teachers", "cache")
            if getattr(self, name)
        ]
        if given and not has_objectives:
            problems.append(
                "no stage on the task learns from a teacher, so there is no "
                f"use for {' and '.join(given)}"
            )
        count = 1 + len(self.more_teachers)
        if self.cache is not None:
            problems += self._cache_problems(count)
        if self.teacher_weights and len(self.teacher_weights) != count:
            problems.append(
                f"teacher_weights are one for each of {count} teachers, "
                f"received {list(self.teacher_weights)}"
            )
        elif self.teacher_weights and not (
            all(0 <= weight < math.inf for weight in self.teacher_weights)
            and any(self.teacher_weights)
        ):
            problems.append(
                "teacher_weights are finite numbers of at least 0, not all 0, "
                f"received {list(self.teacher_weights)}"
            )
        return problems

    def _strategy_problems(self):
        """Which of the runs in this one train on other devices."""
        return [
            f"the runs in a run share its strategy, received {name}.strategy="
            f"{made.strategy!r} in one with {self.strategy!r}"
            for name in ("teacher", "pretrained", "general")
            if isinstance(
                made := getattr(self, name), TeacherSettings | PretrainSettings
            )
            and made.strategy != self.strategy
        ]

    def _cache_problems(self, num_teachers):
        """What cannot be learned from outputs that were kept."""
        problems = self.cache.problems(
            [
                objective
                for stage in self.stages
                if stage.data == "task"
                for objective in stage.objectives
            ],
            num_teachers,
        )
        if isinstance(self.teacher, TeacherSettings):
            problems.append(
                "a cache is of a teacher that is there, and this one is "
                "trained within the run"
            )
        return problems

    @property
    def arms(self) -> dict[str, tuple[Stage, ...]]:
        """The stages of the student and of the control."""
        return {"student": self.stages, "control": self.control}
