"""Run directories: one process, one configuration, one log."""

import json
import multiprocessing
import threading

import pytest

from kdkit.data.stream import Shares
from kdkit.io.files import staged
from kdkit.runs.configure import config_of
from kdkit.runs.directory import Run, open_run, with_values
from kdkit.runs.events import Best, Epoch, Measurement, RunFinished
from kdkit.training.distribution import Distribution

CONFIG = config_of("tinybert", {}, smoke=True)


def seeded(seed):
    return CONFIG.replace(training=CONFIG.training.replace(seed=seed))


def start(path, config=CONFIG):
    """Begins a run, or goes on; returns the config that it goes on with."""
    with open_run(path, config) as (run, found):
        run.write_config(found, {"command": "kdkit"})
        log_epoch(run, 1)
    return found


def log_epoch(run, epoch):
    where = {"arm": "student", "stage": "fine_tuning", "epoch": epoch}
    run.log(Epoch(**where, seconds=2.0, logs={}))


def require_refused(named, path, config=CONFIG, **options):
    with (
        pytest.raises(ValueError, match=named),
        open_run(path, config, **options),
    ):
        pass


def test_a_run_goes_on_with_what_was_resolved_at_its_start(tmp_path):
    """From the words of its start, and from its own config.json."""
    found = {"training.jit_compile": "update", "student.num_layers": 3}
    asked = {"training.jit_compile": False, "student.num_layers": 2}
    resolved = with_values(CONFIG, found, asked)
    start(tmp_path, resolved)
    assert start(tmp_path, CONFIG) == resolved
    assert start(tmp_path, Run(tmp_path).config) == resolved
    often = CONFIG.training.replace(checkpoint_minutes=1.0)
    often = start(tmp_path, CONFIG.replace(training=often))
    assert often.training.checkpoint_minutes == 1.0
    assert often.training.jit_compile == "update"
    require_refused(
        "num_layers: 2 -> 4",
        tmp_path,
        with_values(CONFIG, {"student.num_layers": 4}, {}),
    )


def test_stages_in_another_order_are_another_run(tmp_path):
    start(tmp_path)
    swapped = CONFIG.replace(stages=CONFIG.stages[::-1])
    require_refused("order of stages", tmp_path, swapped)


def test_a_model_may_move_and_a_second_one_may_not_come(tmp_path):
    """Models are compared by content, their number by the config."""
    start(tmp_path, CONFIG.replace(teacher=("/a/teacher",)))
    moved = CONFIG.replace(teacher=("/b/teacher",))
    assert start(tmp_path, moved) == Run(tmp_path).config == moved
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["provenance"] == {"command": "kdkit"}
    two = CONFIG.replace(teacher=("/b/teacher", "/c/teacher"))
    require_refused("teacher", tmp_path, two)


def test_a_run_goes_on_with_as_many_replicas(tmp_path):
    four, two = (
        Distribution(shares=Shares(count=number, total=number))
        for number in (4, 2)
    )
    with open_run(tmp_path / "run", CONFIG, distribution=four) as (run, _):
        run.write_config(CONFIG, {})
    assert run.config == CONFIG
    assert run.saved["replicas"] == 4
    with open_run(run.path, CONFIG, distribution=four):
        pass
    require_refused("4 replicas", run.path, distribution=two)
    start(tmp_path / "one")
    require_refused("1 replicas", tmp_path / "one", distribution=two)


def test_a_failed_preparation_leaves_no_config(tmp_path):
    for existed in (False, True):  # one that was there stays
        with pytest.raises(KeyError), open_run(tmp_path / "run", CONFIG):
            raise KeyError("no such teacher")
        assert (tmp_path / "run").exists() == existed
        (tmp_path / "run").mkdir(exist_ok=True)
    start(tmp_path / "run", seeded(5))


def test_only_an_own_or_an_empty_directory_becomes_a_run(tmp_path):
    start(tmp_path / "run" / "teacher_run", seeded(1))
    start(tmp_path / "run", seeded(2))  # next to what was made for it
    (tmp_path / "other" / "teacher_run").mkdir(parents=True)
    require_refused("teacher_run", tmp_path / "other")
    (tmp_path / "thesis.txt").write_text("do not overwrite")
    require_refused(r"thesis\.txt", tmp_path)


def test_a_digit_that_changed_in_a_line_is_noticed(tmp_path):
    """Or a report would show it, and a run go on with it."""
    run = Run(tmp_path)
    best = Best(metrics={3: (0.5, 1e-9)})
    run.log(RunFinished(seconds=1.25, best={"student": best}))
    (event,) = run.events()
    assert event.best == {"student": Best(metrics={"3": [0.5, 1e-9]})}
    log = tmp_path / "metrics.jsonl"
    line = log.read_text()
    places = [place for place, sign in enumerate(line) if sign.isdigit()]
    assert len(places) > 20
    for place in places:
        other = str((int(line[place]) + 1) % 10)
        log.write_text(line[:place] + other + line[place + 1 :])
        assert run.events() in ([], [event])  # as the last one of a time


def test_what_two_processes_log_at_one_time_is_read(tmp_path):
    """As `kdkit evaluate` does in a run that goes on."""
    run, numbers = Run(tmp_path), range(100)
    notes = [Measurement(examples=number) for number in numbers]
    other = threading.Thread(target=lambda: [*map(run.log, notes)])
    other.start()
    for epoch in numbers:
        log_epoch(run, epoch)
    other.join()
    assert run.events(Measurement) == notes
    assert len(run.events(Epoch)) == len(numbers)


def test_what_a_killed_process_left_is_removed(tmp_path):
    left = ".config.json.kdkit-abcd1234"
    run = tmp_path / "run"
    (run / left).mkdir(parents=True)  # killed before it wrote its settings
    start(run)
    assert not (run / left).exists()
    (run / "corpus" / left).mkdir(parents=True)
    (run / "teacher_run" / left).mkdir(parents=True)
    (run / "teacher_run" / ".lock").touch()
    start(run)
    assert not (run / "corpus" / left).exists()
    # That of a run in it is the other one's to remove.
    assert (run / "teacher_run" / left).exists()
    # Nor is what another process writes in a finished run, for minutes.
    Run(run).log(RunFinished(seconds=1.0, best={}))
    with staged(run / "exports" / "student.tflite") as partial:
        partial.write_bytes(b"weights")
        start(run)
    assert (run / "exports" / "student.tflite").read_bytes() == b"weights"


def hold(path, held, release):
    with open_run(path, CONFIG):
        held.set()
        release.wait(300)


def test_a_second_process_is_refused_and_the_lock_dies_with_the_first(tmp_path):
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    process = context.Process(target=hold, args=(tmp_path, held, release))
    process.start()
    try:
        assert held.wait(300)
        require_refused("Another process", tmp_path)
    finally:
        process.kill()
        process.join()
    with open_run(tmp_path, CONFIG):
        pass
