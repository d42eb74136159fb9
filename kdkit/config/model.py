"""The model that a run trains: one of six, by the fields that are named."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from kdkit.config.fields import InputFile, ModelPath, Strict
from kdkit.models import PRESETS, BilstmConfig, MassConfig
from kdkit.recipes import CopiedBlocks
from kdkit.recipes.recipe import TokenVectors
from kdkit.settings import Count, Every, Positive, Share


class Checkpoint(Strict):
    """A saved model."""

    checkpoint: ModelPath
    """To start from: a run, a preset, a Hugging Face directory or run:STEP."""


class Layers(Strict):
    """Copied layers of an encoder."""

    copy_from: Literal["teacher", "pretrained"] | ModelPath
    """The teacher, the encoder before fine-tuning, or a place."""
    rule: Literal["spread", "uniform", "bottom"] = "spread"
    """Which layers are copied, without layers: of 6 layers 3 are 1, 3 and 6, 2,
    4 and 6, or 1, 2 and 3. Defaults to uniform if the recipe compares by it."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """The share of the encoder's layers, without num_layers."""
    num_layers: Count | None = None
    """The number of copied layers."""
    layers: tuple[Count, ...] = ()
    """Which layers are copied, by number from 1."""

    @model_validator(mode="after")
    def _one_choice(self):
        if self.layers and self.num_layers:
            raise ValueError("layers and num_layers: one of them decides")
        return self


class Sizes(Strict):
    """Random weights."""

    num_layers: Count
    """The number of layers."""
    hidden_dim: Count
    """The width of the states."""
    num_heads: Count
    intermediate_dim: Count
    """The width of the feed-forward layers."""
    max_sequence_length: Count = 512
    """The number of positions, in families that have them."""
    dropout: Share = 0.1
    family: str = "bert"
    """A family of kdkit.models.families."""
    embedding_dim: Count | None = None
    """The width of the embeddings in ALBERT and ELECTRA."""
    num_key_value_heads: Count | None = None
    """Shared heads of Llama 3 and Qwen 3."""


class Bilstm(Strict):
    """A classifier with one bidirectional LSTM."""

    units: Count = 150
    embedding_dim: Count = 300
    intermediate_dim: Count = 400
    dropout: Share = 0.1
    word_vectors: InputFile | None = None
    """Vectors of words, such as GloVe's, as wide as embedding_dim."""


class Mass(Strict):
    """An encoder-decoder with random weights."""

    encoder_num_layers: Count
    decoder_num_layers: Count
    hidden_dim: Count
    num_heads: Count
    intermediate_dim: Count
    max_sequence_length: Count = 512
    dropout: Share = 0.1
    tied_output: bool = True
    """The output's weights are the embeddings'."""


class Static(Strict):
    """A table with one vector for each token."""

    dimensions: Every = 240
    """The width of the vectors, at most the teacher's."""
    sif: Positive | None = 1e-3
    """A token of share p has the weight sif / (sif + p); null for 1."""


# Fields that only one kind of model has; MASS has hidden_dim, too.
KINDS = {
    "checkpoint": Checkpoint,
    "copy_from": Layers,
    "encoder_num_layers": Mass,
    "hidden_dim": Sizes,
    "units": Bilstm,
    "dimensions": Static,
}


def kind_of_student(value) -> str | None:
    """Returns the name of the class whose field is there, `None` for none."""
    given = value if isinstance(value, dict) else dict(value)
    kinds = (KINDS[name].__name__ for name in KINDS if name in given)
    return next(kinds, None)


Student = Annotated[
    Annotated[Checkpoint, Tag("Checkpoint")]
    | Annotated[Layers, Tag("Layers")]
    | Annotated[Mass, Tag("Mass")]
    | Annotated[Sizes, Tag("Sizes")]
    | Annotated[Bilstm, Tag("Bilstm")]
    | Annotated[Static, Tag("Static")],
    Discriminator(
        kind_of_student,
        custom_error_type="student",
        custom_error_message=f"Name one of: {', '.join(KINDS)}",
    ),
]


def student_of(plan) -> dict:
    """Returns the fields of a preset's name, a place or a recipe's student."""
    if isinstance(plan, CopiedBlocks):
        fields = {"copy_from": plan.source, "rule": plan.rule}
        return fields | {"share": plan.share}
    if isinstance(plan, TokenVectors):
        return vars(plan)
    if plan not in PRESETS:
        return {"checkpoint": plan}
    config = PRESETS[plan].config
    kind = {BilstmConfig: Bilstm, MassConfig: Mass}.get(type(config), Sizes)
    return {
        name: value
        for name, value in vars(config).items()
        if name in kind.model_fields
    }
