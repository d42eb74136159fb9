"""Paths on the command line: all that are missing, before anything else."""

import difflib
import os
import pathlib

from kdkit.errors import UsageError

# Options with a model: a path, or the name of a preset.
MODELS = (
    "model", "models", "teacher", "student", "pretrained", "encoder",
    "decoder", "tokenizer", "augment_model",
)  # fmt: skip
# Options with files or folders that the user provides.
FILES = (
    "data_dir", "config", "corpus", "held_out", "task_text", "task_held_out",
    "pairs", "unlabeled", "word_vectors", "augment_vectors", "stop_words",
    "teacher_file", "input", "files", "runs",
)  # fmt: skip


def require_places(options) -> None:
    """Refuses paths that do not exist, all in one message.

    A verb calls it before it reads anything, so that advice about other options
    never hides a mistyped path.

    Args:
        options: the parsed options of a verb.

    Raises:
        UsageError: with each path and the nearest name that exists.
    """
    problems = []
    for name in MODELS + FILES:
        given = getattr(options, name, None)
        for place in given if isinstance(given, list) else [given]:
            # Other options of the same name are numbers.
            if not isinstance(place, str) or "\0" in place:
                continue
            if name in MODELS and not is_path(place):
                continue
            if not pathlib.Path(place).exists():
                problems.append(f"{_option(name)}{_missing(place)}")
    if problems:
        raise UsageError("\n".join(problems))


def is_path(model: str) -> bool:
    """Whether the name of a model is a path, and not that of a preset.

    Args:
        model: string. Handles such as `hf://USER/NAME` are no paths.
    """
    path = pathlib.Path(model)
    # Names of presets may have dots too, as qwen2.5_0.5b_en.
    is_file = path.suffix[1:].isalpha()
    has_folder = any(mark in str(model) for mark in {"/", os.sep})
    return is_file or (has_folder and "://" not in str(model))


def _option(name):
    """The option as it is typed; nothing for a positional argument."""
    if name in ("models", "files", "runs", "model"):
        return ""
    return f"--{name.replace('_', '-')}: "


def _missing(place):
    """That a path does not exist, and where a similar name does."""
    path = pathlib.Path(place)
    text = f"{place} does not exist."
    missing = next(
        part for part in (*reversed(path.parents), path) if not part.exists()
    )
    folder = missing.parent
    if not folder.is_dir():
        return f"{text} {folder} is a file, not a folder."
    similar = difflib.get_close_matches(
        missing.name, [item.name for item in folder.iterdir()], n=1
    )
    if similar:
        rest = path.relative_to(missing)
        return f"{text} Did you mean {folder / similar[0] / rest}?"
    nearest = folder.resolve()
    return f"{text} Check the path. The nearest existing folder is {nearest}."
