"""The settings of runs: everything that decides a run's numbers."""

import dataclasses
import math
import pathlib

from kdkit import taps
from kdkit.backends import validate_policy
from kdkit.errors import UsageError
from kdkit.models.families import DECODERS
from kdkit.recipes.stages import EMBEDDING_DATA, Stage
from kdkit.training.data_settings import (
    AugmentedSettings,
    CacheSettings,
    CorpusSettings,
    DataSettings,
    UnlabeledSettings,
)
from kdkit.training.model_settings import (
    ModelSettings,
    validate_jit_compile,
    validate_parts,
    validate_seed,
    validate_strategy,
)
from kdkit.training.sentence_settings import PairSettings, SentenceSettings


def require_cacheable_text(settings) -> None:
    """Requires that a run on text can use a cache of the teacher's outputs."""
    objectives = [
        objective for stage in settings.stages for objective in stage.objectives
    ]
    problems = settings.cache.problems(objectives)
    if settings.teacher is None:
        problems.append(
            "it caches a teacher's outputs, and there is no teacher"
        )
    if isinstance(settings.corpus, SentenceSettings):
        problems.append(
            "hidden spans are drawn again in every epoch, so the teacher's "
            "outputs cannot be cached"
        )
    others = [
        f"{objective.name} ({objective.tap})"
        for objective in objectives
        if taps.reads_source(objective.tap)
    ]
    if others:
        problems.append(
            "for pairs only the decoder's outputs are cached, and "
            f"{', '.join(others)} compare the encoder's"
        )
    if problems:
        raise UsageError(f"--cache: {'; '.join(problems)}.")


def require_one_tokenizer(settings) -> None:
    """Requires exactly one source of a tokenizer, where one is needed."""
    sources = {
        name: getattr(settings, name)
        for name in ("tokenizer", "vocabulary_size", "teacher")
        if getattr(settings, name) is not None
    }
    if len(sources) > 1:
        raise UsageError(
            "A tokenizer is read, trained, or the teacher's. Received: "
            f"{sources}. Remove all but one."
        )
    sources.pop("teacher", None)
    if sources and not settings.model.has_random_weights:
        raise UsageError(
            f"{' and '.join(sources)} is for a model with random weights; "
            f"a checkpoint has its own tokenizer. Received: {sources}. "
            "Remove it, or replace --model by --student, which begins with "
            "random weights."
        )
    writes_text = (
        settings.model.mass is not None or settings.model.family in DECODERS
    )
    if settings.vocabulary_size is not None and not writes_text:
        raise UsageError(
            "A vocabulary is trained for decoders and encoder-decoders. "
            f"Received: family={settings.model.family!r}. Pass --tokenizer."
        )


# Fields whose values may change when a run continues, also in the settings of
# the runs inside it.
FREE = ("checkpoint_minutes",)
# Fields with models that are inputs, which are compared by content.
MODELS = ("teacher", "more_teachers", "pretrained", "checkpoint", "copy_from")
# Fields that are only a record: these runs have their own settings.
RECORDED = ("steps_before",)


@dataclasses.dataclass(frozen=True)
class Saving:
    """When checkpoints are saved.

    Args:
        checkpoint_minutes: float, at least 0. The time between two checkpoints
            within an epoch; 0 for one after each step. Defaults to `10.0`.

    Raises:
        UsageError: (a `ValueError`) for other numbers.
    """

    checkpoint_minutes: float = 10.0

    def __post_init__(self):
        if not self.checkpoint_minutes >= 0:
            raise UsageError(
                "Wrong settings: checkpoint_minutes must be at least 0, "
                f"received {self.checkpoint_minutes}."
            )

    @classmethod
    def of(cls, settings) -> "Saving":
        """Returns the fields for saving from a run's settings."""
        return cls(*(getattr(settings, name) for name in FREE))


def without_changeable(settings):
    """Returns a run's settings without the fields that may change."""
    if isinstance(settings, dict):
        return {
            name: _without_paths(value)
            if name in MODELS
            else without_changeable(value)
            for name, value in settings.items()
            if name not in FREE + RECORDED
        }
    if isinstance(settings, list):
        return [without_changeable(value) for value in settings]
    return settings


