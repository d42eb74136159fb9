"""Processes that train together, as on several machines, on loopback."""

import signal

import pytest
from comparing import assert_same_run
from helpers import read_events
from processes import MAIN
from processes import SMALL
from processes import run_processes
from processes import run_settings

from kdkit.cli.options import part_of
from kdkit.cli.resolving import with_strategy
from kdkit.errors import UsageError
from kdkit.files import digest
from kdkit.recipes import RECIPES
from kdkit.recipes import smoke
from kdkit.settings import override
from kdkit.training import distill
from kdkit.training import train_teacher
from kdkit.training.cluster import Process
from kdkit.training.cluster import process_of_launcher
from kdkit.training.sweep import check_axes

# Dies without a word before its third epoch.
DYING = (
    "import os, signal\n"
    "from kdkit.training.callbacks import SeedEpochs\n"
    "def die(self, epoch, logs=None):\n"
    "    if epoch == 2:\n"
    "        os.kill(os.getpid(), signal.SIGKILL)\n"
    f"SeedEpochs.on_epoch_begin = die\n{MAIN}"
)

# Before their third epoch process 1 gets SIGTERM, and process 0 when it waits
# for it.
STOPPED = (
    "import json, os, signal, threading, time\n"
    "from kdkit.training.callbacks import SeedEpochs\n"
    "def stop(self, epoch, logs=None):\n"
    "    if epoch == 2:\n"
    "        rank = json.loads(os.environ['TF_CONFIG'])['task']['index']\n"
    "        threading.Timer(\n"
    "            2 * (1 - rank), os.kill, (os.getpid(), signal.SIGTERM)\n"
    "        ).start()\n"
    "        time.sleep(rank)\n"
    f"SeedEpochs.on_epoch_begin = stop\n{MAIN}"
)
# The same without a model.
WAITING = (
    "import os, signal, threading, time, types\n"
    "from kdkit.stopping import terminable\n"
    "from kdkit.training.distribution import training_on\n"
    "settings = types.SimpleNamespace(strategy='multi_worker')\n"
    "with terminable(), training_on(settings) as distribution:\n"
    "    distribution.barrier()\n"
    "    seconds = 1 - distribution.rank\n"
    "    threading.Timer(\n"
    "        seconds, os.kill, (os.getpid(), signal.SIGTERM)\n"
    "    ).start()\n"
    "    if distribution.is_chief:\n"
    "        distribution.barrier()\n"
    "    time.sleep(30)\n"
)
# Opens runs with the same of everything, with other settings, other data.
DIFFERING = (
    "import os, json, sys\n"
    "from kdkit.errors import UsageError\n"
    "from kdkit.training.distribution import open_distribution\n"
    "from kdkit.training.inputs import check_inputs\n"
    "from kdkit.training.run_directory import open_run\n"
    "rank = json.loads(os.environ['TF_CONFIG'])['task']['index']\n"
    "all = open_distribution('multi_worker')\n"
    "stages = [{'name': 'fine_tuning', 'learning_rate': 0.1}]\n"
    "other = [{'name': 'fine_tuning', 'learning_rate': 0.1 + rank}]\n"
    "same = {'seed': 0, 'stages': stages}\n"
    "for folder, settings, data in (\n"
    "    ('same', same, {'train': 'a'}),\n"
    "    ('settings', {'seed': rank, 'stages': other}, {'train': 'a'}),\n"
    "    ('data', same, {'train': 'a' + rank * 'b'}),\n"
    "):\n"
    "    try:\n"
    "        with open_run(\n"
    "            f'{sys.argv[1]}/{folder}', settings, distribution=all\n"
    "        ) as run:\n"
    "            check_inputs(run, data, all)\n"
    "            print('went on with', folder)\n"
    "    except UsageError as error:\n"
    "        print(error)\n"
)


@pytest.fixture(scope="module")
def teacher_settings():
    return override(smoke.TEACHER, SMALL)


