"""Opens a MODEL of the command line: a Keras model or an exported file."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from kdkit import export, models, quantization
from kdkit.cli.places import Place, described_at, measured_task
from kdkit.cli.verb_flags import reject_given, unread
from kdkit.config.data import Pairs
from kdkit.data.stream import make_forward
from kdkit.errors import UsageError
from kdkit.export import metadata
from kdkit.export.inputs import ENCODER_DECODER
from kdkit.taps.names import SENTENCE_EMBEDDING
from kdkit.tasks import Task

NO_TOKENIZER = "The file is in no run. Pass --tokenizer MODEL."


@dataclasses.dataclass(frozen=True)
class Opened:
    """A Keras model or an exported file, and how it reads texts.

    Args:
        place: `Place`.
        runs: `keras.Model`, or the opened file.
        loaded: `kdkit.models.LoadedModel`, or `None` for a file.
        tokenizer: a tokenizer, `None` for a model without one.
        sequence_length: int or `None`. The largest sequence length in tokens,
            `None` for a model that reads any.
    """

    place: Place
    runs: object
    loaded: models.LoadedModel | None
    tokenizer: object
    sequence_length: int | None

    @property
    def model(self):
        """The Keras model, `None` for a file."""
        return None if self.loaded is None else self.loaded.model

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """The languages of an encoder-decoder's sources and targets."""
        if self.loaded is not None:
            return self.loaded.languages
        text = self.place.corpus
        return text.sides if isinstance(text, Pairs) else (None, None)


def open_place(
    place: Place,
    load: Callable,
    tokenizer: str | None = None,
    length: int | None = None,
    default: int | None = None,
    own_first: bool = False,
) -> Opened:
    """Opens a model with its tokenizer and its sequence length.

    Args:
        place: `Place`.
        load: function from a path to a `kdkit.models.LoadedModel`.
        tokenizer: string or `None`. The tokenizer's place that the user gave.
        length: int or `None`. The sequence length that the user gave. Defaults
            to that of the run, then of the model.
        default: int or `None`. The length if neither has one.
        own_first: bool. Whether the model's own length is the default, before
            the run's. Defaults to `False`.
    """
    loaded, lengths = None, [place.length]
    if export.exporter_of(place.path) is not None:
        runs = export.open_file(place.path)
        is_pair = runs.kind == ENCODER_DECODER
        most = runs.room if is_pair else runs.sequence_length
        if own_first and place.arm == "teacher":
            lengths = [most]
        read = file_tokenizer(place, tokenizer)
    else:
        loaded = load(place.path)
        runs, most = loaded.model, models.num_positions(loaded.model)
        lengths.insert(0 if own_first else 1, loaded.sequence_length)
        if tokenizer is not None and loaded.tokenizer is not None:
            raise unread("--tokenizer", "for models, which have their own")
        read = loaded.tokenizer or _tokenizer_of(place, tokenizer)
    if length is not None:
        require_positions(length, most)
    else:
        length = next(filter(None, [*lengths, default]), None)
        known = [one for one in (length, most) if one is not None]
        length = min(known, default=None)
    return Opened(place, runs, loaded, read, length)


def _tokenizer_of(place, source):
    """The tokenizer at a place, or that of the model's run."""
    source = described_at(place, source)
    return None if source is None else models.load_tokenizer(source)


def file_tokenizer(place: Place, source: str | None):
    """Returns the tokenizer at `source`, or that of the file's run."""
    tokenizer = _tokenizer_of(place, source)
    if tokenizer is None:
        raise UsageError(NO_TOKENIZER)
    return tokenizer


def require_positions(length: int, most: int | None) -> None:
    """Requires that sequences fit a model's number of positions."""
    if most is not None and length > most:
        raise UsageError(
            f"Sequences of {length} tokens are longer than the model's {most} "
            f"positions. Use --sequence-length {most}."
        )


