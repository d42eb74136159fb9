"""Estimates of the memory and the disk space that a run needs."""

import itertools
import math
import pathlib
import shutil
from collections.abc import Iterable

import psutil

from kdkit.config.data import Cache
from kdkit.config.model import Bilstm, Sizes
from kdkit.distillation import teacher_entry
from kdkit.distillation.layer_maps import layer_map
from kdkit.doctor.examined_rows import ExaminedRows, epoch_rows
from kdkit.doctor.findings import OK, RUINS, WARNING, Finding, Findings
from kdkit.io.machine import byte_size, memory_shortage
from kdkit.models.sizes import BilstmConfig, least_parameters
from kdkit.models.students import student_config
from kdkit.taps import (
    ATTENTION_TAPS,
    PER_LAYER_TAPS,
    VECTOR_TAPS,
    Entry,
    ModelShape,
    describe,
    split_tap,
)
from kdkit.teacher_cache.packing import packed_size

BYTES = 4  # per number in float32, the type of weights and slots
SLOTS = 2  # Adam's moments
TIGHT = 0.8  # share of the free memory or disk that causes a warning


def tapped_entries(
    objectives: Iterable, teacher: ModelShape, student: ModelShape
) -> tuple[set[Entry], set[Entry]]:
    """Returns the entries that objectives read from teacher and student.

    Args:
        objectives: iterable of `kdkit.Objective` that fit the models.
        teacher: `kdkit.taps.ModelShape`.
        student: `kdkit.taps.ModelShape`.
    """
    teacher_entries, student_entries = set(), set()
    for objective in objectives:
        tap, pairs = objective.tap, {0: 0}
        kind = split_tap(tap)[1]
        if kind in PER_LAYER_TAPS:
            pairs = layer_map(
                objective.layer_map, teacher.depth(tap), student.depth(tap)
            )
            if kind == "hidden_states" and objective.include_embeddings:
                pairs = {0: 0, **pairs}
        for ours, theirs in pairs.items():
            teacher_entries.add(
                teacher_entry(objective, theirs, teacher.num_classes)
            )
            student_entries.add(Entry(tap, ours))
    return teacher_entries, student_entries


def tapped_size(
    entry: Entry, shape: ModelShape, length: int, has_label_per_token: bool
) -> int:
    """Returns how many numbers a tapped tensor has for one sequence.

    Args:
        entry: `kdkit.taps.Entry`.
        shape: `kdkit.taps.ModelShape` of the model.
        length: int. Tokens of the sequence.
        has_label_per_token: bool. Whether there are logits for each token.
    """
    kind = split_tap(entry.tap)[1]
    if kind == "logits":
        width = entry.width(shape.num_classes)
        return width * (length if has_label_per_token else 1)
    if kind in ATTENTION_TAPS:
        return shape.num_heads * length * length
    if kind in (*VECTOR_TAPS, "hidden_states", "embedding_output"):
        return shape.hidden_dim * length
    return shape.width(kind)


def activations(shape: ModelShape, length: int) -> int:
    """Estimates how many numbers a student stores per sequence for training.

    34 s h + 5 a s² bytes per block in 16 bits, so half as many numbers
    (Korthikanti et al., 2022, https://arxiv.org/abs/2205.05198, equation 1),
    for s tokens, width h and a heads. 0 for models with unknown blocks.

    Args:
        shape: `kdkit.taps.ModelShape` of the student.
        length: int. Tokens of the sequence.
    """
    if shape.hidden_dim is None:
        return 0
    blocks = sum(
        depth
        for depth in (
            shape.num_layers,
            shape.encoder_num_layers,
            shape.decoder_num_layers,
        )
        if depth
    )
    per_block = 17 * shape.hidden_dim + 2.5 * shape.num_heads * length
    return math.ceil(blocks * length * per_block)


