"""Data and timing that several benchmarks use.

gpu.py runs where kdkit is installed without TensorFlow (docs/backends.md) and
without what caches and tasks need: these are imported where they are used.
"""

import functools
import statistics
import time

import keras
import numpy as np

import kdkit
from kdkit import data, models
from kdkit.backends import tf
from kdkit.data import EncodedExamples
from kdkit.io.machine import keep_freed_memory

# Quantiles of the lengths of SST-2's training rows.
SST2_LENGTHS = (4, 5, 6, 8, 9, 11, 14, 17, 22, 31)
# Sizes of all-MiniLM-L6-v2.
MINILM = {
    "num_layers": 6,
    "hidden_dim": 384,
    "num_heads": 12,
    "intermediate_dim": 1536,
}


def random_batch(batch_size, sequence_length, vocabulary_size):
    """Full-length rows of random tokens with random labels."""
    rng = np.random.default_rng(0)
    shape = (batch_size, sequence_length)
    inputs = {
        "token_ids": rng.integers(0, vocabulary_size, shape, dtype="int32"),
        "segment_ids": np.zeros(shape, "int32"),
        "padding_mask": np.ones(shape, "int32"),
    }
    labels = rng.integers(0, 2, batch_size, dtype="int32")
    return keras.tree.map_structure(tf.constant, (inputs, labels))


def rows_like_sst2(count, vocabulary_size):
    """Rows of random tokens with SST-2's lengths and random labels."""
    generator = np.random.default_rng(0)
    lengths = generator.choice(SST2_LENGTHS, count).astype("int32")
    token_ids = generator.integers(0, vocabulary_size, lengths.sum())
    return EncodedExamples(
        token_ids=token_ids.astype("int32"),
        segment_ids=np.zeros(lengths.sum(), "int32"),
        lengths=lengths,
        labels=generator.integers(0, 2, count).astype("int32"),
        sequence_length=64,
        num_truncated=0,
        pad_token_id=0,
    )


def teacher_and_rows(options, sequence_length):
    """Returns a teacher and rows of SST-2, or random ones of the same sizes.

    Args:
        options: parsed options, with `data_dir` and `teacher` (both or none)
            and `rows`, the number of rows.
        sequence_length: int. The length to which real rows are truncated.
    """
    if not options.teacher:
        teacher = models.student(MINILM, num_classes=2)
        vocabulary_size = teacher.backbone.vocabulary_size
        return teacher, rows_like_sst2(options.rows, vocabulary_size)
    task = kdkit.tasks.get_task("sst2")  # needs more libraries
    loaded = models.load_classifier(options.teacher, task.num_classes)
    examples = task.load("train", options.data_dir)
    chosen = np.random.default_rng(0).permutation(len(examples))
    rows = data.encode(
        examples.take(chosen[: options.rows]), loaded.tokenizer, sequence_length
    )
    return loaded.model, rows


def cached_outputs(distiller, rows, folder, precision="fp32"):
    """Returns the teacher's outputs from a cache that is filled here.

    Args:
        distiller: `kdkit.Distiller` of one teacher.
        rows: `EncodedExamples`.
        folder: string. The cache's directory. Its files are mapped, so they can
            be removed while the outputs are in use.
        precision: string. The cache's precision.

    Returns:
        A tuple of `OutputsOfTeachers` and the cache's size in bytes.
    """
    from kdkit.teacher_cache import OutputsOfTeachers, TeacherCache

    (entries,) = distiller.teacher_entries
    cache = TeacherCache(folder, distiller.teacher, {}, precision)
    outputs = OutputsOfTeachers([cache.outputs(rows, entries)])
    return outputs, sum(shard["bytes"] for shard in cache.describe()["shards"])


def count_calls(kind, name, counts):
    """Counts how often TensorFlow traces a step.

    Args:
        kind: class of the model.
        name: string. The method, `"train_step"` or `"test_step"`.
        counts: dict from the method to how often it was called.
    """
    step = getattr(kind, name)

    @functools.wraps(step)
    def counted(self, batch):
        counts[name] += 1
        return step(self, batch)

    setattr(kind, name, counted)


def compiled_forward(model, inputs, jit_compile=True):
    """Returns a function for a forward pass compiled by XLA.

    It returns one number from all outputs, because copying the logits of a
    large vocabulary takes long, and a training step does not copy them.
    """
    forward = tf.function(
        lambda batch: tf.reduce_sum(model(batch, training=False)),
        jit_compile=jit_compile,
    )
    return lambda: forward(inputs).numpy()


def fit_step(model, batch):
    """Runs one step of `fit` on a batch, compiled as in `fit`.

    Args:
        model: compiled `keras.Model`.
        batch: an element of its data set.
    """
    batches = tf.data.Dataset.from_tensors(batch).repeat()
    model.fit(batches, steps_per_epoch=1, verbose=0, shuffle=False)
    iterator = iter(batches)
    return lambda: float(model.train_function(iterator)["loss"])


def median_seconds(work, rounds):
    """Runs functions in turn, round by round, after two rounds unmeasured.

    Freed memory is reused, as in the command line.

    Args:
        work: dict from name to function.
        rounds: int.

    Returns:
        A dict from name to the median time of a run, in seconds.
    """
    keep_freed_memory()
    seconds = {name: [] for name in work}
    for run in work.values():  # compiles
        run()
        run()
    for _ in range(rounds):
        for name, run in work.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(all_) for name, all_ in seconds.items()}
