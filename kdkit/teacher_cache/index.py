"""What a cache holds, in one file that several processes may add to."""

import contextlib
import json
import pathlib
import shutil

from kdkit.errors import UsageError
from kdkit.files import digest
from kdkit.files import locked
from kdkit.files import write_text

INDEX = "index.json"
FORMAT = 2


class Index:
    """The index of a cache.

    Args:
        directory: `pathlib.Path`.
        fingerprint: dict of what decides the outputs: the teacher's content,
            the length that rows are cut to, the precision.

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
        """Returns what is there: `shards` and `entries`."""
        path = self.directory / INDEX
        if not path.is_file():
            return {
                "fingerprint": self._fingerprint, "entries": {}, "shards": []
            }  # fmt: skip
        return json.loads(path.read_text(encoding="utf-8"))

    def add(self, shard: dict, entries: dict) -> None:
        """Adds a finished file, and says of its entries what is known.

        Args:
            shard: dict, as `write_shard` returns it.
            entries: dict from name to `shape` and errors.
        """
        with self._locked():
            self._check()  # another process may have begun it
            index = self.read()
            index["shards"].append(shard)
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
            The dict of `entries`, whose sums are forgotten here.
        """
        with self._locked():
            index = self.read()
            entries = index["entries"]
            index["shards"].remove(shard)
            index["entries"] = {
                name: {**known, "squared_errors": 0, "squares": 0}
                for name, known in entries.items()
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

        Files that a dead one left without adding them are removed.
        """
        with self._locked("filling"):
            known = {shard["file"] for shard in self.read()["shards"]}
            for path in self.directory.glob("*.arrow"):
                if path.name not in known:
                    path.unlink()
            for path in self.directory.glob(".*.arrow-*"):
                shutil.rmtree(path, ignore_errors=True)
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
                (self.directory / file).unlink(missing_ok=True)
        return damaged

    def _check(self):
        there = self.read()["fingerprint"]
        here = self._fingerprint
        different = [
            f"{name} {there.get(name)} there, {here.get(name)} here"
            for name in dict.fromkeys([*here, *there])
            if there.get(name) != here.get(name)
        ]
        if different:
            raise UsageError(
                f"The cache in {self.directory} is of other outputs: "
                f"{'; '.join(different)}. Use what it was made with, or name "
                "another directory."
            )

    def _write(self, index):
        write_text(self.directory / INDEX, json.dumps(index, indent=1))

    def _locked(self, what="index"):
        """Waits for others that do the same."""
        return locked(self.directory / f".{what}.lock")