def memory(
    teachers: int,
    student: int,
    trained: int,
    per_batch: int,
    batch: str,
) -> Finding:
    """Compares the memory for a step with this machine's memory.

    Args:
        teachers: int. Number of weights of all teachers.
        student: int. Number of the student's weights.
        trained: int. How many of these are trained.
        per_batch: int. Numbers per batch: the taps, and the student's
            activations for the gradient.
        batch: string. A description of the largest batch.
    """
    sizes = {
        "weights": (teachers + student) * BYTES,
        "gradients and Adam's moments": (1 + SLOTS) * trained * BYTES,
        f"activations and taps of {batch}": per_batch * BYTES,
    }
    total = sum(sizes.values())
    machine = psutil.virtual_memory()
    found = (
        f"About {byte_size(total)}: {_listed(sizes)}. This machine "
        f"has {byte_size(machine.total)}, {byte_size(machine.available)} of it "
        "free."
    )
    advice = (
        "Use smaller batches, --set stages.….gradient_accumulation_steps=N, or "
        "shorter rows."
    )
    if total > machine.total:
        return Finding("memory", RUINS, found, advice)
    if total > TIGHT * machine.available:
        return Finding("memory", WARNING, found, advice)
    return Finding("memory", OK, found)


def memory_to_train(parameters: int) -> Finding | None:
    """Reports a student that is too large to train or to build.

    Args:
        parameters: int. A lower bound for its number of parameters.

    Returns:
        A `Finding`, or `None` if the student fits.
    """
    lack = memory_shortage((2 + SLOTS) * parameters * BYTES)
    if not lack:
        return None
    return Finding(
        "memory",
        RUINS,
        "Weights, gradients and Adam's moments of a student of "
        f"{parameters / 1e6:,.0f} M parameters need {lack}.",
        "Choose fewer or narrower layers, or fewer positions: --student, or "
        "--set student.….",
    )


def run_size(trained: int, weights: int, num_stages: int) -> int:
    """Returns the maximum bytes that the training of one model writes.

    A stage saves its newest position with optimizer slots, and the best epoch
    so far. During training there are also a position that is being written
    and a new best epoch. Each stage leaves its weights, and the run its model.

    Args:
        trained: int. Number of trained weights.
        weights: int. Number of all weights in the model.
        num_stages: int.
    """
    with_slots = weights + SLOTS * trained
    return BYTES * (2 * with_slots + (num_stages + 3) * weights)


def disk(
    sizes: dict[str, int], place, advice: str = "", check: str = "disk"
) -> Finding:
    """Compares the bytes to write with the free disk space.

    Args:
        sizes: dict from a description of the files to their bytes.
        place: path where they will be written, which need not exist.
        advice: string. Additional advice for saving space. Defaults to `""`.
        check: string, as in `Finding`. Defaults to `"disk"`.
    """
    place = pathlib.Path(place).absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    total = sum(sizes.values())
    found = (
        f"About {byte_size(total)} will be written ({_listed(sizes)}); "
        f"{byte_size(free)} are free in {place}."
    )
    advice = f"Free disk space, or use another disk.{advice and f' {advice}'}"
    if total > free:
        return Finding(check, RUINS, found, advice)
    if total > TIGHT * free:
        return Finding(check, WARNING, found, advice)
    return Finding(check, OK, found)


def _listed(sizes):
    """Returns names and sizes in words."""
    return ", ".join(
        f"{name} {byte_size(size)}" for name, size in sizes.items()
    )


def examine_memory(student) -> Finding | None:
    """Reports a config's student that is too large, before it is built."""
    if not isinstance(student, Sizes | Bilstm):
        return None
    sizes = dict(student)
    if isinstance(student, Bilstm):
        del sizes["word_vectors"]
        sizes = BilstmConfig(**sizes)
    config = student_config(sizes, vocabulary_size=1)
    return memory_to_train(least_parameters(config))


def fitting(kind) -> list:
    """Returns the stages of a run on a task that compare models."""
    return [
        stage
        for stage in kind.config.stages
        if stage.objectives and stage.data == "task"
    ]


