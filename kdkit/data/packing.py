"""Running text as rows of token ids of one length, on disk."""

import dataclasses
import json
import pathlib
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from kdkit.errors import UsageError
from kdkit.files import staged
from kdkit.files import write_text

TEXTS_PER_STEP = 256  # tokenised together
INDEX, ROWS = "index.json", "rows"


@dataclasses.dataclass(frozen=True, eq=False)
class PackedCorpus:
    """Rows of token ids of the same length, read from disk as needed.

    Args:
        rows: `int32` array of shape `(num_rows, sequence_length)`, mapped from
            the file.
        num_texts: int. Texts that went in.
    """

    rows: np.ndarray
    num_texts: int

    def __len__(self):
        return len(self.rows)

    @property
    def sequence_length(self) -> int:
        """Tokens of every row, special ones included."""
        return self.rows.shape[1]


def pack(
    texts: Iterable[str], tokenizer, sequence_length: int, directory
) -> PackedCorpus:
    """Tokenises texts and packs them to full rows, without padding.

    The texts stand one after the other with a `[SEP]` between them; every row
    is `[CLS]`, the next `sequence_length - 2` tokens, `[SEP]`. What does not
    fill the last row is left out. Memory does not grow with the texts: rows go
    to disk as they come.

    Args:
        texts: iterable of strings.
        tokenizer: `keras_hub.tokenizers.BertTokenizer`, or another with
            `start_token_id` and `end_token_id`.
        sequence_length: int. Tokens of a row.
        directory: path. Where the rows are kept; made if needed.

    Returns:
        `PackedCorpus`.

    Raises:
        UsageError: if the texts do not fill one row.
    """
    directory = pathlib.Path(directory)
    if sequence_length < 3:
        raise UsageError(
            "`sequence_length` must leave room for text beside [CLS] and "
            f"[SEP]. Received: sequence_length={sequence_length}."
        )
    # Written last, so what it says is there.
    (directory / INDEX).unlink(missing_ok=True)
    width = sequence_length - 2
    num_rows = num_texts = 0
    left_over = np.empty(0, "int32")
    with staged(directory / ROWS) as raw:
        with open(raw, "wb") as file:
            for token_ids, lengths in _tokenised(texts, tokenizer):
                num_texts += len(lengths)
                # After each text one [SEP].
                stream = np.insert(
                    token_ids, np.cumsum(lengths), tokenizer.end_token_id
                )
                stream = np.concatenate([left_over, stream])
                full = len(stream) // width
                body = stream[: full * width].reshape(full, width)
                left_over = stream[full * width :]
                rows = np.empty((full, sequence_length), "int32")
                rows[:, 0] = tokenizer.start_token_id
                rows[:, 1:-1] = body
                rows[:, -1] = tokenizer.end_token_id
                file.write(rows.tobytes())
                num_rows += full
        if not num_rows:
            raise UsageError(
                f"The corpus has too little text for one row of "
                f"{sequence_length} tokens. Received: {num_texts} texts. Use "
                "more text or a smaller sequence_length."
            )
    index = {
        "num_rows": num_rows,
        "sequence_length": sequence_length,
        "num_texts": num_texts,
    }
    write_text(directory / INDEX, json.dumps(index))
    return open_packed(directory)


def open_packed(directory) -> PackedCorpus | None:
    """Returns what `pack` left in a directory; `None` if it did not finish."""
    directory = pathlib.Path(directory)
    if not (directory / INDEX).is_file():
        return None
    index = json.loads((directory / INDEX).read_text())
    rows = np.memmap(
        directory / ROWS,
        dtype="int32",
        mode="r",
        shape=(index["num_rows"], index["sequence_length"]),
    )
    return PackedCorpus(rows, index["num_texts"])


def _tokenised(texts, tokenizer):
    """Yields the token ids of some texts at a time, and their lengths."""

    def encode(texts):
        tokens = tokenizer(texts)
        return tf.cast(tokens.flat_values, "int32"), tokens.row_lengths()

    dataset = (
        tf.data.Dataset.from_generator(
            lambda: iter(texts), output_signature=tf.TensorSpec((), "string")
        )
        .batch(TEXTS_PER_STEP)
        .map(encode)
        .prefetch(2)
    )
    return dataset.as_numpy_iterator()
