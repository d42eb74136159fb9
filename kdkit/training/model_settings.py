"""The settings of a model: where it comes from, or how large it is."""

import dataclasses

from kdkit.errors import UsageError
from kdkit.models import PRESETS
from kdkit.models import BilstmConfig
from kdkit.models import MassConfig
from kdkit.models.families import ALL_FAMILIES

FURTHER_SIZES = (
    "max_sequence_length",
    "dropout",
    "family",
    "embedding_dim",
    "num_key_value_heads",
)
SIZES = ("num_layers", "hidden_dim", "num_heads", "intermediate_dim")


@dataclasses.dataclass(frozen=True)
class BilstmSettings:
    """A classifier with one bidirectional LSTM.

    Args:
        units, embedding_dim, intermediate_dim, dropout: as in
            `kdkit.models.BilstmConfig`. The vocabulary is the tokenizer's.
        word_vectors: string or `None`. A text file of vectors, as GloVe's are,
            that the embeddings of whole words start from. Its width is
            `embedding_dim`. `None` for random ones.
    """

    units: int = 150
    embedding_dim: int = 300
    intermediate_dim: int = 400
    dropout: float = 0.1
    word_vectors: str | None = None


@dataclasses.dataclass(frozen=True)
class MassSettings:
    """An encoder-decoder with random weights.

    Args:
        encoder_num_layers, decoder_num_layers, hidden_dim, num_heads,
            intermediate_dim, max_sequence_length, dropout, tied_output: as in
            `kdkit.models.MassConfig`. The vocabulary, or both, is the
            tokenizer's.
    """

    encoder_num_layers: int
    decoder_num_layers: int
    hidden_dim: int
    num_heads: int
    intermediate_dim: int
    max_sequence_length: int = 512
    dropout: float = 0.1
    tied_output: bool = True


@dataclasses.dataclass(frozen=True)
class ModelSettings:
    """The model that a run trains, from one of five places.

    Args:
        checkpoint: string or `None`. Where the whole model comes from, as
            `kdkit.models.load_classifier` takes it.
        copy_from: string or `None`. The encoder that embeddings and blocks are
            copied from: `"teacher"`, `"pretrained"` for the run's pretrained
            encoder, or a place.
        copy_layers: tuple of ints. The blocks that are copied, counted from 1,
            one per block of the model.
        num_layers, hidden_dim, num_heads, intermediate_dim,
            max_sequence_length, dropout, family, embedding_dim,
            num_key_value_heads: sizes and kind of a model with random weights,
            as in `kdkit.models.BertConfig`. The vocabulary is the tokenizer's.
        bilstm: `BilstmSettings` or `None`. A BiLSTM with random weights.
        mass: `MassSettings` or `None`. An encoder-decoder with random weights.

    Raises:
        UsageError: unless exactly one of the five is given, whole.
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
    num_key_value_heads: int | None = None
    bilstm: BilstmSettings | None = None
    mass: MassSettings | None = None

    def __post_init__(self):
        sizes = {name: getattr(self, name) for name in SIZES}
        given = [name for name, size in sizes.items() if size is not None]
        sources = [
            *(["checkpoint"] if self.checkpoint is not None else []),
            *(["copy_from"] if self.copy_from is not None else []),
            *(["sizes"] if given else []),
            *(["bilstm"] if self.bilstm is not None else []),
            *(["mass"] if self.mass is not None else []),
        ]
        if len(sources) != 1:
            raise UsageError(
                "A model comes from a checkpoint, from an encoder's blocks "
                "(copy_from and copy_layers), from sizes with random weights, "
                "or is a BiLSTM or a MASS. Expected one of them. Received: "
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
                f"{', '.join(unused)} are of a model with random weights. "
                f"Received: a model from {sources[0]}. Leave them out."
            )
        if given and len(given) < len(SIZES):
            missing = [name for name in SIZES if name not in given]
            raise UsageError(
                f"A model with random weights needs all of {SIZES}. Missing: "
                f"{', '.join(missing)}."
            )

    @property
    def has_random_weights(self) -> bool:
        """Whether a tokenizer is chosen for it, since it brings none."""
        return self.num_layers is not None or self.mass is not None

    @property
    def num_positions(self) -> int | None:
        """Those of a model with random weights, `None` for any and others."""
        if not self.has_random_weights:
            return None
        if self.mass is not None:
            return self.mass.max_sequence_length
        family = ALL_FAMILIES.get(self.family)
        if family is not None and not family.takes("max_sequence_length"):
            return None
        return self.max_sequence_length

    def config(self):
        """The sizes, as `kdkit.models.student` takes them."""
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
        del sizes["decoder_vocabulary_size"]
        return ModelSettings(mass=MassSettings(**sizes))
    return ModelSettings(**sizes)
