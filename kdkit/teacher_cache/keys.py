"""What a teacher read, as keys: the same tokens have the same key."""

import hashlib

import numpy as np

from kdkit.data import EncodedExamples

KEY_BYTES = 16


def sequence_keys(encoded: EncodedExamples) -> np.ndarray:
    """Returns a key for every sequence, of its tokens and its segments.

    Args:
        encoded: `kdkit.data.EncodedExamples`.

    Returns:
        `uint64` array of shape `(num_sequences, 2)`.
    """
    ends = np.cumsum(encoded.lengths, dtype="int64")
    keys = bytearray()
    for end, length in zip(ends, encoded.lengths, strict=True):
        place = slice(end - length, end)
        content = hashlib.blake2b(digest_size=KEY_BYTES)
        content.update(encoded.token_ids[place].astype("int32").tobytes())
        content.update(encoded.segment_ids[place].astype("int32").tobytes())
        keys += content.digest()
    return np.frombuffer(bytes(keys), "uint64").reshape(-1, 2)


def row_keys(encoded: EncodedExamples) -> np.ndarray:
    """Returns a key for every row: that of its sequence, or of all of them.

    Returns:
        `uint64` array of shape `(num_rows, 2)`.
    """
    keys = sequence_keys(encoded)
    if encoded.sequences_per_row == 1:
        return keys
    rows = keys.reshape(len(encoded), -1)
    digests = (
        hashlib.blake2b(row.tobytes(), digest_size=KEY_BYTES).digest()
        for row in rows
    )
    return np.frombuffer(b"".join(digests), "uint64").reshape(-1, 2)


def find(wanted: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Returns where keys stand among others.

    Args:
        wanted: keys, as `row_keys` returns them.
        known: likewise.

    Returns:
        `int64` array, one number per wanted key; −1 for what is not there.

    >>> known = np.array([[7, 1], [5, 2]], "uint64")
    >>> find(np.array([[5, 2], [5, 3], [7, 1]], "uint64"), known).tolist()
    [1, -1, 0]
    """
    if not len(known):
        return np.full(len(wanted), -1, "int64")
    order = np.lexsort((known[:, 1], known[:, 0]))
    ordered = _as_pairs(known[order])
    places = np.searchsorted(ordered, _as_pairs(wanted))
    places = np.minimum(places, len(known) - 1)
    same = (known[order[places]] == wanted).all(axis=1)
    return np.where(same, order[places], -1)


def _as_pairs(keys):
    """Keys as one array of pairs, which NumPy can order."""
    pairs = np.empty(len(keys), dtype=[("first", "u8"), ("second", "u8")])
    pairs["first"], pairs["second"] = keys[:, 0], keys[:, 1]
    return pairs
