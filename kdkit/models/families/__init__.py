"""Families of backbones, with everything that differs between them.

A new family is a class in `encoders` or `decoders` and a row in
tests/kit/encoders.py: see docs/design/families.md. Register your own families
with `kdkit.models.register_family`.
"""

from kdkit.models.families import decoders as decoders
from kdkit.models.families import encoders as encoders
from kdkit.models.families.blocks import (
    BlockAdapter,
    DecoderBlock,
    EncoderBlock,
)
from kdkit.models.families.family import (
    ALL_FAMILIES,
    DECODERS,
    FAMILIES,
    Family,
    adapters_of,
    family_of,
    find_backbone,
    register_family,
)

__all__ = [
    "ALL_FAMILIES",
    "DECODERS",
    "FAMILIES",
    "BlockAdapter",
    "DecoderBlock",
    "EncoderBlock",
    "Family",
    "adapters_of",
    "family_of",
    "find_backbone",
    "register_family",
]
