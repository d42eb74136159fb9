"""The settings of runs that distil a sentence encoder."""

import dataclasses

from kdkit.errors import UsageError
from kdkit.recipes.sentence_embedding import contrastive
from kdkit.recipes.stages import Stage
from kdkit.runs.settings import PretrainSettings
from kdkit.runs.settings import Saving
from kdkit.runs.settings import validate_run
from kdkit.training.data_settings import CacheSettings
from kdkit.training.data_settings import TextsSettings
from kdkit.training.model_settings import ModelSettings

CACHE = "teacher_cache"  # in the run directory


@dataclasses.dataclass(frozen=True)
class EmbedderSettings:
    """The settings of a run of `kdkit distill sentence_embedding`.

    Args:
        recipe: string. A key of `kdkit.recipes.RECIPES` whose stages train on
            texts.
        data: `TextsSettings`.
        teacher: string, the place of the teacher as
            `kdkit.models.load_embedder` takes it; or `PretrainSettings` of an
            encoder that is trained first, in `teacher_run/`.
        student: `ModelSettings`: layers of the teacher
            (`copy_from="teacher"`), a checkpoint of a sentence encoder or an
            encoder, sizes with random weights, or a table of token vectors
            (`static`).
        stages: tuple of `Stage` on texts.
        has_control: bool. Whether the same student without distillation is
            measured and saved, too: layers of a teacher or a checkpoint stay
            untouched; random weights learn from the same texts without a
            teacher.
        pooling: string or `None`. How a teacher without a description of its
            pooling makes one vector of its states, one of
            `kdkit.models.POOLINGS`.
        cache: `CacheSettings` or `None`. The cache of the teacher's vectors. A
            relative directory is in the run directory. `None` to run the
            teacher in every step.
        parity: string or `None`. The variant of the recipe.
        seed: int. The seed for weights, dropout and order.
        jit_compile: bool or `"update"`, as in `DistillSettings`.
        dtype_policy, strategy: strings, as in `DistillSettings`.
        checkpoint_minutes, keep_checkpoints: as in `Saving`.
        verb: string. `"distill"`.
    """

    recipe: str
    data: TextsSettings
    teacher: str | PretrainSettings
    student: ModelSettings
    stages: tuple[Stage, ...]
    has_control: bool = False
    pooling: str | None = None
    cache: CacheSettings | None = CacheSettings(CACHE)
    parity: str | None = None
    seed: int = 0
    jit_compile: bool | str = True
    dtype_policy: str = "float32"
    strategy: str | None = None
    checkpoint_minutes: float = Saving.checkpoint_minutes
    keep_checkpoints: int = Saving.keep_checkpoints
    verb: str = "distill"

    def __post_init__(self):
        validate_run(self, *self.arms.values())
        problems = []
        data = self.data.stage_data
        others = [one.name for one in self.stages if one.data != data]
        if others or not self.stages:
            problems.append(
                f"this sentence encoder learns from {data}. Expected "
                f"data={data!r} in every stage. Received: "
                f"{', '.join(others) or 'no stage'}"
            )
        alone = [one.name for one in self.stages if not one.objectives]
        if alone:
            problems.append(
                "texts have no labels, so every stage needs an objective. "
                f"Received: {', '.join(alone)} without one"
            )
        labeled = [one.name for one in self.stages if one.label_weight]
        if labeled and not alone:
            problems.append(
                "texts have no labels. Expected hard_label_weight=0. "
                f"Received: {', '.join(labeled)} with a weight"
            )
        if self.student.bilstm is not None or self.student.mass is not None:
            problems.append(
                "the student must be an encoder. Received: a BiLSTM or a MASS"
            )
        if self.cache is not None:
            objectives = [
                one for stage in self.stages for one in stage.objectives
            ]
            problems += self.cache.problems(objectives, 1)
            if self.cache.teacher_file is not None:
                problems.append("a teacher's exported file is only for tasks")
        if self.has_control and not (self.data.task or self.trains_control):
            problems.append(
                "the control of layers that stay untouched is their "
                "measurement, which needs scored pairs. Pass --task or --dev, "
                "or remove --control"
            )
        if problems:
            raise UsageError(f"Recipe {self.recipe!r}: {'; '.join(problems)}.")

    @property
    def trains_control(self) -> bool:
        """Whether the control is trained, since its weights are random."""
        return self.student.has_random_weights

    @property
    def arms(self) -> dict[str, tuple[Stage, ...]]:
        """The stages of the student and the control; none are untouched."""
        arms = {"student": self.stages}
        if self.has_control:
            arms["control"] = (
                contrastive(self.stages) if self.trains_control else ()
            )
        return arms
