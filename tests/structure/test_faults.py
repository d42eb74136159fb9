"""The faults of tests/faults.toml fit the code."""

import collections

from faults import read_faults


def test_every_fault_applies():
    faults, errors = read_faults()
    assert not errors, "\n".join(errors)
    groups = collections.Counter(fault["group"] for fault in faults.values())
    assert len(faults) >= 60
    for group in ("losses", "taps", "data", "models", "training", "export"):
        assert groups[group] >= 8