@pytest.fixture(scope="module")
def teacher_run(teacher_settings, tmp_path_factory):
    path = tmp_path_factory.mktemp("one") / "teacher"
    train_teacher(teacher_settings, path)
    return path


@pytest.mark.large
def test_three_processes_have_the_numbers_of_one(
    teacher_settings, teacher_run, tmp_path
):
    settings = with_strategy(teacher_settings, "multi_worker")
    status, outputs = run_settings(
        ["train-teacher"], settings, tmp_path / "run", [MAIN] * 3
    )
    assert status == [0, 0, 0], outputs
    assert_same_run(tmp_path / "run", teacher_run)
    # One process wrote.
    assert len(list((tmp_path / "run").rglob("events.out.*"))) == 2
    assert len(read_events(tmp_path / "run", "run_finished")) == 1
    assert "epoch 1/1" in outputs[0]
    assert "epoch 1/1" not in outputs[1]


@pytest.mark.large
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_in_two_processes_is_that_in_one(
    recipe, teacher_run, tmp_path
):
    settings = smoke.distillation(RECIPES[recipe])
    changes = [*SMALL, f"teacher={teacher_run}"]
    if settings.corpus is not None:
        changes.append("corpus.max_texts=60")
        changes.append("pretrained.corpus.max_texts=60")
    settings = override(settings, changes)
    distill(settings, tmp_path / "one")
    status, outputs = run_settings(
        ["distill", recipe],
        with_strategy(settings, "multi_worker"),
        tmp_path / "run",
        [MAIN] * 2,
    )
    assert status == [0, 0], outputs
    assert_same_run(tmp_path / "run", tmp_path / "one")


@pytest.mark.large
def test_a_process_that_dies_ends_the_others_and_the_run_goes_on(
    teacher_settings, tmp_path
):
    settings = override(
        with_strategy(teacher_settings, "multi_worker"), ["stages.0.epochs=4"]
    )
    run = tmp_path / "run"
    status, outputs = run_settings(
        ["train-teacher"], settings, run, [MAIN, DYING]
    )
    assert status == [1, -signal.SIGKILL], outputs
    assert "another process (1) stopped or cannot be reached" in outputs[0]
    assert len(read_events(run, "epoch")) == 2
    stopped = digest(run / "metrics.jsonl")
    status, outputs = run_settings(
        ["train-teacher"], settings, run, [MAIN, MAIN]
    )
    assert status == [0, 0], outputs
    assert "going on after epoch 2" in outputs[0]
    assert digest(run / "metrics.jsonl") != stopped
    train_teacher(
        override(teacher_settings, ["stages.0.epochs=4"]), tmp_path / "one"
    )
    assert_same_run(run, tmp_path / "one")


@pytest.mark.large
def test_sigterm_ends_processes_also_those_that_wait_for_others():
    status, outputs = run_processes([], [WAITING] * 2)
    assert status == [143, 143], outputs


@pytest.mark.large
def test_processes_with_other_settings_or_data_are_refused_by_name(tmp_path):
    status, outputs = run_processes([str(tmp_path)], [DIFFERING] * 2)
    assert status == [0, 0], outputs
    for output in outputs:
        assert "went on with same" in output
        assert "went on with settings" not in output
        assert "process 1: seed: 0 -> 1\n" in output
        assert "stages.fine_tuning.learning_rate: 0.1 -> 1.1\n" in output
        assert "went on with data" not in output
        assert 'process 1: train: "a" -> "ab"\n' in output
    assert not (tmp_path / "settings").exists()


