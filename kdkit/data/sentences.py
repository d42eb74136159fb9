"""Sentences to token ids, and batches of about as many tokens each."""

import dataclasses
import functools
import itertools
from collections.abc import Iterable
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from kdkit.data.encoding import make_tokenize
from kdkit.errors import UsageError

NUM_SPECIAL = 2  # the language before a sentence, the end behind it


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedSentences:
    """Token ids of sentences, one after the other, without padding.

    Args:
        token_ids: `int32` array of shape `(sum(lengths),)`. Each sentence is
            the token of its language, its own tokens and `</s>`.
        lengths: `int32` array of shape `(num_sentences,)`.
        num_truncated: int. How many were cut.
        pad_token_id: int. Id that fills the rows of a batch to one length.
    """

    token_ids: np.ndarray
    lengths: np.ndarray
    num_truncated: int
    pad_token_id: int

    def __len__(self):
        return len(self.lengths)

    @functools.cached_property
    def ends(self) -> np.ndarray:
        """Where each sentence ends in `token_ids`."""
        return np.cumsum(self.lengths, dtype="int64")

    def padded(self, rows: np.ndarray) -> np.ndarray:
        """Returns some sentences, padded to the longest of them.

        Args:
            rows: int array of shape `(num_rows,)`. Their numbers.

        Returns:
            `int32` array of shape `(num_rows, longest)`.
        """
        lengths = self.lengths[rows]
        starts = self.ends[rows] - lengths
        places = np.arange(lengths.max())
        real = places < lengths[:, np.newaxis]
        where = np.where(real, starts[:, np.newaxis] + places, 0)
        return np.where(real, self.token_ids[where], self.pad_token_id)


def encode_sentences(
    texts: Iterable[str],
    tokenizer,
    sequence_length: int,
    language: str | None = None,
) -> EncodedSentences:
    """Tokenizes sentences of one language.

    Args:
        texts: iterable of strings.
        tokenizer: `kdkit.models.MassTokenizer`.
        sequence_length: int. Tokens of a sentence at most, special ones
            included; longer ones are cut before their `</s>`.
        language: string or `None`. Whose token stands before them; `<s>` for
            `None`. Defaults to `None`.

    Returns:
        `EncodedSentences`.

    Raises:
        UsageError: (a `ValueError`) if there are no texts, one is empty, there
            is no room for them, or the language has no token.
    """
    if sequence_length <= NUM_SPECIAL:
        raise UsageError(
            "`sequence_length` must leave room for text beside the "
            f"{NUM_SPECIAL} special tokens. Received: "
            f"sequence_length={sequence_length}."
        )
    texts = list(texts)
    if not texts:
        raise UsageError("There is no text to encode. Received: no sentences.")
    first = tokenizer.language_token_id(language)
    pieces = make_tokenize(tokenizer)(texts)
    empty = [
        number for number, text in enumerate(texts, 1) if not len(pieces[text])
    ]
    if empty:
        raise UsageError(
            "A sentence has a token or more. Received: an empty one, number "
            f"{empty[0]}. Leave it out."
        )
    room = sequence_length - NUM_SPECIAL
    sentences = [
        np.concatenate([[first], pieces[text][:room], [tokenizer.end_token_id]])
        for text in texts
    ]
    return EncodedSentences(
        np.concatenate(sentences).astype("int32"),
        np.array([len(one) for one in sentences], "int32"),
        sum(len(pieces[text]) > room for text in texts),
        tokenizer.pad_token_id,
    )


def join_sentences(*parts: EncodedSentences) -> EncodedSentences:
    """Returns sentences of several languages as one corpus.

    Args:
        parts: `EncodedSentences` of one vocabulary.
    """
    return EncodedSentences(
        np.concatenate([part.token_ids for part in parts]),
        np.concatenate([part.lengths for part in parts]),
        sum(part.num_truncated for part in parts),
        parts[0].pad_token_id,
    )


def token_batches(
    lengths: Sequence[np.ndarray], max_tokens: int, seed: int, epoch: int
) -> list[np.ndarray]:
    """Puts rows of similar lengths into batches of about as many tokens.

    Rows are ordered by their lengths, those of the same length at random, cut
    where a batch would have more than `max_tokens` tokens with its padding, and
    the batches are shuffled. Every epoch has as many batches, of as many rows.

    Args:
        lengths: sequence of int arrays of shape `(num_rows,)`. The tokens of
            each row, of every side: of source and target, say.
        max_tokens: int. Tokens of a batch at most, all sides and their padding
            together; a row that is longer has a batch of its own.
        seed: int. Seed of the order.
        epoch: int. From 0.

    Returns:
        List of int arrays, the numbers of the rows of each batch.

    >>> token_batches([np.array([2, 9, 2, 8])], max_tokens=18, seed=0, epoch=0)
    [array([3, 1]), array([2, 0])]
    """
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(lengths[0]))
    # The first side counts first; lexsort takes the last key as the first.
    keys = [side[order] for side in reversed(lengths)]
    order = order[np.lexsort(keys)]
    batches, begin = [], 0
    longest = np.zeros(len(lengths), "int64")
    for end, row in enumerate(order):
        with_row = np.maximum(longest, [side[row] for side in lengths])
        if end > begin and with_row.sum() * (end - begin + 1) > max_tokens:
            batches.append(order[begin:end])
            begin, with_row = end, np.array([side[row] for side in lengths])
        longest = with_row
    batches.append(order[begin:])
    return [batches[number] for number in rng.permutation(len(batches))]


