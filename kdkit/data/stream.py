"""The stream of batches: a pure function of seed, epoch and step.

`BatchStream` makes the batches of every kind of examples. A `SequenceDataset`
contains the examples and collates some of them to a batch. The stream adds
order, resuming at any step, the replicas' shares, the parts for gradient
accumulation, features such as cached teacher outputs, and prefetching.
"""

import abc
import dataclasses
import functools
import itertools

import numpy as np

from kdkit.data.orders import EVALUATION, Buckets, FullBatches, TokenBatches
from kdkit.late import keras, tf
from kdkit.taps import select_inputs

PREFETCHED = 4  # batches; 1 with features, which may be far larger
BATCH_BYTES = 256_000_000  # of features, unless the user chose the batch size


class SequenceDataset(abc.ABC):
    """Examples of one kind, with the collation of batches.

    If a teacher's outputs for them can be cached, a subclass also has the
    methods `inputs(rows, padded_length)`, which returns the inputs of a model
    for some examples, and `contents()`, which yields the `int32` arrays that
    identify each sequence.

    Attributes:
        lengths: int array of shape `(num_sequences,)`. The number of positions
            in each sequence that a model has outputs for.
        sequences_per_row: int. Sequences per example. Defaults to 1.
        sequence_length: int. The largest sequence length.
        is_row_wise: bool. Whether an example's row is the same in every batch.
            If so, replicas collate only their own share; otherwise, they cut
            it out of the whole batch. Defaults to `True`.
    """

    lengths: np.ndarray
    sequences_per_row = 1
    sequence_length: int
    is_row_wise = True

    def __len__(self):
        return len(self.lengths) // self.sequences_per_row

    @property
    def row_lengths(self) -> np.ndarray:
        """The positions of every example's longest sequence."""
        return self.lengths.reshape(-1, self.sequences_per_row).max(axis=1)

    @property
    def sides(self) -> list[np.ndarray]:
        """The tokens of every example, by side, such as source and target."""
        return [self.row_lengths]

    @abc.abstractmethod
    def batch(self, rows: np.ndarray, padded_length: int, seed: np.ndarray):
        """Returns a batch: `x`, `(x, y)` or `(x, y, sample_weight)`.

        Args:
            rows: int array. The numbers of the batch's examples.
            padded_length: int. At least the longest of their `row_lengths`.
            seed: int array of shape `(2,)`. The seed for random parts of the
                batch, such as masks. It differs from batch to batch.
        """


@dataclasses.dataclass(frozen=True)
class Shares:
    """The shares of a batch for the replicas of this process.

    Replica r of R gets the n examples of a batch from number `n * r // R` to
    the next replica's first, so shares differ by at most one example. If a
    batch has fewer examples than replicas, some replicas have none.

    Args:
        first: int. The first replica of this process, from 0. Defaults to `0`.
        count: int. The replicas of this process. Defaults to `1`.
        total: int. The replicas of all processes. Defaults to `1`.
    """

    first: int = 0
    count: int = 1
    total: int = 1

    def of_rows(self, rows: np.ndarray) -> list[np.ndarray]:
        """Returns the examples of each replica in this process, by number.

        >>> Shares(count=2, total=2).of_rows(np.arange(5))
        [array([0, 1]), array([2, 3, 4])]
        """
        shares = [rows[begin:end] for begin, end in _cut(rows, self.total)]
        return shares[self.first : self.first + self.count]


def _cut(rows, count):
    """Yields the begin and the end of each of so many parts of a batch."""
    for part in range(count):
        begin = len(rows) * part // count
        end = len(rows) * (part + 1) // count
        yield begin, end


WHOLE = Shares()  # one device has whole batches


