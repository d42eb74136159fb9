"""The settings of a model: its checkpoint or sizes; checks of run settings."""

import dataclasses

from pydantic.dataclasses import dataclass

from kdkit.errors import UsageError
from kdkit.models import PRESETS, BilstmConfig, MassConfig
from kdkit.models.families import ALL_FAMILIES
from kdkit.recipes.recipe import TokenVectors
from kdkit.settings import STRICT, Count, Share

FURTHER_SIZES = (
    "max_sequence_length",
    "dropout",
    "family",
    "embedding_dim",
    "num_key_value_heads",
)
SIZES = ("num_layers", "hidden_dim", "num_heads", "intermediate_dim")


@dataclass(frozen=True, config=STRICT)
class BilstmSettings:
    """A classifier with one bidirectional LSTM.

    Args:
        units, embedding_dim, intermediate_dim, dropout: as in
            `kdkit.models.BilstmConfig`. The vocabulary is the tokenizer's.
        word_vectors: string or `None`. A text file of vectors, such as GloVe's,
            for the embeddings of whole words. Its vectors have `embedding_dim`
            numbers. `None` for random embeddings.
    """

    units: Count = 150
    embedding_dim: Count = 300
    intermediate_dim: Count = 400
    dropout: Share = 0.1
    word_vectors: str | None = None


@dataclass(frozen=True, config=STRICT)
class MassSettings:
    """An encoder-decoder with random weights.

    Args:
        encoder_num_layers, decoder_num_layers, hidden_dim, num_heads: as in
            `kdkit.models.MassConfig`. The tokenizer decides the vocabulary, or
            both vocabularies.
        intermediate_dim, max_sequence_length, dropout, tied_output: as in
            `kdkit.models.MassConfig`.
    """

    encoder_num_layers: Count
    decoder_num_layers: Count
    hidden_dim: Count
    num_heads: Count
    intermediate_dim: Count
    max_sequence_length: Count = 512
    dropout: Share = 0.1
    tied_output: bool = True


