"""Families of backbones: one module for each, with everything that differs.

A new family is a module here, its name in `MODULES`, and a row in
tests/models/test_families.py: see docs/design/families.md. Register your own
families with `kdkit.models.register_family`.
"""

import importlib

from kdkit.models.families.blocks import BlockAdapter
from kdkit.models.families.blocks import DecoderBlock
from kdkit.models.families.blocks import EncoderBlock
from kdkit.models.families.checkpoints import HEAD_CLASSES
from kdkit.models.families.checkpoints import CheckpointFormat
from kdkit.models.families.checkpoints import MaskedLMLayout
from kdkit.models.families.checkpoints import WeightLayout
from kdkit.models.families.family import ALL_FAMILIES
from kdkit.models.families.family import DECODERS
from kdkit.models.families.family import FAMILIES
from kdkit.models.families.family import Family
from kdkit.models.families.family import adapters_of
from kdkit.models.families.family import blocks_of
from kdkit.models.families.family import family_of
from kdkit.models.families.family import find_backbone
from kdkit.models.families.family import register_family
from kdkit.models.families.family import stacks_of

__all__ = [
    "ALL_FAMILIES",
    "DECODERS",
    "FAMILIES",
    "HEAD_CLASSES",
    "BlockAdapter",
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
    "roformer_v2",
    "gpt2",
    "llama3",
)

for _module in MODULES:
    importlib.import_module(f"{__name__}.{_module}")
