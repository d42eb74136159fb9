"""Augmentation: copies of texts in which words are replaced."""

from kdkit.augmentation.augmenter import Augmentation
from kdkit.augmentation.augmenter import Augmenter
from kdkit.augmentation.augmenter import copies_for
from kdkit.augmentation.files import write_augmented
from kdkit.augmentation.masked_words import MaskedWords
from kdkit.augmentation.masked_words import Query
from kdkit.augmentation.neighbors import VectorNeighbors
from kdkit.augmentation.notes import check_made_from
from kdkit.augmentation.outputs import check_output
from kdkit.augmentation.parts import join_parts
from kdkit.augmentation.parts import numbers_of_parts
from kdkit.augmentation.parts import part_of_file
from kdkit.augmentation.parts import rows_of_part
from kdkit.augmentation.piece_neighbors import PieceNeighbors
from kdkit.augmentation.words import default_stop_words

__all__ = [
    "Augmentation",
    "Augmenter",
    "MaskedWords",
    "PieceNeighbors",
    "Query",
    "VectorNeighbors",
    "check_made_from",
    "check_output",
    "copies_for",
    "default_stop_words",
    "join_parts",
    "numbers_of_parts",
    "part_of_file",
    "rows_of_part",
    "write_augmented",
]
