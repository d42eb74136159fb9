"""What a cache holds, in one file that several processes may add to."""

import contextlib
import json
import math
import pathlib
import re
import shutil

from kdkit.disk import writing
from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.files import change_in_words
from kdkit.files import digest
from kdkit.files import write_text
from kdkit.locks import locked
from kdkit.reading import read_json
from kdkit.taps import LENGTH

INDEX = "index.json"
FORMAT = 2
FILE = re.compile(r"[0-9a-f]{32}\.arrow")  # as write_shard names them
BEGUN = re.compile(rf"\.{FILE.pattern}\W.*")  # as `staged` names folders
TYPES = {"rows": int, "bytes": int, "sha256": str, "entries": list}
ROW_LENGTH = "sequence_length"
MOST = 1e300  # of a sum, so that there is one of many
ERRORS = "errors"  # of a file, by entry
SUMS = ("largest_error", "squared_errors", "squares")


class Index:
    """The index of a cache.

    Args:
        directory: `pathlib.Path`.
        fingerprint: dict of what decides the outputs of a row: the content of
            the teacher and of its exported file, the vocabulary, the precision.
            The length that rows are cut to is no part of it: rows that are cut
            are other rows, with other keys. Nor are the taps: what is missing
            is added. Both stand beside it, as `filled_with`.

    Raises:
        UsageError: (a `ValueError`) if the cache there is of something else.
    """

    def __init__(self, directory: pathlib.Path, fingerprint: dict):
        self.directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"There can be no cache in {directory}: {error.strerror}. "
                "Expected a directory, or the name of a new one."
            ) from error
        self._fingerprint = {"format": FORMAT, **fingerprint}
        self._check()

    def read(self) -> dict:
        """Returns what is there.

        A dict of the `fingerprint`, the `shards` and the `entries`, and, once
        something is there, `filled_with`: the `sequence_lengths` that the rows
        were cut to and the `taps`.
        """
        path = self.directory / INDEX
        if not path.is_file():
            return {
                "fingerprint": self._fingerprint, "entries": {}, "shards": []
            }  # fmt: skip
        return read_json(path, "the index of a cache", _of_index)

    @staticmethod
    def size_of(directory: pathlib.Path) -> int:
        """Returns the bytes of what is kept in a directory, 0 without one."""
        if not (directory / INDEX).is_file():
            return 0
        index = read_json(directory / INDEX, "the index of a cache", _of_index)
        return sum(shard["bytes"] for shard in index["shards"])

    def add(self, shard: dict, entries: dict) -> None:
        """Adds a finished file, and says of its entries what is known.

        Args:
            shard: dict, as `write_shard` returns it, with the
                `sequence_length` of its rows.
            entries: dict from name to `shape` and errors.
        """
        with self._locked():
            self._check()  # another process may have begun it
            index = self.read()
            errors = {
                name: {one: known[one] for one in SUMS}
                for name, known in entries.items()
            }
            index["shards"].append({**shard, ERRORS: errors})
            for name, known in entries.items():
                before = index["entries"].get(name, {})
                index["entries"][name] = {
                    "shape": known["shape"],
                    "largest_error": max(
                        known["largest_error"], before.get("largest_error", 0)
                    ),
                    **{
                        total: known[total] + before.get(total, 0)
                        for total in ("squared_errors", "squares")
                    },
                }
            self._write(index)

    def take_out(self, shard: dict) -> dict:
        """Takes a file out, to be added to another index.

        Args:
            shard: dict, one of `shards`.

        Returns:
            The dict of `entries`, with the errors of that file; where earlier
            versions did not note them, those of all, which are forgotten here.
        """
        with self._locked():
            index = self.read()
            entries = {
                name: {**known, **shard.get(ERRORS, {}).get(name, {})}
                for name, known in index["entries"].items()
                if ERRORS not in shard or name in shard[ERRORS]
            }
            index["shards"].remove(shard)
            index["entries"] = {
                name: {**known, "squared_errors": 0, "squares": 0}
                for name, known in index["entries"].items()
            }
            self._write(index)
        return entries

    def note(self, name: str, value: dict) -> None:
        """Writes something else that is known of what is there.

        Args:
            name: string. Its name in the index.
            value: dict, as JSON has it.
        """
        with self._locked():
            self._check()
            self._write({**self.read(), name: value})

    @contextlib.contextmanager
    def filling(self):
        """Lets one process at a time run the teacher; others wait for it.

        Files that a dead one left without adding them are removed. Those with
        other names are of other programs.
        """
        with self._locked("filling"):
            known = {shard["file"] for shard in self.read()["shards"]}
            for path in list(self.directory.iterdir()):
                if FILE.fullmatch(path.name) and path.name not in known:
                    with writing(path):
                        path.unlink()
                elif BEGUN.fullmatch(path.name):
                    remove = pathlib.Path.unlink
                    if path.is_dir():
                        remove = shutil.rmtree
                    with contextlib.suppress(OSError):
                        remove(path)
            yield

    def drop_damaged(self) -> list[str]:
        """Takes files out that are not what was written; returns their names.

        A file that is gone, cut off or changed is known by its digest.
        """
        damaged = [
            shard["file"]
            for shard in self.read()["shards"]
            if not (self.directory / shard["file"]).is_file()
            or digest(self.directory / shard["file"]) != shard["sha256"]
        ]
        if damaged:
            with self._locked():
                index = self.read()
                index["shards"] = [
                    shard
                    for shard in index["shards"]
                    if shard["file"] not in damaged
                ]
                self._write(index)
            for file in damaged:
                with writing(self.directory / file):
                    (self.directory / file).unlink(missing_ok=True)
        return damaged

    def _check(self):
        there = self.read()["fingerprint"]
        here = self._fingerprint
        different = [
            change_in_words(name, there.get(name), here.get(name))
            for name in dict.fromkeys([*here, *there])
            if there.get(name) != here.get(name)
        ]
        if different:
            raise UsageError(
                f"The cache in {self.directory} holds other outputs: "
                f"{'; '.join(different)}. Use the teacher that filled it, or "
                "another directory."
            )

    def _write(self, index):
        shards = index["shards"]
        filled_with = {
            "sequence_lengths": sorted(
                # Earlier versions did not write it.
                {one[ROW_LENGTH] for one in shards if ROW_LENGTH in one}
            ),
            "taps": sorted(
                {
                    name.partition("/")[0]
                    for shard in shards
                    for name in shard["entries"]
                }
            ),
        }
        index = {**_with_errors(index), "filled_with": filled_with}
        write_text(self.directory / INDEX, json.dumps(index, indent=1))

    def _locked(self, what="index"):
        """Waits for others that do the same."""
        return locked(self.directory / f".{what}.lock")


