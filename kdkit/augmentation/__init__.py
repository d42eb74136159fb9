"""Augmentation: copies of texts with some words replaced."""

from kdkit.augmentation.augmenter import (
    Augmentation,
    Augmenter,
    copies_for,
    default_stop_words,
)
from kdkit.augmentation.candidates import (
    MaskedWords,
    PieceNeighbors,
    Query,
    VectorNeighbors,
)
from kdkit.augmentation.files import (
    join_parts,
    part_counts,
    part_path,
    part_rows,
    require_fingerprint,
    require_new_file,
    write_augmented,
)

__all__ = [
    "Augmentation",
    "Augmenter",
    "MaskedWords",
    "PieceNeighbors",
    "Query",
    "VectorNeighbors",
    "require_fingerprint",
    "require_new_file",
    "copies_for",
    "default_stop_words",
    "join_parts",
    "part_counts",
    "part_path",
    "part_rows",
    "write_augmented",
]
