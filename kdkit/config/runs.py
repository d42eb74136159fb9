"""One config a kind of run: everything that decides its numbers.

Models and files that a run makes before it are `steps`, which are configs, too;
"run:NAME" in the place of a model means the step of that name.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, model_validator

from kdkit.config.data import (
    Augmentation,
    Augmented,
    Cache,
    Candidates,
    Corpus,
    TaskData,
    Text,
    Texts,
    Translations,
    Unlabeled,
)
from kdkit.config.fields import Folder, ModelPath, ModelPaths, Strict
from kdkit.config.model import Sizes, Static, Student
from kdkit.errors import unknown
from kdkit.models.sizes import POOLINGS
from kdkit.recipes import RECIPES
from kdkit.recipes.named import by_name
from kdkit.recipes.stages import (
    Stage,
    named_without_teacher,
    same_number_of_updates,
)
from kdkit.settings import Count, Name, Policy, Seed, Strategy, Weight
from kdkit.taps import reads_source
from kdkit.taps.names import SENTENCE_EMBEDDING


class Training(Strict):
    """How any model is trained."""

    seed: Seed = 0
    """The seed for weights, dropout and order."""
    jit_compile: bool | Literal["update", "auto"] = "auto"
    """What XLA compiles: the step (true), the "update" alone, or nothing."""
    dtype_policy: Policy = "float32"
    """The precision of training: float32, mixed_bfloat16 or mixed_float16."""
    strategy: Strategy | None = None
    """Share each batch among devices: mirrored or multi_worker."""
    checkpoint_minutes: Weight = 10.0
    """Minutes between checkpoints in an epoch; it may change later."""


class Run(Strict):
    """What all kinds of run have."""

    recipe: str
    """A recipe of kdkit list, or pretraining for text alone."""
    parity: str | None = None
    """A variant of the recipe: paper, or a name for the authors' code."""
    stages: Annotated[by_name(Stage), Field(min_length=1)]
    """The stages of training, in order."""
    student: Student
    """The model to train."""
    cache: Cache | None = None
    """Cache the teachers' outputs: cache.directory."""
    training: Training = Training()
    steps: dict[Name, "Step"] = Field(default_factory=dict)
    """The runs before this one, in NAME_run/ or run_dir."""
    run_dir: Folder | None = None
    """Of a step: its directory, in place of NAME_run/."""
    requested: dict = Field(default_factory=dict)
    """Fields as they were asked for, before auto and rules were resolved."""

    @property
    def arms(self) -> dict[str, tuple[Stage, ...]]:
        """The stages of each model that the run trains."""
        return {"student": self.stages}

    @property
    def teachers(self) -> tuple[str, ...]:
        """The places of the teachers, the first one first."""
        if isinstance(self.teacher, tuple):
            return self.teacher
        return () if self.teacher is None else (self.teacher,)

    @property
    def objectives(self) -> list:
        """The objectives of all stages."""
        return [one for stage in self.stages for one in stage.objectives]

    @model_validator(mode="after")
    def _known_variant(self):
        recipe = RECIPES.get(self.recipe)
        if self.parity and self.parity not in recipe.parities:
            raise unknown(
                f"parity of {self.recipe}", self.parity, recipe.parities
            )
        return self

    @model_validator(mode="after")
    def _computed_alike(self):
        policy, strategy = self.training.dtype_policy, self.training.strategy
        in_parts = [
            stage.name
            for stages in self.arms.values()
            for stage in stages
            if stage.gradient_accumulation_steps > 1
        ]
        if strategy and policy == "mixed_float16":
            raise ValueError(
                "mixed_float16 is for one device: Keras checks the gradients "
                "of one replica alone"
            )
        if in_parts and (strategy or policy == "mixed_float16"):
            raise ValueError(
                f"parts of a batch ({', '.join(in_parts)}) are for one device "
                "and not for float16, where one of them may be skipped"
            )
        quantized = tuple(one for one in self.stages if one.quantize)
        if quantized and quantized != self.stages[-1:]:
            raise ValueError(
                "only the last stage can have quantize: later updates change "
                "the ranges"
            )
        if quantized and policy != "float32":
            raise ValueError("stages with quantize round in float32")
        return self

    @model_validator(mode="after")
    def _read_sizes(self):
        kind = getattr(getattr(self, "corpus", None), "kind", "corpus")
        read, other = "batch_size", "batch_tokens"
        if kind != "corpus":
            read, other = other, read
        usual = Stage.__dataclass_fields__[other].default
        for stage in self.stages:
            if getattr(stage, other) != usual:
                raise ValueError(
                    f"stages.{stage.name}.{other} is not read: set {read}"
                )
        return self

    @model_validator(mode="after")
    def _cacheable(self):
        for one in self.objectives if self.cache else ():
            if one.loss.counts_padding:
                raise ValueError(f"{one.name} compares padding: no cache")
            if reads_source(one.tap):
                raise ValueError(f"{one.name} compares the encoder's: no cache")
        return self


