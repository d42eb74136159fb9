"""What a run will need: memory and disk, estimated from sizes."""

import math
import pathlib
import shutil
from collections.abc import Iterable

import psutil

from kdkit.doctor.findings import OK
from kdkit.doctor.findings import RUINS
from kdkit.doctor.findings import WARNING
from kdkit.doctor.findings import Finding
from kdkit.layer_maps import layer_map
from kdkit.machine import lack_of_memory
from kdkit.objectives import entry_of_teacher
from kdkit.quantities import byte_size
from kdkit.taps import ATTENTION_TAPS
from kdkit.taps import PER_LAYER_TAPS
from kdkit.taps import VECTOR_TAPS
from kdkit.taps import Entry
from kdkit.taps import ModelShape
from kdkit.taps import split_tap

BYTES = 4  # of a number in float32, which weights and slots are kept in
SLOTS = 2  # Adam's moments
TIGHT = 0.8  # of what is free, from which on it is close


def tapped_entries(
    objectives: Iterable, teacher: ModelShape, student: ModelShape
) -> tuple[set[Entry], set[Entry]]:
    """Returns what objectives read of a teacher and of a student.

    Args:
        objectives: iterable of `kdkit.Objective` that fit the models.
        teacher: `kdkit.taps.ModelShape`.
        student: `kdkit.taps.ModelShape`.
    """
    of_teacher, of_student = set(), set()
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
            of_teacher.add(
                entry_of_teacher(objective, theirs, teacher.num_classes)
            )
            of_student.add(Entry(tap, ours))
    return of_teacher, of_student


def numbers_of(
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
    return shape.hidden_dim


def activations(shape: ModelShape, length: int) -> int:
    """Returns the numbers that a student keeps of one sequence to learn.

    34 s h + 5 a s² bytes a block in 16 bits, half as many numbers (Korthikanti
    et al., 2022, https://arxiv.org/abs/2205.05198, equation 1), for s tokens,
    width h and a heads. 0 for models whose blocks are unknown.

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
    check: str = "memory",
) -> Finding:
    """Compares what a step takes with the memory of this machine.

    Args:
        teachers: int. Weights of all teachers.
        student: int. Weights of the student.
        trained: int. Those of them that are trained.
        per_batch: int. Numbers of a batch: what is tapped, and what the student
            keeps for its gradient.
        batch: string. What the largest batch is, in words.
        check: string, as in `Finding`. Defaults to `"memory"`.
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
        return Finding(check, RUINS, found, advice)
    if total > TIGHT * machine.available:
        return Finding(check, WARNING, found, advice)
    return Finding(check, OK, found)


def room_to_train(parameters: int, check: str = "memory") -> Finding | None:
    """Tells of a student that is too large to be trained, or to be built.

    Args:
        parameters: int. Those that it has at least.
        check: string, as in `Finding`. Defaults to `"memory"`.

    Returns:
        A `Finding`, or `None` where it is not.
    """
    lack = lack_of_memory((2 + SLOTS) * parameters * BYTES)
    if not lack:
        return None
    return Finding(
        check,
        RUINS,
        "Weights, gradients and Adam's moments of a student of "
        f"{parameters / 1e6:,.0f} M parameters take {lack}.",
        "Choose fewer or narrower layers, or fewer positions: --student, or "
        "--set student.….",
    )


def run_size(
    trained: int,
    weights: int,
    epochs: Iterable[int],
    averaged: int = 0,
    keep: int = 1,
) -> int:
    """Returns the bytes that the training of one model writes at most.

    A stage keeps its last epochs with their slots, and for each the best one
    until then; if it keeps several, they stay when it is done. Beside them
    stand, while it trains, a position within an epoch, what is being saved and
    a new best one. Each stage leaves its weights, and the run its model.

    Args:
        trained: int. Weights that are trained.
        weights: int. All weights of the model.
        epochs: iterable of ints. Those of each stage.
        averaged: int. Epochs whose weights are kept to be averaged. Defaults to
            `0`.
        keep: int. How many of the last epochs are kept. Defaults to `1`.
    """
    with_slots = weights + SLOTS * trained
    kept = [min(keep, count) for count in epochs]
    at_once = sum(kept) if keep > 1 else 1
    return BYTES * (
        (at_once + 2) * with_slots
        + (at_once + 1 + averaged + len(kept) + 1) * weights
    )


def disk(
    sizes: dict[str, int], place, advice: str = "", check: str = "disk"
) -> Finding:
    """Compares what will be written with what is free.

    Args:
        sizes: dict from what is written to its bytes.
        place: path where it will be written, there or not.
        advice: string. What takes less. Defaults to `""`.
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
    advice = f"Make room, or choose another disk.{advice and f' {advice}'}"
    if total > free:
        return Finding(check, RUINS, found, advice)
    if total > TIGHT * free:
        return Finding(check, WARNING, found, advice)
    return Finding(check, OK, found)


def _listed(sizes):
    """What needs how much."""
    return ", ".join(
        f"{name} {byte_size(size)}" for name, size in sizes.items()
    )
