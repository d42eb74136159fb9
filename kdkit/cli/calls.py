"""`kdkit.distill`: the verb `kdkit distill` as a Python function.

The arguments become the words of the command line, so a call and a command have
the same settings, checks, stages and files.
"""

import functools
import json
import os
import pathlib
import re
import shutil
import tempfile
import weakref

import keras_hub

from kdkit import models
from kdkit import reporting
from kdkit.cli import distill as verb
from kdkit.cli import export as exporting
from kdkit.cli.main import make_command_parser
from kdkit.cli.main import parsed_options
from kdkit.cli.messages import LEVELS
from kdkit.cli.messages import shown_messages
from kdkit.cli.task_data import TOML
from kdkit.errors import RunError
from kdkit.errors import UsageError
from kdkit.errors import all_mistakes
from kdkit.errors import shortened
from kdkit.errors import suggestion
from kdkit.recipes import Recipe
from kdkit.recipes import register_recipe
from kdkit.runs.directory import CONFIG
from kdkit.runs.directory import RunDirectory
from kdkit.runs.directory import read_settings
from kdkit.runs.events import Evaluation
from kdkit.runs.events import RunFinished
from kdkit.runs.given import KINDS
from kdkit.runs.given import LABEL
from kdkit.runs.given import SavedInputs
from kdkit.runs.given import require_model
from kdkit.runs.given import table_columns
from kdkit.runs.settings import DistillSettings
from kdkit.tasks import TASKS
from kdkit.training.task_data import open_task

# Options of the verb that calls have other arguments for, or do not have.
NO_ARGUMENTS = {
    "config": "Pass its settings as arguments.",
    "dev": 'Pass data={"train": ..., "dev": ...}.',
    "test": 'Pass data={"train": ..., "test": ...}.',
    "devices": "Choose devices with `tf.config` before the call.",
    "model": "For models on text, use kdkit distill on the command line.",
    "set": "Pass settings={...}.",
    "smoke": "Smoke runs are on the command line only.",
    "task": "Pass it as `data`.",
    "train": "Pass it as `data`.",
}
SPLITS = ("train", "dev", "test")
IN_MEMORY = "bert_base_en_uncased"  # checked in the place of a saved model
GENERATED = "sentiment"  # checked in the place of a saved table
SUFFIXES = {".tflite": "litert", ".onnx": "onnx"}


