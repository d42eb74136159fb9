"""kdkit doctor: rows, copies, caches and disks with problems."""

import dataclasses
import shutil
import types

import pytest
from patients import checks, copied, found, rows_of, write_rows

from kdkit.doctor import OK, RUINS, WARNING
from kdkit.doctor.diagnosis import diagnose
from kdkit.doctor.resources import cache_disk
from kdkit.runs import smoke
from kdkit.settings import override
from kdkit.training import (
    AugmentedSettings,
    CacheSettings,
    CorpusSettings,
    ModelSettings,
    UnlabeledSettings,
)

pytestmark = pytest.mark.usefixtures("quickly")


def test_rows_of_dev_among_those_to_train_on(made, settings, tmp_path):
    root = copied(made, tmp_path)
    rows, labels = rows_of(root, "train")
    more, more_labels = rows_of(root, "dev")
    more = [f"{row} ." for row in more[:30]]
    write_rows(root / "SST-2", "train", rows + more, labels + more_labels[:30])
    findings = diagnose(
        override(settings, [f"data.data_dir={root}"]), tmp_path / "run"
    )
    assert checks(findings, RUINS) == {"rows kept apart"}
    assert "30 of 120 in dev" in found(findings, "rows kept apart").found


def test_rows_of_dev_in_the_text_that_is_distilled_on(made, settings, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("\n".join(rows_of(made, "dev")[0]))
    general = dataclasses.replace(
        smoke.PRETRAINING,
        corpus=CorpusSettings((str(file),)),
        model=settings.student,
        tokenizer=None,
    )
    findings = diagnose(
        dataclasses.replace(
            settings,
            student=ModelSettings(checkpoint=str(tmp_path / "general")),
            general=general,
            corpus=CorpusSettings((str(file),), held_out=(str(file),)),
        ),
        tmp_path / "run",
    )
    both = {"rows in the corpus", "rows in the general text"}
    assert checks(findings, WARNING) >= both
    assert "120 texts: 120 of 120 rows in dev, 0 of 20 rows in test" in (
        found(findings, "rows in the corpus").found
    )


def test_unlabelled_rows_of_dev(made, settings, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("\n".join([*rows_of(made, "dev")[0][:4], "ab cd ef"]))
    unlabeled = UnlabeledSettings((str(file),))
    findings = diagnose(
        dataclasses.replace(settings, unlabeled=unlabeled), tmp_path / "run"
    )
    assert checks(findings, WARNING) == {"unlabelled rows"}
    assert "4 of 5" in found(findings, "unlabelled rows").found


def write_copies(path, copies):
    lines = [f"{source}\t{text}" for source, text in copies]
    path.write_text("\n".join(["source_row\tsentence", *lines]) + "\n")
    return AugmentedSettings(str(path))


def test_augmented_copies_of_other_data(made, settings, tmp_path):
    rows, _ = rows_of(made, "train")
    right = [(number, f"{row} wx") for number, row in enumerate(rows)]
    other = [(number, "une autre phrase") for number in range(len(rows))]
    for copies, ruined in ((right, set()), (other, {"augmented copies"})):
        augmented = write_copies(tmp_path / "copies.tsv", copies)
        findings = diagnose(
            dataclasses.replace(settings, augmented=augmented),
            tmp_path / "run",
        )
        assert checks(findings, RUINS) == ruined


def test_a_cache_is_estimated_close_to_what_it_takes(settings, tmp_path):
    place = tmp_path / "cache"
    cache = CacheSettings(str(place))
    findings = diagnose(
        dataclasses.replace(settings, cache=cache), tmp_path / "run"
    )
    assert found(findings, "disk of the cache").outcome == OK
    assert not place.exists()


def test_a_cache_that_the_disk_does_not_hold(tmp_path, monkeypatch):
    monkeypatch.setattr(
        shutil, "disk_usage", lambda place: types.SimpleNamespace(free=10**9)
    )
    cache = CacheSettings(str(tmp_path / "cache"))
    finding = cache_disk(2 * 10**9, cache)
    assert (finding.check, finding.outcome) == ("disk of the cache", RUINS)
    assert "About 2.0 GB will be written" in finding.found
    assert "--cache-precision bf16 needs half" in finding.advice
