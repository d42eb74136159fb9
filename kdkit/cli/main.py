"""`kdkit VERB`: finds the verb and turns errors into plain lines."""

import argparse
import functools
import importlib
import os
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
    "difficulty": ("difficulty", "BERT, MASS and GPT-2 on the same text"),
    "evaluate": ("evaluate", "a model's metrics on a task"),
    "perturb": ("perturb", "a model's metrics under noise on its weights"),
    "export": ("export", "write verified LiteRT, ONNX or SavedModel files"),
    "benchmark": ("benchmark", "latency of exported files on this machine"),
    "generate": ("generate", "text from a decoder, or one of another"),
    "report": ("report", "one page and one table about a run"),
}

# Those that, stopped and given again, do only what is not done.
GO_ON = (
    "demo", "train-teacher", "pretrain", "augment", "cache", "distill", "sweep",
    "ablate", "difficulty",
)  # fmt: skip


class Parser(argparse.ArgumentParser):
    """Shows a mistake as one line, not as the whole usage."""

    def error(self, message):
        self.exit(MISTAKE, f"{self.prog}: {message}. See {self.prog} --help.\n")


def main(arguments=None) -> int:
    """Runs the command line; returns its exit status."""
    with open_streams():
        return _main(arguments)


def _main(arguments):
    # Before TensorFlow is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    parser = _make_parser()
    if not arguments:
        parser.print_help()
        return MISTAKE
    options, rest = parser.parse_known_args(arguments[:1])
    verb = options.verb
    options = make_verb_parser(verb).parse_args(arguments[1:] + rest)
    try:
        with terminable():
            return _run(verb, options)
    except UsageError as error:
        return _say(verb, error, MISTAKE)
    except RunError as error:
        return _say(verb, error, FAILED)
    except STOPS as stop:
        line = f"kdkit {verb}: stopped."
        if verb in GO_ON:
            line += (
                " The same command goes on from what is saved:\n"
                f"  kdkit {shlex.join(arguments)}"
            )
        print(f"\n{line}", file=sys.stderr)
        return TERMINATED if isinstance(stop, Terminated) else INTERRUPTED
    except Exception as error:
        line = _of_a_file(error)
        if line is None:
            raise
        return _say(verb, line, FAILED)


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


def _run(verb, options):
    """Runs a verb; returns its exit status."""
    require_places(options)
    if verb == "report":  # which needs matplotlib only
        return _module(verb).run(options) or DONE
    keep_freed_memory()
    quiet.check_backend()
    quiet.silence_loggers()
    load = functools.partial(quiet.import_tensorflow, verb, options)
    with late.imports(load), quiet.one_line_warnings(verb):
        return _module(verb).run(options) or DONE


def _say(verb, what, status):
    """Prints what is wrong; returns the exit status."""
    print(f"kdkit {verb}: {printable(str(what))}", file=sys.stderr)
    return status


def make_verb_parser(verb):
    """Returns the parser of what stands behind a verb."""
    module = _module(verb)
    parser = Parser(
        prog=f"kdkit {verb}",
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
