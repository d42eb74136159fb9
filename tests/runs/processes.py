"""Runs of several processes on loopback."""

import json
import os
import subprocess
import sys
import threading

from helpers import free_ports

from kdkit.settings import to_dict

SECONDS = 300  # until a process counts as hanging
# Batches of 8, 8 and 3 rows.
SMALL = [
    "data.max_train_rows=19",
    "data.num_buckets=1",
    "stages.0.batch_size=8",
    "stages.0.keep_best=false",
]
MAIN = (
    "import sys\n"
    "from helpers import small_dev_set\n"
    "from kdkit.cli.main import main\n"
    "with small_dev_set():\n"
    "    sys.exit(main())"
)


def run_processes(arguments, programs):
    """Runs a command in several processes; returns their status and output."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(len(programs))]
    started = []
    for index, program in enumerate(programs):
        config = {
            "cluster": {"worker": addresses},
            "task": {"type": "worker", "index": index},
        }
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", program, *arguments],
                env={
                    **os.environ,
                    "TF_CONFIG": json.dumps(config),
                    "PYTHONPATH": os.pathsep.join(sys.path),
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    watch = threading.Timer(SECONDS, lambda: [one.kill() for one in started])
    watch.start()
    outputs = [process.communicate()[0] for process in started]
    watch.cancel()
    return [process.returncode for process in started], outputs


def run_settings(verb, settings, run_dir, programs):
    """Runs settings in several processes, by the command line."""
    config = run_dir.with_suffix(".json")
    config.write_text(json.dumps(to_dict(settings)))
    return run_processes(
        [*verb, "--config", str(config), "--run-dir", str(run_dir)], programs
    )
