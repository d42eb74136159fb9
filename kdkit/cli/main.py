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
from kdkit.cli.parser import HELP
from kdkit.cli.parser import Parser
from kdkit.cli.parser import missing_places
from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.errors import printable
from kdkit.errors import suggestion
from kdkit.io.disk import describe
from kdkit.io.disk import disk_problem
from kdkit.io.machine import keep_freed_memory
from kdkit.io.signals import INTERRUPTED
from kdkit.io.signals import STOPS
from kdkit.io.signals import TERMINATED
from kdkit.io.signals import Terminated
from kdkit.io.signals import terminable
from kdkit.version import __version__

DONE, FAILED, MISTAKE = 0, 1, 2

# Verb to module and one line of help. Modules of verbs import what computes
# only when they run, so that help comes at once.
VERBS = {
    "list": ("list_recipes", "recipes, student presets and tasks"),
    "show": ("show", "a recipe's stages and settings"),
    "init": ("init", "a commented TOML of a recipe, for kdkit distill"),
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


def main(arguments=None) -> int:
    """Runs the command line; returns its exit status."""
    with open_streams():
        return _main(arguments)


def run_script(module, arguments=None, goes_on: bool = False) -> int:
    """Runs a script of experiments/ like a verb; returns its exit status.

    Args:
        module: the script's module. Its docstring is the help; it has
            `Options` and `run(options)`.
        arguments: list of strings or `None`. Defaults to those of the process.
        goes_on: bool. Whether the script, stopped and started again, does only
            what is missing. Defaults to `False`.
    """
    with open_streams():
        _set_defaults()
        arguments = sys.argv[1:] if arguments is None else list(arguments)
        name = f"experiments/{pathlib.Path(module.__file__).name}"
        again = f"python {shlex.join([name, *arguments])}" if goes_on else None
        return _command(name, lambda: module, arguments, again)


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
        computes=verb != "report",  # which needs matplotlib only
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
            options = _parsed(parser, module, words)
            if not computes:
                return module.run(options) or DONE
            keep_freed_memory()
            check_backend()
            silence_loggers()
            if late.is_loaded("keras"):
                load()
            elif _chooses_devices(options):
                _check_devices(options)
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
            line += f" The same command goes on from what is saved:\n  {again}"
        print(f"\n{line}", file=sys.stderr)
        return TERMINATED if isinstance(stop, Terminated) else INTERRUPTED
    except Exception as error:
        line = _of_a_file(error)
        if line is None:
            raise
        return _say(name, line, FAILED)


def _parsed(parser, module, words):
    """The options, or all that is wrong with them as one error."""
    options, problems = parser.parse(words)
    if problems:
        problems = [parser.joined(problems)]
    problems += missing_places(parser, options)
    if not problems:
        return options
    # What the verb finds wrong with the other options is told with it.
    if hasattr(module, "validate"):
        try:
            module.validate(options, checks_fields=True)
        except UsageError as error:
            problems.append(str(error))
    raise UsageError("\n".join(problems))


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


def _say(name, what, status):
    """Prints what is wrong; returns the exit status."""
    print(f"{name}: {printable(str(what))}", file=sys.stderr)
    return status


def make_verb_parser(verb: str) -> Parser:
    """Returns the parser of the options of a verb."""
    return make_command_parser(f"kdkit {verb}", _module(verb))


def make_command_parser(name: str, module) -> Parser:
    """Returns the parser of the options of a verb's or a script's module."""
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
    """Writes to a pipe, and to nowhere when its reader is gone."""

    def write(self, data):
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            # What C++ writes goes nowhere, too, and so does the last flush.
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


@contextlib.contextmanager
def open_streams() -> Iterator[None]:
    """Keeps standard output and error usable in the block.

    A run of hours does not stop since the reader of its output did. Where
    standard error is closed, what belongs there goes to standard output.
    Streams that a program put in their place are left as they are.
    """
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
    """Opens what is closed of descriptors 0 to 2, or files would get them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number


NVIDIA = pathlib.Path("/dev/nvidiactl")  # there where its driver is


def is_asked() -> bool:
    """Whether the user asked for notices: `TF_CPP_MIN_LOG_LEVEL` is 0 or 1."""
    return os.environ.get("TF_CPP_MIN_LOG_LEVEL") in ("0", "1")


def silence_loggers() -> None:
    """Lets Python's loggers of libraries print errors alone.

    Those of TensorFlow Datasets warn of each missing folder and each try.
    """
    if is_asked():
        return
    with contextlib.suppress(ImportError):
        import absl.logging

        absl.logging.set_verbosity(absl.logging.ERROR)
    logging.getLogger("urllib3").setLevel(logging.ERROR)


def check_backend() -> None:
    """Checks that Keras will run on TensorFlow, without importing either.

    Raises:
        UsageError: if Keras is to run on another backend, or TensorFlow is not
            installed.
    """
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
    """Imports TensorFlow and wakes its devices, without its notices.

    Its C++ parts write notices (no CUDA driver, oneDNN is on) to the file
    descriptor before any log level applies. If the import fails, what was
    written is shown. `TF_CPP_MIN_LOG_LEVEL=0` shows all of it.

    Args:
        name: string. The command, such as `"kdkit distill"`.
        options: its parsed options, which may choose devices.

    Raises:
        UsageError: if these devices are not there.
    """
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
    """Imports TensorFlow and does what it writes a notice about, once."""
    import tensorflow

    prepare(options)
    # On a CPU without AVX-512 oneDNN has no such operation, which it reports.
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
    """What a verb works on, and where it writes, as the options name them."""
    words = []
    for name in ("recipe", "model", "models", "files"):
        given = getattr(options, name, None)
        if given:
            words += given if isinstance(given, list) else [given]
            break
    for name, before in (("task", "on"), ("run_dir", "in"), ("output", "to")):
        given = getattr(options, name, None)
        if given is not None:
            words += [before, given]
    return printable("".join(f" {word}" for word in words))


@contextlib.contextmanager
def one_line_warnings(name: str):
    """Prints kdkit's warnings without the place in the code that gave them.

    Args:
        name: string. The command, which begins the line.
    """
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


def _check_devices(options):
    """Refuses --devices that need no file of settings to be found wrong."""
    number = getattr(options, "devices", None)
    if number is not None and getattr(options, "config", None) is None:
        _check_number(number, getattr(options, "strategy", None))


def prepare(options) -> None:
    """Splits or chooses the devices that a run trains on, as its options say.

    With `--config` alone they are as many as that run had. Where nothing is
    trained, options that clash are refused and no device is touched.

    Args:
        options: the parsed options of a verb.

    Raises:
        UsageError: if these devices or processes are not there.
        RunError: if not all processes came.
    """
    strategy = getattr(options, "strategy", None)
    config = getattr(options, "config", None)
    number = getattr(options, "devices", None)
    if not _chooses_devices(options):
        return

    from kdkit.runs.directory import read_config
    from kdkit.runs.directory import read_replicas
    from kdkit.training.distribution import open_distribution
    from kdkit.training.distribution import use_devices
    from kdkit.training.model_settings import MIRRORED
    from kdkit.training.model_settings import MULTI_WORKER

    if config is not None:
        strategy = strategy or read_config(config).get("strategy")
    if number is not None:
        _check_number(number, strategy)
    if getattr(options, "trains_nothing", False):
        return
    noted = None
    if config is not None:
        noted = read_replicas(config) if number is None else None
    if noted is not None and strategy == MIRRORED:
        print(f"{config} is of a run on {noted} devices, as is this one.")
        number = noted
    if number is not None:
        use_devices(number, splits_cpu=strategy != MULTI_WORKER)
    if strategy == MULTI_WORKER:
        total = open_distribution(strategy).shares.total
        if noted not in (None, total):
            print(
                f"{config} is of a run with {noted} replicas, and {total} "
                "train here. Where there is dropout, the numbers differ."
            )


def _check_number(number, strategy):
    """What no machine has, or no run takes."""
    if strategy is None:
        raise UsageError(
            "--devices is how many devices --strategy trains on. Received: "
            "--devices alone. Add --strategy mirrored, or omit --devices."
        )
    if number < 1:
        raise UsageError(
            f"Expected at least 1 device. Received: --devices {number}."
        )


if __name__ == "__main__":
    sys.exit(main())
