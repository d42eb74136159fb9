"""The official GLUE files, if they are available."""

import numpy as np
import pytest

from kdkit.tasks import TASKS

NUM_ROWS = {
    "cola": (8551, 1043),
    "mrpc": (3668, 408),
    "rte": (2490, 277),
    "sst2": (67349, 872),
    "stsb": (5749, 1500),
    "wnli": (635, 71),
}


@pytest.mark.parametrize("name", NUM_ROWS)
def test_task_reads_the_official_files(data_dir, name):
    task = TASKS[name]
    task.check_data(("train", "dev"), data_dir / "glue")
    parts = [task.load(split, data_dir / "glue") for split in ("train", "dev")]
    assert tuple(len(part) for part in parts) == NUM_ROWS[name]
    for part in parts:
        assert len(part.texts) == task.num_texts
        if task.is_regression:
            assert part.labels.min() >= 0
            assert part.labels.max() <= 5
        else:
            np.testing.assert_array_equal(
                np.unique(part.labels), np.arange(task.num_classes)
            )


def test_task_reads_the_official_test_file_without_labels(data_dir):
    examples = TASKS["sst2"].load("test", data_dir / "glue")
    assert len(examples) == 1821
    assert examples.labels is None
    assert examples.texts[0][0] == "uneasy mishmash of styles and genres ."
