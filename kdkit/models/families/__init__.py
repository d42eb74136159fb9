"""Families of backbones: one module for each, with everything that differs.

A new family is a module here, its name in `MODULES`, and a row in
tests/models/test_families.py: see docs/design/families.md. Register your own
families with `kdkit.models.register_family`.
"""

import importlib

from kdkit.models.families.blocks import (
    BlockAdapter,
    DecoderBlock,
    EncoderBlock,
)
from kdkit.models.families.checkpoints import (
    HEAD_CLASSES,
    CheckpointFormat,
    MaskedLMLayout,
    WeightLayout,
)
from kdkit.models.families.family import (
    ALL_FAMILIES,
    DECODERS,
    FAMILIES,
    BlockSettings,
    Family,
    adapters_of,
    blocks_of,
    family_of,
    find_backbone,
    register_family,
    stacks_of,
)

__all__ = [
    "ALL_FAMILIES",
    "DECODERS",
    "FAMILIES",
    "HEAD_CLASSES",
    "BlockAdapter",
    "BlockSettings",
    "CheckpointFormat",
    "DecoderBlock",
    "EncoderBlock",
    "Family",
    "MaskedLMLayout",
    "WeightLayout",
    "adapters_of",
    "blocks_of",
    "family_of",
    "find_backbone",
    "register_family",
    "stacks_of",
]

MODULES = (
    "bert",
    "distil_bert",
    "roberta",
    "xlm_roberta",
    "albert",
    "electra",
    "deberta_v3",
    "gpt2",
    "llama3",
)

for _module in MODULES:
    importlib.import_module(f"{__name__}.{_module}")