def distill(
    teacher,
    student=None,
    data=None,
    recipe="tinybert",
    run_dir=None,
    *,
    data_dir=None,
    text_column=None,
    label_column=None,
    regression=False,
    control=False,
    epochs=None,
    seed=None,
    cache=None,
    settings=None,
    force=False,
    verbose="auto",
    **options,
):
    """Distils a teacher into a student by a recipe, like `kdkit distill`.

    The run has the stages, checks, progress, files and report of the command
    line. The same call with the same `run_dir` continues a stopped run, and
    returns the result of a finished one.

    Args:
        teacher: The classifier to learn from: the path of a run, of a preset
            directory or of a Hugging Face checkpoint; a keras-hub
            `TextClassifier` with a preprocessor; or a
            `kdkit.models.LoadedModel`. A list for several teachers. Models in
            memory are saved in `RUN/inputs/`.
        student: The student to train: the name of a preset, the path of a
            checkpoint to start from, or a keras-hub `TextClassifier` or
            `Backbone`, which is copied and does not change. Optional. Defaults
            to the recipe's student.
        data: The examples: the name of a task; the path of a table (CSV, TSV,
            JSON lines, Parquet) or of a task's `.toml` file; a tuple
            `(texts, labels)` or `((texts, text_pairs), labels)`, with labels
            that are strings or numbers; a pandas `DataFrame`; or a dict
            `{"train": ..., "dev": ...}` of tables, tuples or data frames.
            Without `"dev"`, a tenth of the training examples is set aside. Data
            in memory is saved in `RUN/inputs/`. Optional. Defaults to the data
            of the teacher's run.
        recipe: string or `kdkit.recipes.Recipe`. A name from `kdkit list`, or a
            recipe, which is registered. Defaults to `"tinybert"`.
        run_dir: string or path. The run's directory. Optional. Defaults to a
            temporary directory, which is removed when the result is closed or
            no longer used. Pass a directory to keep or continue the run.
        data_dir: string or path. The folder with the data of a task. Optional.
            Defaults to TensorFlow Datasets.
        text_column: string, or a list of two strings for pairs. The columns of
            a table or a data frame with the texts. Optional.
        label_column: string. The column of a table or a data frame with the
            labels. Optional.
        regression: bool. Whether the labels are scores. Defaults to `False`.
        control: bool. Whether to train the same student without a teacher, too.
            Defaults to `False`.
        epochs: int. The epochs of a recipe with one stage. Optional. For
            several stages, use `settings`.
        seed: int. The seed for weights, dropout and order. Defaults to `0`.
        cache: string or path. The folder for the teacher's cached outputs.
            Optional.
        settings: dict from a dotted path to a value, for any setting, such as
            `{"stages.intermediate_layer.epochs": 3}`. Optional.
        force: bool. Whether to continue if a check reports an error. Defaults
            to `False`.
        verbose: `"auto"`, 0, 1 or 2, as in `keras.Model.fit`: 0 shows warnings
            only, 1 a progress display, 2 one line per epoch. `"auto"` is 1 in a
            terminal and 2 elsewhere. Defaults to `"auto"`.
        **options: further options of `kdkit distill`, with underscores, such as
            `num_layers=3` or `pretrained="bert_base_en_uncased"`.
            `kdkit distill --help-all` lists them.

    Returns:
        A `Distillation` with the trained student and its metrics.

    Raises:
        UsageError: (a `ValueError`) with all mistakes in the arguments, the
            data and the models, before any training.
        RunError: if a check reports an error, or a loss is not finite.

    Example:

    ```python
    result = kdkit.distill(
        "runs/teacher",
        student="tinybert_4_layer_en_uncased",
        data="reviews.csv",
        text_column="review",
        label_column="sentiment",
        run_dir="runs/tinybert",
    )
    print(result.metrics, result.teacher_metrics)
    print(result.student.predict(["A fine film."]))
    result.export("student.tflite", precision="int8")
    result.report("report.html")
    ```
    """
    options |= {
        "data_dir": data_dir,
        "text_column": text_column,
        "label_column": label_column,
        "regression": regression,
        "control": control,
        "epochs": epochs,
        "seed": seed,
        "cache": cache,
        "force": force,
    }
    options = {
        name: value
        for name, value in options.items()
        if value is not None and value is not False
    }
    call = _Call(teacher, student, data, recipe, settings or {}, options)
    with _python_words(), all_mistakes() as check:
        with check():
            _require_verbose(verbose)
        call.check(run_dir, check)
    is_temporary = run_dir is None
    run_dir = tempfile.mkdtemp(prefix="kdkit-") if is_temporary else run_dir
    try:
        with _python_words(), shown_messages(verbose):
            words = call.words(run_dir, SavedInputs(run_dir))
            verb.run_pipeline(parsed_options(_parser(), verb, words))
    except BaseException:
        if is_temporary:
            shutil.rmtree(run_dir, ignore_errors=True)
        raise
    return Distillation(run_dir, is_temporary)


