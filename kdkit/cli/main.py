"""`kdkit VERB`: finds the verb and turns errors into plain lines."""

import contextlib
import functools
import importlib
import importlib.util
import io
import logging
import os
import pathlib
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator

from kdkit.cli import late
from kdkit.cli.help_pages import wanted_page
from kdkit.cli.messages import shown_messages
from kdkit.cli.parser import HELP, Parser, missing_places
from kdkit.errors import RunError, UsageError, printable, suggestion
from kdkit.io.disk import disk_problem
from kdkit.io.machine import keep_freed_memory
from kdkit.io.signals import (
    INTERRUPTED,
    STOPS,
    TERMINATED,
    Terminated,
    terminable,
)
from kdkit.version import __version__

DONE, FAILED, MISTAKE = 0, 1, 2

# From verb to module and one line of help. A verb's module imports TensorFlow
# only when it runs, so the help is shown at once.
VERBS = {
    "list": ("list_recipes", "list recipes, student presets and tasks"),
    "show": ("show", "show a recipe's stages and settings"),
    "init": ("init", "write a recipe as TOML with comments, for distill"),
    "demo": ("demo", "teacher to report in minutes, without data or network"),
    "train-teacher": ("train_teacher", "fine-tune a teacher on a task"),
    "pretrain": ("pretrain", "train a language model on text or pairs"),
    "augment": ("augment", "write augmented examples, with words replaced"),
    "cache": ("cache", "cache a teacher's outputs, for many runs"),
    "distill": ("distill", "train a student from a teacher by a recipe"),
    "doctor": ("doctor", "check a distillation for mistakes before it runs"),
    "sweep": ("sweep", "run a recipe for each choice of settings, best on dev"),
    "ablate": ("ablate", "compare a recipe's arms with the paper's table"),
    "evaluate": ("evaluate", "measure a model on a task or on text"),
    "export": (
        "export",
        "write verified files: LiteRT, ONNX, SavedModel, Hugging Face",
    ),
    "benchmark": ("benchmark", "measure exported files here or on a phone"),
    "push": ("push", "upload a model to the Hugging Face Hub or to Kaggle"),
    "generate": ("generate", "write text with a decoder or an encoder-decoder"),
    "report": ("report", "write a page and a table about runs"),
}

# Verbs that continue when the same command is given again.
GO_ON = (
    "demo", "train-teacher", "pretrain", "augment", "cache", "distill", "sweep",
    "ablate",
)  # fmt: skip


def main(arguments=None) -> int:
    """Runs the command line; returns its exit status."""
    with open_streams():
        return _main(arguments)


def _set_defaults():
    # Before TensorFlow is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")


def _main(arguments):
    _set_defaults()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    verb, *words = arguments or [None]
    if verb == "--version":
        print(__version__)
        return DONE
    if verb in (None, *HELP):
        print(_help())
        return DONE if verb else MISTAKE
    if verb not in VERBS:
        what = f"no verb {verb!r}.{suggestion(verb, VERBS)}"
        return _say("kdkit", f"{what} See kdkit --help.", MISTAKE)
    return _command(
        f"kdkit {verb}",
        functools.partial(_module, verb),
        words,
        again=f"kdkit {shlex.join(arguments)}" if verb in GO_ON else None,
        computes=verb != "report",  # report needs matplotlib only
    )


def _command(name, find, words, again=None, computes=True):
    """Runs the verb or script that `find` imports; returns its exit status."""
    options = None

    def load():
        import_tensorflow(name, options)

    try:
        with terminable(), late.imports(load), shown_messages():
            module = find()
            parser = make_command_parser(name, module)
            if page := wanted_page(parser, words):
                print(page, end="")
                return DONE
            options = parsed_options(parser, module, words)
            if not computes:
                return module.run(options) or DONE
            keep_freed_memory()
            require_backend()
            silence_loggers()
            if late.is_loaded("keras"):
                load()
            elif _chooses_devices(options):
                _validate_devices(options)
                # Now, and not in the middle of an import that needs Keras.
                late.run(importlib.import_module("tensorflow"))
            with one_line_warnings(name):
                return module.run(options) or DONE
    except UsageError as error:
        return _say(name, error, MISTAKE)
    except RunError as error:
        return _say(name, error, FAILED)
    except STOPS as stop:
        line = f"{name}: stopped."
        if again is not None:
            line += (
                f" The same command continues from the saved files:\n  {again}"
            )
        print(f"\n{line}", file=sys.stderr)
        return TERMINATED if isinstance(stop, Terminated) else INTERRUPTED
    except Exception as error:
        line = _of_a_file(error)
        if line is None:
            raise
        return _say(name, line, FAILED)