def _with_errors(index):
    """The index with the errors of the files that it has.

    Whatever order they came in. Earlier versions did not note those of a file:
    then the sums stay as they stand.
    """
    shards = index["shards"]
    if any(ERRORS not in shard for shard in shards):
        return index
    entries = {}
    for name, known in index["entries"].items():
        found = [
            shard[ERRORS][name] for shard in shards if name in shard[ERRORS]
        ]
        entries[name] = {
            "shape": known["shape"],
            "largest_error": max(
                (one["largest_error"] for one in found), default=0
            ),
            **{
                total: math.fsum(one[total] for one in found)
                for total in ("squared_errors", "squares")
            },
        }
    return {**index, "entries": entries}


def _of_index(index):
    """What is wrong with an index: names of files lead nowhere else."""
    fields = {"fingerprint": dict, "entries": dict, "shards": list}
    for name, kind in fields.items():
        if not isinstance(index.get(name), kind):
            return f"expected a JSON {kind.__name__} as its {name!r}"
    for shard in index["shards"]:
        file = shard.get("file") if isinstance(shard, dict) else None
        if not isinstance(file, str) or not FILE.fullmatch(file):
            return f"{shortened(file)} is no name of a file of a cache"
        for name, kind in TYPES.items():
            if type(shard.get(name)) is not kind:
                return f"expected a {kind.__name__} as {name!r} of {file}"
        if type(shard.get(ROW_LENGTH, 0)) is not int:
            return f"expected an int as {ROW_LENGTH!r} of {file}"
        if not all(isinstance(name, str) for name in shard["entries"]):
            return f"expected names as 'entries' of {file}"
        errors = shard.get(ERRORS, {})
        if not isinstance(errors, dict) or not all(
            map(_has_sums, errors.values())
        ):
            return f"expected {', '.join(SUMS)} in {ERRORS!r} of {file}"
    for name, known in index["entries"].items():
        if not isinstance(known, dict) or not _is_shape(known.get("shape")):
            return f"expected sizes as 'shape' of {shortened(name)}"
        if not _has_sums(known):
            return f"expected numbers as {', '.join(SUMS)} of {shortened(name)}"
    return None


def _has_sums(known):
    return isinstance(known, dict) and all(
        isinstance(known.get(one), int | float)
        # Earlier versions also summed what was not finite.
        and not (known[one] < 0 or MOST <= known[one] < math.inf)
        for one in SUMS
    )


def _is_shape(shape):
    return isinstance(shape, list) and all(
        size == LENGTH or (type(size) is int and 0 < size < 1 << 31)
        for size in shape
    )
