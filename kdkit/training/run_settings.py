"""The settings of a run: all that decides its numbers."""

import dataclasses

from kdkit.errors import UsageError
from kdkit.models import PRESETS
from kdkit.training.corpus_settings import CorpusSettings
from kdkit.training.stages import Stage

SIZES = ("num_layers", "hidden_dim", "num_heads", "intermediate_dim")


@dataclasses.dataclass(frozen=True)
class ModelSettings:
    """The model that a run trains, from one of three places.

    Args:
        checkpoint: string or `None`. Where the whole model comes from, as
            `kdkit.models.load_classifier` takes it.
        copy_from: string or `None`. The encoder that embeddings and blocks are
            copied from: `"teacher"`, `"pretrained"` for the run's pretrained
            encoder, or a place.
        copy_layers: tuple of ints. The blocks that are copied, counted from 1,
            one per block of the model.
        num_layers, hidden_dim, num_heads, intermediate_dim,
            max_sequence_length, dropout, family, embedding_dim: sizes and kind
            of a model with random weights, as in `kdkit.models.BertConfig`.
            The vocabulary is the tokenizer's.

    Raises:
        UsageError: unless exactly one of the three is given, whole.
    """

    checkpoint: str | None = None
    copy_from: str | None = None
    copy_layers: tuple[int, ...] = ()
    num_layers: int | None = None
    hidden_dim: int | None = None
    num_heads: int | None = None
    intermediate_dim: int | None = None
    max_sequence_length: int = 512
    dropout: float = 0.1
    family: str = "bert"
    embedding_dim: int | None = None

    def __post_init__(self):
        sizes = {name: getattr(self, name) for name in SIZES}
        given = [name for name, size in sizes.items() if size is not None]
        sources = [
            *(["checkpoint"] if self.checkpoint is not None else []),
            *(["copy_from"] if self.copy_from is not None else []),
            *(["sizes"] if given else []),
        ]
        if len(sources) != 1:
            raise UsageError(
                "A model comes from a checkpoint, from an encoder's blocks "
                "(copy_from and copy_layers) or from sizes with random "
                "weights. Expected one of them. Received: "
                f"{', '.join(sources) or 'none'}."
            )
        if (self.copy_from is None) == bool(self.copy_layers):
            raise UsageError(
                "`copy_from` and `copy_layers` go together. Received: "
                f"copy_from={self.copy_from!r}, copy_layers="
                f"{list(self.copy_layers)}."
            )
        if given and len(given) < len(SIZES):
            missing = [name for name in SIZES if name not in given]
            raise UsageError(
                f"A model with random weights needs all of {SIZES}. Missing: "
                f"{', '.join(missing)}."
            )

    def sizes(self) -> dict:
        """The sizes, as arguments of `kdkit.models.student_config`."""
        names = (
            *SIZES, "max_sequence_length", "dropout", "family", "embedding_dim"
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}


def model_settings(preset_or_checkpoint: str) -> ModelSettings:
    """Returns the settings for a preset's name or a checkpoint's place."""
    if preset_or_checkpoint not in PRESETS:
        return ModelSettings(checkpoint=preset_or_checkpoint)
    sizes = dataclasses.asdict(PRESETS[preset_or_checkpoint].config)
    del sizes["vocabulary_size"]
    return ModelSettings(**sizes)


@dataclasses.dataclass(frozen=True)
class DataSettings:
    """What a run trains and evaluates on.

    Args:
        task: string. A key of `kdkit.tasks.TASKS`.
        data_dir: string or `None`. The root that holds `SST-2/`, `MRPC/`...;
            `None` for TensorFlow Datasets.
        sequence_length: int. Longest sequence in tokens; longer ones are cut.
        max_train_rows: int or `None`. Train on so many rows, drawn with the
            seed. `None` for all of them.
        num_buckets: int. Number of different lengths that batches are padded
            to, each of which XLA compiles once.
        dev_split: string. The split by which epochs are chosen.

    Raises:
        UsageError: (a `ValueError`) if `dev_split` is a test split or the
            training data.
    """

    task: str
    data_dir: str | None
    sequence_length: int
    max_train_rows: int | None = None
    num_buckets: int = 8
    dev_split: str = "dev"

    def __post_init__(self):
        if self.dev_split.startswith(("test", "train")):
            raise UsageError(
                "Models are chosen on a dev split, never on test or training "
                f"data. Received: dev_split={self.dev_split!r}. Use "
                "dev_split=dev, and kdkit evaluate --split for the others."
            )