def parsed_options(parser: Parser, module, words):
    """Returns the options of a verb, or raises one error with all mistakes."""
    options, problems = parser.parse(words)
    if problems:
        problems = [parser.joined(problems)]
    problems += missing_places(parser, options)
    if not problems:
        return options
    # Reported together with the mistakes that the verb finds.
    if hasattr(module, "validate"):
        try:
            module.validate(options, checks_fields=True)
        except UsageError as error:
            problems.append(str(error))
    raise UsageError("\n".join(problems))


def _of_a_file(error):
    """A message for a file's error that no other code described."""
    if isinstance(error, ValueError) and "embedded null" in str(error):
        return (
            "A path contains a zero byte, which no file's name can have. "
            "Remove it from the options or from the run's settings."
        )
    place = getattr(error, "filename", None)
    if disk_problem(error) or isinstance(error, OSError) and place is not None:
        return str(error)
    return None


def _say(name, what, status):
    """Prints an error and returns the exit status."""
    print(f"{name}: {printable(str(what))}", file=sys.stderr)
    return status


def make_verb_parser(verb: str) -> Parser:
    """Returns the parser for a verb's options."""
    return make_command_parser(f"kdkit {verb}", _module(verb))


def make_command_parser(name: str, module) -> Parser:
    """Returns the parser for the options of a verb's or a script's module."""
    return Parser(name, module.Options, module.__doc__)


def _module(verb):
    return importlib.import_module(f"kdkit.cli.{VERBS[verb][0]}")


def _help():
    width = max(map(len, VERBS))
    verbs = "\n".join(
        f"  {verb:<{width}}  {help_line}"
        for verb, (_, help_line) in VERBS.items()
    )
    return (
        "usage: kdkit VERB [options]\n\n"
        f"Make transformers small: distil, measure, ship.\n\nverbs:\n{verbs}"
        "\n\nkdkit VERB --help shows a verb's options and an example, kdkit "
        "--version the\nversion."
    )


class _Pipe(io.FileIO):
    """Writes to a pipe, and discards the output once its reader is gone."""

    def write(self, data):
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            # Output of C++ code and the last flush are discarded, too.
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


@contextlib.contextmanager
def open_streams() -> Iterator[None]:
    """Keeps standard output and error usable in the block."""
    _occupy()
    if sys.stdout is None:  # closed
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = sys.stdout
    replaced = []
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or stream is not getattr(sys, f"__{name}__"):
            continue
        stream.flush()
        setattr(sys, name, _as_pipe(stream))
        replaced.append((name, stream))
    try:
        yield
    finally:
        for name, stream in replaced:
            getattr(sys, name).flush()
            setattr(sys, name, stream)


