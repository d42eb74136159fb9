"""New files beside their final name, which they get only when all is well."""

import contextlib
import os
import pathlib
import tempfile


@contextlib.contextmanager
def staged(path: pathlib.Path):
    """Yields a path to write to, and renames what is there to `path`.

    What was at `path` before is replaced. If the body raises, nothing is left
    of the new file and what was there stays.

    Args:
        path: `pathlib.Path`. The final name. Its folder is made if needed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=path.parent, prefix=f".{path.name}-"
    ) as folder:
        partial = pathlib.Path(folder, path.name)
        yield partial
        if path.is_dir():
            os.replace(path, pathlib.Path(folder, "replaced"))
        os.replace(partial, path)


def write_text(path: pathlib.Path, text: str) -> None:
    """Writes a text file, as UTF-8 and to the disk, before it gets its name.

    Args:
        path: `pathlib.Path`. What is there is replaced.
        text: string.
    """
    with (
        staged(path) as partial,
        open(partial, "w", encoding="utf-8", newline="") as file,
    ):
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
