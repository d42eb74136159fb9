"""A single tensor of a tap: its name, its shape, its place in a dict."""

import dataclasses

import numpy as np

from kdkit.taps.names import (
    ATTENTION_TAPS,
    PER_LAYER_TAPS,
    POSITION_TAPS,
    VECTOR_TAPS,
    split_tap,
)

LENGTH = "length"  # in a shape: the axis is as long as the sequence


@dataclasses.dataclass(frozen=True, order=True)
class Entry:
    """One tensor of a tap.

    Args:
        tap: string. A tap name, as in `kdkit.taps`.
        layer: int. For taps per layer the block, counted from 1, or 0 for the
            embedding output. For other taps 0.
        top_k: int. For logits, the number of classes that
            `kdkit.losses.top_classes` returns; 0 for the logits themselves.
            Defaults to `0`.
        temperature: float. The temperature for `top_classes`. Defaults to
            `1.0`.
    """

    tap: str
    layer: int = 0
    top_k: int = 0
    temperature: float = 1.0

    @property
    def name(self) -> str:
        """`"logits"`, `"hidden_states/3"`, `"logits@64@2.0"`."""
        if self.is_per_layer:
            return f"{self.tap}/{self.layer}"
        if self.top_k:
            return f"{self.tap}@{self.top_k}@{float(self.temperature)}"
        return self.tap

    @property
    def is_per_layer(self) -> bool:
        """Whether the tap has one tensor for each of several layers."""
        return split_tap(self.tap)[1] in PER_LAYER_TAPS

    @property
    def is_per_example(self) -> bool:
        """Whether there is one tensor per example, not one per sequence."""
        return self.tap == "logits"

    def read(self, taps: dict):
        """Returns the tensor from a result of `kdkit.taps.tapped`.

        If the top classes are not stored there, returns the logits.
        """
        if self.name in taps:
            return taps[self.name]
        tensors = taps[self.tap]
        if not self.is_per_layer:
            return tensors
        return tensors[self.layer - self._first_layer]

    def width(self, num_classes: int) -> int:
        """Returns how many numbers per position or example are stored.

        Args:
            num_classes: int. The number of logits per position or example.
        """
        return 2 * self.top_k + 1 if self.top_k else num_classes

    def num_exact(self, shape: tuple) -> int:
        """Returns how many numbers of the last axis must not be rounded.

        These are the last ones: the class numbers, and the log-probability of
        all other classes.

        Args:
            shape: tuple, the result of `shape`.
        """
        return shape[-1] // 2 + 1 if self.top_k else 0

    @property
    def _first_layer(self):
        """1 for tensors that blocks compute, 0 for states (0 = embeddings)."""
        _, kind = split_tap(self.tap)
        return 1 if kind in ATTENTION_TAPS + VECTOR_TAPS else 0

    def shape(self, output: np.ndarray) -> tuple:
        """Returns the shape of one example, with `"length"` for its length.

        Args:
            output: array of shape `(batch, ...)`, the tensor for a batch.
        """
        _, kind = split_tap(self.tap)
        per_position = kind == "logits" and output.ndim == 3
        has_length = (1,) if per_position or kind in POSITION_TAPS else ()
        if kind in ATTENTION_TAPS:
            has_length = (2, 3)
        return tuple(
            LENGTH if axis in has_length else size
            for axis, size in enumerate(output.shape)
            if axis
        )


def sizes(shape: tuple, length: int) -> tuple[int, ...]:
    """Replaces `"length"` in a shape by a number.

    >>> sizes((12, "length", "length"), 7)
    (12, 7, 7)
    """
    return tuple(length if size == LENGTH else size for size in shape)
