"""Finds the texts that two sets share, by hashes that fit in memory or a file.

A run on texts saves the hashes of the texts that it trained on, so that an
evaluation can count how many of its own texts are among them. Letter case,
spaces and punctuation are ignored.
"""

import hashlib
import os
import pathlib
from collections.abc import Iterable

import numpy as np

from kdkit.data.unlabeled import PUNCTUATION
from kdkit.data.unlabeled import normalized
from kdkit.errors import UsageError
from kdkit.io.files import staged

FILE = "texts.hashes"  # in a run directory
NUMBER = np.dtype("<u8")
_NO_PUNCTUATION = str.maketrans("", "", PUNCTUATION)


def hash_texts(texts: Iterable[str]) -> np.ndarray:
    """Returns a 64-bit hash for every text.

    Texts that differ only in letter case, spaces and punctuation have the same
    hash.

    Args:
        texts: iterable of strings. It is read once, one text at a time.

    Returns:
        `uint64` array of shape `(num_texts,)`, in the order of the texts.

    >>> first, second, other = hash_texts(["A man runs.", "a  man runs", "b"])
    >>> bool(first == second), bool(first == other)
    (True, False)
    """
    return np.fromiter(map(_hash, texts), NUMBER)


def _hash(text):
    (bare,) = normalized([text.translate(_NO_PUNCTUATION)])
    (text,) = normalized([text])  # of punctuation alone
    content = (bare or text).encode("utf-8", "surrogatepass")
    return int.from_bytes(
        hashlib.blake2b(content, digest_size=NUMBER.itemsize).digest(), "little"
    )


def are_among(texts: Iterable[str], hashes: np.ndarray) -> np.ndarray:
    """Returns for every text whether it is among hashed texts.

    Args:
        texts: iterable of strings.
        hashes: `uint64` array, from `hash_texts` or `read_text_hashes`.

    Returns:
        bool array of shape `(num_texts,)`.

    >>> are_among(["A man runs.", "Rain."], hash_texts(["a man runs"])).tolist()
    [True, False]
    """
    return np.isin(hash_texts(texts), hashes)


def write_text_hashes(run_dir, hashes: np.ndarray) -> None:
    """Saves hashes of texts in a run directory, each once.

    Args:
        run_dir: path of the run directory.
        hashes: `uint64` array, from `hash_texts`.
    """
    content = np.unique(hashes).astype(NUMBER).tobytes()
    with staged(pathlib.Path(run_dir, FILE), len(content)) as partial:
        partial.write_bytes(content)


def read_text_hashes(run_dir) -> np.ndarray | None:
    """Reads the hashes of the texts that a run was trained on.

    Args:
        run_dir: path of the run directory.

    Returns:
        `uint64` array of different numbers in increasing order, or `None` for a
        run without texts.

    Raises:
        UsageError: (a `ValueError`) if the file is damaged or unreadable.
    """
    path = pathlib.Path(run_dir, FILE)
    if not os.path.isfile(path):
        return None
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"Cannot read {path}: {error.strerror}. Expected the hashes of a "
            "run's texts."
        ) from error
    whole = len(content) - len(content) % NUMBER.itemsize
    hashes = np.frombuffer(content[:whole], NUMBER)
    if whole != len(content) or (hashes[1:] <= hashes[:-1]).any():
        raise UsageError(
            f"{path} is damaged: expected different 64-bit numbers in "
            f"increasing order. Received: {len(content)} other bytes. Restore "
            "it from a copy, or remove it. Without it, evaluations do not "
            "report the texts that the run was trained on."
        )
    return hashes
