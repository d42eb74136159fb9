"""Entries with names, such as stages: in JSON a dict by name."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, WrapSerializer


class _Keyed:
    """The JSON schema of named entries: a dict by name."""

    def __get_pydantic_json_schema__(self, core_schema, handler):
        entries = handler(core_schema)["items"]
        return {"type": "object", "additionalProperties": entries}


def by_name(kind):
    """Returns the type of a tuple of named entries, in JSON a dict by name."""

    def listed(entries):
        if isinstance(entries, Mapping):
            return [
                {**entry, "name": name} if isinstance(entry, Mapping) else entry
                for name, entry in entries.items()
            ]
        return entries

    def keyed(entries, dumped):
        return {entry.pop("name"): entry for entry in dumped(entries)}

    def different(entries):
        names = [entry.name for entry in entries]
        if len({*names}) < len(names):
            raise ValueError(f"each needs its own name, received {names}")
        return entries

    return Annotated[
        tuple[kind, ...],
        BeforeValidator(listed),
        AfterValidator(different),
        WrapSerializer(keyed),
        _Keyed(),
    ]