def parts_of(rows: np.ndarray, num_parts: int) -> list[np.ndarray]:
    """Splits a batch into parts, for gradient accumulation.

    An optimiser with `gradient_accumulation_steps=num_parts` makes one update
    per batch, with the mean of its parts' gradients. A batch with fewer
    examples than parts repeats examples, so that no part is empty.

    >>> parts_of(np.arange(5), 2), parts_of(np.arange(1), 2)
    ([array([0, 1]), array([2, 3, 4])], [array([0]), array([0])])
    """
    return [
        rows[begin : max(end, begin + 1)]
        for begin, end in _cut(rows, num_parts)
    ]


@dataclasses.dataclass(frozen=True, eq=False)
class BatchStream:
    """Batches of examples, in an order that seed, epoch and step determine.

    Args:
        examples: `SequenceDataset`.
        batching: `Buckets`, `FullBatches` or `TokenBatches`.
        seed: int. The seed for the order and for random parts of batches.
            Evaluation does not depend on it. Defaults to `0`.
        features: further inputs of each batch: a callable from the numbers of
            the examples and the padded length to a dict of arrays, nested or
            not, or `None`. Defaults to `None`.
        shares: `Shares`. The replicas of this process. The elements of the data
            sets are their shares of each batch, one after the other. Defaults
            to whole batches.
        num_parts: int. Parts of each training batch, for gradient accumulation.
            Each part is an element of the data set. Defaults to `1`.

    Example:

    ```python
    stream = kdkit.data.BatchStream(train, kdkit.data.Buckets(32), seed=0)
    held_out = kdkit.data.BatchStream(dev, kdkit.data.Buckets(64))
    model.fit(
        stream.training(),
        steps_per_epoch=stream.steps_per_epoch,
        validation_data=held_out.evaluation(),
    )
    ```
    """

    examples: SequenceDataset
    batching: Buckets | FullBatches | TokenBatches
    seed: int = 0
    features: object = None
    shares: Shares = WHOLE
    num_parts: int = 1

    @functools.cached_property
    def _order(self):
        return self.batching.order(self.examples)

    def batches(self, epoch: int) -> list[tuple[np.ndarray, int]]:
        """Returns the batches of an epoch: examples and padded length of each.

        Args:
            epoch: int. From 0.
        """
        return self._order(self.seed, epoch)

    @functools.cached_property
    def evaluation_batches(self) -> list[tuple[np.ndarray, int]]:
        """Returns the batches of an evaluation, which has every example once.

        A batch has fewer examples if its features would be larger than 256 MB.
        """
        batches = self._order(0, EVALUATION)
        if self.features is None:
            return batches
        smaller = []
        for rows, length in batches:
            of_one = keras.tree.flatten(self.features(rows[:1], length))
            size = sum(one.nbytes for one in of_one)
            count = rows_within(size, len(rows))
            smaller += [
                (rows[begin : begin + count], length)
                for begin in range(0, len(rows), count)
            ]
        return smaller

    @functools.cached_property
    def batches_per_epoch(self) -> int:
        """The batches of an epoch. Each makes one update."""
        return len(self.batches(0))

    @property
    def steps_per_epoch(self) -> int:
        """The training steps of an epoch: one for each part of each batch."""
        return self.batches_per_epoch * self.num_parts

    def training(self, epoch: int = 0, step: int = 0) -> "tf.data.Dataset":
        """Returns endless batches, one epoch after the other.

        Args:
            epoch: int. The epoch to begin with, from 0. Defaults to `0`.
            step: int. The finished steps of that epoch, which are skipped
                without reading examples. Defaults to `0`.
        """

        def elements():
            done = step
            for number in itertools.count(epoch):
                yield from self._elements(
                    self.batches(number),
                    self.seed,
                    number,
                    self.num_parts,
                    done,
                )
                done = 0

        return self._dataset(elements, tf.data.INFINITE_CARDINALITY)

    def evaluation(self) -> "tf.data.Dataset":
        """Returns every example once, always in the same batches."""
        batches = self.evaluation_batches

        def elements():
            return self._elements(batches, 0, EVALUATION)

        return self._dataset(elements, len(batches) * self.shares.count)

    def _elements(self, batches, seed, epoch, num_parts=1, done=0):
        """Yields the elements of an epoch after the finished steps."""
        first, skipped = divmod(done, num_parts)
        for number, (rows, length) in enumerate(batches[first:], first):
            drawn = _step_seed(seed, epoch, number)
            pieces = [
                piece
                for part in parts_of(np.arange(len(rows)), num_parts)[skipped:]
                for piece in self.shares.of_rows(part)
            ]
            skipped = 0
            if self.examples.is_row_wise:
                for piece in pieces:
                    yield self._batch(rows[piece], length, drawn)
                continue
            whole = self._batch(rows, length, drawn)
            for piece in pieces:
                is_all = len(piece) == len(rows)
                yield whole if is_all else _rows_of(whole, piece)

    def _batch(self, rows, length, seed):
        with tf.device("CPU"):
            batch = self.examples.batch(rows, length, seed)
        if self.features is None:
            return batch
        if isinstance(batch, dict):
            return batch | self.features(rows, length)
        x, *labels = batch
        return x | self.features(rows, length), *labels

    def _signature(self):
        """The specs of all batches, from batches of one example."""
        lengths, sides = self.examples.row_lengths, self.examples.sides
        extremes = [
            pick(side) for side in sides for pick in (np.argmin, np.argmax)
        ]
        made = []
        for row in extremes:
            padded = [int(lengths[row]), int(lengths[row]) + 1]
            if isinstance(self.batching, FullBatches):
                padded = [self.examples.sequence_length]
            seed = _step_seed(0, 0, 0)
            made += [self._batch(np.array([row]), one, seed) for one in padded]
        return keras.tree.map_structure(_spec, *made)

    def _dataset(self, elements, cardinality):
        count = PREFETCHED if self.features is None else 1
        dataset = tf.data.Dataset.from_generator(
            elements, output_signature=self._signature()
        )
        # TensorFlow's tuning thread sleeps for up to a minute, and the end of
        # an iterator, and so of `fit`, waits for the thread.
        options = tf.data.Options()
        options.autotune.enabled = False
        return (
            dataset.apply(tf.data.experimental.assert_cardinality(cardinality))
            .prefetch(count)
            .with_options(options)
        )


