"""`kdkit VERB`: finds the verb and turns errors into plain lines."""

import argparse
import functools
import importlib
import os
import pathlib
import shlex
import sys

from kdkit.cli import late
from kdkit.cli import quiet
from kdkit.cli.places import require_places
from kdkit.cli.streams import open_streams
from kdkit.disk import describe
from kdkit.disk import disk_problem
from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.errors import printable
from kdkit.memory import keep_freed_memory
from kdkit.stopping import INTERRUPTED
from kdkit.stopping import STOPS
from kdkit.stopping import TERMINATED
from kdkit.stopping import Terminated
from kdkit.stopping import terminable
from kdkit.version import __version__

DONE, FAILED, MISTAKE = 0, 1, 2

# Verb to module and one line of help. Modules of verbs import what computes
# only when they run, so that help comes at once.
VERBS = {
    "list": ("list_recipes", "recipes, student presets and tasks"),
    "show": ("show", "a recipe's stages and settings"),
    "demo": ("demo", "the whole path in minutes, without data or network"),
    "train-teacher": ("train_teacher", "fine-tune a teacher on a task"),
    "pretrain": ("pretrain", "train a language model on text or pairs"),
    "augment": ("augment", "write copies of training rows, words replaced"),
    "cache": ("cache", "keep a teacher's outputs, for many runs"),
    "distill": ("distill", "train a student from a teacher by a recipe"),
    "doctor": ("doctor", "what would ruin a distillation, before it runs"),
    "sweep": ("sweep", "a recipe for each choice of settings, best on dev"),
    "ablate": ("ablate", "a recipe's arms beside the paper's table"),
    "evaluate": ("evaluate", "a model's metrics on a task"),
    "export": ("export", "write verified LiteRT, ONNX or SavedModel files"),
    "benchmark": ("benchmark", "latency of exported files on this machine"),
    "generate": ("generate", "text from a decoder, or one of another"),
    "report": ("report", "one page and one table about a run"),
}

# Those that, stopped and given again, do only what is not done.
GO_ON = (
    "demo", "train-teacher", "pretrain", "augment", "cache", "distill", "sweep",
    "ablate",
)  # fmt: skip


class Parser(argparse.ArgumentParser):
    """Shows a mistake as one line, not as the whole usage."""

    def error(self, message):
        self.exit(MISTAKE, f"{self.prog}: {message}. See {self.prog} --help.\n")


def main(arguments=None) -> int:
    """Runs the command line; returns its exit status."""
    with open_streams():
        return _main(arguments)


def run_script(module, arguments=None, goes_on: bool = False) -> int:
    """Runs a script of experiments/ like a verb; returns its exit status.

    Args:
        module: the script's module. Its docstring is the help; it has
            `add_arguments(parser)` and `run(options)`.
        arguments: list of strings or `None`. Defaults to those of the process.
        goes_on: bool. Whether the script, stopped and started again, does only
            what is missing. Defaults to `False`.
    """
    with open_streams():
        _set_defaults()
        arguments = sys.argv[1:] if arguments is None else list(arguments)
        name = f"experiments/{pathlib.Path(module.__file__).name}"
        again = f"python {shlex.join([name, *arguments])}" if goes_on else None
        return _command(name, module, arguments, again)


def _set_defaults():
    # Before TensorFlow is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")


def _main(arguments):
    _set_defaults()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    parser = _make_parser()
    if not arguments:
        parser.print_help()
        return MISTAKE
    options, rest = parser.parse_known_args(arguments[:1])
    verb = options.verb
    return _command(
        f"kdkit {verb}",
        _module(verb),
        arguments[1:] + rest,
        again=f"kdkit {shlex.join(arguments)}" if verb in GO_ON else None,
        computes=verb != "report",  # which needs matplotlib only
    )


def _command(name, module, arguments, again=None, computes=True):
    """Runs a verb or a script; returns its exit status."""
    options = make_command_parser(name, module).parse_args(arguments)
    try:
        with terminable():
            require_places(options)
            if not computes:
                return module.run(options) or DONE
            return _compute(name, module, options)
    except UsageError as error:
        return _say(name, error, MISTAKE)
    except RunError as error:
        return _say(name, error, FAILED)
    except STOPS as stop:
        line = f"{name}: stopped."
        if again is not None:
            line += f" The same command goes on from what is saved:\n  {again}"
        print(f"\n{line}", file=sys.stderr)
        return TERMINATED if isinstance(stop, Terminated) else INTERRUPTED
    except Exception as error:
        line = _of_a_file(error)
        if line is None:
            raise
        return _say(name, line, FAILED)


def _of_a_file(error):
    """What the system says of a file, where nothing nearer to it did.

    A library writes by itself, as TensorBoard's writer does, or a name is none
    that a file can have. `None` for other errors.
    """
    if isinstance(error, ValueError) and "embedded null" in str(error):
        return (
            "A path has a zero byte, which no file's name has. Take it out of "
            "the options, or of the settings of the run."
        )
    number = disk_problem(error)
    place = getattr(error, "filename", None)
    if number is None and isinstance(error, OSError) and place is not None:
        number = error.errno
    if number is None:
        return None
    kept = "What was finished is kept."
    return describe(place, number, kept, "written or read")


def _compute(name, module, options):
    """Runs what needs TensorFlow; returns its exit status."""
    keep_freed_memory()
    quiet.check_backend()
    quiet.silence_loggers()
    load = functools.partial(quiet.import_tensorflow, name, options)
    with late.imports(load), quiet.one_line_warnings(name):
        return module.run(options) or DONE


def _say(name, what, status):
    """Prints what is wrong; returns the exit status."""
    print(f"{name}: {printable(str(what))}", file=sys.stderr)
    return status


def make_verb_parser(verb):
    """Returns the parser of the options of a verb."""
    return make_command_parser(f"kdkit {verb}", _module(verb))


def make_command_parser(name, module):
    """Returns the parser of the options of a verb's or a script's module."""
    parser = Parser(
        prog=name,
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    return parser


def _module(verb):
    return importlib.import_module(f"kdkit.cli.{VERBS[verb][0]}")


def _make_parser():
    width = max(map(len, VERBS))
    verbs = "\n".join(
        f"  {verb:<{width}}  {help_line}"
        for verb, (_, help_line) in VERBS.items()
    )
    parser = Parser(
        prog="kdkit",
        usage="kdkit VERB [options]",
        description="Make transformers small: distil, measure, ship.\n\n"
        f"verbs:\n{verbs}\n\nkdkit VERB --help shows a verb's options and an "
        "example.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument(
        "verb", choices=VERBS, metavar="VERB", help=argparse.SUPPRESS
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
