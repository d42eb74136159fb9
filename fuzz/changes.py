"""JSON values with some fields changed; the input bytes choose which."""

import copy

GONE = object()
OTHERS = (
    GONE, None, True, 0, -1, 2**62, 1e308, 1e-320, float("nan"), float("inf"),
    "", "x", "=1+1", "](x)\n# `|", "0" * 5000, [], {}, [[]], [None], ["x"],
    [1], {"a": None}, {"a": {}}, {"": ""},
)  # fmt: skip


def changed(value, choices):
    """A copy of a value with some fields changed, at any depth.

    Args:
        value: list or dict of JSON.
        choices: bytes. Of each three of them two say where something else
            stands, and the last one what. What is left of them is passed over.
    """
    value = copy.deepcopy(value)
    for at in range(0, len(choices) - 2, 3):
        places = list(_places(value))
        if not places:
            break
        where = int.from_bytes(choices[at : at + 2]) % len(places)
        inside, key = places[where]
        other = OTHERS[choices[at + 2] % len(OTHERS)]
        if other is GONE:
            del inside[key]
        else:
            inside[key] = copy.deepcopy(other)
    return value


def _places(value):
    """Yields every list and object inside a value, with each of its keys."""
    found = value.items() if isinstance(value, dict) else enumerate(value)
    for key, entry in found:
        yield value, key
        if isinstance(entry, dict | list):
            yield from _places(entry)
