"""Where the keys of rows stand in the files of a cache."""

import numpy as np

from kdkit.teacher_cache.keys import find
from kdkit.teacher_cache.shards import Shard


def find_places(index, files, entries, keys):
    """Returns by entry file and row of every key, −1 where there is none.

    Args:
        index: `Index`.
        files: list of dicts, the `shards` of the index, as it was read.
        entries: iterable of `Entry`.
        keys: dict from whether they are of rows to keys, as `row_keys` returns
            them.

    Returns:
        Dict from `Entry` to an `int32` array of shape `(num_keys, 2)`.
    """
    places, searched = {}, {}
    for entry in entries:
        shards = tuple(
            number
            for number, shard in enumerate(files)
            if entry.name in shard["entries"]
        )
        # Entries that stand in the same files have the same places.
        group = shards, entry.is_of_rows
        if group not in searched:
            searched[group] = _search(
                {
                    number: index.directory / files[number]["file"]
                    for number in shards
                },
                keys[entry.is_of_rows],
            )
        places[entry] = searched[group]
    return places


def _search(files, keys):
    """File and row of every key in some files, known by their numbers."""
    places = np.full((len(keys), 2), -1, "int32")
    if not files:
        return places
    known = [Shard(path).keys for path in files.values()]
    counts = [len(one) for one in known]
    there = np.stack(
        [
            np.repeat(list(files), counts),
            np.concatenate([np.arange(count) for count in counts]),
        ],
        axis=1,
    ).astype("int32")
    rows = find(keys, np.concatenate(known))
    places[rows >= 0] = there[rows[rows >= 0]]
    return places


def find_missing(indices, encoded, keys, entries, beside, part=None):
    """Returns the rows to run the teacher over, and what for.

    Args:
        indices: list of `Index`. What is in one of them is not missing.
        encoded: `kdkit.data.ReadableRows`.
        keys: dict from whether they are of rows to all keys.
        entries: sequence of `kdkit.taps.Entry`. Rows that lack one are run.
        beside: sequence of `Entry`. What such rows are also asked for.
        part: tuple of ints i, n or `None`. Part i, from 0, of n of the rows
            alone. Defaults to `None`.

    Returns:
        Tuple of the numbers of the rows, each content once, and of the list of
        entries that one of them lacks.
    """
    known = [
        find_places(index, index.read()["shards"], (*entries, *beside), keys)
        for index in indices
    ]

    def absent_rows(entry):
        absent = np.all([places[entry][:, 0] < 0 for places in known], 0)
        if entry.is_of_rows:
            return absent
        return absent.reshape(-1, encoded.sequences_per_row).any(axis=1)

    absent = {entry: absent_rows(entry) for entry in (*entries, *beside)}
    numbers = np.flatnonzero(np.any([absent[one] for one in entries], axis=0))
    if part is not None:
        which, count = part
        numbers = numbers[keys[True][numbers, 0] % count == which]
    _, first = np.unique(keys[True][numbers], axis=0, return_index=True)
    numbers = numbers[first]
    return numbers, [entry for entry in absent if absent[entry][numbers].any()]
