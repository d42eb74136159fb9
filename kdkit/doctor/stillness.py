"""Whether a teacher says the same twice and stays as it is."""

import zlib

import keras
import numpy as np

from kdkit.doctor.findings import OK
from kdkit.doctor.findings import RUINS
from kdkit.doctor.findings import Finding

AT_REST = "teacher at rest"
FROZEN = "teacher frozen"
DRAWS = "seed_generator"  # in the names of states that draws change
TOLERANCE = 1e-4  # of the largest logit: sums on GPUs come in any order


def teacher_at_rest(teacher, forward, inputs, check: str = AT_REST) -> Finding:
    """Runs a teacher twice on the same batch.

    Args:
        teacher: `keras.Model`.
        forward: callable from a batch to the teacher's logits.
        inputs: dict. A batch.
        check: string, as in `Finding`. Defaults to `"teacher at rest"`.
    """
    before = _fingerprint(teacher)
    first, second = (np.asarray(forward(inputs), "float64") for _ in range(2))
    changed = [
        name
        for (name, old), (_, new) in zip(
            before, _fingerprint(teacher), strict=True
        )
        if old != new
    ]
    if changed:
        return Finding(
            check,
            RUINS,
            f"Running it changes {len(changed)} of its {len(before)} weights, "
            f"such as {changed[0]}.",
            "A layer of it updates itself in inference. Take the layer out, "
            "or have it look at `training`.",
        )
    scale = max(float(np.abs(first).max()), 1.0)
    difference = float(np.abs(first - second).max())
    if difference > TOLERANCE * scale:
        return Finding(
            check,
            RUINS,
            "The same batch gives other logits the second time: they differ by "
            f"up to {difference:.2g}.",
            "A layer of it, such as a dropout, draws in inference. Have it "
            "look at `training`.",
        )
    return Finding(
        check,
        OK,
        f"Two passes over {len(first)} rows differ by {difference:.1g}, and "
        f"change none of its {len(before)} weights.",
    )


def teacher_frozen(teacher, student, check: str = FROZEN) -> Finding:
    """Looks whether training a student would train its teacher.

    Args:
        teacher: `keras.Model`.
        student: `keras.Model`.
        check: string, as in `Finding`. Defaults to `"teacher frozen"`.
    """
    trained = {id(weight) for weight in student.trainable_weights}
    shared = [w.path for w in teacher.weights if id(w) in trained]
    if shared:
        return Finding(
            check,
            RUINS,
            f"{len(shared)} of its weights are the student's too, such as "
            f"{shared[0]}, and would be trained.",
            "Copy the layers instead of using them twice.",
        )
    return Finding(
        check,
        OK,
        f"None of its {len(teacher.weights)} weights is among the "
        f"{len(trained)} that are trained.",
    )


def _fingerprint(model):
    """Name and checksum of every weight, but for the states of draws."""
    return [
        (
            weight.path,
            zlib.crc32(
                np.ascontiguousarray(keras.ops.convert_to_numpy(weight))
            ),
        )
        for weight in model.weights
        if DRAWS not in weight.path
    ]
