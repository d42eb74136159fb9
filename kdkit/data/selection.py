"""Which texts are trained on, and which ones are held out."""

import array
import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterable

from kdkit.data.tables import Examples
from kdkit.io.files import digest_of_text
from kdkit.io.reading import has_text
from kdkit.late import np

# Around words.
PUNCTUATION = ".,;:!?\"'`()[]{}«»“”„‘’–—…。，、；：！？（）「」《》"
CHOSEN, EMPTY, KNOWN = range(3)


def normalized(row: Iterable[str]) -> tuple[str, ...]:
    """Returns the texts in lower case and with single spaces.

    >>> normalized(("A  fine film",))
    ('a fine film',)
    """
    return tuple(" ".join(text.lower().split()) for text in row)


def text_hash(text: str) -> int:
    """Returns 64 bits that identify a text, whatever its case and spaces."""
    content = normalized((text,))[0].encode(errors="surrogatepass")
    return int.from_bytes(
        hashlib.blake2b(content, digest_size=8).digest(), "big"
    )


def normalized_rows(several: Iterable[Examples]) -> set[tuple[str, ...]]:
    """Returns the texts of all examples as `normalized` returns them."""
    return {
        normalized(row)
        for examples in several
        for row in zip(*examples.texts, strict=True)
    }


@dataclasses.dataclass(frozen=True, eq=False)
class Choice:
    """The chosen rows, and the counts of all rows.

    Args:
        rows: int array. The numbers of the chosen rows, in order.
        groups: int array of the same shape. Rows with the same first text are
            a group. Groups are counted from 0 in the order of the rows.
        is_held_out: bool array of the same shape.
        counts: dict. How many `"rows"` have text, and how many are `"empty"`,
            `"dropped"` as known, or `"repeated"`.
    """

    rows: "np.ndarray"
    groups: "np.ndarray"
    is_held_out: "np.ndarray"
    counts: dict[str, int]

    def part(self, held_out: bool) -> "tuple[np.ndarray, np.ndarray]":
        """Returns the rows to train on or those held out, and their groups."""
        is_one = self.is_held_out == held_out
        return self.rows[is_one], self.groups[is_one]


def choose(
    rows: Iterable[tuple[str, ...]],
    known: Iterable[str] = (),
    every: int = 0,
    known_first: Iterable[str] = (),
) -> Choice:
    """Chooses rows with text, once each, none of them with a known text.

    Memory holds a few numbers per row.

    Args:
        rows: iterable of tuples of strings.
        known: iterable of strings. Rows with one of these texts are left out,
            see `text_hash`.
        every: int. One in so many groups is held out, beginning with the
            first. Defaults to `0`, none.
        known_first: iterable of strings. Rows with such a first text are left
            out. Defaults to none.
    """
    known = set(map(text_hash, known))
    known_first = set(map(text_hash, known_first))
    reasons, keys, firsts = (array.array(code) for code in "BqQ")
    for texts in rows:
        reason = EMPTY
        hashes = (0,)
        if all(map(has_text, texts)):
            hashes = tuple(map(text_hash, texts))
            is_known = hashes[0] in known_first or not known.isdisjoint(hashes)
            reason = KNOWN if is_known else CHOSEN
        reasons.append(reason)
        keys.append(hash(hashes))
        firsts.append(hashes[0])
    reasons, keys, firsts = map(np.array, (reasons, keys, firsts))
    new = np.flatnonzero(reasons == CHOSEN)
    _, places = np.unique(keys[new], return_index=True)
    chosen = new[np.sort(places)]
    _, places, groups = np.unique(
        firsts[chosen], return_index=True, return_inverse=True
    )
    groups = np.argsort(np.argsort(places))[groups]
    is_held_out = np.zeros(len(chosen), bool)
    if every:
        is_held_out = groups % every == 0
    _, num_empty, num_known = np.bincount(reasons, minlength=3).tolist()
    counts = {
        "rows": len(reasons) - num_empty,
        "empty": num_empty,
        "dropped": num_known,
        "repeated": len(new) - len(chosen),
    }
    return Choice(chosen, groups, is_held_out, counts)


def take(rows: Iterable, numbers: "np.ndarray") -> Iterable:
    """Returns the rows with the given numbers, in the order of the rows."""
    return itertools.compress(rows, np.bincount(numbers))


def rows_digest(rows) -> str:
    """Returns the checksum of all values in a split's examples."""
    return digest_of_text(json.dumps(rows, default=_plain))


def _plain(value):
    """The values of an array, or the columns of examples."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return vars(value)
