"""Running `.tflite` files."""

import contextlib
import pathlib

import numpy as np

from kdkit.backends import LateModule
from kdkit.errors import UsageError
from kdkit.export import metadata
from kdkit.export.allocation import allocate
from kdkit.export.inputs import INPUT_NAMES
from kdkit.export.inputs import batch_shape
from kdkit.export.inputs import pad
from kdkit.export.inputs import to_int32

interpreter = LateModule("ai_edge_litert.interpreter", "ai-edge-litert")
SUFFIX = ".tflite"
MOST_THREADS = 2**31 - 1  # the largest number that the interpreter takes
ANY = -1  # a dynamic dimension in a shape signature


class LiteRTModel:
    """A `.tflite` file that is called like the Keras model it came from.

    Batches shorter than a fixed sequence length are padded, and a file with a
    batch dimension of 1 gets one row after another. The interpreter is
    resized when the shape of the batches changes. `sequence_length` and
    `batch_size` are the file's fixed sizes, or `None`; `metadata` is what
    `to_litert` wrote about the model, or `None`.

    Args:
        path: string or path. A `.tflite` file with the int32 inputs
            `token_ids`, `segment_ids` and `padding_mask`, or some of them, and
            one output, as `to_litert` writes it.
        threads: int. The number of CPU threads. Defaults to `1`.

    Call arguments:
        batch: dict of integer arrays of shape `(batch_size,
            sequence_length)`. Inputs that the file does not have are ignored.

    Returns:
        A NumPy array, the logits of shape `(batch_size, num_classes)`; with
        the options of a question as rows, one row per question; for tokens
        `(batch_size, sequence_length, num_classes)`.

    Raises:
        UsageError: (a `ValueError`) if the file is missing or not such a
            file, or a batch does not fit.

    Example:

    ```python
    student = kdkit.export.LiteRTModel("student-int8.tflite")
    logits = student({"token_ids": ids, "padding_mask": ids != 0, ...})
    ```
    """

    def __init__(self, path: str | pathlib.Path, threads: int = 1):
        self.path = pathlib.Path(path)
        check_path(self.path, threads)
        self.metadata = metadata.read(self.path)
        if self.metadata and self.metadata.reads_tokens:
            raise UsageError(
                f"{self.path} is the step of a decoder. Expected a file that "
                "reads whole sequences. Open it with "
                "kdkit.export.LiteRTDecoder."
            )
        self.threads = threads
        with usage_errors(self.path):
            self._interpreter = interpreter.Interpreter(
                str(path), num_threads=threads
            )
            allocate(self._interpreter)
        self._inputs = {
            _input_name(detail): detail
            for detail in self._interpreter.get_input_details()
        }
        self._check_interface()
        self.input_names = tuple(
            name for name in INPUT_NAMES if name in self._inputs
        )
        rows, columns = self._inputs["token_ids"]["shape_signature"]
        self.batch_size = None if rows == ANY else int(rows)
        self.sequence_length = None if columns == ANY else int(columns)
        self._shape = tuple(self._inputs["token_ids"]["shape"])

    def __call__(self, batch):
        batch = pad(to_int32(batch, self.input_names), self.sequence_length)
        if self.batch_size is None:
            return self._run(batch)
        rows = range(batch_shape(batch)[0])
        return np.concatenate(
            [
                self._run({name: a[row : row + 1] for name, a in batch.items()})
                for row in rows
            ]
        )

    def set_inputs(self, batch):
        """Sets the inputs of `invoke`: a checked batch that fits the file.

        Args:
            batch: dict of int32 arrays of shape `(batch_size,
                sequence_length)`, both of the file's size where it is fixed.
        """
        shape = batch_shape(batch)
        if shape != self._shape:
            for detail in self._inputs.values():
                self._interpreter.resize_tensor_input(detail["index"], shape)
            with usage_errors(self.path):
                allocate(self._interpreter)
            self._shape = shape
        for name, detail in self._inputs.items():
            self._interpreter.set_tensor(detail["index"], batch[name])

    def invoke(self):
        """Runs the file on the inputs that are set: the part to time."""
        with usage_errors(self.path):
            self._interpreter.invoke()

    def _run(self, batch):
        self.set_inputs(batch)
        self.invoke()
        output = self._interpreter.get_output_details()[0]
        return self._interpreter.get_tensor(output["index"])

    def _check_interface(self):
        problems = []
        if "token_ids" not in self._inputs:
            problems.append("it has no input 'token_ids'")
        unknown = sorted(set(self._inputs) - set(INPUT_NAMES))
        if unknown:
            problems.append(f"it has other inputs: {unknown}")
        for name, detail in self._inputs.items():
            signature = detail["shape_signature"].tolist()
            if detail["dtype"] != np.int32 or len(signature) != 2:
                problems.append(
                    f"input {name!r} is not int32 with two axes but "
                    f"{np.dtype(detail['dtype'])} with shape {signature}"
                )
            elif signature[0] not in (ANY, 1):
                problems.append(
                    f"input {name!r} has the fixed batch size {signature[0]}"
                )
        num_outputs = len(self._interpreter.get_output_details())
        if num_outputs != 1:
            problems.append(f"it has {num_outputs} outputs")
        if problems:
            raise UsageError(
                f"Not a file as kdkit exports them: {self.path}: "
                f"{'; '.join(problems)}. Expected int32 inputs of shape "
                f"(any or 1, any or fixed), 'token_ids' and any of "
                f"{list(INPUT_NAMES[1:])}, and one output."
            )


@contextlib.contextmanager
def usage_errors(path):
    """Names the file in what the interpreter raises."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise UsageError(
            f"The LiteRT interpreter cannot run this file: {path}. "
            f"It says: {error}"
        ) from error


def check_path(path, threads):
    """Checks what an interpreter is opened with, before it is.

    Raises:
        UsageError: (a `ValueError`) if there is no such file, or no thread.
    """
    if not 1 <= threads <= MOST_THREADS:
        raise UsageError(
            "Invalid value for argument `threads`. Expected an integer from 1 "
            f"to {MOST_THREADS}. Received: threads={threads}."
        )
    problem = None
    if path.suffix != SUFFIX:
        problem = f"expected a name that ends in {SUFFIX!r}"
    elif not path.is_file():
        problem = "there is no such file"
    if problem:
        raise UsageError(
            f"Cannot open the exported model: {problem}. Received: {path}. "
            "Write one with kdkit.export.to_litert or `kdkit export`."
        )


def _input_name(detail):
    """`serving_default_token_ids:0` is the converter's `token_ids`."""
    return detail["name"].removeprefix("serving_default_").split(":")[0]
