"""Models and data in memory, saved in `RUN/inputs/` to repeat the run."""

import hashlib
import json
import pathlib
from collections.abc import Iterator

import keras
import keras_hub
import numpy as np

from kdkit import models
from kdkit.errors import UsageError, all_mistakes, shortened
from kdkit.io.files import staged, write_text
from kdkit.io.reading import read_json
from kdkit.models import LoadedModel
from kdkit.runs.directory import CONFIG, INPUTS
from kdkit.taps import own_names

CONTENT = "content.json"  # checksums of the saved inputs
LABEL = "label"
TEXTS = ("text", "text_pair")  # the columns of saved tables
KINDS = (
    "the name of a task, the path of a table, (texts, labels), ((texts, "
    'text_pairs), labels), a pandas DataFrame, or {"train": ..., "dev": ...} '
    "of these"
)


class SavedInputs:
    """The folder `RUN/inputs/` of a run directory."""

    def __init__(self, run_dir):
        self._run_dir = pathlib.Path(run_dir)
        self._folder = self._run_dir / INPUTS

    def save_model(self, name: str, model, tokenizer=None) -> str:
        """Saves a model as a preset directory."""
        model, own, length = _parts(model)
        tokenizer = own or tokenizer
        content = hashlib.sha256()
        for weight in model.weights:
            content.update(keras.ops.convert_to_numpy(weight.value).tobytes())
        content.update(json.dumps(tokenizer.get_vocabulary()).encode())

        def write(path):
            with own_names():
                if isinstance(model, keras_hub.models.Backbone):
                    models.save_encoder(model, tokenizer, path)
                else:
                    models.save_preset(model, tokenizer, path, length)

        size = models.stored_size(model)
        return self._save(name, name, content.hexdigest(), write, size)

    def save_table(self, name: str, columns: dict[str, list]) -> str:
        """Saves examples as JSON lines."""
        text = "".join(
            json.dumps(dict(zip(columns, row, strict=True))) + "\n"
            for row in zip(*columns.values(), strict=True)
        )
        return self._save(
            name,
            f"{name}.jsonl",
            hashlib.sha256(text.encode()).hexdigest(),
            lambda path: write_text(path, text),
        )

    def _save(self, name, file, content, write, size=0):
        """Writes an input, unless it was saved before; returns its path."""
        path, record = self._folder / file, self._folder / CONTENT
        known = {}
        if record.is_file():
            known = read_json(record, "checksums of inputs")
        is_same = known.get(name) == content and path.exists()
        if not is_same and (self._run_dir / CONFIG).exists():
            raise UsageError(
                f"The run in {self._run_dir} was made with other inputs: "
                f"{name} differs from {path}. Pass the same ones to continue "
                "it, or choose another run_dir."
            )
        if not is_same:
            with staged(path, size) as partial:
                write(partial)
            write_text(record, json.dumps({**known, name: content}))
        return str(path.resolve())


def require_model(name: str, model, needs_tokenizer: bool) -> None:
    """Requires a model that `SavedInputs.save_model` can save."""
    kinds, expected = (keras_hub.models.TextClassifier,), "TextClassifier"
    if not needs_tokenizer:
        kinds += (keras_hub.models.Backbone,)
        expected += " or Backbone"
    found = model.model if isinstance(model, LoadedModel) else model
    if not isinstance(found, kinds):
        raise UsageError(
            f"`{name}`: expected a path, the name of a preset, or a keras-hub "
            f"{expected}. Received: {type(found).__name__}. Train other Keras "
            "models with kdkit.Distiller."
        )
    if needs_tokenizer and _parts(model)[1] is None:
        raise UsageError(
            f"`{name}`: expected a {type(found).__name__} with a preprocessor, "
            "whose tokenizer reads the texts. Received: none. Pass "
            "preprocessor= when you make the model."
        )


def _parts(model):
    """The Keras model, its tokenizer and its sequence length, if it has any."""
    tokenizer = length = None
    if isinstance(model, LoadedModel):
        tokenizer, length = model.tokenizer, model.sequence_length
        model = model.model
    preprocessor = getattr(model, "preprocessor", None)
    if preprocessor is not None:
        tokenizer = tokenizer or preprocessor.tokenizer
        length = length or preprocessor.sequence_length
    return model, tokenizer, length or models.num_positions(model)


def table_columns(name: str, data, text_column, label_column) -> dict:
    """Returns the columns of examples in memory."""
    if hasattr(data, "columns") or hasattr(data, "column_names"):
        texts, labels = _columns_of_frame(name, data, text_column, label_column)
    elif isinstance(data, tuple | list) and len(data) == 2:
        if text_column is not None or label_column is not None:
            raise UsageError(
                "`text_column` and `label_column` are for tables and data "
                f"frames. Received: `{name}`, a tuple. Remove them."
            )
        texts, labels = data
        is_pair = isinstance(texts, tuple) and not _is_text(texts[0])
        texts = texts if is_pair else (texts,)
    else:
        raise UsageError(
            f"`{name}`: expected {KINDS}. Received: {shortened(data)}."
        )
    if len(texts) > len(TEXTS):
        raise UsageError(
            f"`{name}`: expected texts, or a pair of texts. Received: "
            f"{len(texts)} sequences."
        )
    columns = {}
    with all_mistakes() as check:
        for column, values in zip(TEXTS, texts, strict=False):
            with check():
                columns[column] = list(_each_text(f"{name}: {column}", values))
        with check():
            columns[LABEL] = list(_each_label(f"{name}: {LABEL}", labels))
    lengths = {column: len(values) for column, values in columns.items()}
    if len(set(lengths.values())) > 1 or not all(lengths.values()):
        raise UsageError(
            f"`{name}`: expected texts and labels of the same number. "
            f"Received: {lengths}."
        )
    return columns


def _columns_of_frame(name, frame, text_column, label_column):
    names = getattr(frame, "column_names", None)  # of a Hugging Face dataset
    known = list(map(str, frame.columns if names is None else names))
    if isinstance(text_column, str):
        text_column = (text_column,)
    wanted = [*(text_column or ()), *([label_column] if label_column else ())]
    missing = [column for column in wanted if column not in known]
    if missing or not (text_column and label_column):
        what = f"There is no {', '.join(missing)}." if missing else ""
        raise UsageError(
            f"`{name}`: expected `text_column` and `label_column`, columns of "
            f"the data frame. {what} Its columns are {', '.join(known)}."
        )
    return [frame[column] for column in text_column], frame[label_column]


def _is_text(value):
    return isinstance(value, str | bytes)


def _values(name, values):
    """The values of a list, an array, a series or a tensor."""
    values = getattr(values, "numpy", lambda: values)()
    if hasattr(values, "tolist"):
        values = values.tolist()
    if _is_text(values) or not hasattr(values, "__iter__"):
        raise UsageError(
            f"`{name}`: expected a sequence. Received: {shortened(values)}."
        )
    return values


def _each_text(name, values) -> Iterator[str]:
    for number, value in enumerate(_values(name, values)):
        if not _is_text(value):
            raise UsageError(
                f"`{name}`: expected strings. Received: {shortened(value)} at "
                f"{number}."
            )
        yield value.decode() if isinstance(value, bytes) else value


def _each_label(name, values) -> Iterator[str | int | float]:
    for number, value in enumerate(_values(name, values)):
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bytes):
            value = value.decode()
        if not isinstance(value, str | int | float) or value != value:
            raise UsageError(
                f"`{name}`: expected one string or number for each text. "
                f"Received: {shortened(value)} at {number}."
            )
        yield value
