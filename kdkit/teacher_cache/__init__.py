"""The teacher's outputs on disk, by the content of what it read."""

from kdkit.late_names import late_names

_DEFINED_IN = {
    "PRECISIONS": "shards",
    "OutputsOfTeachers": "reading",
    "TeacherCache": "cache",
    "check_place": "index",
    "check_precision": "shards",
    "check_room": "index",
    "packed_size": "shards",
    "row_keys": "shards",
    "sequence_keys": "shards",
}
__all__ = list(_DEFINED_IN)

__getattr__, __dir__ = late_names(__name__, _DEFINED_IN)
