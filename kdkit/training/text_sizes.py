"""Sizes of models on text that are not built yet, or not loaded."""

import dataclasses
import pathlib

from kdkit import models
from kdkit.models.families import ALL_FAMILIES
from kdkit.objectives import entry_of_teacher
from kdkit.taps import ModelShape
from kdkit.teacher_cache import packed_size
from kdkit.training.model_settings import ModelSettings

BYTES = 4  # of a weight in a file, and about of a token in a text
WEIGHT_FILES = ("*.weights.h5", "*.safetensors")


@dataclasses.dataclass(frozen=True)
class TextModel:
    """What is known of a model before it is there.

    Args:
        name: string. What it is called.
        parameters: int. About how many it has; 0 where nothing is known.
        shape: `kdkit.taps.ModelShape`. Sizes are `None` where nothing is known.
    """

    name: str
    parameters: int
    shape: ModelShape


def text_model(settings: ModelSettings, vocabulary_size: int) -> TextModel:
    """Returns the sizes of a model that a run on text begins with.

    Args:
        settings: `ModelSettings`: sizes, or a checkpoint, of which the files
            are weighed.
        vocabulary_size: int.
    """
    if settings.mass is not None:
        return _mass(settings.mass, vocabulary_size)
    if settings.has_random_weights:
        return _stack(settings, vocabulary_size)
    place = settings.checkpoint or settings.copy_from
    return TextModel(
        pathlib.Path(place).name,
        _weigh(place) // BYTES,
        ModelShape(num_classes=vocabulary_size),
    )


def text_cache_size(settings, vocabulary_size: int) -> int:
    """Returns about how many bytes are kept of a teacher's logits.

    Args:
        settings: `PretrainSettings` with `cache`, whose objectives are on
            logits.
        vocabulary_size: int. Of the teacher.
    """
    tokens = sum(
        pathlib.Path(file).stat().st_size for file in settings.corpus.all_files
    )
    # Of pairs, what is said of the targets.
    tokens //= BYTES * (2 if settings.reads_sentences else 1)
    entries = {
        entry_of_teacher(objective, 0, vocabulary_size)
        for stage in settings.stages
        for objective in stage.build_objectives()
    }
    total = 0
    for entry in entries:
        shape = tokens, entry.width(vocabulary_size)
        total += packed_size(
            shape, settings.cache.precision, entry.num_exact(shape)
        )
    return total


def _stack(sizes, vocabulary_size):
    """A stack of blocks of one kind: an encoder or a decoder."""
    width = sizes.hidden_dim
    family = ALL_FAMILIES[sizes.family]
    config = models.BertConfig(
        **sizes.config(), vocabulary_size=vocabulary_size
    )
    # Biases and normalizations besides.
    parameters = family.least_parameters(config) + 2 * width
    parameters += sizes.num_layers * (9 * width + sizes.intermediate_dim)
    return TextModel(
        f"{family.title} {sizes.num_layers}×{width}",
        parameters,
        ModelShape(
            num_classes=vocabulary_size,
            num_layers=sizes.num_layers,
            hidden_dim=width,
            num_heads=sizes.num_heads,
        ),
    )


def _mass(sizes, vocabulary_size):
    width = sizes.hidden_dim
    depths = sizes.encoder_num_layers, sizes.decoder_num_layers
    tables = vocabulary_size + 2 * (sizes.max_sequence_length + 2)
    parameters = tables * width
    parameters += sum(depths) * _block(width, sizes.intermediate_dim)
    parameters += depths[1] * _attention(width)
    return TextModel(
        f"MASS {depths[0]}+{depths[1]}×{width}",
        parameters,
        ModelShape(
            num_classes=vocabulary_size,
            hidden_dim=width,
            num_heads=sizes.num_heads,
            encoder_num_layers=depths[0],
            decoder_num_layers=depths[1],
        ),
    )


def _block(width, intermediate):
    """Attention, and a feed-forward part with a normalisation behind it."""
    return (
        _attention(width) + 2 * width * intermediate + intermediate + 3 * width
    )


def _attention(width):
    """Four projections with biases, and a normalisation."""
    return 4 * (width * width + width) + 2 * width


def _weigh(place):
    """Bytes of the weights in a place, 0 where there are none."""
    path = models.model_files(place)
    if path is None:
        return 0
    files = [file for name in WEIGHT_FILES for file in path.glob(name)]
    return sum(file.stat().st_size for file in files)
