"""The teacher's outputs on disk, by the content of what it read."""

from kdkit.late_names import late_names

_DEFINED_IN = {
    "PRECISIONS": "precision",
    "OutputsOfTeachers": "reading",
    "TeacherCache": "cache",
    "check_place": "room",
    "check_precision": "precision",
    "check_room": "room",
    "packed_size": "precision",
    "row_keys": "keys",
    "sequence_keys": "keys",
}
__all__ = list(_DEFINED_IN)

__getattr__, __dir__ = late_names(__name__, _DEFINED_IN)
