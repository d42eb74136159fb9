"""The arguments of `kdkit.distill` as words of the command line."""

import functools
import json
import os

from kdkit import models
from kdkit.cli.main import make_verb_parser
from kdkit.cli.task_data import TOML
from kdkit.errors import UsageError, unknown
from kdkit.recipes import Recipe, register_recipe
from kdkit.runs.given import LABEL, TEXTS, SavedInputs, table_columns
from kdkit.tasks import TASKS

# Options of the verb that calls have other arguments for, or do not have.
NO_ARGUMENTS = {
    "config", "dev", "test", "devices", "model", "set", "smoke", "task",
    "train",
}  # fmt: skip


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
        data = data if isinstance(data, dict) else {"train": data}
        self._data = {k: v for k, v in data.items() if v is not None}
        if isinstance(recipe, Recipe):
            register_recipe(recipe)
            recipe = recipe.name
        self._recipe = recipe
        self._settings = settings
        self._options = dict(options)
        known = {*verb_parser().options} - NO_ARGUMENTS
        for name in options:
            if name not in known:
                raise unknown("argument", name, known)

    def words(self, run_dir) -> list[str]:
        """Returns the words, after saving models and data in memory."""
        inputs = SavedInputs(run_dir)
        words = [self._recipe, "--run-dir", os.fspath(run_dir)]
        options = dict(self._options)
        words += self._data_words(options, inputs)
        words += ["--teacher"] if self._teachers else []
        for number, teacher in enumerate(self._teachers, start=1):
            name = "teacher" if number == 1 else f"teacher_{number}"
            if not _is_place(teacher):
                teacher = inputs.save_model(name, teacher)
            words.append(os.fspath(teacher))
        student = self._student
        if student is not None:
            if not _is_place(student):
                source = [*self._teachers, options.get("encoder")][0]
                student = inputs.save_model(
                    "student", student, _tokenizer(source)
                )
            words.append(f"--student={os.fspath(student)}")
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
        columns = (options.get("text_column"), options.get("label_column"))
        tables = {
            name: table_columns(name, data, *columns)
            for name, data in self._data.items()
            if name not in places
        }
        if tables and places:
            raise UsageError("`data` is in memory or in files, not in both.")
        for name, table in tables.items():
            places[name] = inputs.save_table(name, table)
        if tables:
            names = {name for table in tables.values() for name in table}
            options["text_column"] = [name for name in TEXTS if name in names]
            options["label_column"] = LABEL
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


@functools.cache
def verb_parser():
    """Returns the parser of `kdkit distill`."""
    return make_verb_parser("distill")