class TaskConfig(Run):
    """A model of a task, with teachers or without.

    `kdkit.run` trains it: a student, with `control` the same student without a
    teacher, or without teachers a teacher. Dicts are taken for the configs of
    `data`, `student`, `steps` and so on, as in a TOML file.
    """

    kind: Literal["task"] = "task"
    data: TaskData
    teacher: ModelPaths = ()
    """Classifiers to learn from; agreement is measured with the first."""
    teacher_weights: tuple[Weight, ...] = ()
    """A weight for each teacher; only their ratios matter."""
    pretrained: ModelPath | None = None
    """The encoder before fine-tuning: a start, and the teacher on text."""
    corpus: Corpus | None = None
    """Text, for stages with data = corpus: corpus.files."""
    unlabeled: Unlabeled | None = None
    """Text that the teacher labels: unlabeled.files."""
    augmented: Augmented | None = None
    """Copies of the examples with other words: augmented.file."""
    control: bool = False
    """Train the same student without a teacher, too."""

    @property
    def arms(self):
        arms = {"student": self.stages}
        if self.control:
            arms["control"] = same_number_of_updates(self.stages)
        return arms if self.teacher else {"teacher": self.stages}

    @model_validator(mode="after")
    def _learns_from_what_is_there(self):
        on_task = [one for one in self.stages if one.data == "task"]
        on_text = [one for one in self.stages if one.data == "corpus"]
        if len(on_task) + len(on_text) < len(self.stages) or not on_task:
            raise ValueError("stages are on the task or a corpus, one on it")
        if bool(on_text) != bool(self.corpus):
            raise ValueError("a corpus and stages on it go together")
        if any(one.objectives for one in on_text) and not self.pretrained:
            raise ValueError(
                "stages on a corpus learn from the encoder that the teacher "
                "was fine-tuned from: name it as pretrained"
            )
        kinds = {step.kind for step in self.steps.values()}
        if "augmentation" in kinds and not self.augmented:
            raise ValueError("a step writes examples: name augmented.file")
        learns = any(stage.objectives for stage in on_task)
        if learns and not self.teacher:
            raise ValueError("a stage has objectives, and there is no teacher")
        for name in ("unlabeled", "cache"):
            if getattr(self, name) and not learns:
                raise ValueError(f"no stage learns from a teacher: {name}")
        start = getattr(self.student, "copy_from", None)
        if start in ("teacher", "pretrained") and not getattr(self, start):
            raise ValueError(
                f"the student copies layers of the {start}: name it"
            )
        if self.teacher_weights and len(self.teacher_weights) != len(
            self.teacher
        ):
            raise ValueError("teacher_weights needs one for each teacher")
        return self


