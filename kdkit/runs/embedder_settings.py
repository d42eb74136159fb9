"""The settings of runs that distil a sentence encoder."""

from typing import Literal

from pydantic.dataclasses import dataclass

from kdkit.errors import UsageError
from kdkit.recipes.reranker_to_embedder import without_scores
from kdkit.recipes.sentence_embedding import contrastive
from kdkit.recipes.stages import Stage
from kdkit.runs.settings import (
    PretrainSettings,
    TeacherSettings,
    require_cacheable,
    validate_run,
)
from kdkit.settings import STRICT, Policy, Seed, Strategy, Weight
from kdkit.taps.names import SENTENCE_EMBEDDING
from kdkit.training.candidate_settings import CandidatesSettings
from kdkit.training.data_settings import CacheSettings
from kdkit.training.embedding_settings import TextsSettings
from kdkit.training.model_settings import ModelSettings
from kdkit.training.translation_settings import TranslationsSettings

CACHE = "teacher_cache"  # in the run directory


@dataclass(frozen=True, config=STRICT)
class EmbedderSettings:
    """The settings of a run of `kdkit distill` that trains a sentence encoder.

    Args:
        recipe: string. A key of `kdkit.recipes.RECIPES` whose stages train a
            sentence encoder.
        data: `TextsSettings`, `TranslationsSettings` for further languages, or
            `CandidatesSettings` of queries with candidates.
        teacher: string, the place of the teacher as
            `kdkit.models.load_embedder` takes it, or with candidates
            `kdkit.models.load_reranker`; or `PretrainSettings` of an encoder
            or `TeacherSettings` of a classifier that is trained first, in
            `teacher_run/`.
        student: `ModelSettings`: layers of the teacher
            (`copy_from="teacher"`) or, with candidates, of a place; a
            checkpoint of a sentence encoder or an encoder; sizes with random
            weights; or a table of token vectors (`static`).
        stages: tuple of `Stage` on the kind of `data`.
        has_control: bool. Whether the same student without distillation is
            measured and saved, too. On texts, layers of a teacher or a
            checkpoint stay untouched, and random weights learn from the same
            texts without a teacher. With candidates, the control learns which
            one is relevant.
        pooling: string or `None`. How an encoder without a description of its
            pooling makes one vector of its states, one of
            `kdkit.models.POOLINGS`: the teacher's encoder, or with candidates
            the student's.
        cache: `CacheSettings` or `None`. The cache of the teacher's vectors. A
            relative directory is in the run directory. `None` to run the
            teacher in every step.
        parity: string or `None`. The variant of the recipe.
        seed: int. The seed for weights, dropout and order.
        jit_compile: bool or `"update"`, as in `DistillSettings`.
        dtype_policy, strategy: strings, as in `DistillSettings`.
        checkpoint_minutes: float, as in `DistillSettings`.
        verb: string. `"distill"`.
    """

    recipe: str
    data: TextsSettings | TranslationsSettings | CandidatesSettings
    teacher: str | PretrainSettings | TeacherSettings
    student: ModelSettings
    stages: tuple[Stage, ...]
    has_control: bool = False
    pooling: str | None = None
    cache: CacheSettings | None = CacheSettings(CACHE)
    parity: str | None = None
    seed: Seed = 0
    jit_compile: bool | Literal["update"] = True
    dtype_policy: Policy = "float32"
    strategy: Strategy | None = None
    checkpoint_minutes: Weight = 10.0
    verb: str = "distill"

    def __post_init__(self):
        validate_run(self, *self.arms.values())
        data = self.data.stage_data
        others = [one.name for one in self.stages if one.data != data]
        if others or not self.stages:
            raise UsageError(
                f"This sentence encoder learns from {data}. Received: other "
                f"data in {', '.join(others) or 'no stage'}."
            )
        labeled = [one.name for one in self.stages if one.label_weight]
        if labeled and not self.has_candidates:
            raise UsageError(
                "Texts have no labels. Expected hard_label_weight=0. Received: "
                f"another one in {', '.join(labeled)}."
            )
        is_contrastive = self.has_control and self.student.has_random_weights
        if is_contrastive and data == "texts" and not self.student.dropout:
            raise UsageError(
                "The control learns from two dropout masks of each text. "
                "Expected student.dropout above 0. Received: 0."
            )
        if self.cache is not None:
            require_cacheable(self.objectives)
        reads_other_tokens = self.has_candidates
        if data == TranslationsSettings.stage_data:
            reads_other_tokens = True
            self._require_comparable()
        if reads_other_tokens and self.cache is None:
            raise UsageError(
                "Teacher and student read different tokens, so the teacher's "
                "outputs come from a cache. Received: cache=null."
            )

    def _require_comparable(self):
        """Rejects a student whose token ids or positions are other ones."""
        inside = [
            one.name for one in self.objectives if one.tap != SENTENCE_EMBEDDING
        ]
        if inside:
            raise UsageError(
                "Teacher and student read different tokens, so only their "
                f"vectors can be compared. Received: {', '.join(inside)}."
            )
        vocabularies = {
            "data.tokenizer": self.data.tokenizer,
            "data.vocabulary_size": self.data.vocabulary_size,
            "student.checkpoint": self.student.checkpoint,
        }
        given = [name for name, one in vocabularies.items() if one is not None]
        if len(given) > 1:
            raise UsageError(
                "The student has one vocabulary. Received: "
                f"{' and '.join(given)}."
            )

    @property
    def objectives(self) -> list:
        """The objectives of all stages."""
        return [one for stage in self.stages for one in stage.objectives]

    @property
    def trains_control(self) -> bool:
        """Whether the control is trained, not only measured."""
        return self.has_candidates or self.student.has_random_weights

    @property
    def has_candidates(self) -> bool:
        """Whether a cross-encoder scores the candidates of queries."""
        return isinstance(self.data, CandidatesSettings)

    @property
    def arms(self) -> dict[str, tuple[Stage, ...]]:
        """The stages of the student and the control; none are untouched."""
        arms = {"student": self.stages}
        if self.has_control:
            arms["control"] = ()
            if self.has_candidates:
                arms["control"] = without_scores(self.stages)
            elif self.trains_control:
                arms["control"] = contrastive(self.stages)
        return arms
