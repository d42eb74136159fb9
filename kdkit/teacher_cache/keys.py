"""What a teacher read, as keys: the same tokens have the same key."""

import hashlib
import weakref

import numpy as np

from kdkit.data import ReadableRows

KEY_BYTES = 16
# Every stage, teacher and split of a run asks for the same ones again.
_kept = weakref.WeakKeyDictionary()


def sequence_keys(encoded: ReadableRows) -> np.ndarray:
    """Returns a key for every sequence, of its tokens and its segments.

    They are made once, and kept as long as `encoded` is.

    Args:
        encoded: `kdkit.data.ReadableRows`.

    Returns:
        `uint64` array of shape `(num_sequences, 2)`.
    """
    return _keys(encoded)[0]


def row_keys(encoded: ReadableRows) -> np.ndarray:
    """Returns a key for every row: that of its sequence, or of all of them.

    They are kept as those of the sequences are.

    Returns:
        `uint64` array of shape `(num_rows, 2)`.
    """
    return _keys(encoded)[1]


def _keys(encoded):
    """The keys of the sequences and of the rows."""
    if encoded not in _kept:
        of_sequences = _as_keys(
            _digest(*arrays) for arrays in encoded.contents()
        )
        of_rows = of_sequences
        if encoded.sequences_per_row > 1:
            rows = of_sequences.reshape(len(encoded), -1)
            of_rows = _as_keys(_digest(row) for row in rows)
        _kept[encoded] = of_sequences, of_rows
    return _kept[encoded]


def _digest(*arrays):
    content = hashlib.blake2b(digest_size=KEY_BYTES)
    for array in arrays:
        content.update(array)
    return content.digest()


def _as_keys(digests):
    return np.frombuffer(b"".join(digests), "uint64").reshape(-1, 2)


def find(wanted: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Returns where keys stand among others.

    Args:
        wanted: keys, as `row_keys` returns them.
        known: likewise.

    Returns:
        `int64` array, one number per wanted key; −1 for what is not there.
        Of several places it is the first.

    >>> known = np.array([[5, 1], [7, 1], [5, 2]], "uint64")
    >>> find(np.array([[5, 2], [5, 3], [7, 1]], "uint64"), known).tolist()
    [2, -1, 1]
    """
    found = np.full(len(wanted), -1, "int64")
    order = np.argsort(known[:, 0], kind="stable")
    ordered = known[order, 0]
    # Half a key tells nearly all of them apart: of one that is there a second
    # time, the next place is looked at.
    left = np.arange(len(wanted))
    places = np.searchsorted(ordered, wanted[:, 0])
    while len(left):
        inside = places < len(known)
        left, places = left[inside], places[inside]
        same = ordered[places] == wanted[left, 0]
        left, places = left[same], places[same]
        here = known[order[places], 1] == wanted[left, 1]
        found[left[here]] = order[places[here]]
        left, places = left[~here], places[~here] + 1
    return found
