"""The index of a cache: one file that several processes may update."""

import contextlib
import json
import math
import pathlib
import re
import shutil

import numpy as np

from kdkit.errors import RunError, UsageError
from kdkit.io.files import change_in_words, digest, write_text
from kdkit.io.locks import locked
from kdkit.io.machine import byte_size
from kdkit.io.reading import read_json
from kdkit.teacher_cache.shards import Shard, find

INDEX = "index.json"
FORMAT = 2
FILE = re.compile(r"[0-9a-f]{32}\.arrow")  # names from `write_shard`
BEGUN = re.compile(rf"\.{FILE.pattern}\W.*")  # folder names from `staged`
ROW_LENGTH = "sequence_length"
ERRORS = "errors"  # in a file's entry, by output
SUMS = ("largest_error", "squared_errors", "squares")


class Index:
    """The index of a cache."""

    def __init__(self, directory: pathlib.Path, fingerprint: dict):
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._fingerprint = {"format": FORMAT, **fingerprint}
        self._check()

    def read(self) -> dict:
        """Returns the index."""
        path = self.directory / INDEX
        if not path.is_file():
            return {
                "fingerprint": self._fingerprint, "entries": {}, "shards": []
            }  # fmt: skip
        return read_json(path, "the index of a cache")

    @staticmethod
    def stored_size(directory: pathlib.Path) -> int:
        """Returns the bytes of a directory's cached outputs, 0 without any."""
        if not (directory / INDEX).is_file():
            return 0
        index = read_json(directory / INDEX, "the index of a cache")
        return sum(shard["bytes"] for shard in index["shards"])

    def add(self, shard: dict, entries: dict) -> None:
        """Adds a finished file and the errors of its entries."""
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

    def remove_shard(self, shard: dict) -> dict:
        """Removes a file from the index, to be added to another index."""
        with self._locked():
            index = self.read()
            entries = {
                name: {**index["entries"][name], **errors}
                for name, errors in shard[ERRORS].items()
            }
            index["shards"].remove(shard)
            index["entries"] = {
                name: {**known, "squared_errors": 0, "squares": 0}
                for name, known in index["entries"].items()
            }
            self._write(index)
        return entries

    @contextlib.contextmanager
    def filling(self):
        """Lets one process at a time run the teacher; others wait."""
        with self._locked("filling"):
            known = {shard["file"] for shard in self.read()["shards"]}
            for path in list(self.directory.iterdir()):
                if FILE.fullmatch(path.name) and path.name not in known:
                    path.unlink()
                elif BEGUN.fullmatch(path.name):
                    remove = pathlib.Path.unlink
                    if path.is_dir():
                        remove = shutil.rmtree
                    with contextlib.suppress(OSError):
                        remove(path)
            yield

    def drop_damaged(self) -> list[str]:
        """Removes files whose content has changed; returns their names."""
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
                f"The cache in {self.directory} contains other outputs: "
                f"{'; '.join(different)}."
            )

    def _write(self, index):
        shards = index["shards"]
        filled_with = {
            "sequence_lengths": sorted({one[ROW_LENGTH] for one in shards}),
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
        """Waits for other processes with the same lock."""
        return locked(self.directory / f".{what}.lock")


def _with_errors(index):
    """Returns the index with the errors summed over its files."""
    shards = index["shards"]
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


def find_rows(index, files, entries, keys):
    """Returns the file and the row of every key, −1 for missing keys."""
    places, searched = {}, {}
    for entry in entries:
        shards = tuple(
            number
            for number, shard in enumerate(files)
            if entry.name in shard["entries"]
        )
        # Entries in the same files have the same places.
        group = shards, entry.is_per_example
        if group not in searched:
            searched[group] = _search(
                {
                    number: index.directory / files[number]["file"]
                    for number in shards
                },
                keys[entry.is_per_example],
            )
        places[entry] = searched[group]
    return places


def _search(files, keys):
    """Returns the file number and the row of every key in some files."""
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


def find_missing(indices, encoded, keys, entries, additional, part=None):
    """Returns the examples to run the teacher on, and the missing entries."""
    known = [
        find_rows(index, index.read()["shards"], (*entries, *additional), keys)
        for index in indices
    ]

    def absent_rows(entry):
        absent = np.all([places[entry][:, 0] < 0 for places in known], 0)
        if entry.is_per_example:
            return absent
        return absent.reshape(-1, encoded.sequences_per_row).any(axis=1)

    absent = {entry: absent_rows(entry) for entry in (*entries, *additional)}
    numbers = np.flatnonzero(np.any([absent[one] for one in entries], axis=0))
    if part is not None:
        which, count = part
        numbers = numbers[keys[True][numbers, 0] % count == which]
    _, first = np.unique(keys[True][numbers], axis=0, return_index=True)
    numbers = numbers[first]
    return numbers, [entry for entry in absent if absent[entry][numbers].any()]


HEADROOM = 1.1  # required free disk space over the bytes to write


def require_disk_space(directory, size: int) -> None:
    """Raises an error if outputs do not fit on the disk, before any write.

    Args:
        directory: path of an existing directory.
        size: int. Bytes.

    Raises:
        RunError: with the required and the free space.
    """
    free = shutil.disk_usage(directory).free
    if size * HEADROOM > free:
        raise RunError(
            f"The teacher's outputs need {byte_size(size)} in {directory}, "
            f"where {byte_size(free)} are free."
        )


def part_directory(directory, part: tuple[int, int]) -> pathlib.Path:
    """Returns the directory for part i, from 0, of n parts of a cache."""
    which, count = part
    return pathlib.Path(directory) / f"part_{which + 1}_of_{count}"


def other_parts_size(directory, part: tuple[int, int]) -> int:
    """Returns the bytes in the other parts of a cache."""
    which, count = part
    return sum(
        Index.stored_size(part_directory(directory, (other, count)))
        for other in range(count)
        if other != which
    )
