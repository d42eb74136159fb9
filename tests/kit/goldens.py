"""Goldens: files of numbers and words that what is computed is compared with.

With `KDKIT_GOLDENS=freeze` the files are written instead.
"""

import json
import numbers
import os
import pathlib
import time

import numpy as np

FOLDER = pathlib.Path(__file__).parents[1] / "goldens"
FREEZES = os.environ.get("KDKIT_GOLDENS") == "freeze"
TOLERANCE = 1e-6  # relative to the golden, and absolute
SHOWN = 12
NUM_SAMPLES = 5


def check(name, key, value, tolerance=TOLERANCE):
    """Compares a value with the golden of this key, or freezes it.

    Args:
        name: string. The file: goldens/NAME.json.
        key: string.
        value: nested dicts and lists of numbers, strings and `None`.
        tolerance: float, or a list: one for each entry. What numbers with a
            fraction may differ by, relative to the golden's and absolute.
    """
    file = FOLDER / f"{name}.json"
    value = rounded(value)
    if FREEZES:
        freeze(file, key, value)
        return
    goldens = json.loads(file.read_text())
    assert key in goldens, f"{file} has no golden {key!r}: make goldens"
    found = list(differences(goldens[key], value, tolerance))
    assert not found, (
        f"{len(found)} differences from {file.name}, {key}:\n"
        + "\n".join(found[:SHOWN])
        + f"\nWhen a golden may change: {FOLDER / 'README.md'}"
    )


def freeze(file, key, value):
    """Writes one golden into a file that several processes may write."""
    lock = file.with_suffix(".lock")
    while True:
        try:
            lock.mkdir()
            break
        except FileExistsError:
            time.sleep(0.02)
    try:
        goldens = json.loads(file.read_text()) if file.is_file() else {}
        goldens[key] = value
        lines = [
            f"{json.dumps(one)}: {json.dumps(goldens[one], sort_keys=True)}"
            for one in sorted(goldens)
        ]
        file.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    finally:
        lock.rmdir()


def differences(golden, value, tolerance, place=""):
    """Yields a line for each place where a value is not the golden."""
    if isinstance(golden, dict) and isinstance(value, dict):
        for key in sorted({*golden, *value}):
            there = f"{place}/{key}"
            if key not in value:
                yield f"{there}: expected {golden[key]!r}, it is missing"
            elif key not in golden:
                yield f"{there}: not expected, got {value[key]!r}"
            else:
                yield from differences(
                    golden[key], value[key], tolerance, there
                )
    elif isinstance(golden, list) and isinstance(value, list):
        if len(golden) != len(value):
            yield f"{place}: expected {len(golden)} items, got {len(value)}"
        for index, (one, two) in enumerate(zip(golden, value, strict=False)):
            own = tolerance[index] if isinstance(tolerance, list) else tolerance
            yield from differences(one, two, own, f"{place}/{index}")
    elif not _same(golden, value, tolerance):
        yield f"{place}: expected {golden!r}, got {value!r}"


def _same(golden, value, tolerance):
    if isinstance(golden, float) and _is_number(value):
        return golden == value or bool(
            abs(golden - value) <= tolerance * (1 + abs(golden))
        )
    return type(golden) is type(value) and golden == value


def _is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def rounded(value):
    """The same value as JSON has it, floats to 9 significant digits."""
    if isinstance(value, dict):
        return {str(key): rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    if isinstance(value, np.ndarray):
        return rounded(value.tolist())
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if _is_number(value):
        return float(f"{float(value):.9g}")
    return value


def summary(tensor):
    """A tensor's shape, norm, sum and a few of its values."""
    tensor = np.asarray(tensor, "float64")
    flat = tensor.ravel()
    places = np.linspace(0, flat.size - 1, min(NUM_SAMPLES, flat.size))
    return {
        "shape": list(tensor.shape),
        "norm": np.linalg.norm(flat),
        "sum": flat.sum(),
        "values": flat[places.astype(int)],
    }


def flat(nested, prefix=""):
    """Nested dicts and lists as one dict with dotted keys."""
    if isinstance(nested, dict):
        items = nested.items()
    elif isinstance(nested, list | tuple):
        items = enumerate(nested)
    else:
        return {prefix: nested}
    items = list(items)
    if not items:
        return {prefix: nested}
    found = {}
    for key, value in items:
        found |= flat(value, f"{prefix}.{key}" if prefix else str(key))
    return found