@dataclass(frozen=True, config=STRICT)
class ModelSettings:
    """The model that a run trains, from one of six sources.

    Args:
        checkpoint: string or `None`. The place of the whole model, as
            `kdkit.models.load_classifier` takes it.
        copy_from: string or `None`. The encoder whose embeddings and layers
            are copied: `"teacher"`, `"pretrained"` for the run's pretrained
            encoder, or a place.
        copy_layers: tuple of ints. The copied layers, counted from 1, one for
            each layer of the model.
        num_layers, hidden_dim, num_heads, intermediate_dim: sizes of a model
            with random weights, as in `kdkit.models.BertConfig`. The tokenizer
            decides the vocabulary.
        max_sequence_length, dropout, family, embedding_dim: the same.
        num_key_value_heads: the same.
        bilstm: `BilstmSettings` or `None`. A BiLSTM with random weights.
        mass: `MassSettings` or `None`. An encoder-decoder with random weights.
        static: `kdkit.recipes.TokenVectors` or `None`. A sentence encoder
            without layers.

    Raises:
        pydantic.ValidationError: (a `ValueError`) for wrong fields, and
            unless exactly one of the six sources is complete.
    """

    checkpoint: str | None = None
    copy_from: str | None = None
    copy_layers: tuple[Count, ...] = ()
    num_layers: Count | None = None
    hidden_dim: Count | None = None
    num_heads: Count | None = None
    intermediate_dim: Count | None = None
    max_sequence_length: Count = 512
    dropout: Share = 0.1
    family: str = "bert"
    embedding_dim: Count | None = None
    num_key_value_heads: Count | None = None
    bilstm: BilstmSettings | None = None
    mass: MassSettings | None = None
    static: TokenVectors | None = None

    def __post_init__(self):
        sizes = {name: getattr(self, name) for name in SIZES}
        given = [name for name, size in sizes.items() if size is not None]
        sources = [
            *(["checkpoint"] if self.checkpoint is not None else []),
            *(["copy_from"] if self.copy_from is not None else []),
            *(["sizes"] if given else []),
            *(["bilstm"] if self.bilstm is not None else []),
            *(["mass"] if self.mass is not None else []),
            *(["static"] if self.static is not None else []),
        ]
        if len(sources) != 1:
            raise UsageError(
                "Expected one source of a model: checkpoint, copy_from, "
                "sizes, bilstm, mass or static. Received: "
                f"{', '.join(sources) or 'none'}."
            )
        if (self.copy_from is None) == bool(self.copy_layers):
            raise UsageError(
                "`copy_from` and `copy_layers` go together. Received: "
                f"copy_from={self.copy_from!r}, copy_layers="
                f"{list(self.copy_layers)}."
            )
        random = {
            field.name: field.default
            for field in dataclasses.fields(self)
            if field.name in FURTHER_SIZES
        }
        unused = [
            name
            for name, default in random.items()
            if not given and getattr(self, name) != default
        ]
        if unused:
            raise UsageError(
                f"{', '.join(unused)} are for a model with random weights. "
                f"Received: a model from {sources[0]}."
            )

    @property
    def has_random_weights(self) -> bool:
        """Whether the model has random weights, and so no tokenizer."""
        return self.num_layers is not None or self.mass is not None

    @property
    def num_positions(self) -> int | None:
        """The positions of a model with random weights, `None` if unlimited."""
        if not self.has_random_weights:
            return None
        if self.mass is not None:
            return self.mass.max_sequence_length
        family = ALL_FAMILIES.get(self.family)
        if family is not None and not family.takes("max_sequence_length"):
            return None
        return self.max_sequence_length

    def config(self):
        """Returns the sizes, as `kdkit.models.student` takes them."""
        if self.bilstm is not None:
            sizes = dataclasses.asdict(self.bilstm)
            del sizes["word_vectors"]
            return BilstmConfig(**sizes)
        if self.mass is not None:
            return MassConfig(**dataclasses.asdict(self.mass))
        return {name: getattr(self, name) for name in SIZES + FURTHER_SIZES}


def model_settings(preset_or_checkpoint: str) -> ModelSettings:
    """Returns the settings for a preset's name or a checkpoint's place."""
    if preset_or_checkpoint not in PRESETS:
        return ModelSettings(checkpoint=preset_or_checkpoint)
    config = PRESETS[preset_or_checkpoint].config
    if isinstance(config, BilstmConfig):
        return ModelSettings(
            bilstm=BilstmSettings(
                config.units,
                config.embedding_dim,
                config.intermediate_dim,
                config.dropout,
            )
        )
    sizes = dataclasses.asdict(config)
    del sizes["vocabulary_size"]
    if isinstance(config, MassConfig):
        return ModelSettings(mass=MassSettings(**sizes))
    return ModelSettings(**sizes)


def require_files(settings) -> None:
    """Rejects held-out files beside generated text to train on."""
    if settings.held_out and not settings.files:
        raise UsageError("held_out needs files. Received: generated text.")


UPDATE = "update"
MIRRORED = "mirrored"
MULTI_WORKER = "multi_worker"


def validate_strategy(settings) -> None:
    """Rejects what several devices, or float16, compute wrongly."""
    has_parts = any(
        stage.gradient_accumulation_steps > 1
        for stage in (*settings.stages, *getattr(settings, "control", ()))
    )
    is_float16 = settings.dtype_policy == "mixed_float16"
    if settings.strategy is not None and is_float16:
        raise UsageError(
            "dtype_policy=mixed_float16 is for one device: Keras checks the "
            "gradients of one replica alone."
        )
    if settings.strategy is not None and has_parts:
        raise UsageError(
            "gradient_accumulation_steps above 1 are for one device: several "
            "compute the parts of a batch at once."
        )
    if is_float16 and has_parts:
        raise UsageError(
            "In float16, a part of a batch may be skipped, so later parts "
            "would mix two batches. Use mixed_bfloat16, or whole batches."
        )
