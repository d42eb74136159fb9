"""Writing a text file so that nobody ever sees half of it."""

import os
import pathlib


def write_text_atomically(path: pathlib.Path, text: str) -> None:
    """Writes under a temporary name beside `path` and renames.

    Args:
        path: pathlib.Path. An older file there is replaced; missing folders
            are made.
        text: string, written as UTF-8.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8", newline="")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
