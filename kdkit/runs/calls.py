"""`kdkit.distill`: a recipe in one call, with models and data in memory."""

import functools
import importlib
import os
import pathlib
import shutil
import tempfile
import weakref

import keras_hub

from kdkit import models, reporting
from kdkit.errors import UsageError, unknown
from kdkit.recipes import Recipe, register_recipe
from kdkit.runs import run as running
from kdkit.runs.configure import config_of, named_by
from kdkit.runs.directory import Run
from kdkit.runs.events import Evaluation, RunFinished
from kdkit.runs.given import LABEL, TEXTS, SavedInputs, table_columns
from kdkit.runs.layers import kind_of
from kdkit.runs.messages import shown_messages
from kdkit.runs.names import NAMES, fields_named, merged
from kdkit.tasks import TASKS
from kdkit.training.tasks import open_task

SUFFIXES = {".tflite": "litert", ".onnx": "onnx"}


def distill(
    teacher,
    student=None,
    data=None,
    recipe="tinybert",
    run_dir=None,
    *,
    settings=None,
    force=False,
    verbose="auto",
    **fields,
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
            memory are saved in `RUN/inputs/`. `None` with `encoder=...`, a
            pretrained encoder that is fine-tuned on the data first.
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
        recipe: string or `kdkit.recipes.Recipe`. A name from `kdkit list`, the
            path of a TOML file or a `config.json`, or a recipe, which is
            registered. Defaults to `"tinybert"`.
        run_dir: string or path. The run's directory. Optional. Defaults to a
            temporary directory, which is removed when the result is closed or
            no longer used. Pass a directory to keep or continue the run.
        settings: dict from a dotted path to a value, for any field, such as
            `{"stages.intermediate_layer.epochs": 3}`, or `{"steps.teacher":
            {...}}` for a run before this one. Optional.
        force: bool. Whether to continue if a check reports an error. Defaults
            to `False`.
        verbose: `"auto"`, 0, 1 or 2, as in `keras.Model.fit`: 0 shows warnings
            only, 1 a progress display, 2 one line per epoch. `"auto"` is 1 in a
            terminal and 2 elsewhere. Defaults to `"auto"`.
        **fields: The flags of `kdkit distill RECIPE --help`, with underscores:
            `text_column`, `label_column`, `labels` and `regression` of a table,
            `data_dir` of a task, `control=True` for the same student without a
            teacher, `epochs` of a recipe with one stage, `seed`, `cache`,
            `num_layers=3`, `pretrained="bert_base_en_uncased"`; and for the
            recipe `"sentence_embedding"` `texts=["captions.txt"]`, for
            `"multilingual"` `parallel=["train.en", "train.de"]` and for
            `"reranker_to_embedder"` `candidates=["train.tsv"]`, whose `data`
            is a task with scored pairs, or `None`.

    Returns:
        A `Distillation` with the trained student and its metrics.

    Raises:
        UsageError: (a `ValueError`) for a mistake that would change a number,
            and for an unknown argument or field.
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
    is_temporary = run_dir is None
    run_dir = tempfile.mkdtemp(prefix="kdkit-") if is_temporary else run_dir
    try:
        with shown_messages(verbose):
            inputs = SavedInputs(run_dir)
            given = (teacher, student, data, recipe, fields, settings)
            running.run(_config(inputs, *given), run_dir, force)
    except BaseException:
        if is_temporary:
            shutil.rmtree(run_dir, ignore_errors=True)
        raise
    return Distillation(run_dir, is_temporary)


def _config(inputs, teacher, student, data, recipe, fields, settings):
    """The config of a call, after saving what it has in memory."""
    if isinstance(recipe, Recipe):
        recipe = register_recipe(recipe).name
    named = {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value
        for name, value in fields.items()
        if value is not None
    }
    family = {"model": named.pop("model")} if "model" in named else {}
    about = kind_of(named_by(recipe) | family)
    known = NAMES[about].keys() - {"task", "train", "dev", "test"}
    for name in named.keys() - known:
        raise unknown("argument", name, known)
    named |= _data(data, named, inputs)
    teachers = teacher if isinstance(teacher, list | tuple) else [teacher]
    heads = [getattr(one, "has_trained_head", True) for one in teachers]
    if about == "task" and not all(heads):
        raise UsageError("The teacher has no trained head.")
    places = [
        _place(inputs, "teacher" if number == 1 else f"teacher_{number}", one)
        for number, one in enumerate(teachers, start=1)
        if one is not None
    ]
    if places:
        is_one = len(places) == 1 and about != "task"
        named["teacher"] = places[0] if is_one else places
    if student is not None:
        source = named.get("encoder") if teacher is None else teachers[0]
        named["student"] = _place(inputs, "student", student, source)
    tree = fields_named(about, named, settings or {})
    return config_of(recipe, merged(tree, family))


def _place(inputs, name, model, teacher=None) -> str:
    """The place of a model. One in memory is saved, with a tokenizer."""
    if _is_place(model):
        return os.fspath(model)
    tokenizer = None if teacher is None else _tokenizer(teacher)
    return inputs.save_model(name, model, tokenizer)


def _data(data, named, inputs) -> dict:
    """The short names of the data, in files or in memory."""
    given = data if isinstance(data, dict) else {"train": data}
    given = {name: one for name, one in given.items() if one is not None}
    columns = (named.get("text_column"), named.get("label_column"))
    places = {
        name: os.fspath(one) for name, one in given.items() if _is_place(one)
    }
    tables = {
        name: table_columns(name, one, *columns)
        for name, one in given.items()
        if name not in places
    }
    if tables and places:
        raise UsageError("`data` is in memory or in files, not in both.")
    first = places.get("train", "")
    if len(places) == 1 and (first in TASKS or first.endswith(".toml")):
        return {"task": first}
    for name, table in tables.items():
        places[name] = inputs.save_table(name, table)
    if tables:
        names = {name for table in tables.values() for name in table}
        places["text_column"] = [name for name in TEXTS if name in names]
        places["label_column"] = LABEL
    return places


def _is_place(value):
    return isinstance(value, str | os.PathLike)


def _tokenizer(teacher):
    if _is_place(teacher):
        return models.load_tokenizer(teacher)
    if isinstance(teacher, models.LoadedModel):
        return teacher.tokenizer
    return teacher.preprocessor.tokenizer


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
        self._run = Run(run_dir)
        self._remove = None
        if is_temporary:
            self._remove = weakref.finalize(
                self, shutil.rmtree, str(run_dir), ignore_errors=True
            )

    @property
    def run_dir(self) -> pathlib.Path:
        """The run directory."""
        return self._run.path

    @functools.cached_property
    def student(self):
        """The trained student, loaded once.

        A keras-hub `TextClassifier` with its preprocessor, or the `keras.Model`
        of another kind of task, of a BiLSTM or of a sentence encoder.
        """
        preset, config = self.run_dir / "student", self._run.config
        if config.kind == "embedder":
            return models.load_embedder(preset).model
        if config.kind == "text":
            return models.load_language_model(preset).model
        if (preset / "task.json").is_file():
            return keras_hub.models.TextClassifier.from_preset(str(preset))
        head = open_task(config.data).head
        return models.load_classifier(self.run_dir, head).model

    @functools.cached_property
    def metrics(self) -> dict[str, float]:
        """The student's metrics on dev, the main one first."""
        return self._run.metrics

    @functools.cached_property
    def control_metrics(self) -> dict[str, float] | None:
        """The control's metrics on dev, `None` without a control."""
        best = self._best.get("control")
        return None if best is None else best.metrics

    @functools.cached_property
    def teacher_metrics(self) -> dict[str, float]:
        """The first teacher's metrics on dev, empty if it was not measured."""
        split = self._best["student"].split
        found = (
            event.metrics
            for event in self._run.events(Evaluation)
            if (event.arm, event.split) == ("teacher", split)
        )
        return next(found, {})

    @functools.cached_property
    def _best(self):
        return self._run.events(RunFinished)[-1].best

    def report(self, path=None) -> pathlib.Path:
        """Writes the run's report, one HTML page, as `kdkit report` does.

        Args:
            path: string or path. Optional. Defaults to `RUN/report.html`.

        Returns:
            The path.
        """
        records = reporting.read_run(self.run_dir)
        page = path or self.run_dir / "report.html"
        return reporting.write_report([records], page)

    def export(
        self, path, precision: str = "int8", overwrite: bool = False
    ) -> pathlib.Path:
        """Writes the student as a verified file, as `kdkit export` does.

        The file is compared with the student on dev, and its metrics are noted
        in the run. A classifier's `.tflite` file returns probabilities.

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
        words = ["--format", SUFFIXES.get(path.suffix, "saved_model")]
        words += ["--precision", precision, *["--overwrite"] * overwrite]
        verb = importlib.import_module("kdkit.cli.export")
        verb.export_to(path, str(self.run_dir), *words)
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