class Distillation:
    """The result of `kdkit.distill`.

    Use it in a `with` block, or call `close()`, to remove a temporary run
    directory early.

    Args:
        run_dir: string or path. A finished run of `kdkit distill`.
        is_temporary: bool. Whether the directory is removed with the result.
            Defaults to `False`.
    """

    def __init__(self, run_dir, is_temporary: bool = False):
        self._run = RunDirectory(pathlib.Path(run_dir))
        self._remove = None
        if is_temporary:
            self._remove = weakref.finalize(
                self, shutil.rmtree, str(run_dir), ignore_errors=True
            )

    @property
    def run_dir(self) -> pathlib.Path:
        """The run directory."""
        if self._remove is not None and not self._remove.alive:
            raise UsageError(
                "The run's temporary directory was removed by close(). Pass "
                "run_dir= to keep the run."
            )
        return self._run.path

    @functools.cached_property
    def student(self):
        """The trained student, loaded once.

        A keras-hub `TextClassifier` with its preprocessor, or the `keras.Model`
        of another kind of task or of a BiLSTM.
        """
        preset = self.run_dir / "student"
        if (preset / "task.json").is_file():
            return keras_hub.models.TextClassifier.from_preset(str(preset))
        head = open_task(read_settings(self.run_dir, DistillSettings).data).head
        return models.load_classifier(self.run_dir, head).model

    @functools.cached_property
    def metrics(self) -> dict[str, float]:
        """The student's metrics on dev, the main one first."""
        return self._best["student"].metrics

    @functools.cached_property
    def control_metrics(self) -> dict[str, float] | None:
        """The control's metrics on dev, `None` without a control."""
        best = self._best.get("control")
        return None if best is None else best.metrics

    @functools.cached_property
    def teacher_metrics(self) -> dict[str, float]:
        """The first teacher's metrics on dev."""
        split = self._best["student"].split
        return next(
            event.metrics
            for event in RunDirectory(self.run_dir).events(Evaluation)
            if (event.arm, event.split) == ("teacher", split)
        )

    @functools.cached_property
    def _best(self):
        return RunDirectory(self.run_dir).events(RunFinished)[-1].best

    def report(self, path=None) -> pathlib.Path:
        """Writes the run's report, one HTML page, as `kdkit report` does.

        Args:
            path: string or path. Optional. Defaults to `RUN/report.html`.

        Returns:
            The path.
        """
        return reporting.write_report(self.run_dir, path)

    def export(
        self, path, precision: str = "int8", overwrite: bool = False
    ) -> pathlib.Path:
        """Writes the student as a verified file, as `kdkit export` does.

        The file is compared with the student on dev, and its metrics are noted
        in the run.

        Args:
            path: string or path of a `.tflite` file, an `.onnx` file, or the
                folder of a SavedModel.
            precision: string. `"fp32"`, `"fp16"` or `"int8"`. Defaults to
                `"int8"`.
            overwrite: bool. Whether to replace an existing file. Defaults to
                `False`.

        Returns:
            The path.

        Raises:
            UsageError: (a `ValueError`) for another precision or an existing
                file.
            RunError: if the file's outputs differ from the student's.
        """
        path = pathlib.Path(path)
        kind = SUFFIXES.get(path.suffix, "saved_model")
        if path.exists() and not overwrite:
            raise UsageError(
                f"{path} exists already. Pass overwrite=True, or another path."
            )
        options = exporting.Options(
            model=str(self.run_dir),
            format=kind,
            precision=[precision],
            overwrite=overwrite,
        )
        with _python_words():
            exporting.export_to(path, options)
        return path

    def close(self) -> None:
        """Removes the run directory if it is temporary."""
        if self._remove is not None:
            self._remove()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return (
            f"Distillation(metrics={self.metrics}, "
            f"teacher_metrics={self.teacher_metrics}, "
            f"run_dir={str(self._run.path)!r})"
        )