@dataclasses.dataclass(frozen=True)
class TeacherSettings:
    """A run of `kdkit train-teacher`.

    Args:
        data: `DataSettings`.
        model: `ModelSettings`.
        stages: tuple of `Stage`, without objectives.
        seed: int. Seed of weights, dropout and order.
        jit_compile: bool. Whether XLA compiles the step.
        verb: string. `"train-teacher"`.
    """

    data: DataSettings
    model: ModelSettings
    stages: tuple[Stage, ...]
    seed: int = 0
    jit_compile: bool = True
    verb: str = "train-teacher"

    def __post_init__(self):
        if any(stage.objectives for stage in self.stages):
            raise UsageError("A teacher's stages take no objectives.")


@dataclasses.dataclass(frozen=True)
class PretrainSettings:
    """A run of `kdkit pretrain`.

    Args:
        corpus: `CorpusSettings`.
        model: `ModelSettings`. A checkpoint keeps its masked-language-modelling
            head, if it has one.
        stages: tuple of `Stage`, without objectives.
        tokenizer: string or `None`. Where the tokenizer of a model with random
            weights is, as `kdkit.models.load_tokenizer` takes it; `None` for
            that of the generated sentences.
        seed: int. Seed of weights, dropout, order and masks.
        jit_compile: bool. Whether XLA compiles the step.
        verb: string. `"pretrain"`.
    """

    corpus: CorpusSettings
    model: ModelSettings
    stages: tuple[Stage, ...]
    tokenizer: str | None = None
    seed: int = 0
    jit_compile: bool = True
    verb: str = "pretrain"

    def __post_init__(self):
        if any(stage.objectives for stage in self.stages):
            raise UsageError("Pretraining without a teacher has no objectives.")
        if self.tokenizer is not None and self.model.num_layers is None:
            raise UsageError(
                "`tokenizer` is for a model with random weights; a checkpoint "
                f"brings its own. Received: tokenizer={self.tokenizer!r}."
            )


@dataclasses.dataclass(frozen=True)
class DistillSettings:
    """A run of `kdkit distill`.

    Args:
        recipe: string. A key of `kdkit.recipes.RECIPES`.
        data: `DataSettings`.
        teacher: string, where the teacher is, as
            `kdkit.models.load_classifier` takes it; or `TeacherSettings` of a
            teacher that is trained first, in `teacher_run/`.
        student: `ModelSettings`.
        stages: tuple of `Stage`.
        control: tuple of `Stage` without objectives for the same student
            without a teacher; empty for no such arm.
        pretrained: string, `PretrainSettings` or `None`. The encoder before
            fine-tuning: the student may start as its blocks, and it is the
            teacher of stages on a corpus. Settings are run first, in
            `pretrained_run/`.
        corpus: `CorpusSettings` or `None`. The text of stages on a corpus.
        parity: string or `None`. The variant of the recipe.
        seed: int. Seed of weights, dropout and order.
        jit_compile: bool. Whether XLA compiles the step.
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
    parity: str | None = None
    seed: int = 0
    jit_compile: bool = True
    verb: str = "distill"

    def __post_init__(self):
        on_corpus = [
            stage
            for stages in self.arms.values()
            for stage in stages
            if stage.data == "corpus"
        ]
        problems = []
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
        if problems:
            raise UsageError(f"Recipe {self.recipe!r}: {'; '.join(problems)}.")

    @property
    def arms(self) -> dict[str, tuple[Stage, ...]]:
        """The stages of the student and of the control."""
        return {"student": self.stages, "control": self.control}


def same_number_of_updates(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """The control arm: no teacher, for as many epochs as the stages have.

    Stages on the task become one, on the labels alone. Its batch size and
    learning rate are those of the first of them, so that the number of updates
    is the same where they share a batch size. Stages on a corpus stay, without
    their objectives.
    """
    on_corpus = tuple(
        dataclasses.replace(
            stage, objectives=(), soft_label_weight=None, hard_label_weight=1.0
        )
        for stage in stages
        if stage.data == "corpus"
    )
    stages = tuple(stage for stage in stages if stage.data == "task")
    if not stages:
        return on_corpus
    first = stages[0]
    return (
        *on_corpus,
        Stage(
            name="fine_tuning",
            epochs=sum(stage.epochs for stage in stages),
            learning_rate=first.learning_rate,
            hard_label_weight=1.0,
            schedule="linear",
            weight_decay=first.weight_decay,
            batch_size=first.batch_size,
        ),
    )
