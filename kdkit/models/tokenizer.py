"""The tokenizer of every model: an object of Hugging Face's `tokenizers`.

The object in Rust decides each id: it normalizes and splits texts, puts special
tokens around them and truncates them. It is never changed after construction,
because other threads may be encoding with it: each length has a copy.
"""

import functools
import itertools
import json
import pathlib
import types

import keras
import keras_hub
import numpy as np
import tokenizers

from kdkit.errors import unknown
from kdkit.late import tf

FILE = "kdkit_tokenizer.json"
# The names of a special token in files and in keras-hub's tokenizers.
ROLES = {
    "start": ("cls", "bos"),
    "end": ("sep", "eos"),
    "pad": ("pad",),
    "mask": ("mask",),
    "unknown": ("unk",),
}
LANGUAGE = "<{}>"
NO_TOKEN = "[no token {}]"  # for an id without a token
LENGTHS = 8  # for which copies are kept


@keras.saving.register_keras_serializable("kdkit")
class Tokenizer(keras_hub.tokenizers.Tokenizer):
    """Converts texts to token ids as Hugging Face's `tokenizers` does.

    It is a layer that works in keras-hub's preprocessors and in `tf.data`. A
    special token in a text, such as `[SEP]`, is plain text.

    Args:
        rust: `tokenizers.Tokenizer` or `None`, for a tokenizer whose file is
            loaded later. Defaults to `None`.
        tokens: dict from a role (`"start"`, `"end"`, `"pad"`, `"mask"`,
            `"unknown"`) to the model's special token. Without a start no
            special tokens are put around texts. Defaults to `{}`.
        side: string. The side on which texts are truncated. Defaults to
            `"right"`.
        num_segments: int. 1 if both texts of a pair are in segment 0. Defaults
            to 2.
        languages: sequence of strings. The languages that have a token.
            Defaults to `()`.
        dtype: string. The integers of tensors. Defaults to `"int32"`.
        **kwargs: arguments of `keras_hub.tokenizers.Tokenizer`.

    Attributes:
        start_token, start_token_id, end_token, …: the special tokens and their
            ids, `None` if there is no such token. Without a padding token
            `pad_token_id` is 0.
    """

    def __init__(
        self,
        rust=None,
        tokens=(),
        side="right",
        num_segments=2,
        languages=(),
        dtype="int32",
        **kwargs,
    ):
        super().__init__(dtype=dtype, **kwargs)
        self.file_assets = [FILE]
        if rust is not None:
            self._set(rust, dict(tokens), side, num_segments, languages)

    def _set(self, rust, tokens, side, num_segments, languages):
        self.rust = _copy(rust, bool(tokens))
        self.tokens, self.side = tokens, side
        self.num_segments, self.languages = num_segments, tuple(languages)
        # Not a dict: Keras would track each of its values.
        self._vocabulary = types.MappingProxyType(self.rust.get_vocab())
        for role, names in ROLES.items():
            token = tokens.get(role)
            for name in (role, *names):
                setattr(self, f"{name}_token", token)
                setattr(self, f"{name}_token_id", self._vocabulary.get(token))
        if self.pad_token_id is None:
            self.pad_token_id = 0
        make = functools.partial(_copy, self.rust, bool(tokens), side)
        self._truncating = functools.lru_cache(LENGTHS)(make)

    def encode(self, columns, length=None) -> tuple[np.ndarray, ...]:
        """Encodes texts or pairs with the special tokens around them.

        Args:
            columns: tuple of one or two sequences of strings.
            length: int or `None`. The largest number of tokens, special tokens
                included. The longer text of a pair is truncated first. Defaults
                to `None`: texts are not truncated.

        Returns:
            Tuple of `int32` arrays: the ids of all examples, joined, and their
            segments; the number of tokens of each example; and a bool array
            with the truncated examples.
        """
        rust = self.rust if length is None else self._truncating(length)
        rows = list(columns[0])
        if len(columns) > 1:
            rows = list(zip(*columns, strict=True))
        has_frame = "start" in self.tokens
        encoded = rust.encode_batch_fast(rows, add_special_tokens=has_frame)
        ids, lengths = _joined([one.ids for one in encoded])
        segments = np.zeros_like(ids)
        if self.num_segments > 1 and len(columns) > 1:
            segments, _ = _joined([one.type_ids for one in encoded])
        truncated = np.array([bool(one.overflowing) for one in encoded], bool)
        return ids, segments, lengths, truncated

    def rows(self, texts) -> list[list[int]]:
        """Returns the ids of texts, without special tokens around them."""
        texts = list(map(_string, texts))
        encoded = self.rust.encode_batch_fast(texts, add_special_tokens=False)
        return [one.ids for one in encoded]

    def tokenize(self, inputs):
        """Returns lists of ids for Python's strings, tensors for tensors.

        Args:
            inputs: string, sequence of strings, or string tensor of rank 0 or
                1.
        """
        if isinstance(inputs, str | bytes):
            return self.rows([inputs])[0]
        if isinstance(inputs, list | tuple | np.ndarray):
            return self.rows(inputs)
        values, lengths = tf.numpy_function(
            lambda texts: _joined(self.rows(np.atleast_1d(texts).tolist())),
            [inputs],
            ("int32", "int32"),
        )
        values.set_shape([None])
        lengths.set_shape([None])
        if inputs.shape.rank == 0:
            return values
        return tf.RaggedTensor.from_row_lengths(values, lengths)

    def detokenize(self, inputs):
        """Returns the text of ids without special tokens, or some texts."""
        rows = inputs.to_list() if hasattr(inputs, "to_list") else inputs
        if len(rows) and np.ndim(rows[0]):
            return list(map(self.detokenize, rows))
        return self.rust.decode(list(map(int, rows)))

    def normalize(self, text: str) -> str:
        """Returns a text as it is before it is split."""
        step = self.rust.normalizer
        return text if step is None else step.normalize_str(text)

    @property
    def lowercase(self) -> bool:
        """Whether texts are lower-cased."""
        return self.normalize("A").strip() == "a"

    @property
    def strip_accents(self) -> bool:
        """Whether accents are removed."""
        return self.normalize("é").strip() == "e"

    @property
    def kind(self) -> str:
        """`"WordPiece"`, `"BPE"`, `"Unigram"` or `"WordLevel"`."""
        return type(self.rust.model).__name__

    @property
    def num_separators(self) -> int:
        """The number of special tokens between two texts."""
        return self.rust.num_special_tokens_to_add(is_pair=True) - 2

    @property
    def special_token_ids(self) -> list[int]:
        """The ids of all tokens that are in no text, and of the unknown one."""
        tokens = [*self.tokens.values(), *map(LANGUAGE.format, self.languages)]
        return sorted(map(self.token_to_id, dict.fromkeys(tokens)))

    def language_token_id(self, language: str | None) -> int:
        """Returns the id of a language's token, or of the start for `None`.

        Raises:
            UsageError: (a `ValueError`) for a language without a token.
        """
        if language is None:
            return self.start_token_id
        if language not in self.languages:
            raise unknown("language", language, self.languages)
        return self.token_to_id(LANGUAGE.format(language))

    def vocabulary_size(self) -> int:
        """Returns the number of token ids."""
        return max(self._vocabulary.values(), default=-1) + 1

    def get_vocabulary(self) -> list[str]:
        """Returns the tokens by id."""
        tokens = {number: token for token, number in self._vocabulary.items()}
        numbers = range(self.vocabulary_size())
        return [tokens.get(one, NO_TOKEN.format(one)) for one in numbers]

    def id_to_token(self, id: int) -> str | None:
        """Returns the token of an id."""
        return self.rust.id_to_token(int(id))

    def token_to_id(self, token: str) -> int | None:
        """Returns the id of a token, `None` if there is no such token."""
        return self._vocabulary.get(token)

    @property
    def added_tokens(self) -> list[str]:
        """The tokens that are looked for in texts before these are split."""
        return [one["content"] for one in _found_in_texts(self.whole)]

    def to_json(self, length=None, padded=False) -> dict:
        """Returns a `tokenizer.json`; special tokens in texts are text in it.

        Args:
            length: int or `None`. The length to which it truncates texts.
                Defaults to `None`.
            padded: bool. Whether it pads texts to that length. Defaults to
                `False`.
        """
        rust = _copy(self.rust, bool(self.tokens), self.side, length)
        if padded:
            token = self.id_to_token(self.pad_token_id)
            rust.enable_padding(
                pad_id=self.pad_token_id, pad_token=token, length=length
            )
        whole = json.loads(rust.to_str())
        if self.tokens:
            whole["added_tokens"] = _found_in_texts(whole)
        return whole

    @property
    def definition(self) -> dict:
        """Everything that decides the ids, as JSON."""
        whole = self.whole
        around = self.rust.encode("a", "b")
        parts = ("normalizer", "pre_tokenizer", "model")
        return {
            **{name: whole[name] for name in parts},
            "added_tokens": _found_in_texts(whole),
            "around": [around.ids, around.type_ids],
            "tokens": dict(self.tokens),
            "settings": [self.side, self.num_segments, [*self.languages]],
        }

    @property
    def whole(self) -> dict:
        """The JSON of the object in Rust."""
        return json.loads(self.rust.to_str())

    def save_assets(self, dir_path):
        """Writes the tokenizer into a Keras file or a directory."""
        names = ("tokens", "side", "num_segments", "languages")
        values = {name: getattr(self, name) for name in names}
        text = json.dumps({**values, "rust": self.whole}, ensure_ascii=False)
        pathlib.Path(dir_path, FILE).write_text(text, encoding="utf-8")

    def load_assets(self, dir_path):
        """Reads what `save_assets` wrote."""
        file = pathlib.Path(dir_path, FILE)
        values = json.loads(file.read_text("utf-8"))
        rust = tokenizers.Tokenizer.from_str(json.dumps(values.pop("rust")))
        self._set(rust, **values)


def _found_in_texts(whole):
    return [one for one in whole["added_tokens"] if not one["special"]]


def _copy(rust, has_tokens, side="right", length=None):
    """Returns a copy of a Rust object that truncates to a length, or does not.

    Special tokens in texts are text, unless the model has none.
    """
    copy = tokenizers.Tokenizer.from_str(rust.to_str())
    copy.encode_special_tokens = has_tokens
    copy.no_padding()
    copy.no_truncation()
    if length is not None:
        copy.enable_truncation(length, direction=side)
    return copy


def _string(text):
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def _joined(rows):
    """The ids of all rows as one `int32` array, and their lengths."""
    lengths = np.fromiter(map(len, rows), "int32", len(rows))
    values = itertools.chain.from_iterable(rows)
    return np.fromiter(values, "int32", int(lengths.sum())), lengths