def pair_batches(
    sources: EncodedSentences,
    targets: EncodedSentences,
    max_tokens: int,
    seed: int,
    first_epoch: int = 0,
) -> tuple[tf.data.Dataset, int]:
    """Returns endless shuffled batches of pairs for an encoder-decoder.

    Args:
        sources: `EncodedSentences`.
        targets: `EncodedSentences`, as many.
        max_tokens: int. As in `token_batches`.
        seed: int. Seed of the order.
        first_epoch: int. Epoch to begin with, from 0. The batches of an epoch
            do not depend on it. Defaults to `0`.

    Returns:
        Tuple of a `tf.data.Dataset` of `(x, y, sample_weight)`, and the number
        of batches in an epoch. `x` has the inputs of a
        `kdkit.models.MassBackbone`: the target without its end, and `y` is the
        target without its language.

    Raises:
        UsageError: (a `ValueError`) if there are not as many targets.
    """
    if len(sources) != len(targets):
        raise UsageError(
            "Each source has a target. Received: "
            f"{len(sources)} sources, {len(targets)} targets."
        )
    lengths = [sources.lengths, targets.lengths]

    def batches():
        for epoch in itertools.count(first_epoch):
            for rows in token_batches(lengths, max_tokens, seed, epoch):
                yield _pair(sources, targets, rows)

    steps = len(token_batches(lengths, max_tokens, seed, first_epoch))
    return _dataset(batches), steps


def _pair(sources, targets, rows):
    source, target = sources.padded(rows), targets.padded(rows)
    before, y = target[:, :-1], target[:, 1:]
    real = y != targets.pad_token_id
    places = np.broadcast_to(np.arange(y.shape[1], dtype="int32"), y.shape)
    x = {
        "encoder_token_ids": source,
        "encoder_padding_mask": (source != sources.pad_token_id).astype(
            "int32"
        ),
        # The end of a target is predicted and never read.
        "decoder_token_ids": np.where(real, before, targets.pad_token_id),
        "decoder_padding_mask": real.astype("int32"),
        "decoder_positions": np.where(real, places, 0),
    }
    return x, y, real.astype("float32")


def _dataset(generate):
    ids = tf.TensorSpec((None, None), "int32")
    names = (
        "encoder_token_ids",
        "encoder_padding_mask",
        "decoder_token_ids",
        "decoder_padding_mask",
        "decoder_positions",
    )
    signature = (
        dict.fromkeys(names, ids),
        ids,
        tf.TensorSpec((None, None), "float32"),
    )
    return _endless(
        tf.data.Dataset.from_generator(generate, output_signature=signature)
    )


def _endless(dataset):
    cardinality = tf.data.experimental.INFINITE_CARDINALITY
    return dataset.apply(
        tf.data.experimental.assert_cardinality(cardinality)
    ).prefetch(tf.data.AUTOTUNE)


def span_batches(
    sentences: EncodedSentences,
    masker,
    max_tokens: int,
    seed: int,
    first_epoch: int = 0,
) -> tuple[tf.data.Dataset, int]:
    """Returns endless shuffled batches of sentences with a hidden span each.

    Args:
        sentences: `EncodedSentences`, of several languages maybe.
        masker: `kdkit.data.SpanMasker`.
        max_tokens: int. As in `token_batches`, of the encoder alone.
        seed: int. Seed of order and spans.
        first_epoch: int. Epoch to begin with, from 0. Defaults to `0`.

    Returns:
        Tuple of a `tf.data.Dataset` as the masker makes it, and the number of
        batches in an epoch.
    """
    lengths = [sentences.lengths]

    def batches():
        for epoch in itertools.count(first_epoch):
            numbered = enumerate(
                token_batches(lengths, max_tokens, seed, epoch)
            )
            for step, rows in numbered:
                state = np.random.SeedSequence([seed, epoch, step])
                yield (
                    sentences.padded(rows),
                    state.generate_state(2, "uint32").astype("int64"),
                )

    rows = tf.data.Dataset.from_generator(
        batches,
        output_signature=(
            tf.TensorSpec((None, None), "int32"),
            tf.TensorSpec((2,), "int64"),
        ),
    )
    masked = rows.map(masker, num_parallel_calls=tf.data.AUTOTUNE)
    steps = len(token_batches(lengths, max_tokens, seed, first_epoch))
    return _endless(masked), steps
