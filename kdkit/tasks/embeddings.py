"""Embeds texts: from strings to vectors, with a model or an exported file."""

from collections.abc import Iterable

import numpy as np

from kdkit.data.encoding import encode
from kdkit.data.orders import Buckets
from kdkit.data.stream import BatchStream, make_forward
from kdkit.data.tables import Examples
from kdkit.errors import UsageError
from kdkit.late import keras

BATCH_SIZE = 64
NUM_BUCKETS = 8  # lengths; short texts need less time than long ones
LENGTH = 128  # tokens


def embed_texts(
    model,
    texts: Iterable[str],
    tokenizer,
    sequence_length: int | None = LENGTH,
) -> np.ndarray:
    """Returns the sentence embeddings of texts.

    A text that occurs several times is embedded once.

    Args:
        model: an embedder: a `keras.Model` such as `load_embedder(...).model`
            of `kdkit.models`; or a callable from a dict batch to vectors, such
            as an exported file that `kdkit.export.open_file` opened.
        texts: iterable of strings.
        tokenizer: the embedder's tokenizer.
        sequence_length: int. The largest number of tokens of a text, special
            tokens included. Longer texts are truncated. `None`, for a static
            embedder's own tokenizer, to truncate none. Defaults to 128.

    Returns:
        `float32` array of shape `(num_texts, dimensions)`, in the order of the
        texts.

    Raises:
        UsageError: (a `ValueError`) if the model does not return one vector for
            each text.

    Example:

    ```python
    loaded = kdkit.models.load_embedder("all-MiniLM-L6-v2/", "mean")
    vectors = kdkit.tasks.embed_texts(
        loaded.model, ["A man runs.", "Ein Mann rennt."], loaded.tokenizer
    )
    ```
    """
    return embed_and_count(model, texts, tokenizer, sequence_length)[0]


def embed_and_count(model, texts, tokenizer, sequence_length):
    """The result of `embed_texts`, and how many texts were truncated."""
    texts = list(texts)
    numbers = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    predict = make_forward(model) if isinstance(model, keras.Model) else model
    encoded = encode(Examples((list(numbers),)), tokenizer, sequence_length)
    stream = BatchStream(encoded, Buckets(BATCH_SIZE, NUM_BUCKETS))
    order, vectors = [], []
    for rows, length in stream.evaluation_batches:
        some = np.asarray(predict(encoded.inputs(rows, length)), "float32")
        if some.ndim != 2 or len(some) != len(rows):
            raise UsageError(
                "An embedder returns one vector for each text. Received: shape "
                f"{some.shape} for {len(rows)} texts."
            )
        order.append(rows)
        vectors.append(some)
    vectors = np.concatenate(vectors)[np.argsort(np.concatenate(order))]
    return vectors[[numbers[text] for text in texts]], encoded.num_truncated
