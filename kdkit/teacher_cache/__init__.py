"""The teacher's outputs on disk, by the content of what it read."""

from kdkit.teacher_cache.cache import TeacherCache
from kdkit.teacher_cache.keys import row_keys
from kdkit.teacher_cache.keys import sequence_keys
from kdkit.teacher_cache.precision import PRECISIONS
from kdkit.teacher_cache.precision import check_precision
from kdkit.teacher_cache.precision import packed_size
from kdkit.teacher_cache.reading import OutputsOfTeachers
from kdkit.teacher_cache.room import check_place
from kdkit.teacher_cache.room import check_room

__all__ = [
    "PRECISIONS",
    "OutputsOfTeachers",
    "TeacherCache",
    "check_place",
    "check_precision",
    "check_room",
    "packed_size",
    "row_keys",
    "sequence_keys",
]
