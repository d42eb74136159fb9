"""Rows of a task as they come from any source: texts and labels."""

import dataclasses

import numpy as np

from kdkit.errors import UsageError


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
    """Texts with their labels.

    Args:
        texts: tuple of 1 or 2 lists of strings of the same length: the
            sentences, or the first and the second sentences of the pairs.
        labels: `int32` array of class numbers, `float32` array of scores, or
            `None` where there are no labels. Shape `(num_rows,)`.

    >>> examples = Examples((["a fine film", "a dull film"],), np.array([1, 0]))
    >>> len(examples)
    2
    >>> examples.take([1]).texts
    (['a dull film'],)
    """

    texts: tuple[list[str], ...]
    labels: np.ndarray | None = None

    def __post_init__(self):
        if len(self.texts) not in (1, 2):
            raise UsageError(
                "Examples have 1 or 2 columns of text. "
                f"Received: {len(self.texts)} columns."
            )
        num_rows = {len(column) for column in self.texts}
        if self.labels is not None:
            num_rows.add(len(self.labels))
        if len(num_rows) != 1:
            raise UsageError(
                "The columns of text and the labels must have the same number "
                f"of rows. Received: {sorted(num_rows)} rows."
            )

    def __len__(self):
        return len(self.texts[0])

    def take(self, rows) -> "Examples":
        """Returns the rows with the given numbers, in the given order."""
        texts = tuple([column[row] for row in rows] for column in self.texts)
        labels = None if self.labels is None else self.labels[np.asarray(rows)]
        return Examples(texts, labels)
