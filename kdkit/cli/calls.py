"""`kdkit.distill`: the verb `kdkit distill` as a Python function.

The arguments become the words of the command line, so a call and a command have
the same settings, checks, stages and files.
"""

import functools
import pathlib
import shutil
import tempfile
import weakref
from types import SimpleNamespace

import keras_hub

from kdkit import models, reporting
from kdkit.cli import distill as verb
from kdkit.cli import export as exporting
from kdkit.cli.arguments import Call, verb_parser
from kdkit.cli.embedders import is_about_embedders
from kdkit.cli.messages import shown_messages
from kdkit.runs.directory import RunDirectory, read_settings
from kdkit.runs.events import Evaluation, RunFinished
from kdkit.runs.settings import DistillSettings
from kdkit.training.tasks import open_task

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
    labels=None,
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
        labels: list of the labels in a table, in the order of the teacher's
            classes. For a teacher whose classes are `LABEL_0` and so on, or
            have other names. Optional.
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
            `num_layers=3` or `pretrained="bert_base_en_uncased"`, and for the
            recipe `"sentence_embedding"` `texts=["captions.txt"]`, for
            `"multilingual"` `parallel=["train.en", "train.de"]` and for
            `"reranker_to_embedder"` `candidates=["train.tsv"]`; their `data`
            is a task with scored pairs, or `None`.
            `kdkit distill --help-all` lists them.

    Returns:
        A `Distillation` with the trained student and its metrics.

    Raises:
        UsageError: (a `ValueError`) for a mistake that would change a number,
            and for an unknown option or field.
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
        "labels": labels,
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
    call = Call(teacher, student, data, recipe, settings or {}, options)
    is_temporary = run_dir is None
    run_dir = tempfile.mkdtemp(prefix="kdkit-") if is_temporary else run_dir
    try:
        with shown_messages(verbose):
            words = call.words(run_dir)
            verb.run_pipeline(verb_parser().parse_args(words))
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
        return self._run.path

    @functools.cached_property
    def student(self):
        """The trained student, loaded once.

        A keras-hub `TextClassifier` with its preprocessor, or the `keras.Model`
        of another kind of task, of a BiLSTM or of a sentence encoder.
        """
        preset = self.run_dir / "student"
        if self._trains_embedder:
            return models.load_embedder(preset).model
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
        """The first teacher's metrics on dev, empty if it was not measured."""
        split = self._best["student"].split
        found = (
            event.metrics
            for event in RunDirectory(self.run_dir).events(Evaluation)
            if (event.arm, event.split) == ("teacher", split)
        )
        return next(found, {})

    @property
    def _trains_embedder(self):
        return is_about_embedders(
            SimpleNamespace(recipe=None, config=self.run_dir)
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
        kind = SUFFIXES.get(path.suffix, "saved_model")
        options = exporting.Options(
            model=str(self.run_dir),
            format=kind,
            precision=[precision],
            overwrite=overwrite,
        )
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
