"""keras-hub's tokenizers with text rules that are applied first.

Everything else is as in keras-hub's classes: vocabulary, special tokens,
family. `plain_tokenizer` returns an object of keras-hub's own class. Presets
contain that one, so that they load without kdkit.
"""

import functools
import json
import pathlib
import re

import keras
import keras_hub

from kdkit.errors import UsageError
from kdkit.io.files import write_text
from kdkit.io.reading import read_json
from kdkit.late import tf, tf_text
from kdkit.models.character_maps import character_map
from kdkit.models.families import ALL_FAMILIES
from kdkit.models.text_rules import (
    CUT,
    NOT_A_PIECE,
    TextRules,
    is_by_character,
    joined,
    normalization,
    read_rules,
    tokenizer_rules,
)
from kdkit.models.token_models import ByteLevelPairs, Unigrams
from kdkit.models.variants import save_extras

BytePair = keras_hub.tokenizers.BytePairTokenizer
SentencePiece = keras_hub.tokenizers.SentencePieceTokenizer
WordPiece = keras_hub.tokenizers.WordPieceTokenizer
BLANKS = r"[\s\p{Z}\x{85}]*"
MAX_BYTES_PER_CHARACTER = 4


def with_rules(tokenizer, rules: TextRules | None):
    """Returns a tokenizer that first applies rules to texts."""
    tokenizer = plain_tokenizer(tokenizer)
    if rules is None:
        return tokenizer
    for token in rules.added_tokens:
        if tokenizer.id_to_token(token.id) != token.content:
            raise UsageError(
                f"The added token {token.content!r} does not have the id "
                f"{token.id} in the vocabulary."
            )
    cls = _ruled(type(tokenizer))
    return _with_class(cls, tokenizer, text_rules=rules.to_json())


def plain_tokenizer(tokenizer):
    """Returns keras-hub's own tokenizer, the closest one without rules."""
    if tokenizer_rules(tokenizer) is None:
        return tokenizer
    return _with_class(type(tokenizer).plain, tokenizer)


def _with_class(cls, tokenizer, **changes):
    """Returns a tokenizer of another class with the same content."""
    config = {**tokenizer.get_config(), **changes}
    for name in ("name", "text_rules"):
        if name not in changes:
            config.pop(name, None)
    return cls.from_config({**config, **_assets(tokenizer)})


def _assets(tokenizer):
    """Returns the parts of a tokenizer that are saved as files."""
    if isinstance(tokenizer, SentencePiece):
        return {"proto": tokenizer.proto}
    if isinstance(tokenizer, BytePair):
        return {
            "vocabulary": dict(tokenizer.vocabulary),
            "merges": list(tokenizer.merges),
        }
    return {"vocabulary": tokenizer.get_vocabulary()}


class WithTextRules:
    """A mixin that applies `TextRules` before a keras-hub tokenizer."""

    plain = None  # keras-hub's class

    def __init__(self, *args, text_rules, **kwargs):
        self._ids = None
        super().__init__(*args, **kwargs)
        self.text_rules = read_rules(text_rules)

    @property
    def truncation_side(self) -> str:
        """The side on which `kdkit.data.encode` truncates texts."""
        return self.text_rules.truncation_side

    def tokenize(self, inputs):
        """Returns the token ids for texts, as keras-hub's tokenizers do."""
        if self._ids is None:
            # A bound method: Keras would track the layer as a sublayer.
            ids = RuledIds(self.text_ids(), self.text_rules)
            self._ids = ids.__call__
        return self._ids(inputs)

    def text_ids(self):
        """Returns a callable from texts to ragged ids, without added tokens."""
        raise NotImplementedError

    def get_config(self):
        config = super().get_config()
        return {**config, "text_rules": self.text_rules.to_json()}

    def save_to_preset(self, preset_dir):
        """Saves keras-hub's own tokenizer, and the rules in `kdkit.json`."""
        plain = plain_tokenizer(self)
        plain.save_to_preset(preset_dir)
        # keras-hub has already written the configs with the tokenizer.
        entry = keras.saving.serialize_keras_object(plain)
        replace_entries(preset_dir, "text_rules", entry)
        save_extras(preset_dir, text_rules=self.text_rules.to_json())


