"""Signatures and runtime of `.tflite` files that read one token at a time.

A decoder's file has the signature `step`. An encoder-decoder's file has
`encode`, which reads a source, and `decode`, which reads a token of the target.
"""

import pathlib

import numpy as np

from kdkit.export import metadata
from kdkit.export.exportable import DECODER, ENCODER_DECODER
from kdkit.export.litert_files import new_interpreter
from kdkit.late import tf

SIGNATURE = "step"
INPUTS = ("token_ids", "position")  # in addition to keys and values
NEW = {"keys_": "new_keys", "values_": "new_values"}  # input to output
# The alphabetically first signature is the file's default signature.
DECODE = "decode"  # reads a token of the target
ENCODE = "encode"  # reads a source
MASK = "padding_mask"


def decoder_signatures(step) -> dict:
    """Returns the signature for a decoder's file."""

    def run(inputs):
        inputs = dict(inputs)
        token_ids, position = inputs.pop("token_ids"), inputs.pop("position")
        return step(token_ids, position, inputs)

    specs = {**_token_specs(), **_cache_specs(step)}
    return {SIGNATURE: (run, specs)}


def encoder_decoder_signatures(step) -> dict:
    """Returns the signatures for an encoder-decoder's file."""
    source = (1, step.source_length)
    mask = tf.TensorSpec(source, "int32", MASK)

    def run(inputs):
        inputs = dict(inputs)
        first = (inputs.pop(name) for name in (*INPUTS, MASK))
        return step.step(*first, inputs)

    def encode(inputs):
        return step.encode(inputs["token_ids"], inputs[MASK])

    heads, _, width = step.cache_shape
    step_specs = {
        **_token_specs(),
        MASK: mask,
        **_cache_specs(step),
        **_float_specs(step.source_names, (heads, step.source_length, width)),
    }
    encode_specs = {
        "token_ids": tf.TensorSpec(source, "int32", "token_ids"),
        MASK: mask,
    }
    return {DECODE: (run, step_specs), ENCODE: (encode, encode_specs)}


def _token_specs():
    return {
        "token_ids": tf.TensorSpec((1,), "int32", "token_ids"),
        "position": tf.TensorSpec((), "int32", "position"),
    }


def _cache_specs(step):
    return _float_specs(step.cache_names, step.cache_shape)


def _float_specs(names, shape):
    return {
        name: tf.TensorSpec((1, *shape), "float32", name)
        for pair in names
        for name in pair
    }


