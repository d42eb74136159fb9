"""`kdkit VERB`: finds the verb and turns errors into plain lines."""

import contextlib
import csv
import importlib
import json
import os
import shlex
import sys
import tomllib
import warnings

from kdkit.cli.loading import require_backend
from kdkit.errors import (
    RunError,
    UsageError,
    disk_problem,
    printable,
    unknown,
)
from kdkit.io.machine import keep_freed_memory
from kdkit.io.signals import (
    INTERRUPTED,
    STOPS,
    TERMINATED,
    Terminated,
    terminable,
)
from kdkit.runs.messages import shown_messages
from kdkit.version import __version__

DONE, FAILED, MISTAKE = 0, 1, 2

HELP = ("-h", "--help")
# From verb to the function that runs it, and one line of help. Modules are
# imported when their verb runs.
VERBS = {
    "list": ("info.list_all", "list recipes, student presets and tasks"),
    "show": ("info.show", "show a recipe's stages and settings"),
    "init": ("info.init", "write a recipe as TOML with comments, for distill"),
    "demo": ("info.demo", "teacher to report in minutes, with generated data"),
    "train-teacher": ("runs.train_teacher", "fine-tune a teacher on a task"),
    "pretrain": ("runs.pretrain", "train a language model on text or pairs"),
    "augment": ("runs.augment", "write augmented examples, words replaced"),
    "cache": ("runs.cache", "cache a teacher's outputs, for many runs"),
    "distill": ("runs.distill", "train a student from a teacher by a recipe"),
    "doctor": ("runs.doctor", "check a distillation before it runs"),
    "sweep": ("sweep.run", "run a recipe for each choice of settings"),
    "ablate": ("ablate.run", "compare a recipe's arms with the paper's table"),
    "evaluate": ("evaluate.run", "measure a model on a task or on text"),
    "export": ("export.run", "write verified files: LiteRT, ONNX, SavedModel"),
    "benchmark": ("benchmark.run", "measure exported files, or on a phone"),
    "push": ("push.run", "upload a model to the Hugging Face Hub or Kaggle"),
    "generate": ("generate.run", "write text with a decoder"),
    "report": ("report.run", "write a page and a table about runs"),
}

# Verbs that continue when the same command is given again.
GO_ON = (
    "demo", "train-teacher", "pretrain", "augment", "cache", "distill", "sweep",
    "ablate",
)  # fmt: skip
WITHOUT_TENSORFLOW = ("list", "show", "init", "report")
# What readers of the user's files raise.
OF_INPUTS = (
    OSError,
    UnicodeError,
    json.JSONDecodeError,
    csv.Error,
    tomllib.TOMLDecodeError,
)
# Modules of such errors.
OF_OTHER_INPUTS = ("pyarrow.lib", "safetensors", "pydantic_core")


def main(arguments=None) -> int:
    """Runs the command line; returns its exit status."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "true")  # slow to find
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    verb, *words = arguments or [None]
    name = "kdkit"
    try:
        if verb == "--version":
            print(__version__)
        elif verb is None or verb in HELP:
            print(_help())
        elif verb not in VERBS:
            raise unknown("verb", verb, VERBS)
        else:
            name = f"kdkit {verb}"
            with terminable(), shown_messages(), one_line_warnings(name):
                return _run(verb, words)
        return MISTAKE if verb is None else DONE
    except BrokenPipeError:  # the reader of standard output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except STOPS as stop:
        print(f"\n{name}: stopped.{_way_on(arguments)}", file=sys.stderr)
        return TERMINATED if isinstance(stop, Terminated) else INTERRUPTED
    except SystemExit as end:  # of argparse, after a help
        return end.code or DONE
    except Exception as error:
        status = status_of(error)
        if status is None:
            print(f"{name}: an unexpected error.", file=sys.stderr)
            raise
        print(f"{name}: {printable(_words(error))}", file=sys.stderr)
        return status


def status_of(error: Exception) -> int | None:
    """Returns the status of an error that is one line, or `None`."""
    if isinstance(error, UsageError):
        return MISTAKE
    if isinstance(error, RunError) or disk_problem(error):
        return FAILED
    of_other = type(error).__module__.startswith(OF_OTHER_INPUTS)
    return MISTAKE if of_other or isinstance(error, OF_INPUTS) else None


def _words(error):
    """An error as text, without the marks of pydantic."""
    if type(error).__module__ == "pydantic_core._pydantic_core":
        return importlib.import_module("kdkit.settings").in_words(error)
    return str(error)


def _run(verb, words):
    """Runs a verb; returns its exit status."""
    keep_freed_memory()
    if verb not in WITHOUT_TENSORFLOW and not {*HELP} & {*words}:
        require_backend()
    module, _, name = VERBS[verb][0].partition(".")
    found = importlib.import_module(f"kdkit.cli.{module}")
    status = getattr(found, name)(words)
    print(end="", flush=True)
    return status or DONE


def _way_on(arguments):
    """The command that continues a verb, where there is one."""
    if arguments[0] not in GO_ON:
        return ""
    again = shlex.join(["kdkit", *arguments])
    return f" The same command continues from the saved files:\n  {again}"


def _help():
    width = max(map(len, VERBS))
    verbs = "\n".join(
        f"  {verb:<{width}}  {help_line}"
        for verb, (_, help_line) in VERBS.items()
    )
    return (
        "usage: kdkit VERB [options]\n\n"
        f"Make transformers small: distil, measure, ship.\n\nverbs:\n{verbs}"
        "\n\nkdkit VERB --help shows a verb's options, kdkit distill RECIPE "
        "--help those of a\nrecipe, kdkit --version the version."
    )


@contextlib.contextmanager
def one_line_warnings(name: str):
    """Prints kdkit's warnings on one line, without their place in the code."""
    before = warnings.formatwarning

    def formatted(message, category, *args, **kwargs):
        if category is UserWarning:
            return f"{name}: warning: {printable(str(message))}\n"
        return before(message, category, *args, **kwargs)

    warnings.formatwarning = formatted
    try:
        yield
    finally:
        warnings.formatwarning = before


if __name__ == "__main__":
    sys.exit(main())
