"""Checks of what a run trains: the updates, and the memory of a step."""

import itertools
import math

import psutil

from kdkit.config.model import Sizes
from kdkit.doctor.findings import OK, WARNING, outcome_of
from kdkit.io.machine import byte_size
from kdkit.models.heads import untrained_head
from kdkit.taps import describe

INITIAL_SPREAD = 0.02  # standard deviation of random weights, as in BERT
# How far weights must move to learn: all of a model, or the head alone.
LEAST_WAY = 2.5 * INITIAL_SPREAD
LEAST_WAY_OF_HEAD = 0.5 * INITIAL_SPREAD
BYTES = 4  # of a number in float32


def updates(run):
    """Random weights that a task's updates move too little to learn.

    Adam moves a weight by about its learning rate in each update, whatever the
    gradient is. So all updates together move it by at most the sum of their
    rates. A rule of thumb: if that sum is below 0.05, or below 0.01 for a new
    head on copied layers, the student hardly changes and predicts the most
    frequent class (docs/measured/small_tables.md).
    """
    config, kind = run.config, run.kind
    if run.task is None or run.task.generate or config.corpus:
        return
    only_head = not isinstance(config.student, Sizes)
    if config.augmented or (only_head and not untrained_head(kind.model)):
        return
    way = sum(
        stage.epochs
        * math.ceil(kind.num_rows / stage.batch_size)
        * stage.mean_learning_rate
        for stage in config.stages
    )
    least = LEAST_WAY_OF_HEAD if only_head else LEAST_WAY
    start = "a new head" if only_head else "random weights"
    found = (
        f"The student starts from {start}; the updates move each by {way:.2g}."
    )
    yield (
        OK if way >= least else WARNING,
        found,
        "Such a student seldom learns more than the most frequent class. Set "
        "more epochs, a larger learning rate (such as --set "
        "stages.NAME.learning_rate=3e-4), or start it from a checkpoint "
        "(--student, --general).",
    )


def memory(run):
    """Weights, gradients, Adam's moments and activations of a step."""
    if run.config.kind == "embedder":
        return
    kind, model = run.kind, run.kind.model
    teachers = sum(one.model.count_params() for one in kind.teachers)
    trained = sum(math.prod(one.shape) for one in model.trainable_weights)
    stages = itertools.chain(*kind.arms.values())
    step = max((_numbers_of_step(run, stage) for stage in stages), default=0)
    needed = BYTES * (teachers + model.count_params() + 3 * trained + step)
    machine = psutil.virtual_memory()
    yield (
        outcome_of(needed, 0.8 * machine.available, machine.total),
        f"A step needs about {byte_size(needed)}. This machine has "
        f"{byte_size(machine.total)}, {byte_size(machine.available)} of it "
        "free.",
        "Use smaller batches, --set stages.….gradient_accumulation_steps=N, or "
        "shorter sequences.",
    )


def _numbers_of_step(run, stage):
    """Estimates the activations and logits of the student in a batch.

    34 s h + 5 a s² bytes per block in 16 bits, so half as many numbers
    (Korthikanti et al., 2022, https://arxiv.org/abs/2205.05198, equation 1),
    for s tokens, width h and a heads.
    """
    shape = describe(run.kind.model)
    rows = stage.batch_size // stage.gradient_accumulation_steps
    if run.task is not None:
        encoded = run.encoded["train"]
        rows, length = rows * encoded.sequences_per_row, encoded.sequence_length
        if run.config.data.num_buckets is not None:
            length = int(encoded.lengths.max())
    else:
        length = run.config.corpus.sequence_length
        if run.config.corpus.kind != "corpus":
            rows = max(stage.batch_tokens // (2 * length), 1)
    logits = 0
    if run.task is None:
        positions = min(rows * length, stage.chunk_size or rows * length)
        # The gradient of the student's logits is as large as these.
        logits = 3 * positions * (shape.num_classes or 0)
    halves = shape.encoder_num_layers, shape.decoder_num_layers
    blocks = sum(filter(None, (shape.num_layers, *halves)))
    if not blocks:
        return logits
    per_block = 17 * shape.hidden_dim + 2.5 * shape.num_heads * length
    return logits + math.ceil(rows * length * blocks * per_block)
