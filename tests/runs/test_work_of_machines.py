"""Augmentation and teacher outputs that a run's processes share."""

import dataclasses
import re
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import keras_hub
import numpy as np
import pytest
from comparing import assert_same_run
from processes import MAIN, run_settings

from kdkit import data, models
from kdkit.augmentation import Augmentation, files, part_path
from kdkit.cli.resolving import with_strategy
from kdkit.errors import UsageError
from kdkit.io.files import digest
from kdkit.recipes import RECIPES
from kdkit.runs import augmenting, smoke
from kdkit.runs.augmenting import is_one_folder, prepare_copies, prepare_part
from kdkit.settings import override
from kdkit.tasks import get_task
from kdkit.training import (
    AugmentedSettings,
    AugmentSettings,
    CacheSettings,
    distill,
)
from kdkit.training.caching import TeacherCaches
from kdkit.training.distribution import Distribution
from kdkit.training.making import load_teacher

ROWS, DEV_ROWS = 19, 8
# Each process has some of so few rows.
SHORT_STEPS = (
    "from kdkit.augmentation import files as parts\nparts.ROWS_PER_STEP = 8\n"
)
# The teacher is run over a few rows at a time, and what it says is written.
LITTLE_BY_LITTLE = (
    "from kdkit.teacher_cache import cache, shards\n"
    "shards.BATCH_ROWS = cache.SHARD_ROWS = 4\n"
)
# Dies without a word before its third file.
DYING = (
    "import os, signal\n"
    "written, write = [], filling.write_shard\n"
    "def write_or_die(*args):\n"
    "    written.append(args)\n"
    "    if len(written) == 3:\n"
    "        os.kill(os.getpid(), signal.SIGKILL)\n"
    "    return write(*args)\n"
    "filling.write_shard = write_or_die\n"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a small task and a masked-language model."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "SST-2").mkdir()
    for split, count in (("train", ROWS), ("dev", DEV_ROWS)):
        rows = data.load_sentiment(split).take(range(count))
        lines = zip(*rows.texts, rows.labels, strict=True)
        (folder / "SST-2" / f"{split}.tsv").write_text(
            "sentence\tlabel\n"
            + "".join(f"{text}\t{label}\n" for text, label in lines)
        )
    tokenizer = keras_hub.tokenizers.BertTokenizer(
        data.sentiment_vocabulary(), lowercase=True
    )
    encoder = models.student(
        {
            "num_layers": 1,
            "hidden_dim": 8,
            "num_heads": 2,
            "intermediate_dim": 16,
            "vocabulary_size": tokenizer.vocabulary_size(),
            "max_sequence_length": 32,
        }
    )
    language_model = models.language_model(encoder)
    models.save_language_model(language_model, tokenizer, folder / "model", 32)
    return folder


@pytest.fixture(scope="module")
def settings_in(place, finished_run):
    """Makes settings whose cache and copies are in a folder."""
    small = override(
        smoke.distillation(RECIPES["tinybert"]),
        [
            "data.task=sst2",
            f"data.data_dir={place}",
            "data.num_buckets=1",
            f"teacher={finished_run / 'teacher_run'}",
            "stages.0.batch_size=8",
            "stages.0.keep_best=false",
        ],
    )
    made_by = AugmentSettings(
        task="sst2",
        data_dir=str(place),
        model=str(place / "model"),
        augmentation=Augmentation(num_copies=2, num_candidates=3),
    )

    def make(folder):
        return dataclasses.replace(
            small,
            stages=small.stages[:1],
            augmented=AugmentedSettings(
                str(folder / "copies.tsv"), made_by=made_by
            ),
            cache=CacheSettings(str(folder / "cache")),
        )

    return make


@pytest.fixture(scope="module")
def one(settings_in, tmp_path_factory):
    """What one process makes."""
    folder = tmp_path_factory.mktemp("one")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "ROWS_PER_STEP", 8)
        distill(settings_in(folder), folder / "run")
    return folder


def run_two(settings, folder, *programs):
    return run_settings(
        ["distill", "tinybert"],
        with_strategy(settings, "multi_worker"),
        folder / "run",
        [SHORT_STEPS + program for program in programs],
    )


def rows_run(output, rank):
    """Over how many rows a process ran the teacher, each time."""
    assert "cache: running the teacher" not in output
    parts = re.findall(r"(part_\S+): running the teacher on (\d+)", output)
    assert {part for part, _ in parts} == {f"part_{rank + 1}_of_2"}
    return [int(count) for _, count in parts]


@pytest.mark.large
def test_two_processes_share_the_copies_and_the_teacher(
    settings_in, one, tmp_path
):
    status, outputs = run_two(settings_in(tmp_path), tmp_path, MAIN, MAIN)
    assert status == [0, 0], outputs
    copies = (tmp_path / "copies.tsv").read_text()
    assert copies == (one / "copies.tsv").read_text()
    assert len(copies.splitlines()) > ROWS
    assert sorted(path.name for path in tmp_path.glob("copies*")) == [
        "copies.tsv",
        "copies.tsv.json",
    ]
    # Train and dev.
    first, second = map(rows_run, outputs, range(2))
    assert len(first) == len(second) == 2
    for run_here, run_there in zip(first, second, strict=True):
        assert 2 * min(run_here, run_there) >= max(run_here, run_there) > 1
    for rank, output in enumerate(outputs):
        (made,) = re.findall(r"copies.part_(\d)_of_2.tsv: (\d+)", output)
        assert int(made[0]) == rank + 1
        assert int(made[1]) > 0
    assert_same_run(tmp_path / "run", one / "run")