def shapes(kind) -> tuple[ModelShape, ModelShape]:
    """Returns the shapes of the first teacher and the student."""
    return describe(kind.teachers[0].model), describe(kind.model)


def examine_needs(kind, rows: ExaminedRows, train, findings: Findings) -> None:
    """Estimates the memory of a step and what the run writes."""
    findings.add(_memory(kind, rows, train))
    config, student = kind.config, kind.model
    sizes = {
        f"{arm} with checkpoints": run_size(
            _trained(student), student.count_params(), len(stages)
        )
        for arm, stages in kind.arms.items()
    }
    findings.add(disk(sizes, kind.folder))
    if config.cache is not None:
        needed = _cache_size(kind, rows, train)
        findings.add(cache_disk(needed, config.cache))


def cache_disk(needed: int, cache: Cache, advice: str = "") -> Finding:
    """Compares the space that a cache still needs with the free space."""
    place = pathlib.Path(cache.directory)
    there = sum(
        file.stat().st_size for file in place.rglob("*") if file.is_file()
    )
    return disk(
        {"outputs of the teacher": max(needed - there, 0)},
        place,
        f"--cache-precision bf16 needs half as much, int8 a quarter.{advice}",
        "disk of the cache",
    )


def _trained(model):
    """Returns the number of a model's trained weights."""
    return sum(math.prod(weight.shape) for weight in model.trainable_weights)


def _memory(kind, rows, train):
    """Returns the finding for the stage whose steps need most memory."""
    largest, words = 0, ""
    length = int(train.lengths.max())
    if kind.config.data.num_buckets is None:
        length = train.sequence_length
    for stage in itertools.chain(*kind.arms.values()):
        if stage.data != "task":
            continue
        num_rows = _batch_size(kind, rows, stage)
        sequences = train.sequences_per_row * max(
            num_rows // stage.gradient_accumulation_steps, 1
        )
        numbers = sequences * (
            activations(describe(kind.model), length)
            + _tapped(kind, stage, length)
        )
        if numbers >= largest:
            largest = numbers
            words = f"{sequences} × {length} tokens"
    teachers = sum(one.model.count_params() for one in kind.teachers)
    student = kind.model
    return memory(
        teachers, student.count_params(), _trained(student), largest, words
    )


def _batch_size(kind, rows, stage):
    """Returns the examples per batch, at most those of an epoch."""
    size = stage.batch_size
    if size > len(rows.train):  # others are counted where they matter
        size = min(
            size,
            epoch_rows(kind.config, kind.task, len(rows.train), learns=True),
        )
    return size


def _tapped(kind, stage, length):
    """Returns how many numbers a stage taps from all models per sequence."""
    if stage not in fitting(kind):
        return 0
    entries = tapped_entries(stage.weighted_objectives(), *shapes(kind))
    per_token = kind.task.kind.has_label_per_token
    teacher_count, student_count = (
        sum(tapped_size(entry, shape, length, per_token) for entry in some)
        for some, shape in zip(entries, shapes(kind), strict=True)
    )
    return len(kind.teachers) * teacher_count + student_count


def _cache_size(kind, rows, train):
    """Returns the bytes of cached outputs for an epoch's and dev's examples."""
    config, entries, (teacher, student) = kind.config, set(), shapes(kind)
    for stage in fitting(kind):
        objectives = stage.weighted_objectives()
        entries |= tapped_entries(objectives, teacher, student)[0]
    per_token = kind.task.kind.has_label_per_token

    def size(entry, length):
        numbers = tapped_size(entry, teacher, length, per_token)
        width = entry.width(numbers)
        shape = numbers // width, width
        exact = entry.num_exact(shape)
        return packed_size(shape, config.cache.precision, exact)

    sample_size = sum(
        size(entry, int(length))
        for length in train.lengths
        for entry in entries
    )
    count = epoch_rows(config, kind.task, len(rows.train), learns=True)
    count += rows.num_dev
    return int(sample_size / len(train) * count * len(kind.teachers))
