"""Writes are complete or absent, on failing and on full disks."""

import contextlib
import errno
import json

import numpy as np
import pytest
from kit import failing_disks
from kit.caches import rows

from kdkit.augmentation import write_augmented
from kdkit.cli.main import main
from kdkit.data import Examples
from kdkit.errors import disk_problem
from kdkit.io.files import staged, write_text
from kdkit.models import Head
from kdkit.models.saving import save_labels
from kdkit.runs.configure import config_of
from kdkit.runs.directory import Run, open_run
from kdkit.runs.events import Inputs, RunFinished
from kdkit.taps import Entry
from kdkit.teacher_cache.files import Plan, StoredTensors

CONFIG = config_of("pretraining", {}, smoke=True)
OLD, NEW = "old\n" * 100, "new\n" * 200


def replace_text(folder):
    write_text(folder / "file.txt", NEW)


def replace_folder(folder):
    with staged(folder / "folder") as partial:
        partial.mkdir()
        (partial / "part").write_text(NEW)
        (partial / "other").write_text(NEW)


def log_events(folder):
    with open_run(folder / "run", CONFIG) as (run, _):
        run.write_config(CONFIG, {"command": "kdkit"})
        if not run.events(Inputs):
            run.log(Inputs(digests={}))
        if not run.is_finished:
            run.log(RunFinished(seconds=0.0, best={}))


def augment(folder):
    if not (folder / "copies.tsv").exists():
        write_augmented(
            Examples((["a b", "c d", "e f"],)),
            lambda texts, first_row, column: [[text[::-1]] for text in texts],
            folder / "copies.tsv",
            ("sentence",),
            {"seed": 0},
        )


def fill_cache(folder):
    stored = cached(folder)
    if stored.missing_size(0):
        with stored.writing(0) as add:
            add(np.ones((4, 2), "float32"))


def cached(folder):
    plan = Plan(rows(4), folder / "cache", "fp32")
    return StoredTensors(plan, Entry("logits"), (2,))


def name_classes(folder):
    save_labels(Head("sequence", 2, ("bad", "good")), folder / "labels.json")


def report(folder):
    if main(["report", str(folder / "reported")]):
        raise OSError("said on the standard error")


WORKS = (
    replace_text, replace_folder, log_events, augment, fill_cache, name_classes,
    report,
)  # fmt: skip
# Files that others read under their final name: complete, old or new.
NAMED = {
    "file.txt": (OLD, NEW),
    "folder/part": (OLD, NEW),
    "labels.json": ('{\n "classes": [\n  "bad",\n  "good"\n ]\n}\n',),
}


def prepared(folder):
    """A folder with what an earlier program wrote."""
    (folder / "folder").mkdir(parents=True)
    (folder / "file.txt").write_text(OLD)
    (folder / "folder" / "part").write_text(OLD)
    run = folder / "reported"
    run.mkdir()
    (run / "config.json").write_text(CONFIG.model_dump_json())
    (run / "metrics.jsonl").write_text('{"event": "inputs", "time": 1}\n')
    return folder


def names(folder):
    """What is in a folder, but for locks."""
    return sorted(
        path.name
        for path in folder.rglob("*")
        if not path.name.endswith(".lock")
    )


def check_whole(folder):
    """That nothing stands half under its final name."""
    for name, contents in NAMED.items():
        if (folder / name).exists():
            assert (folder / name).read_text() in contents
    for name in ("config.json",):
        for path in folder.rglob(name):
            json.loads(path.read_text())
    copies = folder / "copies.tsv"
    if copies.exists():
        assert len(copies.read_text().splitlines()) == 5
    if list(folder.rglob("00000.npy")):
        stored = cached(folder)
        assert not stored.missing_size(0)
        np.testing.assert_array_equal(stored(np.arange(4), 8), 1)
    for page in folder.rglob("report.html"):
        assert page.read_text().rstrip().endswith("</html>")


@pytest.mark.parametrize("kind", ["full", "forbidden"])
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_a_fault_anywhere_leaves_all_whole_and_is_one_line(
    work, kind, tmp_path, capsys
):
    with failing_disks.disk(tmp_path) as counted:
        work(prepared(tmp_path / "clean"))
    number = failing_disks.ERRORS[kind]
    for place in range(1, len(counted.calls) + 1):
        folder = prepared(tmp_path / str(place))
        capsys.readouterr()
        with (
            failing_disks.disk(folder, fails_at=place, number=number),
            contextlib.suppress(OSError),
        ):
            work(folder)
            continue  # of a call whose failing does no harm
        told = capsys.readouterr().err
        assert "Traceback" not in told
        assert told.count("\n") <= 1
        check_whole(folder)
        work(folder)
        check_whole(folder)
        assert names(folder) == names(tmp_path / "clean")


@pytest.mark.parametrize(
    ("error", "is_disk"),
    [
        (OSError(errno.ENOSPC, "full"), True),
        (OSError(errno.EDQUOT, "quota"), True),
        (OSError(errno.EIO, "failing"), True),
        (OSError(errno.EACCES, "forbidden"), False),
        (RuntimeError("h5py: errno = 28, No space left on device"), True),
        (ValueError("a shape"), False),
    ],
    ids=str,
)
def test_full_and_failing_disks_are_told_from_other_errors(error, is_disk):
    assert disk_problem(error) == is_disk


def test_an_event_after_one_that_was_cut_off_is_read(tmp_path):
    run = Run(tmp_path)
    run.log(Inputs(digests={}))
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"event": "epoch", "ti\0\0\0\xff')
    run.log(RunFinished(seconds=1.0, best={}))
    assert list(map(type, run.events())) == [Inputs, RunFinished]


def test_the_old_folder_stays_if_the_new_one_cannot_be_named(tmp_path):
    folder = prepared(tmp_path / "a")
    with failing_disks.disk(folder) as counted:
        replace_folder(folder)
    assert (folder / "folder" / "other").exists()
    replaces = [
        place
        for place, (call, _) in enumerate(counted.calls, start=1)
        if call == "replace"
    ]
    assert len(replaces) == 2
    for place in replaces:
        folder = prepared(tmp_path / str(place))
        with (
            failing_disks.disk(folder, fails_at=place),
            pytest.raises(OSError, match="No space left"),
        ):
            replace_folder(folder)
        assert (folder / "folder" / "part").read_text() == OLD


def test_files_and_directories_do_not_replace_each_other(tmp_path):
    folder = prepared(tmp_path / "all") / "folder"
    with pytest.raises(IsADirectoryError):
        write_text(folder, NEW)
    assert names(folder) == ["part"]
    (tmp_path / "folder").write_text(OLD)
    with pytest.raises(NotADirectoryError):
        replace_folder(tmp_path)
    assert (tmp_path / "folder").read_text() == OLD
