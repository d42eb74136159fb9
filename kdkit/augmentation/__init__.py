"""Augmentation: copies of texts with some words replaced."""

from kdkit.augmentation.augmenter import Augmenter
from kdkit.augmentation.candidates import (
    MaskedWords,
    PieceNeighbors,
    Query,
    VectorNeighbors,
)
from kdkit.augmentation.run import write_augmented

__all__ = [
    "Augmenter",
    "MaskedWords",
    "PieceNeighbors",
    "Query",
    "VectorNeighbors",
    "write_augmented",
]
