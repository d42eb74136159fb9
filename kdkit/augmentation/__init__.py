"""Augmentation: copies of texts in which words are replaced."""

from kdkit.augmentation.augmenter import Augmentation
from kdkit.augmentation.augmenter import Augmenter
from kdkit.augmentation.augmenter import copies_for
from kdkit.augmentation.augmenter import default_stop_words
from kdkit.augmentation.candidates import MaskedWords
from kdkit.augmentation.candidates import PieceNeighbors
from kdkit.augmentation.candidates import Query
from kdkit.augmentation.candidates import VectorNeighbors
from kdkit.augmentation.files import check_made_from
from kdkit.augmentation.files import check_output
from kdkit.augmentation.files import join_parts
from kdkit.augmentation.files import numbers_of_parts
from kdkit.augmentation.files import part_of_file
from kdkit.augmentation.files import rows_of_part
from kdkit.augmentation.files import write_augmented

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
