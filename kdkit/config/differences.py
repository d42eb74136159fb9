"""How two configs differ, in words."""

import json

BRIEF = 80  # characters of a value
NOT_SET = "not set"


def differing_fields(first: dict, second: dict) -> dict[str, tuple[str, str]]:
    """Returns the values in which two nested dicts differ, by dotted path."""
    found = {}
    for name in dict.fromkeys([*first, *second]):
        both = [one.get(name, NOT_SET) for one in (first, second)]
        if both[0] == both[1]:
            continue
        if all(isinstance(one, dict) and one for one in both):
            inside = differing_fields(*both)
            found |= {f"{name}.{field}": inside[field] for field in inside}
        else:
            found[name] = tuple(map(_brief, both))
    return found


def _brief(value):
    """A value in a line: of longer ones, what they are made of."""
    if value == NOT_SET:
        return value
    is_tree = isinstance(value, dict) and value
    text = f"({', '.join(value)})" if is_tree else json.dumps(value)
    return text if len(text) <= BRIEF else f"{text[:BRIEF]}…"