@pytest.mark.large
def test_a_run_whose_processes_get_sigterm_says_how_to_go_on_and_does(
    teacher_settings, tmp_path
):
    settings = override(
        with_strategy(teacher_settings, "multi_worker"), ["stages.0.epochs=3"]
    )
    run = tmp_path / "run"
    status, outputs = run_settings(
        ["train-teacher"], settings, run, [STOPPED] * 2
    )
    assert status == [143, 143], outputs
    for output in outputs:
        assert "The same command goes on from what is saved" in output
    assert len(read_events(run, "epoch")) == 2
    status, outputs = run_settings(["train-teacher"], settings, run, [MAIN] * 2)
    assert status == [0, 0], outputs
    assert "going on after epoch 2" in outputs[0]


@pytest.mark.parametrize(
    "variables",
    [
        {"TF_CONFIG": "{"},
        {"TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:1"]}}'},
        {
            "TF_CONFIG": '{"cluster": {"worker": ["a", "b"]}, "task": '
            '{"type": "worker", "index": 0}}'
        },
        {
            "TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:1"], "ps": '
            '["c:1"]}, "task": {"type": "worker", "index": 0}}'
        },
        {
            "TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:1"]}, "task": '
            '{"type": "worker", "index": 2}}'
        },
        {
            "TF_CONFIG": '{"cluster": {"worker": ["a:1"]}, "task": '
            '{"type": "worker", "index": 0}}'
        },
        {"RANK": "0", "WORLD_SIZE": "2"},
        {"RANK": "zero", "WORLD_SIZE": "2", "MASTER_ADDR": "a"},
        {
            "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a",
            "LOCAL_WORLD_SIZE": "two",
        },
        {},
    ],
)  # fmt: skip
def test_what_a_launcher_says_wrongly_is_refused(variables):
    with pytest.raises(UsageError):
        process_of_launcher(variables)


@pytest.mark.parametrize(
    ("variables", "process"),
    [
        (
            {
                "TF_CONFIG": '{"cluster": {"chief": ["a:5"], "worker": '
                '["b:6"]}, "task": {"type": "worker", "index": 0}}'
            },
            Process(1, 2, ("a", 5), ("a:5", "b:6")),
        ),
        (
            {
                "SLURM_STEP_NODELIST": "node[08-11,14],other3",
                "SLURM_PROCID": "2",
                "SLURM_STEP_NUM_TASKS": "6",
                "SLURM_STEP_TASKS_PER_NODE": "1(x6)",
                "SLURM_JOB_ID": "40007",
            },
            Process(2, 6, ("node08", 20_007)),
        ),
        (
            {
                "SLURM_STEP_NODELIST": "gpu-a,gpu-b,gpu-c",
                "SLURM_PROCID": "0",
                "SLURM_STEP_NUM_TASKS": "5",
                "SLURM_STEP_TASKS_PER_NODE": "1,2(x2)",
                "SLURM_JOB_ID": "1",
            },
            Process(0, 5, ("gpu-a", 20_001), on_machine=2),
        ),
        (
            {
                "RANK": "1",
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "a",
                "MASTER_PORT": "7000",
                "LOCAL_WORLD_SIZE": "2",
            },
            Process(1, 2, ("a", 7001), on_machine=2),
        ),
    ],
)
def test_launchers_say_which_process_this_is(variables, process):
    assert process_of_launcher(variables) == process


def test_one_process_makes_the_runs_of_a_sweep():
    settings = with_strategy(
        smoke.distillation(RECIPES["tinybert"]), "multi_worker"
    )
    with pytest.raises(UsageError, match="many runs"):
        check_axes(settings, ())


@pytest.mark.parametrize(
    ("text", "part"), [(None, None), ("1/4", (0, 4)), ("4/4", (3, 4))]
)
def test_shards_are_counted_from_1(text, part):
    assert part_of(text) == part


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "-1/2"])
def test_shards_that_are_none_are_refused(text):
    with pytest.raises(UsageError, match="such as 1/4"):
        part_of(text)


def test_a_launcher_says_the_shard(monkeypatch):
    for name, value in (
        ("RANK", "1"), ("WORLD_SIZE", "3"), ("MASTER_ADDR", "a")
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    assert part_of("launcher") == (1, 3)
