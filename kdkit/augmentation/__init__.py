"""Augmentation: copies of texts with some words replaced."""

from kdkit.augmentation.augmenter import Augmentation
from kdkit.augmentation.augmenter import Augmenter
from kdkit.augmentation.augmenter import copies_for
from kdkit.augmentation.augmenter import default_stop_words
from kdkit.augmentation.candidates import MaskedWords
from kdkit.augmentation.candidates import PieceNeighbors
from kdkit.augmentation.candidates import Query
from kdkit.augmentation.candidates import VectorNeighbors
from kdkit.augmentation.files import join_parts
from kdkit.augmentation.files import part_counts
from kdkit.augmentation.files import part_path
from kdkit.augmentation.files import part_rows
from kdkit.augmentation.files import require_fingerprint
from kdkit.augmentation.files import require_new_file
from kdkit.augmentation.files import write_augmented

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
