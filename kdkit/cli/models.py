"""Finds and opens a MODEL of the command line: a run, a preset or a file."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable

import numpy as np

from kdkit import data, export, models, quantization
from kdkit.cli.options import unread
from kdkit.cli.parser import is_path
from kdkit.cli.task_data import measured_task, names_a_table, stage_data
from kdkit.errors import UsageError
from kdkit.export import quantization as file_quantization
from kdkit.runs import inputs
from kdkit.runs.directory import CONFIG, EVENTS, RunDirectory, read_config
from kdkit.tasks import Task
from kdkit.training.candidate_settings import CandidatesSettings
from kdkit.training.making import require_context_length
from kdkit.training.source import make_forward

ARMS = (
    "student",
    "teacher",
    "control",
    "encoder",
    "decoder",
    "encoder_decoder",
)
NO_TOKENIZER = "The file is in no run. Pass --tokenizer MODEL."
OWN_TOKENIZER = "for models, which have their own"
PROBLEM_TYPES = {  # by the title of the task's kind, for transformers
    "multi-label": "multi_label_classification",
    "regression": "regression",
}


@dataclasses.dataclass(frozen=True)
class Place:
    """The place of a MODEL.

    Args:
        path: path of the preset directory or file, or a preset's name as a
            path.
        run: `RunDirectory` that the model belongs to, or `None`.
        arm: string or `None`. The model's name in the run.
        config: dict. The run's settings, for a reranker those of its own run;
            empty without a run.
        is_from_elsewhere: bool. Whether the run only reads the model, as its
            teacher. Defaults to `False`.
        reranker_run: `RunDirectory` of a reranker, if that is the model and it
            has one. Defaults to `None`.
    """

    path: pathlib.Path
    run: RunDirectory | None
    arm: str | None
    config: dict
    is_from_elsewhere: bool = False
    reranker_run: RunDirectory | None = None

    @property
    def pooling(self) -> str | None:
        """The pooling that the run's user chose for a teacher, if any."""
        return self.config.get("pooling") if self.is_from_elsewhere else None

    @property
    def has_reranker(self) -> bool:
        """Whether the run's teacher scores pairs, for a student of vectors."""
        return CandidatesSettings.stage_data in stage_data(self.config)

    def require_same_rows(self, split, rows, options) -> None:
        """Requires that a split is that of the run, if its data is read."""
        run = self.reranker_run or self.run
        is_named = options.task or options.data_dir or names_a_table(options)
        if run is not None and not is_named:
            inputs.require_unchanged(run, {split: inputs.rows_digest(rows)})

    def data_setting(self, name, given):
        """Returns a setting of the data: the user's value, or the run's."""
        if given is not None:
            return given
        return self.config.get("data", {}).get(name)

    @property
    def label(self) -> str:
        """The arm, or the name of the file or directory without its suffix."""
        return self.arm or self.path.resolve().stem


def locate(model: str, arm: str | None = None) -> Place:
    """Finds a model and the run that it belongs to."""
    path = pathlib.Path(model)
    if is_path(model) and not path.exists():
        raise UsageError(f"{path} does not exist.")
    run_path = _find_run(path)
    if run_path is None:
        if arm is not None:
            raise unread("--arm", f"for {path}, which is in no run")
        return Place(path, None, None, {})
    run, config = RunDirectory(run_path), read_config(run_path)
    if path.resolve() != run_path:
        found = arm or _arm_name(path, run_path)
        return Place(path, run, found, config)
    available = {
        name: path / name for name in ARMS if (run_path / name).exists()
    }
    lost = run.lost_arms
    arm = arm or next((n for n in ARMS if n in available or n in lost), None)
    if arm == "teacher" and arm not in available:
        place = Place(path, run, arm, config)
        source = config.get("teacher")
        if isinstance(source, str) or pathlib.Path(_teacher(place)).exists():
            return teacher_of(place)
    if arm not in available:
        raise UsageError(
            f"The run in {path} has no model {arm or 'yet'}. Available: "
            f"{', '.join(available) or 'none'}."
        )
    return Place(available[arm], run, arm, config)


def teacher_of(place: Place) -> Place:
    """Returns the place of a run's teacher, as one of the run's models."""
    source = _teacher(place)
    found = locate(source)
    inputs.require_unchanged(
        place.run, {"teacher": inputs.model_digest(source)}
    )
    return dataclasses.replace(
        found,
        run=place.run,
        arm="teacher",
        # A reranker's task and lengths are not those of its student.
        config=found.config if place.has_reranker else place.config,
        is_from_elsewhere=True,
        reranker_run=found.run if place.has_reranker else None,
    )


def _teacher(place):
    """The path or the name of a run's teacher."""
    source = place.config.get("teacher")
    if isinstance(source, str):
        return source
    return str(place.run.path / "teacher_run")


def _find_run(path):
    """The run directory that is `path` or holds it."""
    if not path.exists():
        return None
    path = path.resolve()
    for candidate in (path, *path.parents[:3]):  # 3 for a teacher's file
        if (candidate / EVENTS).is_file() and (candidate / CONFIG).is_file():
            return candidate
    return None