def _without_paths(value):
    """The value of a field in `MODELS` without the paths."""
    if isinstance(value, list):
        return [_without_paths(one) for one in value]
    is_path = isinstance(value, str) and pathlib.Path(value).is_absolute()
    return "a path" if is_path else without_changeable(value)


# In the settings of a teacher that a run trains: means the run's own pretrained
# encoder.
PRETRAINED = "pretrained"


def validate_run(settings, *arms: tuple[Stage, ...]) -> None:
    """Checks the settings that all runs have, and the stages of each arm."""
    validate_seed(settings.seed)
    validate_policy(settings.dtype_policy)
    validate_jit_compile(settings.jit_compile)
    validate_strategy(settings)
    validate_parts(settings)
    Saving.of(settings)
    models = [getattr(settings, name, None) for name in ("student", "model")]
    if any(model is not None and model.static is not None for model in models):
        others = [
            stage.name
            for stage in settings.stages
            if stage.data not in EMBEDDING_DATA
        ]
        if others:
            raise UsageError(
                "A static table of token vectors is a sentence encoder. "
                f"Expected stages with data in {EMBEDDING_DATA}. Received: "
                f"{', '.join(others)}. Use the recipe static_embedding, or "
                "another student."
            )
    for stages in arms:
        names = [stage.name for stage in stages]
        if len(set(names)) < len(names):
            raise UsageError(
                "Each stage needs its own name, because checkpoints are saved "
                f"by it. Received: {names}."
            )
        _check_quantization(settings, stages)


def _check_quantization(settings, stages):
    """Rejects quantisation where a run does not support it."""
    quantized = [stage for stage in stages if stage.quantize is not None]
    if not quantized:
        return
    problems = []
    if settings.verb != DistillSettings.verb:
        problems.append("only kdkit distill trains with quantisation")
    if stages[-1:] != tuple(quantized):
        problems.append(
            "only the last stage can have quantisation, received it in "
            f"{', '.join(stage.name for stage in quantized)}"
        )
    if settings.dtype_policy != "float32":
        problems.append(
            "quantisation-aware training needs float32, received "
            f"{settings.dtype_policy}: remove --mixed-precision"
        )
    student = getattr(settings, "student", None)
    if student is not None and student.bilstm is not None:
        problems.append(
            "quantisation-aware training is for encoders, received a BiLSTM: "
            "quantise it after training, with kdkit export --precision"
        )
    if problems:
        raise UsageError(f"Quantisation: {'; '.join(problems)}.")


