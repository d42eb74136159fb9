"""Which differences benchmarks/kill.py finds between two runs."""

import json
import pathlib
import sys

import pytest

BENCHMARKS = pathlib.Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def differences():
    """The comparison of benchmarks/, which is no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        import kill_compare

        yield kill_compare.differences
        del sys.modules["kill_compare"]


def examined(folder, seconds, **found):
    """A run of which the doctor found something."""
    folder.mkdir()
    event = {
        "event": "doctor",
        "time": seconds,
        "findings": [
            {"check": check, "outcome": "ok", "found": text}
            for check, text in found.items()
        ],
    }
    (folder / "metrics.jsonl").write_text(json.dumps(event) + "\n")
    return folder


def test_what_is_free_may_differ_and_no_other_finding(differences, tmp_path):
    first = examined(tmp_path / "a", 1, memory="4 GB", disk="1 GB", data="9")
    other = examined(tmp_path / "b", 2, memory="2 GB", disk="3 GB", data="9")
    assert differences(first, other) == []
    third = examined(tmp_path / "c", 1, memory="4 GB", disk="1 GB", data="8")
    assert differences(first, third) == ["different: metrics.jsonl"]