class _Call:
    """The arguments of a call, as words of the command line."""

    def __init__(self, teacher, student, data, recipe, settings, options):
        self._teachers = teacher if isinstance(teacher, list) else [teacher]
        self._student = student
        self._given = data
        self._data = data if isinstance(data, dict) else {"train": data}
        self._recipe = recipe
        self._settings = settings
        self._options = dict(options)
        self._tables = {}

    def check(self, run_dir, check):
        """Checks everything that can be checked before inputs are saved."""
        problems = []

        def attempt(function, *arguments):
            try:
                function(*arguments)
            except UsageError as error:
                problems.append(error)

        for teacher in self._teachers:
            if not _is_place(teacher):
                attempt(require_model, "teacher", teacher, True)
        if not (self._student is None or _is_place(self._student)):
            attempt(require_model, "student", self._student, False)
        attempt(self._check_recipe)
        attempt(self._check_settings)
        attempt(self._check_options)
        attempt(self._read_tables)
        attempt(self._parse, run_dir)
        for problem in problems:
            with check():
                raise problem

    def _check_recipe(self):
        if isinstance(self._recipe, Recipe):
            register_recipe(self._recipe)
            self._recipe = self._recipe.name
        elif not isinstance(self._recipe, str):
            given, self._recipe = shortened(self._recipe), "tinybert"
            raise UsageError(
                "`recipe`: expected a name from kdkit list, or a "
                f"kdkit.recipes.Recipe. Received: {given}."
            )

    def _check_settings(self):
        if not isinstance(self._settings, dict):
            given, self._settings = shortened(self._settings), {}
            raise UsageError(
                "`settings`: expected a dict from dotted paths to values, such "
                f'as {{"data.max_train_rows": 1000}}. Received: {given}.'
            )

    def _check_options(self):
        known = set(_parser().options) - set(NO_ARGUMENTS)
        with all_mistakes() as check:
            for name in list(self._options):
                if name in known:
                    continue
                del self._options[name]
                advice = NO_ARGUMENTS.get(name)
                if advice is None:
                    advice = (
                        f"{suggestion(name, known)} Its further arguments are "
                        "the options of kdkit distill."
                    )
                with check():
                    raise UsageError(
                        f"kdkit.distill has no argument `{name}`. "
                        f"{advice.strip()}"
                    )

    def _read_tables(self):
        given = {k: v for k, v in self._data.items() if v is not None}
        unknown = sorted(set(given) - set(SPLITS))
        in_memory = [name for name in given if not _is_place(given[name])]
        with all_mistakes() as check:
            with check():
                if unknown or (given and "train" not in given):
                    raise UsageError(
                        f"`data`: expected {KINDS}. Received: a dict with "
                        f"{shortened(list(given))}."
                    )
                if in_memory and len(in_memory) < len(given):
                    raise UsageError(
                        "`data`: expected all tables as paths, or all in "
                        f"memory. Received: in memory {', '.join(in_memory)}."
                    )
            for name in in_memory:
                self._tables[name] = {}  # after a mistake
                with check():
                    self._tables[name] = table_columns(
                        name if isinstance(self._given, dict) else "data",
                        given[name],
                        self._options.get("text_column"),
                        self._options.get("label_column"),
                    )
            pairs = [k for k, v in self._tables.items() if len(v) > 2]
            with check():
                if pairs and len(pairs) < len(in_memory):
                    raise UsageError(
                        "`data`: expected pairs of texts in all tables, or in "
                        f"none. Received: pairs in {', '.join(pairs)} alone."
                    )
            with check():
                if not given and not self._teacher_has_run():
                    raise UsageError(
                        f"Missing: `data`. Expected {KINDS}. Received: none, "
                        "and a teacher that is not a run with data."
                    )

    def _teacher_has_run(self):
        teacher = self._teachers[0]
        return _is_place(teacher) and pathlib.Path(teacher, CONFIG).is_file()

    def _parse(self, run_dir):
        words = self.words(run_dir or tempfile.gettempdir(), None)
        parsed_options(_parser(), verb, words)

    def words(self, run_dir, inputs: SavedInputs | None) -> list[str]:
        """Returns the words, after saving models and data in memory.

        Args:
            run_dir: string or path.
            inputs: `SavedInputs`, or `None` to save nothing, for a check.
        """
        words = [self._recipe, "--run-dir", os.fspath(run_dir), "--teacher"]
        for number, teacher in enumerate(self._teachers, start=1):
            if _is_place(teacher):
                words.append(os.fspath(teacher))
            elif inputs is None:
                words.append(IN_MEMORY)
            else:
                name = "teacher" if number == 1 else f"teacher_{number}"
                words.append(inputs.save_model(name, teacher))
        if self._student is not None:
            place = self._student
            if not _is_place(place):
                place = IN_MEMORY
                if inputs is not None:
                    tokenizer = _tokenizer(self._teachers[0])
                    place = inputs.save_model(
                        "student", self._student, tokenizer
                    )
            words.append(f"--student={os.fspath(place)}")
        options = dict(self._options)
        words += self._data_words(options, inputs)
        for name, value in options.items():
            words += _words_of(_parser().options[name], value)
        for path, value in self._settings.items():
            words += ["--set", f"{path}={json.dumps(value)}"]
        return words

    def _data_words(self, options, inputs):
        """The words for the data; takes the options that they replace."""
        places = {
            name: os.fspath(data)
            for name, data in self._data.items()
            if _is_place(data)
        }
        if self._tables:
            for name in ("text_column", "label_column"):
                options.pop(name, None)
            if inputs is None:
                for name in ("data_dir", "regression"):
                    options.pop(name, None)
                return ["--task", GENERATED]
            for name, columns in self._tables.items():
                places[name] = inputs.save_table(name, columns)
            texts = [name for name in columns if name != LABEL]
            options["text_column"] = texts
            options["label_column"] = LABEL
        if not places and not self._teacher_has_run():
            return ["--task", GENERATED]  # a mistake, reported elsewhere
        first = places.get("train", "")
        if len(places) == 1 and (first in TASKS or first.endswith(TOML)):
            return ["--task", first]
        return [f"--{name}={place}" for name, place in places.items()]


