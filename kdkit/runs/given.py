"""Models and data in memory, saved in `RUN/inputs/` to repeat the run."""

import dataclasses
import hashlib
import json
import pathlib

import keras
import numpy as np

from kdkit import models
from kdkit.errors import UsageError
from kdkit.io.files import staged, write_text
from kdkit.io.reading import read_json
from kdkit.models import LoadedModel
from kdkit.models.saving import stored_size
from kdkit.runs.directory import CONFIG, INPUTS
from kdkit.taps import own_names

CONTENT = "content.json"  # checksums of the saved inputs
LABEL = "label"
TEXTS = ("text", "text_pair")  # the columns of saved tables


class SavedInputs:
    """The folder `RUN/inputs/` of a run directory."""

    def __init__(self, run_dir):
        self._run_dir = pathlib.Path(run_dir)
        self._folder = self._run_dir / INPUTS

    def save_model(self, name: str, model, tokenizer=None) -> str:
        """Saves a model as a preset directory."""
        loaded = _loaded(model, tokenizer)
        content = hashlib.sha256()
        for weight in loaded.model.weights:
            content.update(keras.ops.convert_to_numpy(weight.value).tobytes())
        definition = models.as_tokenizer(loaded.tokenizer).definition
        parts = (loaded.sequence_length, loaded.conventions, loaded.head)
        content.update(json.dumps([definition, *map(repr, parts)]).encode())

        def write(path):
            with own_names():
                models.save_model(loaded, path)

        size = stored_size(loaded.model)
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
                f"{name} differs from {path}."
            )
        if not is_same:
            with staged(path, size) as partial:
                write(partial)
            write_text(record, json.dumps({**known, name: content}))
        return str(path.resolve())


def _loaded(model, tokenizer):
    """A model with its tokenizer and sequence length, if it has any."""
    loaded = (
        model if isinstance(model, LoadedModel) else LoadedModel(model, None)
    )
    own, length = loaded.tokenizer, loaded.sequence_length
    preprocessor = getattr(loaded.model, "preprocessor", None)
    if preprocessor is not None:
        own = own or preprocessor.tokenizer
        length = length or preprocessor.sequence_length
    return dataclasses.replace(
        loaded,
        tokenizer=own or tokenizer,
        sequence_length=length or models.num_positions(loaded.model),
    )


def table_columns(name: str, data, text_column, label_column) -> dict:
    """Returns the columns of examples in memory."""
    if hasattr(data, "columns") or hasattr(data, "column_names"):
        if isinstance(text_column, str):
            text_column = (text_column,)
        texts = [list(data[column]) for column in text_column]
        labels = data[label_column]
    else:
        texts, labels = data
        is_pair = isinstance(texts, tuple) and np.ndim(texts[0]) > 0
        texts = texts if is_pair else (texts,)
    columns = {
        TEXTS[number]: _values(values) for number, values in enumerate(texts)
    }
    columns[LABEL] = _values(labels)
    for column, values in columns.items():
        kinds = str if column in TEXTS else str | int | float
        for number, value in enumerate(values):
            # NaN is a float that differs from itself.
            if not isinstance(value, kinds) or value != value:
                raise UsageError(
                    f"`{name}`: expected {kinds} as {column}. Received: "
                    f"{value!r} at {number}."
                )
    return columns


def _values(values):
    """The values of a list, an array, a series or a tensor, as for JSON."""
    values = getattr(values, "numpy", lambda: values)()
    if hasattr(values, "tolist"):
        values = values.tolist()
    values = [
        value.item() if isinstance(value, np.generic) else value
        for value in values
    ]
    return [
        value.decode() if isinstance(value, bytes) else value
        for value in values
    ]