class LiteRTDecoder:
    """A decoder's `.tflite` file, which reads a text token by token.

    The object caches the keys and values of earlier tokens, so that every token
    needs one run of the file. `sequence_length` is the capacity of the cache in
    tokens, `batch_size` is 1, and `metadata` is what `kdkit.export.to_litert`
    wrote about the model.

    Args:
        path: string or path. A `.tflite` file of a decoder, written by
            `kdkit.export.to_litert`.
        threads: int. The number of CPU threads. Defaults to `1`.
        delegate: string or `None`, as in `kdkit.export.measure_latencies`.

    Call arguments:
        token_ids: int array of shape `(num_tokens,)`. A text from its
            beginning; earlier tokens are forgotten.

    Returns:
        A float32 array of shape `(num_tokens, vocabulary_size)`: the logits for
        the token after each of the tokens.

    Raises:
        RuntimeError: if the vocabulary has no such token, or the cache is full.

    Example:

    ```python
    student = kdkit.export.LiteRTDecoder("student-int8.tflite")
    logits = student([50256, 464])[-1]
    logits = student.step(int(logits.argmax()))
    ```
    """

    kind = DECODER
    batch_size = 1
    _signature = SIGNATURE

    def __init__(
        self,
        path: str | pathlib.Path,
        threads: int = 1,
        delegate: str | None = None,
    ):
        self.path = pathlib.Path(path)
        self._interpreter = new_interpreter(path, threads, delegate)
        runner = self._interpreter.get_signature_runner(self._signature)
        self._inputs = runner.get_input_details()
        self._outputs = runner.get_output_details()
        del runner  # otherwise the interpreter refuses to run
        self._interpreter.allocate_tensors()
        shape = self._inputs["keys_0"]["shape"]
        self.sequence_length = int(shape[2])
        self.vocabulary_size = int(self._outputs["logits"]["shape"][-1])
        self.metadata = metadata.read(self.path)
        self.position = 0
        for name, detail in self._inputs.items():
            if name not in INPUTS:  # it may contain NaN at the start
                self._interpreter.tensor(detail["index"])()[:] = 0

    def __call__(self, token_ids):
        self.reset()
        return np.stack([self.step(token) for token in token_ids])

    def reset(self) -> None:
        """Forgets the tokens that were read."""
        self.position = 0

    def step(self, token_id: int) -> np.ndarray:
        """Reads the next token.

        Args:
            token_id: int. The token.

        Returns:
            A float32 array of shape `(vocabulary_size,)`: the logits for the
            next token.
        """
        self._set("token_ids", token_id)
        self._set("position", self.position)
        self._interpreter.invoke()
        logits, *new = (
            self._interpreter.get_tensor(self._outputs[name]["index"])
            for name in ("logits", *NEW.values())
        )
        # Written directly into the interpreter's memory: a copy of all keys
        # and values would take longer than the step.
        for prefix, blocks in zip(NEW, new, strict=True):
            for index, block in enumerate(blocks):
                detail = self._inputs[f"{prefix}{index}"]
                cache = self._interpreter.tensor(detail["index"])()
                cache[:, :, self.position] = block
                del cache  # otherwise the interpreter refuses to run
        self.position += 1
        return logits[0]

    def state(self) -> tuple:
        """Returns the state after the last token, for `set_state`."""
        caches = {
            name: self._interpreter.tensor(detail["index"])()[
                :, :, : self.position
            ].copy()
            for name, detail in self._inputs.items()
            if name.startswith(tuple(NEW))
        }
        return self.position, caches

    def set_state(self, state: tuple) -> None:
        """Restores a state, so that the next token follows it.

        Args:
            state: tuple, the result of `state` for this file.
        """
        self.position, caches = state
        for name, values in caches.items():
            cache = self._interpreter.tensor(self._inputs[name]["index"])()
            cache[:, :, : self.position] = values
            del cache  # otherwise the interpreter refuses to run

    def _set(self, name, value):
        detail = self._inputs[name]
        self._interpreter.set_tensor(
            detail["index"], np.full(detail["shape"], value, "int32")
        )


class LiteRTSeq2Seq(LiteRTDecoder):
    """A `.tflite` file that reads a source and writes token by token.

    `source_length` is the capacity for a source in tokens. Everything else is
    as in `kdkit.export.LiteRTDecoder`.

    Args:
        path: string or path. A `.tflite` file of an encoder-decoder, written
            by `kdkit.export.to_litert`.
        threads: int. The number of CPU threads. Defaults to `1`.
        delegate: string or `None`, as in `kdkit.export.measure_latencies`.

    Call arguments:
        source_ids: int array of shape `(num_source_tokens,)`.
        token_ids: int array of shape `(num_tokens,)`. The target from its
            beginning.

    Returns:
        A float32 array of shape `(num_tokens, vocabulary_size)`: the logits for
        the token after each of the target's tokens.

    Raises:
        RuntimeError: if the vocabulary has no such token, or the cache is full.

    Example:

    ```python
    student = kdkit.export.LiteRTSeq2Seq("student-int8.tflite")
    student.read_source(source_ids)
    logits = student.step(language_token_id)
    logits = student.step(int(logits.argmax()))
    ```
    """

    kind = ENCODER_DECODER
    _signature = DECODE

    def __init__(
        self,
        path: str | pathlib.Path,
        threads: int = 1,
        delegate: str | None = None,
    ):
        super().__init__(path, threads, delegate)
        self.source_length = int(self._inputs[MASK]["shape"][1])

    @property
    def room(self) -> int:
        """The capacity in tokens for both a source and its target."""
        return min(self.source_length, self.sequence_length)

    def __call__(self, source_ids, token_ids):
        self.read_source(source_ids)
        return super().__call__(token_ids)

    def read_source(self, token_ids) -> None:
        """Reads a source, and forgets the target written so far.

        Args:
            token_ids: int array of shape `(num_source_tokens,)`.
        """
        ids, mask = np.zeros((2, 1, self.source_length), "int32")
        ids[0, : len(token_ids)] = token_ids
        mask[0, : len(token_ids)] = 1
        encode = self._interpreter.get_signature_runner(ENCODE)
        read = encode(token_ids=ids, padding_mask=mask)
        del encode  # otherwise the interpreter refuses to run
        for name, value in (*read.items(), (MASK, mask)):
            self._interpreter.set_tensor(self._inputs[name]["index"], value)
        self.reset()