def _arm_name(path, run_path):
    """The arm in the name of a path inside a run, its first word."""
    first = path.resolve().relative_to(run_path).parts
    words = {first[0].split(".")[0], path.name.split("-")[0]}
    found = [arm for arm in ARMS if arm in words]
    return found[0] if found else None


@dataclasses.dataclass(frozen=True)
class Opened:
    """A model that can be evaluated.

    Args:
        task: `kdkit.tasks.Task`.
        predict: callable from a dict batch to logits.
        model: `keras.Model`, or `None` for an exported file.
        tokenizer: a tokenizer, or `None`.
        data_dir: string or `None`. The folder of the task's files.
        sequence_length: int. The largest sequence length in tokens.
        require_same_rows: callable that requires that the rows of a split are
            those of the model's run.
    """

    task: Task
    predict: Callable
    model: object
    tokenizer: object
    data_dir: str | None
    sequence_length: int
    require_same_rows: Callable

    @property
    def has_data(self) -> bool:
        """Whether the place of the task's data is known."""
        return (
            self.data_dir is not None
            or self.task.generate is not None
            or self.task.table is not None
        )

    def checkpoint_details(self) -> dict:
        """Returns what a Hugging Face checkpoint contains besides the model."""
        return {
            "tokenizer": self.tokenizer,
            "class_names": self.task.head.class_names,
            "problem_type": PROBLEM_TYPES.get(self.task.kind.title),
        }

    def read(self, split):
        """Returns a split of the task as in its files, not encoded."""
        examples = self.task.load(split, self.data_dir)
        self.require_same_rows(split, examples)
        return examples

    def encode(self, split, max_rows=None):
        """Returns a split of the task, or some of its examples, encoded."""
        return self.encode_rows(self.read(split), max_rows)

    def encode_rows(self, examples, max_rows=None):
        """Returns examples, or some of them, encoded."""
        if self.tokenizer is None:
            raise UsageError(NO_TOKENIZER)
        if max_rows is not None:
            rows = np.random.default_rng(0).permutation(len(examples))
            examples = examples.take(rows[:max_rows])
        return self.task.encode(examples, self.tokenizer, self.sequence_length)


def open_model(place, options) -> Opened:
    """Opens a `Place` with the task that the options or its run name."""
    task, data_dir = measured_task(place, options)
    same = functools.partial(place.require_same_rows, options=options)
    if export.exporter_of(place.path) is not None:
        file = export.open_file(place.path)
        length = _length(place, options, task, most=file.sequence_length)
        tokenizer = tokenizer_for(place, options)
        predict = export.file_logits(file)
        return Opened(task, predict, None, tokenizer, data_dir, length, same)
    loaded = models.load_classifier(place.path, task.head)
    if not loaded.has_trained_head:
        raise UsageError(
            f"{place.path} is an encoder without a trained head of "
            f"{task.num_classes} classes for task {task.name!r}."
        )
    length = _length(
        place,
        options,
        task,
        most=models.num_positions(loaded.model),
        own=loaded.sequence_length,
    )
    ranges = place.path / quantization.RANGES_FILE
    if ranges.is_file():
        # As the run measured it. Other precisions are exported without.
        quantization.read_quantization(ranges).apply(loaded.model)
    return Opened(
        task,
        make_forward(loaded.model),
        loaded.model,
        loaded.tokenizer or tokenizer_for(place, options),
        data_dir,
        length,
        same,
    )


def _length(place, options, task, most, own=None):
    """The sequence length: the user's, or that of the model's training."""
    if options.sequence_length is not None:
        require_context_length(
            options.sequence_length, most, "--sequence-length "
        )
        return options.sequence_length
    of_run = place.data_setting("sequence_length", None)
    length = of_run or own or task.sequence_length
    return length if most is None else min(length, most)


def file_tokenizer(place, options):
    """Returns the tokenizer for a file, as `tokenizer_for`, or raises."""
    tokenizer = tokenizer_for(place, options)
    if tokenizer is None:
        raise UsageError(NO_TOKENIZER)
    return tokenizer


def tokenizer_for(place, options):
    """Returns the tokenizer of --tokenizer, or of the file's run."""
    source = options.tokenizer
    if source is None and place.run is not None:
        source = place.run.path
    if source is None:
        return None
    return models.load_tokenizer(source)


def calibration_data(precisions, opened):
    """Some training examples for an export, `None` if nothing needs them."""
    for precision in precisions:
        file_quantization.require_precision("encoder", precision)
    needing = file_quantization.CALIBRATED.keys() & set(precisions)
    if not needing:
        return None
    batches = None
    if opened.has_data and opened.tokenizer is not None:
        rows = opened.encode("train", file_quantization.CALIBRATION_ROWS)
        batches = list(data.BatchStream(rows, data.Buckets(16)).evaluation())
    file_quantization.require_calibration(min(needing), batches)
    return batches
