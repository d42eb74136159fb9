"""keras-hub's tokenizers with rules for texts before them.

They are keras-hub's classes in all else: vocabulary, special tokens, family.
`plain_tokenizer` returns keras-hub's own class, which is what presets hold, so
that they load without kdkit.
"""

import functools
import re

import keras
import keras_hub

from kdkit.backends import tf
from kdkit.backends import tf_text
from kdkit.errors import UsageError
from kdkit.errors import shortened
from kdkit.models.character_maps import character_map
from kdkit.models.families import ALL_FAMILIES
from kdkit.models.families import family_of
from kdkit.models.text_rules import CUT
from kdkit.models.text_rules import NOT_A_PIECE
from kdkit.models.text_rules import TextRules
from kdkit.models.text_rules import is_by_character
from kdkit.models.text_rules import joined
from kdkit.models.text_rules import normalization
from kdkit.models.text_rules import read_rules
from kdkit.models.token_models import ByteLevelPairs
from kdkit.models.token_models import Unigrams
from kdkit.models.variants import replace_entries
from kdkit.models.variants import save_extras

BytePair = keras_hub.tokenizers.BytePairTokenizer
SentencePiece = keras_hub.tokenizers.SentencePieceTokenizer
WordPiece = keras_hub.tokenizers.WordPieceTokenizer
BLANKS = r"[\s\p{Z}\x{85}]*"
MAX_BYTES_PER_CHARACTER = 4


def with_rules(tokenizer, rules: TextRules | None):
    """Returns a tokenizer that applies rules to texts first.

    Args:
        tokenizer: a keras-hub tokenizer of a known family, with or without
            rules.
        rules: `TextRules`, or `None` for the plain tokenizer.

    Returns:
        A tokenizer of the same family, vocabulary and special tokens.

    Raises:
        UsageError: (a `ValueError`) if an added token is not in its vocabulary.
    """
    tokenizer = plain_tokenizer(tokenizer)
    if rules is None:
        return tokenizer
    cls = _ruled(type(tokenizer)) if family_of(tokenizer) else None
    if cls is None:
        known = {family.tokenizer.__name__ for family in ALL_FAMILIES.values()}
        raise UsageError(
            f"A {type(tokenizer).__name__} takes no rules for texts. Expected "
            f"one of {sorted(known)}. Remove the rules."
        )
    size = tokenizer.vocabulary_size()
    for token in rules.added_tokens:
        if token.id >= size or tokenizer.id_to_token(token.id) != token.content:
            raise UsageError(
                f"The added token {shortened(token.content)} does not have the "
                f"id {token.id} in the vocabulary of {size} pieces. "
                "Restore the tokenizer's files from a copy."
            )
    return _of_class(cls, tokenizer, text_rules=rules.to_json())


def tokenizer_rules(tokenizer) -> TextRules | None:
    """Returns the rules that a tokenizer applies to texts, `None` for none."""
    return getattr(tokenizer, "text_rules", None)


def plain_tokenizer(tokenizer):
    """Returns keras-hub's own tokenizer, which comes as close as it can.

    Args:
        tokenizer: a tokenizer with or without rules.
    """
    if tokenizer_rules(tokenizer) is None:
        return tokenizer
    return _of_class(type(tokenizer).plain, tokenizer)


def _of_class(cls, tokenizer, **changes):
    """A tokenizer of another class with the same settings and vocabulary."""
    config = {**tokenizer.get_config(), **changes}
    for name in ("name", "text_rules"):
        if name not in changes:
            config.pop(name, None)
    return cls.from_config({**config, **_assets(tokenizer)})


def _assets(tokenizer):
    """What a tokenizer has in files when it is saved."""
    if isinstance(tokenizer, SentencePiece):
        return {"proto": tokenizer.proto}
    if isinstance(tokenizer, BytePair):
        return {
            "vocabulary": dict(tokenizer.vocabulary),
            "merges": list(tokenizer.merges),
        }
    return {"vocabulary": tokenizer.get_vocabulary()}


class WithTextRules:
    """A mixin for keras-hub's tokenizers: `TextRules` before them.

    Args:
        text_rules: dict, as `TextRules.to_json` returns it.
        kwargs: of the keras-hub tokenizer.
    """

    plain = None  # keras-hub's class

    def __init__(self, *args, text_rules, **kwargs):
        self._ids = None
        super().__init__(*args, **kwargs)
        self.text_rules = read_rules(text_rules, "the config of a tokenizer")

    @property
    def truncation_side(self) -> str:
        """The side on which `kdkit.data.encode` cuts texts."""
        return self.text_rules.truncation_side

    def tokenize(self, inputs):
        """Returns the token ids of texts, as keras-hub's tokenizers do."""
        if self._ids is None:
            # Not the layer, which Keras would take for a part of this one.
            ids = RuledIds(self.ids_of_texts(), self.text_rules)
            self._ids = ids.__call__
        return self._ids(inputs)

    def ids_of_texts(self):
        """Returns a callable from texts to ragged ids, without added tokens.

        It takes a string tensor of shape `(num_texts,)`, and `is_normalized`
        for texts that are normalized already.
        """
        raise NotImplementedError

    def get_config(self):
        config = super().get_config()
        return {**config, "text_rules": self.text_rules.to_json()}

    def save_to_preset(self, preset_dir):
        """Saves keras-hub's own tokenizer, and the rules in `kdkit.json`.

        So the preset of a task with this tokenizer loads without kdkit.

        Args:
            preset_dir: string or path of the preset directory.
        """
        plain = plain_tokenizer(self)
        plain.save_to_preset(preset_dir)
        # keras-hub has written the configs that hold the tokenizer.
        entry = keras.saving.serialize_keras_object(plain)
        replace_entries(preset_dir, "text_rules", entry)
        save_extras(preset_dir, text_rules=self.text_rules.to_json())