@dataclasses.dataclass(frozen=True)
class OpenedOnTask(Opened):
    """A classifier with the task that it is measured on.

    Args:
        task: `kdkit.tasks.Task`.
        data_dir: string or `None`. The folder of the task's files.
        predict: callable from a dict batch to logits.
        require_same_rows: callable that requires that the rows of a split are
            those of the model's run.
    """

    task: Task
    data_dir: str | None
    predict: Callable
    require_same_rows: Callable

    @property
    def has_data(self) -> bool:
        """Whether the place of the task's data is known."""
        return (
            self.data_dir is not None
            or self.task.generate is not None
            or self.task.table is not None
        )

    def read(self, split):
        """Returns a split of the task as in its files, not encoded."""
        examples = self.task.load(split, self.data_dir)
        self.require_same_rows(split, examples)
        return examples

    def encode_some(self, examples, count):
        """Returns some of the examples encoded."""
        rows = np.random.default_rng(0).permutation(len(examples))
        return self.encode_rows(examples.take(rows[:count]))

    def encode_rows(self, examples):
        """Returns examples encoded."""
        if self.tokenizer is None:
            raise UsageError(NO_TOKENIZER)
        return self.task.encode(examples, self.tokenizer, self.sequence_length)


def open_on_task(place: Place, options) -> OpenedOnTask:
    """Opens a classifier with the task that the options or its run name."""
    task, data_dir = measured_task(place, options)
    found = open_place(
        place,
        lambda path: models.load_classifier(path, task.head),
        options.tokenizer,
        options.sequence_length,
        task.sequence_length,
    )
    if found.loaded is None:
        predict = export.file_logits(found.runs)
    else:
        if not found.loaded.has_trained_head:
            raise UsageError(
                f"{place.path} is an encoder without a trained head of "
                f"{task.num_classes} classes for task {task.name!r}."
            )
        ranges = place.path / quantization.RANGES_FILE
        if ranges.is_file():
            # As the run measured it. Other precisions are exported without.
            quantization.read_quantization(ranges).apply(found.model)
        predict = make_forward(found.model)
    same = functools.partial(place.require_same_rows, options=options)
    return OpenedOnTask(
        **vars(found),
        task=task,
        data_dir=data_dir,
        predict=predict,
        require_same_rows=same,
    )


def is_embedder(place: Place) -> bool:
    """Returns whether a MODEL is an embedder, by its run and its files."""
    if place.config is not None and place.config.kind == "embedder":
        return True
    if models.find(place.path).kind == "embedder":
        return True
    return _output_of(place.path) == SENTENCE_EMBEDDING


def _output_of(path):
    """The outputs of a file that kdkit exported, `None` for others."""
    exporter = export.exporter_of(path)
    if exporter is None:
        return None
    if exporter.name == "litert":
        return getattr(metadata.read(path), "outputs", None)
    return getattr(export.open_file(path), "outputs", None)


def open_embedder(place: Place, options) -> Opened:
    """Opens an embedder."""
    found = open_place(
        place,
        functools.partial(models.load_embedder, pooling=options.pooling),
        options.tokenizer,
        options.sequence_length,
        own_first=True,  # a teacher may read more than its student
    )
    if found.loaded is None:
        reject_given(options, ("pooling",), "for an exported file")
        outputs = getattr(found.runs, "outputs", SENTENCE_EMBEDDING)
        if outputs != SENTENCE_EMBEDDING:
            raise UsageError(
                f"{place.path} returns {outputs}. Expected the file of an "
                "embedder."
            )
    return found


def is_writer(model: str) -> bool:
    """Returns whether a MODEL is an encoder-decoder or its file."""
    is_known = models.find(model).kind == "encoder_decoder"
    return is_known or export.reads_sources(model)


def open_writer(place: Place, tokenizer, length=None) -> Opened:
    """Opens an encoder-decoder, by default for the length of its text."""
    default = getattr(place.corpus, "sequence_length", None)
    load = models.load_language_model
    return open_place(place, load, tokenizer, length, default)


def languages_of(options, opened: Opened) -> tuple[str | None, str | None]:
    """Returns the languages of source and target: the user's or the model's."""
    if options.languages is not None:
        return tuple(options.languages)
    known = opened.tokenizer.languages
    if known and None in opened.languages:
        raise UsageError(
            "Expected --languages SOURCE TARGET, two of "
            f"{', '.join(known)}. Received: none."
        )
    return opened.languages