@dataclasses.dataclass(frozen=True)
class TeacherSettings:
    """The settings of a run of `kdkit train-teacher`.

    Args:
        data: `DataSettings`.
        model: `ModelSettings`. In a distillation its checkpoint may be
            `"pretrained"`, the run's pretrained encoder.
        stages: tuple of `Stage`, without objectives.
        seed: int. The seed for weights, dropout and order.
        jit_compile: bool or `"update"`. Whether XLA compiles the whole step, or
            only the optimiser's update of the weights.
        dtype_policy: string. The precision of training: `"float32"`,
            `"mixed_bfloat16"` or `"mixed_float16"`. Models are measured and
            saved in float32.
        strategy: string or `None`. `"mirrored"` to train on all devices of
            this machine, which share each batch; `"multi_worker"` for the
            devices of several machines; `None` for one device.
        checkpoint_minutes: float, as in `Saving`. It may change when a run
            continues.
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
    verb: str = "train-teacher"

    def __post_init__(self):
        validate_run(self, self.stages)
        if any(stage.objectives for stage in self.stages):
            named = [stage.name for stage in self.stages if stage.objectives]
            raise UsageError(
                "A teacher learns from labels alone. Expected stages without "
                f"objectives. Received: objectives in {', '.join(named)}. "
                "Remove them, or train a student with kdkit distill."
            )


@dataclasses.dataclass(frozen=True)
class PretrainSettings:
    """The settings of a run of `kdkit pretrain`.

    Args:
        corpus: `CorpusSettings`; for an encoder-decoder `SentenceSettings`
            (masked sequence-to-sequence training) or `PairSettings`.
        model: `ModelSettings`. A checkpoint's masked-language-modelling head is
            used, if it has one.
        stages: tuple of `Stage`, without objectives unless there is a teacher.
        tokenizer: string or `None`. For a model with random weights, the place
            of its tokenizer, as `kdkit.models.load_tokenizer` takes it; `None`
            for the tokenizer of the generated sentences. With a teacher, the
            model uses the teacher's tokenizer.
        vocabulary_size: int or `None`. For a decoder or an encoder-decoder with
            random weights: the size of a byte-pair tokenizer that is trained
            on the corpus and saved in `tokenizer/`.
        teacher: string or `None`. The place of a pretrained language model that
            the model learns from, as `kdkit.models.load_language_model` takes
            it.
        recipe: string or `None`. The name of the stages' recipe.
        steps_before: dict from name to `PretrainSettings`. For the last step
            of a recipe on text alone: the steps before it, in `NAME_run/`.
        cache: `CacheSettings` or `None`. The cache of the teacher's outputs.
            It needs data that is the same in every epoch: the text of
            decoders, pairs, and the text of encoders without a head.
        seed: int. The seed for weights, dropout, order and masks.
        jit_compile: bool or `"update"`. Whether XLA compiles the whole step, or
            only the optimiser's update of the weights.
        dtype_policy: string. The precision of training: `"float32"`,
            `"mixed_bfloat16"` or `"mixed_float16"`. Models are measured and
            saved in float32.
        strategy: string or `None`. `"mirrored"` to train on all devices of
            this machine, which share each batch; `"multi_worker"` for the
            devices of several machines; `None` for one device.
        checkpoint_minutes: float, as in `Saving`. It may change when a run
            continues.
        verb: string. `"pretrain"`.
    """

    corpus: CorpusSettings | SentenceSettings | PairSettings
    model: ModelSettings
    stages: tuple[Stage, ...]
    tokenizer: str | None = None
    vocabulary_size: int | None = None
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
    verb: str = "pretrain"

    def __post_init__(self):
        validate_run(self, self.stages)
        has_sizes = self.model.has_random_weights
        if has_sizes and (self.model.mass is None) == self.reads_sentences:
            raise UsageError(
                "MASS trains on sentences and pairs, other models on running "
                f"text. Received: {type(self.corpus).__name__}, and the "
                f"sizes of a {'MASS' if self.model.mass else 'BERT or GPT-2'}."
            )
        if self.reads_sentences and self.jit_compile is True:
            raise UsageError(
                "XLA compiles a step for each batch shape, and batches of "
                "sentences have many shapes. Received: jit_compile=True. Use "
                "jit_compile=update or jit_compile=false."
            )
        has_objectives = any(stage.objectives for stage in self.stages)
        if has_objectives != (self.teacher is not None):
            raise UsageError(
                "Pretraining needs objectives if and only if it has a teacher. "
                f"Received: teacher={self.teacher!r}, "
                f"{'' if has_objectives else 'no '}objectives."
            )
        require_one_tokenizer(self)
        if self.cache is not None:
            require_cacheable_text(self)

    @property
    def reads_sentences(self) -> bool:
        """Whether the corpus consists of sentences or pairs."""
        return not isinstance(self.corpus, CorpusSettings)


@dataclasses.dataclass(frozen=True)
class DistillSettings:
    """The settings of a run of `kdkit distill`.

    Args:
        recipe: string. A key of `kdkit.recipes.RECIPES`.
        data: `DataSettings`.
        teacher: string, the place of the teacher as
            `kdkit.models.load_classifier` takes it; or `TeacherSettings` of a
            teacher that is trained first, in `teacher_run/`. The first of
            several teachers: agreement is measured with it.
        student: `ModelSettings`.
        stages: tuple of `Stage`.
        control: tuple of `Stage` without objectives, for the same student
            without a teacher; empty for no control.
        pretrained: string, `PretrainSettings` or `None`. The encoder before
            fine-tuning. The student may start from its layers, and it is the
            teacher of stages on a corpus. Settings are run first, in
            `pretrained_run/`.
        corpus: `CorpusSettings` or `None`. The text for stages on a corpus.
        unlabeled: `UnlabeledSettings` or `None`. Unlabelled examples for
            stages on the task with objectives.
        augmented: `AugmentedSettings` or `None`. Augmented examples, for the
            student and the control.
        general: `PretrainSettings` or `None`. The run of general distillation
            that makes the student's checkpoint, if that is not complete.
        cache: `CacheSettings` or `None`. The cache of the teachers' outputs on
            the task; `None` to run the teachers in every epoch.
        more_teachers: tuple of strings. Further teachers for stages on the
            task. They must have the first teacher's token ids.
        teacher_weights: tuple of floats, one per teacher, or empty for equal
            weights. Only their ratios matter.
        parity: string or `None`. The variant of the recipe.
        seed: int. The seed for weights, dropout and order.
        jit_compile: bool or `"update"`. Whether XLA compiles the whole step, or
            only the optimiser's update of the weights.
        dtype_policy: string. The precision of training: `"float32"`,
            `"mixed_bfloat16"` or `"mixed_float16"`. Models are measured and
            saved in float32.
        strategy: string or `None`. `"mirrored"` to train on all devices of
            this machine, which share each batch; `"multi_worker"` for the
            devices of several machines; `None` for one device.
        checkpoint_minutes: float, as in `Saving`. It may change when a run
            continues.
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
    verb: str = "distill"

    def __post_init__(self):
        validate_run(self, *self.arms.values())
        on_corpus = [
            stage
            for stages in self.arms.values()
            for stage in stages
            if stage.data == "corpus"
        ]
        problems = []
        of_embedders = [
            one.name for one in self.stages if one.data in EMBEDDING_DATA
        ]
        if of_embedders:
            problems.append(
                f"stages with data in {EMBEDDING_DATA} are for recipes of "
                "sentence encoders, such as sentence_embedding, received "
                f"{', '.join(of_embedders)}"
            )
        if not any(stage.data == "task" for stage in self.stages):
            problems.append(
                "no stage trains on the task. Add one, or use kdkit pretrain"
            )
        if on_corpus and self.corpus is None:
            problems.append(
                f"stage {on_corpus[0].name!r} needs a corpus, and none is given"
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
        """Mistakes in unlabelled examples, further teachers and the cache."""
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
                "no stage on the task learns from a teacher, so "
                f"{' and '.join(given)} would not be used"
            )
        count = 1 + len(self.more_teachers)
        if self.cache is not None:
            problems += self._cache_problems()
        if self.teacher_weights and len(self.teacher_weights) != count:
            problems.append(
                f"teacher_weights needs one number for each of {count} "
                f"teachers, received {list(self.teacher_weights)}"
            )
        elif self.teacher_weights and not (
            all(0 <= weight < math.inf for weight in self.teacher_weights)
            and any(self.teacher_weights)
        ):
            problems.append(
                "teacher_weights must be finite numbers of at least 0, not "
                f"all 0, received {list(self.teacher_weights)}"
            )
        return problems

    def _strategy_problems(self):
        """The runs inside this one that have another strategy."""
        return [
            "all steps of a run need the same strategy, received "
            f"{name}.strategy={made.strategy!r} in a run with {self.strategy!r}"
            for name in ("teacher", "pretrained", "general")
            if isinstance(
                made := getattr(self, name), TeacherSettings | PretrainSettings
            )
            and made.strategy != self.strategy
        ]

    def _cache_problems(self):
        """Objectives that cannot use cached outputs."""
        problems = self.cache.problems(
            [
                objective
                for stage in self.stages
                if stage.data == "task"
                for objective in stage.objectives
            ]
        )
        if isinstance(self.teacher, TeacherSettings):
            problems.append(
                "a cache needs an existing teacher, and this one is trained "
                "in the run"
            )
        return problems

    @property
    def arms(self) -> dict[str, tuple[Stage, ...]]:
        """The stages of the student and the control."""
        return {"student": self.stages, "control": self.control}