def replace_entries(directory, argument: str, entry: dict) -> None:
    """Replaces serialized objects in a preset's configs."""
    for name in ("preprocessor.json", "task.json"):
        file = pathlib.Path(directory) / name
        if file.is_file():
            config = read_json(file, "the config of a preset")
            config = _replaced(config, argument, entry)
            write_text(file, json.dumps(config, indent=4))


def _replaced(config, argument, entry):
    if isinstance(config, list):
        return [_replaced(one, argument, entry) for one in config]
    if not isinstance(config, dict):
        return config
    if argument in (config.get("config") or ()):
        return entry
    return {
        name: _replaced(one, argument, entry) for name, one in config.items()
    }


class WordPieceRules(WithTextRules):
    """`WithTextRules` for word pieces."""

    def __init__(
        self,
        vocabulary=None,
        lowercase=False,
        strip_accents=False,
        *,
        text_rules,
        **kwargs,
    ):
        del lowercase, strip_accents
        rules = read_rules(text_rules)
        super().__init__(
            vocabulary,
            lowercase=rules.lowercase,
            strip_accents=rules.strip_accents,
            text_rules=text_rules,
            **kwargs,
        )

    def set_vocabulary(self, vocabulary):
        """Sets the vocabulary, as keras-hub's tokenizers do."""
        self._ids = None
        super().set_vocabulary(vocabulary)

    def text_ids(self):
        """Like `WithTextRules`, but splits texts and finds pieces itself."""
        return _word_ids(self)


class BytePairRules(WithTextRules):
    """`WithTextRules` for byte pairs."""

    def set_vocabulary_and_merges(self, vocabulary, merges):
        """Sets both, as keras-hub's tokenizers do."""
        self._ids = None
        super().set_vocabulary_and_merges(vocabulary, merges)

    def text_ids(self):
        """Like `WithTextRules`, split by GPT-2's pattern."""
        rules = self.text_rules
        added = [one.content for one in rules.added_tokens if not one.is_piece]
        pairs = ByteLevelPairs(
            {
                token: number
                for token, number in self.vocabulary.items()
                if token not in added
            },
            self.merges,
            self.add_prefix_space,
        )
        return _normalized_first(pairs, rules)


class SentencePieceRules(WithTextRules):
    """`WithTextRules` for SentencePiece's models."""

    def set_proto(self, proto):
        """Sets the model, as keras-hub's tokenizers do."""
        self._ids = None
        super().set_proto(proto)

    def text_ids(self):
        """Like `WithTextRules`, word by word."""
        rules = self.text_rules
        unigrams = Unigrams(
            self.proto,
            self.get_vocabulary(),
            [one.content for one in rules.added_tokens if not one.is_piece],
        )
        return _normalized_first(unigrams, rules)


class RuledIds(keras_hub.tokenizers.Tokenizer):
    """Converts texts to token ids with rules; a layer, as keras-hub expects."""

    def __init__(self, text_ids, rules):
        super().__init__(dtype="int32")
        normalize = normalization(rules.normalizer)
        first = [one for one in rules.added_tokens if not one.normalized]
        later = [one for one in rules.added_tokens if one.normalized]
        inner = text_ids
        if later:
            with tf.init_scope():
                contents = tf.constant([one.content for one in later])
                contents = normalize(contents).numpy()
            found = _between(
                {
                    content.decode(): token
                    for content, token in zip(contents, later, strict=True)
                },
                lambda texts: text_ids(texts, is_normalized=True),
            )
            inner = lambda texts: found(normalize(texts))  # noqa: E731
        if first:
            inner = _between({one.content: one for one in first}, inner)
        self._text_ids = inner

    def tokenize(self, inputs):
        """Returns ragged ids, or a vector for a single text."""
        if isinstance(inputs, tf.RaggedTensor):
            return inputs.with_values(self.tokenize(inputs.values))
        inputs = tf.convert_to_tensor(inputs, "string")
        if inputs.shape.rank == 0:
            return self._text_ids(inputs[tf.newaxis]).values
        if inputs.shape.rank == 1:
            return self._text_ids(inputs)
        return tf.RaggedTensor.from_uniform_row_length(
            self.tokenize(tf.reshape(inputs, [-1, *inputs.shape[2:]])),
            inputs.shape[1],
        )