class TextConfig(Run):
    """A language model on text, with a teacher or without.

    The kind of text decides what it learns: masked or next tokens of a
    `corpus`, hidden spans of `sentences`, or targets of `pairs`.
    """

    kind: Literal["text"] = "text"
    corpus: Text
    teacher: ModelPath | None = None
    """A language model to learn from."""
    tokenizer: ModelPath | Count | None = None
    """For random weights: a tokenizer, or the size of one to train."""

    @model_validator(mode="after")
    def _learns_from_what_is_there(self):
        if bool(self.objectives) != bool(self.teacher):
            raise ValueError(
                "objectives and a teacher go together; that of general "
                "distillation is named as pretrained"
            )
        if self.cache and self.corpus.kind == "sentences":
            raise ValueError("hidden spans differ in each epoch: no cache")
        is_known = self.teacher or not self.has_random_weights
        if self.tokenizer is not None and is_known:
            raise ValueError("the tokenizer is the teacher's or checkpoint's")
        return self

    @model_validator(mode="after")
    def _one_language_a_file(self):
        known = {}
        for run in (*self.steps.values(), self):
            text = getattr(run, "corpus", None)
            sides = [getattr(text, of, ()) for of in ("files", "languages")]
            for file, one in zip(*sides, strict=False):
                first = known.setdefault(file, one)
                if first != one:
                    raise ValueError(f"languages of {file}: {first!r}, {one!r}")
        return self

    @property
    def has_random_weights(self) -> bool:
        """Whether the model comes without a tokenizer."""
        return not hasattr(self.student, "checkpoint") and not hasattr(
            self.student, "copy_from"
        )


class EmbedderConfig(Run):
    """A sentence encoder on texts without labels.

    The kind of data decides what it learns: the teacher's vectors of `texts`,
    those of the originals for `translations`, or a cross-encoder's scores of
    `candidates`.
    """

    kind: Literal["embedder"] = "embedder"
    data: Annotated[
        Texts | Translations | Candidates, Field(discriminator="kind")
    ]
    teacher: ModelPath
    """A sentence encoder; for candidates a cross-encoder."""
    pooling: Literal[POOLINGS] | None = None
    """The pooling of an encoder that does not describe it."""
    cache: Cache | None = Cache()
    """Cache the teachers' outputs: cache.directory."""
    control: bool = False
    """Measure the same student without distillation, too."""

    @property
    def arms(self):
        arms = {"student": self.stages}
        if self.control:
            arms["control"] = ()
            if self.data.kind == "candidates":
                arms["control"] = named_without_teacher(self.stages, "ranking")
            elif isinstance(self.student, Sizes):
                arms["control"] = named_without_teacher(
                    self.stages, "contrastive"
                )
        return arms

    @model_validator(mode="after")
    def _compares_vectors(self):
        kind = self.data.kind
        if any(stage.data != kind for stage in self.stages):
            raise ValueError(f"each stage needs data={kind}")
        if kind != "candidates" and any(
            stage.label_weight for stage in self.stages
        ):
            raise ValueError("texts have no labels: hard_label_weight=0")
        is_contrastive = self.control and isinstance(self.student, Sizes)
        if is_contrastive and kind == "texts" and not self.student.dropout:
            raise ValueError(
                "the control learns from two dropout masks of each text: "
                "student.dropout above 0"
            )
        if self.cache is None and kind != "texts":
            raise ValueError("teacher and student read other tokens: cache")
        if kind != "texts" and isinstance(self.student, Static):
            raise ValueError("student.dimensions needs the teacher's texts")
        if kind == "translations":
            if any(one.tap != SENTENCE_EMBEDDING for one in self.objectives):
                raise ValueError("of other tokens, only vectors are compared")
            if hasattr(self.student, "checkpoint") and self.data.tokenizer:
                raise ValueError("the tokenizer is the checkpoint's")
        return self


AnyRun = Annotated[
    TaskConfig | TextConfig | EmbedderConfig, Field(discriminator="kind")
]
Step = Annotated[
    TaskConfig | TextConfig | EmbedderConfig | Augmentation,
    Field(discriminator="kind"),
]
ADAPTER = TypeAdapter(AnyRun, config=ConfigDict(defer_build=True))


def schema() -> dict:
    """Returns the JSON schema of config.json and of files in TOML."""
    found = ADAPTER.json_schema()
    for one in ("Stage", "Objective"):  # by name, in a dict
        fields = found["$defs"][one]
        del fields["properties"]["name"]
        fields["required"] = [n for n in fields["required"] if n != "name"]
    return found