def _step_seed(seed, epoch, step):
    """Two numbers, different for every batch of a run."""
    sequence = np.random.SeedSequence([seed, epoch - EVALUATION, step])
    return sequence.generate_state(2, "uint32").astype("int64")


def _rows_of(batch, rows):
    """The given rows of each tensor in a batch."""
    return keras.tree.map_structure(
        lambda tensor: np.asarray(tensor)[rows], batch
    )


def _spec(*arrays):
    """The spec of arrays whose examples and lengths differ."""
    sizes = zip(*(array.shape[1:] for array in arrays), strict=True)
    shape = [one if {one, *others} == {one} else None for one, *others in sizes]
    return tf.TensorSpec([None, *shape], arrays[0].dtype)


def rows_within(row_bytes: int, most: int) -> int:
    """Returns the number of examples in at most 256 MB, at least one.

    >>> rows_within(50_000_000, 64), rows_within(1, 64), rows_within(10**9, 64)
    (5, 64, 1)
    """
    return max(1, min(most, BATCH_BYTES // max(row_bytes, 1)))


def for_any_shape(function):
    """Returns a function of batches that is traced once for all lengths.

    `tf.function` alone would trace each padded length again. All batches need
    the same names, dtypes and ranks.
    """
    traced = []

    def run(batch):
        if not traced:
            signature = keras.tree.map_structure(
                lambda tensor: tf.TensorSpec(
                    [None] * len(tensor.shape), tensor.dtype
                ),
                batch,
            )
            traced.append(tf.function(function, input_signature=[signature]))
        return traced[0](batch)

    return run


def make_forward(model):
    """Returns the model's forward pass in inference mode, compiled once."""
    return for_any_shape(
        lambda batch: model(select_inputs(model, batch), training=False)
    )
