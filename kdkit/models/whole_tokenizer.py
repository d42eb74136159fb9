"""The tokenizer of a static embedder: a `tokenizer.json`, whole."""

import numpy as np
import tokenizers

from kdkit.late import tf


class WholeTokenizer:
    """A tokenizer with the ids of a `tokenizer.json`, by `tokenizers`."""

    start_token_id = end_token_id = None
    pad_token_id = 0  # masked, so it may be any token

    def __init__(self, content: str):
        self.content = content
        self._tokenizer = tokenizers.Tokenizer.from_str(content)
        truncation = self._tokenizer.truncation or {}
        self.sequence_length = truncation.get("max_length")
        self.truncation_side = truncation.get("direction", "right")
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def __call__(self, texts):
        """Returns the ragged token ids of texts."""
        ids, lengths = tf.numpy_function(
            self._ids, [tf.convert_to_tensor(texts)], ("int32", "int64")
        )
        ids.set_shape((None,))
        lengths.set_shape((None,))
        return tf.RaggedTensor.from_row_lengths(ids, lengths)

    def _ids(self, texts):
        """Returns the ids of all texts, joined, and their lengths."""
        found = self._tokenizer.encode_batch(
            [text.decode() for text in texts], add_special_tokens=False
        )
        rows = [one.ids for one in found]
        joined = [number for row in rows for number in row]
        return np.array(joined, "int32"), np.array([*map(len, rows)], "int64")

    @property
    def unread_ids(self) -> list[int]:
        """The ids of tokens that only a BERT has around its texts."""
        around = {*self._tokenizer.encode("").ids}
        return sorted(
            around - self._tokenizer.get_added_tokens_decoder().keys()
        )

    def copy(self) -> tokenizers.Tokenizer:
        """Returns the tokenizer of `tokenizers`, to change and to save."""
        return tokenizers.Tokenizer.from_str(self._tokenizer.to_str())

    def vocabulary_size(self) -> int:
        """Returns the number of token ids."""
        return len(self.get_vocabulary())

    def get_vocabulary(self) -> list[str]:
        """Returns the tokens by id, empty strings for ids without a token."""
        numbers = self._tokenizer.get_vocab()
        tokens = [""] * (max(numbers.values(), default=-1) + 1)
        for token, number in numbers.items():
            tokens[number] = token
        return tokens

    def id_to_token(self, number: int) -> str:
        """Returns the token of an id."""
        return self._tokenizer.id_to_token(int(number))

    def token_to_id(self, token: str) -> int | None:
        """Returns the id of a token, `None` if there is no such token."""
        return self._tokenizer.token_to_id(token)
