"""Runs on a task: with labels, a teacher, a cache, augmented rows, devices."""

import pytest
from run_checks import check_run
from runs import RUNS

pytestmark = pytest.mark.xdist_group("tasks")
NAMES = [name for name, run in RUNS.items() if run.kind != "text"]


@pytest.mark.parametrize("name", NAMES)
def test_a_run_on_a_task_has_the_golden_numbers(name, workspace):
    check_run(workspace, name)