def _normalized_first(text_ids, rules):
    normalize = normalization(rules.normalizer)

    def ids(texts, is_normalized=False):
        return text_ids(texts if is_normalized else normalize(texts))

    return ids


def _word_ids(tokenizer):
    """Returns a callable from texts to ids of word pieces in BERT's words."""
    rules = tokenizer.text_rules
    pieces = list(tokenizer.get_vocabulary())
    for token in rules.added_tokens:
        if not token.is_piece:
            pieces[token.id] = NOT_A_PIECE.format(token.id)
    longest = rules.max_input_chars_per_word
    with tf.init_scope():
        matcher = tf_text.FastWordpieceTokenizer(
            pieces,
            suffix_indicator=tokenizer.suffix_indicator,
            max_bytes_per_word=MAX_BYTES_PER_CHARACTER * longest,
            token_out_type=tf.int32,
            unknown_token=tokenizer.oov_token,
            no_pretokenization=True,
        )
    *before, last = joined(rules.normalizer) or (None,)
    if last is not None and not is_by_character(last):
        before, last = [*before, last], None
    normalize = normalization(before)
    # One map does both the last step and the splitting.
    separate = character_map(last, splits=True)
    separate_alone = character_map(None, splits=True)

    def ids(texts, is_normalized=False):
        if is_normalized:
            texts = separate_alone(texts)
        else:
            texts = separate(normalize(texts))
        words = tf.strings.split(texts)
        lengths = tf.strings.length(words.values, unit="UTF8_CHAR")
        words = words.with_values(
            tf.where(lengths > longest, tokenizer.oov_token, words.values)
        )
        return matcher.tokenize(words).merge_dims(-2, -1)

    return ids


def _between(tokens, inner):
    """Returns a callable that first looks for some tokens in the texts."""
    longest_first = sorted(tokens, key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest_first))
    ids = [tokens[content].id for content in longest_first]

    def find_ids(texts):
        for content, token in tokens.items():
            if token.lstrip or token.rstrip:
                before, behind = token.lstrip * BLANKS, token.rstrip * BLANKS
                texts = tf.strings.regex_replace(
                    texts, f"{before}({re.escape(content)}){behind}", r"\1"
                )
        # tensorflow_text's `regex_split` would end texts at a zero byte.
        texts = tf.strings.regex_replace(texts, pattern, CUT + rb"\0" + CUT)
        parts = tf.strings.split(texts, CUT)
        is_which = tf.equal(parts.values[:, tf.newaxis], longest_first)
        is_token = tf.reduce_any(is_which, axis=1)
        number = tf.boolean_mask(tf.argmax(is_which, axis=1), is_token)
        found = tf.RaggedTensor.from_row_lengths(
            tf.gather(tf.constant(ids, "int32"), number),
            tf.cast(is_token, "int64"),
        )
        others = inner(tf.where(is_token, "", parts.values))
        both = tf.concat([found, others], axis=1)
        return tf.RaggedTensor.from_row_splits(
            both.values, tf.gather(both.row_splits, parts.row_splits)
        )

    return find_ids


MIXINS = {
    WordPiece: WordPieceRules,
    BytePair: BytePairRules,
    SentencePiece: SentencePieceRules,
}


@functools.cache
def _ruled(cls):
    """Returns a class with rules that Keras can save."""
    base = next(base for base in MIXINS if issubclass(cls, base))
    # Without a backbone, because keras-hub searches all classes for a
    # backbone's tokenizer. Errors contain the class's name.
    members = {"plain": cls, "backbone_cls": None}
    made = type(cls.__name__, (MIXINS[base], cls), members)
    return keras.saving.register_keras_serializable("kdkit")(made)


# Files contain the names of these classes, so they are registered up front.
for _family in ALL_FAMILIES.values():
    _ruled(_family.tokenizer)
