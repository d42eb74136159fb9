"""The memory that a model's weights take at least, before it is built."""

from kdkit.errors import UsageError
from kdkit.machine import lack_of_memory
from kdkit.models.families import ALL_FAMILIES
from kdkit.models.presets import BertConfig
from kdkit.models.presets import BilstmConfig
from kdkit.models.presets import MassConfig

BYTES = 4  # of a number in float32


def least_parameters(config: BertConfig | BilstmConfig | MassConfig) -> int:
    """Returns how many parameters a model has in tables and matrices.

    It has a few more, in biases and normalisations.

    Args:
        config: `BertConfig`, `BilstmConfig` or `MassConfig`.

    >>> least_parameters(BertConfig(12, 768, 12, 3072))  # of 109,482,240
    108768768
    """
    if isinstance(config, BilstmConfig):
        width = config.embedding_dim
        return config.vocabulary_size * width + config.units * (
            8 * (width + config.units) + 2 * config.intermediate_dim
        )
    if isinstance(config, MassConfig):
        attention = 4 * config.hidden_dim**2
        block = attention + 2 * config.hidden_dim * config.intermediate_dim
        rows = config.vocabulary_size + 2 * config.max_sequence_length
        depth = config.encoder_num_layers + config.decoder_num_layers
        cross = config.decoder_num_layers * attention
        return rows * config.hidden_dim + depth * block + cross
    return ALL_FAMILIES[config.family].least_parameters(config)


def check_room(config: BertConfig | BilstmConfig | MassConfig) -> None:
    """Refuses a model whose weights alone this machine cannot hold.

    Args:
        config: `BertConfig`, `BilstmConfig` or `MassConfig`.

    Raises:
        UsageError: (a `ValueError`) if they are more than its memory.
    """
    lack = lack_of_memory(BYTES * least_parameters(config))
    if lack:
        raise UsageError(
            f"The student cannot be built: its weights take {lack}. Received: "
            f"{config}. Choose fewer or narrower layers, or fewer positions."
        )