class WordPieceRules(WithTextRules):
    """`WithTextRules` for word pieces: what keras-hub's class comes close to.

    Args:
        lowercase: not used: as the rules have it.
        strip_accents: not used: as the rules have it.
        text_rules, kwargs: as in `WithTextRules`.
    """

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
        rules = read_rules(text_rules, "the config of a tokenizer")
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

    def ids_of_texts(self):
        """As that of `WithTextRules`; splits texts and finds pieces itself."""
        return _ids_of_words(self)


class BytePairRules(WithTextRules):
    """`WithTextRules` for byte pairs."""

    def set_vocabulary_and_merges(self, vocabulary, merges):
        """Sets both, as keras-hub's tokenizers do."""
        self._ids = None
        super().set_vocabulary_and_merges(vocabulary, merges)

    def ids_of_texts(self):
        """As that of `WithTextRules`, split by GPT-2's pattern."""
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

    def ids_of_texts(self):
        """As that of `WithTextRules`, word by word."""
        rules = self.text_rules
        unigrams = Unigrams(
            self.proto,
            self.get_vocabulary(),
            [one.content for one in rules.added_tokens if not one.is_piece],
        )
        return _normalized_first(unigrams, rules)


class RuledIds(keras_hub.tokenizers.Tokenizer):
    """Texts to token ids, with rules; a layer so that keras-hub calls it.

    Args:
        ids_of_texts: callable from a string tensor of shape `(num_texts,)` to
            ragged ids, and from normalized texts with `is_normalized=True`.
        rules: `TextRules`.
    """

    def __init__(self, ids_of_texts, rules):
        super().__init__(dtype="int32")
        normalize = normalization(rules.normalizer)
        first = [one for one in rules.added_tokens if not one.normalized]
        later = [one for one in rules.added_tokens if one.normalized]
        inner = ids_of_texts
        if later:
            with tf.init_scope():
                contents = tf.constant([one.content for one in later])
                contents = normalize(contents).numpy()
            found = _between(
                {
                    content.decode(): token
                    for content, token in zip(contents, later, strict=True)
                },
                lambda texts: ids_of_texts(texts, is_normalized=True),
            )
            inner = lambda texts: found(normalize(texts))  # noqa: E731
        if first:
            inner = _between({one.content: one for one in first}, inner)
        self._of_texts = inner

    def tokenize(self, inputs):
        """Returns ragged ids, or those of one text as a vector."""
        if isinstance(inputs, tf.RaggedTensor):
            return inputs.with_values(self.tokenize(inputs.values))
        inputs = tf.convert_to_tensor(inputs, "string")
        if inputs.shape.rank == 0:
            return self._of_texts(inputs[tf.newaxis]).values
        if inputs.shape.rank == 1:
            return self._of_texts(inputs)
        return tf.RaggedTensor.from_uniform_row_length(
            self.tokenize(tf.reshape(inputs, [-1, *inputs.shape[2:]])),
            inputs.shape[1],
        )


def _normalized_first(ids_of_texts, rules):
    normalize = normalization(rules.normalizer)

    def ids(texts, is_normalized=False):
        return ids_of_texts(texts if is_normalized else normalize(texts))

    return ids


def _ids_of_words(tokenizer):
    """Ids of texts by word pieces, BERT's words."""
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
    # One map does the last step and the splitting.
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
    """Ids of texts in which some tokens are found first.

    Args:
        tokens: dict from text to `AddedToken`.
        inner: callable from the texts between them to ragged ids.
    """
    longest_first = sorted(tokens, key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest_first))
    ids = [tokens[content].id for content in longest_first]

    def of_texts(texts):
        for content, token in tokens.items():
            if token.lstrip or token.rstrip:
                before, behind = token.lstrip * BLANKS, token.rstrip * BLANKS
                texts = tf.strings.regex_replace(
                    texts, f"{before}({re.escape(content)}){behind}", r"\1"
                )
        # `regex_split` of tensorflow_text would end texts at a zero byte.
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

    return of_texts


MIXINS = {
    WordPiece: WordPieceRules,
    BytePair: BytePairRules,
    SentencePiece: SentencePieceRules,
}


@functools.cache
def _ruled(cls):
    """A tokenizer class with rules that Keras can save, `None` for others."""
    for base, mixin in MIXINS.items():
        if issubclass(cls, base):
            # Without a backbone: keras-hub looks among all classes for that of
            # one. The name is the one in errors.
            members = {"plain": cls, "backbone_cls": None}
            made = type(cls.__name__, (mixin, cls), members)
            return keras.saving.register_keras_serializable("kdkit")(made)
    return None


# Files name these classes, so they are registered before one is read.
for _family in ALL_FAMILIES.values():
    _ruled(_family.tokenizer)
