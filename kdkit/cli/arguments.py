"""The arguments of `kdkit.distill` as words of the command line."""

import contextlib
import functools
import json
import os
import pathlib
import re
import tempfile
from collections.abc import Iterator

from kdkit import models
from kdkit.cli.main import make_verb_parser
from kdkit.cli.messages import LEVELS
from kdkit.cli.task_data import TOML
from kdkit.errors import (
    RunError,
    UsageError,
    all_mistakes,
    shortened,
    suggestion,
)
from kdkit.recipes import Recipe, register_recipe
from kdkit.runs.directory import CONFIG
from kdkit.runs.given import (
    KINDS,
    LABEL,
    SavedInputs,
    require_model,
    table_columns,
)
from kdkit.tasks import TASKS

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
TEXTS = {"texts", "parallel", "candidates"}  # options that replace the data
IN_MEMORY = "bert_base_en_uncased"  # checked in the place of a saved model
GENERATED = "sentiment"  # checked in the place of a saved table


class Call:
    """The arguments of a call, as words of the command line.

    Args:
        teacher, student, data, recipe, settings: as in `kdkit.distill`.
        options: dict of the other arguments.
    """

    def __init__(self, teacher, student, data, recipe, settings, options):
        self._teachers = [teacher]
        if isinstance(teacher, list | tuple):
            self._teachers = list(teacher)
        elif teacher is None and "encoder" in options:
            self._teachers = []
        self._student = student
        self._given = data
        self._data = data if isinstance(data, dict) else {"train": data}
        self._recipe = recipe
        self._settings = (
            dict(settings) if isinstance(settings, dict) else settings
        )
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
        for path, value in list(self._settings.items()):
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                del self._settings[path]
                raise UsageError(
                    f"`settings`: expected a value of JSON for {path!r}. "
                    f"Received: {shortened(value)}."
                ) from None

    def _check_options(self):
        known = set(verb_parser().options) - set(NO_ARGUMENTS)
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
                if not given and self._needs_data:
                    raise UsageError(
                        f"Missing: `data`. Expected {KINDS}. Received: none, "
                        "and a teacher that is not a run with data."
                    )

    @property
    def _needs_data(self):
        """Whether there is no other data: a teacher's, or texts alone."""
        has_texts = not TEXTS.isdisjoint(self._options)
        return not (self._teacher_has_run() or has_texts)

    def _teacher_has_run(self):
        first, *_ = *self._teachers, None
        return _is_place(first) and pathlib.Path(first, CONFIG).is_file()

    def _parse(self, run_dir):
        words = self.words(run_dir or tempfile.gettempdir(), None)
        verb_parser().parse_args(words)

    def words(self, run_dir, inputs: SavedInputs | None) -> list[str]:
        """Returns the words, after saving models and data in memory."""
        words = [self._recipe, "--run-dir", os.fspath(run_dir)]
        words += ["--teacher"] if self._teachers else []
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
                    tokenizer = _tokenizer(
                        self._teachers[0]
                        if self._teachers
                        else self._options["encoder"]
                    )
                    place = inputs.save_model(
                        "student", self._student, tokenizer
                    )
            words.append(f"--student={os.fspath(place)}")
        options = dict(self._options)
        words += self._data_words(options, inputs)
        for name, value in options.items():
            words += _words_of(verb_parser().options[name], value)
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
                for name in ("data_dir", "labels", "regression"):
                    options.pop(name, None)
                return ["--task", GENERATED]
            for name, columns in self._tables.items():
                places[name] = inputs.save_table(name, columns)
            texts = [name for name in columns if name != LABEL]
            options["text_column"] = texts
            options["label_column"] = LABEL
        if not places and self._needs_data:
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


def require_verbose(verbose) -> None:
    """Requires one of `kdkit.cli.messages.LEVELS`."""
    if isinstance(verbose, bool) or verbose not in LEVELS:
        raise UsageError(
            f"`verbose`: expected one of {LEVELS}. Received: {verbose!r}."
        )


@functools.cache
def verb_parser():
    """Returns the parser of `kdkit distill`."""
    return make_verb_parser("distill")


@contextlib.contextmanager
def python_words() -> Iterator[None]:
    """Raises the errors of the block in the words of Python."""
    try:
        yield
    except (UsageError, RunError) as error:
        raise type(error)(in_python(str(error))) from None


# A command of another verb with flags, or a flag and the name of its value.
FLAG = re.compile(
    r"kdkit [a-z-]+(?: --[a-z-]+)+|"
    r"--([a-z]+(?:-[a-z]+)*)( [A-Z]{2,}\b(?:\.[a-z]+)?)?"
)
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
    """Returns a message of the command line in the words of Python."""
    lines = []
    for line in message.splitlines():
        text, command, rest = line.partition(COMMAND)
        text = text.replace(" See kdkit distill --help.", "")
        text = SETTING.sub(r'settings={"\1": \2}', text)
        lines.append(FLAG.sub(_argument, text) + command + rest)
    return "\n".join(lines)


def _argument(match):
    if match[1] is None:
        return match[0]
    name = match[1].replace("-", "_")
    option = verb_parser().options.get(name)
    if match[2] is None and option is not None and option.kind is bool:
        return f"{name}=True"
    name = ARGUMENTS.get(name, name)
    return name if match[2] is None else f"{name}={match[2].strip()}"
