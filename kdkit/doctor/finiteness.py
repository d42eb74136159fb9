"""Whether the weights that a run begins with are numbers."""

import keras
import numpy as np

from kdkit.doctor.findings import OK
from kdkit.doctor.findings import RUINS
from kdkit.doctor.findings import Finding

CHECK = "student weights"


def finite_weights(model, check: str = CHECK) -> Finding:
    """Looks for weights of a model that are not finite.

    Args:
        model: `keras.Model`.
        check: string, as in `Finding`. Defaults to `"student weights"`.
    """
    broken = [
        weight.path
        for weight in model.weights
        if not np.isfinite(keras.ops.convert_to_numpy(weight)).all()
    ]
    if not broken:
        return Finding(
            check, OK, f"All {len(model.weights)} of them are finite."
        )
    return Finding(
        check,
        RUINS,
        f"{len(broken)} of {len(model.weights)} are not finite, such as "
        f"{broken[0]}.",
        "What the student begins with has diverged. Train it anew, with a "
        "smaller learning rate, or begin with another one.",
    )
