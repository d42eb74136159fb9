"""The teacher cache: teacher outputs on disk, keyed by the inputs' content."""

from kdkit.late_names import late_names

_DEFINED_IN = {
    "PRECISIONS": "shards",
    "OutputsOfTeachers": "reading",
    "TeacherCache": "cache",
    "require_disk_space": "index",
    "packed_size": "shards",
    "row_keys": "shards",
    "sequence_keys": "shards",
}
__all__ = list(_DEFINED_IN)

__getattr__, __dir__ = late_names(__name__, _DEFINED_IN)