@pytest.mark.large
@pytest.mark.parametrize("dying", [0, 1])
def test_what_a_process_wrote_before_one_died_is_not_made_again(
    settings_in, one, tmp_path, dying
):
    settings = settings_in(tmp_path)
    programs = [LITTLE_BY_LITTLE + MAIN] * 2
    programs[dying] = LITTLE_BY_LITTLE + DYING + MAIN
    status, outputs = run_two(settings, tmp_path, *programs)
    assert status[dying] == -signal.SIGKILL, outputs
    assert status[1 - dying] == 1, outputs
    assert (
        f"another process ({dying}) stopped or cannot be reached"
        in outputs[1 - dying]
    )
    before = rows_run(outputs[dying], dying)
    copies = digest(tmp_path / "copies.tsv")
    programs[dying] = LITTLE_BY_LITTLE + MAIN
    status, outputs = run_two(settings, tmp_path, *programs)
    assert status == [0, 0], outputs
    # Two files of four rows each are there.
    assert rows_run(outputs[dying], dying)[0] == before[0] - 8
    assert digest(tmp_path / "copies.tsv") == copies
    assert_same_run(tmp_path / "run", one / "run")


class Threads(Distribution):
    """Threads in the place of processes, which agree as these do."""

    met = threading.Barrier(2, timeout=60)
    rows = [None, None]

    def _rows_of_all(self, row):
        self.rows[self.rank] = row
        self.met.wait()
        rows = list(self.rows)
        self.met.wait()
        return np.array(rows)


def in_two_threads(work):
    """Returns what `work(distribution)` returns in each of two threads."""
    with ThreadPoolExecutor(2) as pool:
        return list(
            pool.map(
                lambda rank: work(Threads(rank=rank, num_processes=2)), range(2)
            )
        )


def test_processes_with_other_devices_are_all_refused():
    def compare(distribution):
        counts = {"GPUs": distribution.rank}
        with pytest.raises(UsageError, match="process 1: GPUs: 0 -> 1\nFix."):
            distribution.require_same("devices", counts, "Fix.")
        distribution.require_same("devices", {"GPUs": 1})

    in_two_threads(compare)


@pytest.mark.parametrize("is_shared", [True, False])
def test_processes_know_whether_they_see_one_folder(tmp_path, is_shared):
    found = in_two_threads(
        lambda distribution: is_one_folder(
            distribution, tmp_path / str(is_shared or distribution.rank)
        )
    )
    assert found == [is_shared] * 2
    assert not [path for path in tmp_path.rglob("*") if "seen" in path.name]


@pytest.mark.parametrize("is_shared", [True, False])
def test_copies_are_made_in_parts_where_all_machines_see_them(
    settings_in, tmp_path, monkeypatch, is_shared
):
    made = []
    monkeypatch.setattr(
        augmenting, "prepare_part", lambda settings, part: made.append(part)
    )
    monkeypatch.setattr(
        augmenting, "prepare_augmented", lambda *args: made.append("all")
    )

    def prepare(distribution):
        folder = tmp_path / str(is_shared or distribution.rank)
        settings = settings_in(folder)
        prepare_copies(
            settings.augmented,
            get_task("sst2"),
            settings.data.data_dir,
            distribution,
        )

    in_two_threads(prepare)
    parts_made = [(0, 2), (1, 2)] if is_shared else []
    assert sorted(made[:-2]) == parts_made
    assert made[-2:] == ["all", "all"]


@pytest.mark.parametrize(
    ("there", "made"),
    [
        (None, True),
        ((0, 2), True),
        ((1, 2), False),
        ((0, 3), False),
        ("the file", False),
    ],
)
def test_a_part_is_made_where_it_is_missing(tmp_path, monkeypatch, there, made):
    calls = []
    monkeypatch.setattr(augmenting, "augment", lambda *args: calls.append(args))
    file = tmp_path / "copies.tsv"
    if there is not None:
        path = file if there == "the file" else part_path(file, there)
        path.write_text("")
    prepare_part(AugmentedSettings(str(file)), (1, 2))
    assert bool(calls) == made


@pytest.mark.large
@pytest.mark.parametrize("is_shared", [True, False])
def test_caches_of_machines_are_filled_whether_shared_or_not(
    settings_in, finished_run, tmp_path, logged, is_shared
):
    settings = settings_in(tmp_path)
    place = finished_run / "teacher_run"
    task = get_task("sst2")
    teacher = load_teacher(str(place), task)
    rows = task.load("train", settings.data.data_dir)
    encoded = task.encode(rows, teacher.tokenizer, 32)
    stage = settings.stages[-1]

    def read(folder, rows_to_read, **of_process):
        caches = TeacherCaches(
            CacheSettings(str(folder)), [teacher], [place], **of_process
        )
        features = caches.features(stage, teacher.model)(rows_to_read)
        assert features.signature
        return caches.relative_errors()

    # What one of three parts made before is no work for these.
    folders = [tmp_path / str(is_shared or rank) for rank in range(2)]
    for folder in set(folders):
        before = TeacherCaches(
            CacheSettings(str(folder)), [teacher], [place], part=(0, 3)
        )
        before.features(stage, teacher.model)(encoded)
    (there, *_) = map(int, re.findall(r"the teacher on (\d+)", logged()))
    in_two_threads(
        lambda distribution: read(
            folders[distribution.rank], encoded, distribution=distribution
        )
    )
    out = logged()
    assert all(f"{folder}/part_1_of_3: merged" in out for folder in folders)
    parts = re.findall(r"_of_2: running the teacher on (\d+)", out)
    assert sum(map(int, parts)) == ROWS - there
    # Each machine runs the others' rows too where it sees its own alone.
    alone = re.findall(r"\d: running the teacher on (\d+)", out)
    assert (len(alone) > len(parts)) != is_shared
