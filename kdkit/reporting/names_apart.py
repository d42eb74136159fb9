"""Names of several models that say which is which."""

import pathlib
from collections.abc import Sequence

from kdkit.reporting.records import SEED


def names_apart(
    names: Sequence[str], places: Sequence[pathlib.PurePath]
) -> list[str]:
    """Returns names; those that clash with the folders that they lie in.

    As many folders as tell them apart, and their seeds if nothing else does.

    >>> places = [pathlib.PurePath(f"/runs/{size}/bert") for size in "sl"]
    >>> names_apart(["bert", "bert", "pkd"], [*places, pathlib.PurePath("pkd")])
    ['s/bert', 'l/bert', 'pkd']

    Args:
        names: sequence of strings.
        places: sequence of `pathlib.PurePath`. Where each model is. What is in
            one place keeps one name.
    """
    found = list(names)
    for name in {name for name in names if names.count(name) > 1}:
        clashing = [index for index, one in enumerate(names) if one == name]
        longer = _longer(name, [places[index] for index in clashing])
        for index, label in zip(clashing, longer, strict=True):
            found[index] = label
    return found


def without_seed(place: pathlib.PurePath) -> pathlib.PurePath:
    """Returns what the runs of all seeds of a run have in common.

    >>> [str(without_seed(pathlib.PurePath(f"/x/pkd{end}"))) for end in
    ...  ("_seed0", "/seed_0", "")]
    ['/x/pkd', '/x/pkd', '/x/pkd']
    """
    name = SEED.sub("", place.name)
    return place.with_name(name) if name else place.parent


def _longer(name, places):
    """The ends of paths, as short as tells them apart."""
    several = len(set(places))
    for paths in ([*map(without_seed, places)], places):
        for length in range(2, max(len(path.parts) for path in paths) + 1):
            parts = (path.parts[-length:] for path in paths)
            ends = [str(pathlib.PurePath(*part)) for part in parts]
            if several > 1 and len(set(ends)) == several:
                return ends
    return [name] * len(places)