def _is_place(value):
    return isinstance(value, str | os.PathLike)


def _tokenizer(teacher):
    if _is_place(teacher):
        return models.load_tokenizer(teacher)
    if isinstance(teacher, models.LoadedModel):
        return teacher.tokenizer
    return teacher.preprocessor.tokenizer


def _words_of(option, value):
    """An option's words for a value in Python."""
    if value is None or value is False:
        return []
    if value is True:
        return [option.label]
    if isinstance(value, list | tuple):
        return [option.label, *map(str, value)]
    return [f"{option.label}={value}"]


def _require_verbose(verbose):
    if isinstance(verbose, bool) or verbose not in LEVELS:
        raise UsageError(
            f"`verbose`: expected one of {LEVELS}. Received: {verbose!r}."
        )


@functools.cache
def _parser():
    return make_command_parser("kdkit distill", verb)


class _python_words:
    """Rewrites options in errors as arguments, such as `data_dir=DIR`."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if isinstance(error, UsageError | RunError):
            raise type(error)(in_python(str(error))) from None


FLAG = re.compile(r"--([a-z]+(?:-[a-z]+)*)( [A-Z]{2,}\b(?:\.[a-z]+)?)?")
SETTING = re.compile(r"--set ([a-z_]\w*(?:\.[\w…]+)*)=(\S*[^\s.,;:])")
COMMAND = ": kdkit "  # before a command for the shell
ARGUMENTS = {
    "dev": "data",
    "set": "settings",
    "task": "data",
    "test": "data",
    "train": "data",
}


def in_python(message: str) -> str:
    """Returns a message of the command line in the words of Python.

    Commands for the shell, after a colon, do not change.

    Args:
        message: string.

    >>> in_python("Pass --data-dir DIR, or add --control.")
    'Pass data_dir=DIR, or add control=True.'
    >>> in_python("--set stages.0.epochs=3: no such stage.")
    'settings={"stages.0.epochs": 3}: no such stage.'
    """
    lines = []
    for line in message.splitlines():
        text, command, rest = line.partition(COMMAND)
        text = text.replace(" See kdkit distill --help.", "")
        text = SETTING.sub(r'settings={"\1": \2}', text)
        lines.append(FLAG.sub(_argument, text) + command + rest)
    return "\n".join(lines)


def _argument(match):
    name = match[1].replace("-", "_")
    option = _parser().options.get(name)
    if match[2] is None and option is not None and option.kind is bool:
        return f"{name}=True"
    name = ARGUMENTS.get(name, name)
    return name if match[2] is None else f"{name}={match[2].strip()}"
