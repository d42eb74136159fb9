"""The settings of runs: everything that decides a run's numbers."""

import pathlib
from dataclasses import field
from typing import Literal

from pydantic.dataclasses import dataclass

from kdkit import taps
from kdkit.errors import UsageError
from kdkit.recipes.stages import Stage
from kdkit.settings import STRICT, Count, Policy, Seed, Strategy, Weight
from kdkit.training.data_settings import (
    AugmentedSettings,
    CacheSettings,
    CorpusSettings,
    DataSettings,
    UnlabeledSettings,
)
from kdkit.training.model_settings import (
    ModelSettings,
    validate_strategy,
)
from kdkit.training.sentence_settings import PairSettings, SentenceSettings


def require_cacheable(objectives) -> None:
    """Requires that a cache has all that objectives compare."""
    counted = [one.name for one in objectives if one.loss.counts_padding]
    if counted:
        raise UsageError(
            f"A cache stores no padding, which {', '.join(counted)} compare."
        )
    others = [one.name for one in objectives if taps.reads_source(one.tap)]
    if others:
        raise UsageError(
            "For pairs only the decoder's outputs are cached, and "
            f"{', '.join(others)} compare the encoder's."
        )


def require_one_tokenizer(settings) -> None:
    """Requires that no source of a tokenizer is ignored."""
    given = [
        name
        for name in ("tokenizer", "vocabulary_size")
        if getattr(settings, name) is not None
    ]
    has_other = (
        settings.teacher is not None or not settings.model.has_random_weights
    )
    if given and len(given) + has_other > 1:
        raise UsageError(
            "The tokenizer is tokenizer, vocabulary_size, the teacher's or the "
            f"checkpoint's. Received: {' and '.join(given)} beside another."
        )


STAGE_DATA = ("task", "corpus")  # what stages of a distillation train on
# Fields whose values may change when a run continues, also in the settings of
# the runs inside it.
FREE = ("checkpoint_minutes",)
# Fields with models that are inputs, which are compared by content.
MODELS = ("teacher", "more_teachers", "pretrained", "checkpoint", "copy_from")
# Fields that are only a record: these runs have their own settings.
RECORDED = ("steps_before",)


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
    validate_strategy(settings)
    for stages in arms:
        names = [stage.name for stage in stages]
        if len(set(names)) < len(names):
            raise UsageError(
                "Each stage needs its own name, because checkpoints are saved "
                f"by it. Received: {names}."
            )
        _check_quantization(settings, stages)


def _check_quantization(settings, stages):
    """Requires that the ranges of quantisation are those of the student."""
    quantized = tuple(stage for stage in stages if stage.quantize is not None)
    if not quantized:
        return
    if stages[-1:] != quantized:
        raise UsageError(
            "Only the last stage can have quantize, because later updates "
            "change the ranges. Received it in "
            f"{', '.join(stage.name for stage in quantized)}."
        )
    if settings.dtype_policy != "float32":
        raise UsageError(
            "Stages with quantize round in float32. Received: "
            f"dtype_policy={settings.dtype_policy!r}."
        )


@dataclass(frozen=True, config=STRICT)
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
        checkpoint_minutes: float. The minutes between two checkpoints within
            an epoch; 0 for one after each step. It may change when a run
            continues.
        verb: string. `"train-teacher"`.
    """

    data: DataSettings
    model: ModelSettings
    stages: tuple[Stage, ...]
    seed: Seed = 0
    jit_compile: bool | Literal["update"] = True
    dtype_policy: Policy = "float32"
    strategy: Strategy | None = None
    checkpoint_minutes: Weight = 10.0
    verb: str = "train-teacher"

    def __post_init__(self):
        validate_run(self, self.stages)


@dataclass(frozen=True, config=STRICT)
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
        checkpoint_minutes: float. The minutes between two checkpoints within
            an epoch; 0 for one after each step. It may change when a run
            continues.
        verb: string. `"pretrain"`.
    """

    corpus: CorpusSettings | SentenceSettings | PairSettings
    model: ModelSettings
    stages: tuple[Stage, ...]
    tokenizer: str | None = None
    vocabulary_size: Count | None = None
    teacher: str | None = None
    recipe: str | None = None
    steps_before: dict[str, "PretrainSettings"] = field(default_factory=dict)
    cache: CacheSettings | None = None
    seed: Seed = 0
    jit_compile: bool | Literal["update"] = True
    dtype_policy: Policy = "float32"
    strategy: Strategy | None = None
    checkpoint_minutes: Weight = 10.0
    verb: str = "pretrain"

    def __post_init__(self):
        validate_run(self, self.stages)
        has_objectives = any(stage.objectives for stage in self.stages)
        if has_objectives != (self.teacher is not None):
            raise UsageError(
                "Pretraining has objectives if and only if it has a teacher. "
                f"Received: teacher={self.teacher!r}, "
                f"{'' if has_objectives else 'no '}objectives."
            )
        require_one_tokenizer(self)
        if self.cache is not None:
            require_cacheable(
                [one for stage in self.stages for one in stage.objectives]
            )

    @property
    def reads_sentences(self) -> bool:
        """Whether the corpus consists of sentences or pairs."""
        return not isinstance(self.corpus, CorpusSettings)


@dataclass(frozen=True, config=STRICT)
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
        checkpoint_minutes: float. The minutes between two checkpoints within
            an epoch; 0 for one after each step. It may change when a run
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
    teacher_weights: tuple[Weight, ...] = ()
    parity: str | None = None
    seed: Seed = 0
    jit_compile: bool | Literal["update"] = True
    dtype_policy: Policy = "float32"
    strategy: Strategy | None = None
    checkpoint_minutes: Weight = 10.0
    verb: str = "distill"

    def __post_init__(self):
        validate_run(self, *self.arms.values())
        others = [one for one in self.stages if one.data not in STAGE_DATA]
        on_task = [one for one in self.stages if one.data == "task"]
        if others or not on_task:
            raise UsageError(
                f"Recipe {self.recipe!r}: expected stages on "
                f"{' and '.join(STAGE_DATA)}, one of them on the task. "
                f"Received: {', '.join(one.data for one in self.stages)}."
            )
        if self.general is not None and self.student.checkpoint is None:
            raise UsageError(
                "Expected the student's checkpoint in the run of general "
                "distillation. Received: a student without one."
            )
        objectives = [one for stage in on_task for one in stage.objectives]
        for name in ("unlabeled", "more_teachers", "cache"):
            if getattr(self, name) and not objectives:
                raise UsageError(
                    "No stage on the task learns from a teacher. Received: "
                    f"{name}."
                )
        if self.cache is not None:
            require_cacheable(objectives)

    @property
    def arms(self) -> dict[str, tuple[Stage, ...]]:
        """The stages of the student and the control."""
        return {"student": self.stages, "control": self.control}