def _as_pipe(stream):
    return io.TextIOWrapper(
        io.BufferedWriter(_Pipe(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _occupy():
    """Opens closed descriptors from 0 to 2, which files would get otherwise."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number


NVIDIA = pathlib.Path("/dev/nvidiactl")  # exists where the driver is loaded


def is_asked() -> bool:
    """Whether the user asked for notices: `TF_CPP_MIN_LOG_LEVEL` is 0 or 1."""
    return os.environ.get("TF_CPP_MIN_LOG_LEVEL") in ("0", "1")


def silence_loggers() -> None:
    """Makes the libraries' Python loggers print errors only."""
    if is_asked():
        return
    with contextlib.suppress(ImportError):
        import absl.logging

        absl.logging.set_verbosity(absl.logging.ERROR)
    logging.getLogger("urllib3").setLevel(logging.ERROR)


def require_backend() -> None:
    """Checks that Keras will run on TensorFlow, without importing either."""
    backend = os.environ["KERAS_BACKEND"]
    if backend != "tensorflow":
        raise UsageError(
            "The command line runs on Keras' TensorFlow backend. Expected "
            f"KERAS_BACKEND=tensorflow. Received: {backend!r}. On other "
            "backends use kdkit.Distiller, or kdkit.recipes.run_on_arrays."
        )
    if importlib.util.find_spec("tensorflow") is None:
        raise UsageError(
            "The command line needs TensorFlow, which is not installed. Run "
            "pip install tensorflow tensorflow-text."
        )


def import_tensorflow(name: str, options) -> None:
    """Imports TensorFlow and initialises its devices, without its notices."""
    if not late.is_loaded("tensorflow"):
        what = _subject(options)
        print(
            f"{name}{what}: loading TensorFlow.",
            file=sys.stderr,
            flush=True,
        )
    if is_asked():
        _wake(options)
        return
    with tempfile.TemporaryFile() as aside:
        try:
            with _stderr_to(aside):
                _wake(options).get_logger().setLevel("ERROR")
        except (UsageError, RunError):
            raise
        except BaseException:
            aside.seek(0)
            sys.stderr.write(aside.read().decode(errors="replace"))
            raise


def _wake(options):
    """Imports TensorFlow and triggers the notices that it writes once."""
    import tensorflow

    prepare(options)
    threads = getattr(options, "threads", None)  # of kdkit benchmark
    if threads is not None and threads > 0:
        # If TensorFlow runs already, timing a SavedModel raises an error.
        with contextlib.suppress(RuntimeError, OverflowError, ValueError):
            config = tensorflow.config.threading
            config.set_intra_op_parallelism_threads(threads)
            config.set_inter_op_parallelism_threads(1)
    # Without AVX-512, oneDNN lacks this operation and writes a notice.
    tensorflow.transpose(tensorflow.zeros((1, 2), "int64"))
    is_wanted = os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1")
    found = tensorflow.config.list_physical_devices("GPU")
    if NVIDIA.exists() and is_wanted and not found:
        print(
            "TensorFlow does not use this machine's GPU. Set "
            "TF_CPP_MIN_LOG_LEVEL=0 to see why."
        )
    return tensorflow


def _subject(options):
    """A verb's input and output, as the options name them."""
    words = []
    for name in ("recipe", "model", "models", "files"):
        given = getattr(options, name, None)
        if given:
            words += given if isinstance(given, list) else [given]
            break
    words_of = {"task": "on", "train": "on", "run_dir": "in", "output": "to"}
    for name, before in words_of.items():
        given = getattr(options, name, None)
        if given is not None:
            words += [before, given]
    return printable("".join(f" {word}" for word in words))


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


@contextlib.contextmanager
def _stderr_to(file):
    """Points file descriptor 2 at a file for a while."""
    sys.stderr.flush()
    saved = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def _chooses_devices(options):
    """Whether a verb's options choose devices, which `prepare` opens."""
    names = ("strategy", "config", "devices")
    return any(getattr(options, name, None) is not None for name in names)


def _validate_devices(options):
    """Rejects --devices that are wrong whatever the settings are."""
    number = getattr(options, "devices", None)
    if number is not None and getattr(options, "config", None) is None:
        _validate_number(number, getattr(options, "strategy", None))


def prepare(options) -> None:
    """Splits or chooses the devices that a run trains on, by its options."""
    strategy = getattr(options, "strategy", None)
    config = getattr(options, "config", None)
    number = getattr(options, "devices", None)
    if not _chooses_devices(options):
        return

    from kdkit.runs.directory import read_config, read_replicas
    from kdkit.training.distribution import open_distribution, use_devices
    from kdkit.training.model_settings import MIRRORED, MULTI_WORKER

    if config is not None:
        strategy = strategy or read_config(config).get("strategy")
    if number is not None:
        _validate_number(number, strategy)
    if getattr(options, "trains_nothing", False):
        return
    noted = None
    if config is not None:
        noted = read_replicas(config) if number is None else None
    if noted is not None and strategy == MIRRORED:
        print(f"{config} is from a run on {noted} devices, and so is this run.")
        number = noted
    if number is not None:
        use_devices(number)
    if strategy == MULTI_WORKER:  # before TensorFlow computes anything
        open_distribution(strategy)


def _validate_number(number, strategy):
    """Rejects numbers that no machine has or no run accepts."""
    if strategy is None:
        raise UsageError(
            "--devices is the number of devices for --strategy. Received: "
            "--devices alone. Add --strategy mirrored, or remove --devices."
        )
    if number < 1:
        raise UsageError(
            f"Expected at least 1 device. Received: --devices {number}."
        )


if __name__ == "__main__":
    sys.exit(main())
