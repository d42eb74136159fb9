"""Augmentation: copies of texts with some words replaced."""

from kdkit.augmentation.augmenter import Augmentation, Augmenter, copies_for
from kdkit.augmentation.candidates import (
    MaskedWords,
    PieceNeighbors,
    Query,
    VectorNeighbors,
)
from kdkit.augmentation.files import write_augmented

__all__ = [
    "Augmentation",
    "Augmenter",
    "MaskedWords",
    "PieceNeighbors",
    "Query",
    "VectorNeighbors",
    "copies_for",
    "write_augmented",
]
