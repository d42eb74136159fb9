"""Processes that train together, as on several machines, on loopback."""

import json
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from comparing import assert_same_run
from helpers import ON_TASKS, free_ports, read_events
from processes import MAIN, SMALL, run_processes, run_settings

from kdkit.cli.options import shard_part
from kdkit.cli.resolving import with_strategy
from kdkit.errors import RunError, UsageError
from kdkit.io.files import digest
from kdkit.recipes import RECIPES
from kdkit.runs import smoke
from kdkit.runs.sweep import validate_axes
from kdkit.settings import override
from kdkit.training import distill, train_teacher
from kdkit.training.cluster import Process, process_of_launcher, wait_for_all

TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
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
    "from kdkit.io.signals import terminable\n"
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
    "from kdkit.runs.inputs import require_same_inputs\n"
    "from kdkit.runs.directory import open_run\n"
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
    "            require_same_inputs(run, data, all)\n"
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
@pytest.mark.parametrize("recipe", ON_TASKS)
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
    assert "continuing after epoch 2" in outputs[0]
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
        assert "The same command continues from the saved files" in output
    assert len(read_events(run, "epoch")) == 2
    status, outputs = run_settings(["train-teacher"], settings, run, [MAIN] * 2)
    assert status == [0, 0], outputs
    assert "continuing after epoch 2" in outputs[0]


@pytest.fixture
def launch(monkeypatch):
    """Sets the variables of a launcher, and no others."""
    for name in list(os.environ):
        if name.startswith("SLURM") or name in ("TF_CONFIG", *TORCHRUN):
            monkeypatch.delenv(name)

    def set_all(variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_all


def tf_config(index=0, kind="worker", **cluster):
    return {
        "TF_CONFIG": json.dumps(
            {"cluster": cluster, "task": {"type": kind, "index": index}}
        )
    }


def slurm(hosts, tasks, procid=0, **others):
    return {
        "SLURM_STEP_NODELIST": hosts,
        "SLURM_STEP_NUM_TASKS": str(len(tasks.split(","))),
        "SLURM_STEP_TASKS_PER_NODE": tasks,
        "SLURM_PROCID": str(procid),
        "SLURM_JOB_ID": "40007",
        **others,
    }


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"TF_CONFIG": "{"}, "Cannot read TF_CONFIG"),
        ({"TF_CONFIG": "[]"}, "Cannot read TF_CONFIG"),
        ({"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}}'}, "Cannot read"),
        (tf_config(worker=["a", "b"]), "Cannot read TF_CONFIG"),
        (tf_config(worker=["a:1", "b:1"], ps=["c:1"]), "ps is not a chief"),
        (tf_config(2, worker=["a:1", "b:1"]), "Cannot read TF_CONFIG"),
        (tf_config(kind="chief", worker=["a:1", "b:1"]), "Cannot read"),
        (tf_config(worker=["a:1"]), "Received: 1"),
        (slurm("a,b", "2,1"), "--ntasks-per-node 1"),
        (slurm("node[01", "1"), "--ntasks-per-node 1"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "Received: RANK and WORLD_SIZE"),
        ({}, "Received: neither"),
    ],
    ids=range(12),
)
def test_what_a_launcher_says_wrongly_is_refused(variables, told, launch):
    launch(variables)
    with pytest.raises(UsageError, match=told):
        process_of_launcher()


@pytest.mark.parametrize(
    ("variables", "process"),
    [
        (
            tf_config(chief=["a:5"], worker=["b:6"]),
            Process(1, ("a:5", "b:6")),
        ),
        (
            tf_config(0, "chief", chief=["a:5"], worker=["b:6"]),
            Process(0, ("a:5", "b:6")),
        ),
        (
            slurm("node[08-09],b", "1,1,1", 1),
            # Sorted, as TensorFlow has them.
            Process(1, ("b:20007", "node08:20007", "node09:20007")),
        ),
        (
            slurm("n[2,10]", "1,1", 0, SLURMD_NODENAME="n2"),
            Process(1, ("n10:20007", "n2:20007")),
        ),
    ],
    ids=["worker", "chief", "slurm", "slurm by name"],
)
def test_launchers_say_which_process_this_is(variables, process, launch):
    launch(variables)
    assert process_of_launcher() == process


def loopback(number):
    return tuple(f"127.0.0.1:{port}" for port in free_ports(number))


def test_processes_wait_until_all_have_started():
    addresses = loopback(3)

    def start(rank):
        wait_for_all(Process(rank, addresses), 60)
        host, port = addresses[rank].split(":")
        return socket.create_server((host, int(port)))  # as TensorFlow does

    with ThreadPoolExecutor(3) as pool:
        early = [pool.submit(start, rank) for rank in range(2)]
        time.sleep(0.5)
        assert not any(wait.done() for wait in early)
        for wait in (*early, pool.submit(start, 2)):
            wait.result().close()


def test_a_process_that_is_missing_is_named_in_time():
    addresses = loopback(2)
    with pytest.raises(
        RunError, match=rf"waited 0 s. Missing: process 1 \({addresses[1]}\)"
    ):
        wait_for_all(Process(0, addresses), 0.3)


def test_a_port_that_another_program_has_is_told():
    addresses = loopback(2)
    port = int(addresses[0].split(":")[1])
    with (
        socket.create_server(("", port)),
        pytest.raises(RunError, match=f"cannot use port {port}"),
    ):
        wait_for_all(Process(0, addresses), 0.3)


def test_one_process_makes_the_runs_of_a_sweep():
    settings = with_strategy(
        smoke.distillation(RECIPES["tinybert"]), "multi_worker"
    )
    with pytest.raises(UsageError, match="many runs"):
        validate_axes(settings, ())


@pytest.mark.parametrize(
    ("text", "part"), [(None, None), ("1/4", (0, 4)), ("4/4", (3, 4))]
)
def test_shards_are_counted_from_1(text, part):
    assert shard_part(text) == part


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "-1/2"])
def test_shards_that_are_none_are_refused(text):
    with pytest.raises(UsageError, match="such as 1/4"):
        shard_part(text)


@pytest.mark.parametrize(
    ("variables", "part"),
    [
        ({"RANK": "1", "WORLD_SIZE": "3"}, (1, 3)),
        (slurm("a", "2,2", 1), (1, 2)),
        (tf_config(1, worker=["a:1", "b:1"]), (1, 2)),
    ],
    ids=["torchrun", "srun", "TF_CONFIG"],
)
def test_a_launcher_says_the_shard(variables, part, launch):
    launch(variables)
    assert shard_part("launcher") == part


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"RANK": "1"},
        {"RANK": "zero", "WORLD_SIZE": "2"},
        {"RANK": "2", "WORLD_SIZE": "2"},
    ],
    ids=range(4),
)
def test_a_launcher_without_numbers_says_no_shard(variables, launch):
    launch(variables)
    with pytest.raises(UsageError, match="WORLD_SIZE"):
        shard_part("launcher")
