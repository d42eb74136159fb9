"""The nine GLUE tasks in their official layout, and generated sentiment."""

import numpy as np
import pytest
import tensorflow_datasets

from kdkit.tasks import TASKS, get_task
from kdkit.tasks.metrics import METRICS

GLUE = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")

# columns of train.tsv, or none, and two rows with their labels
OFFICIAL = {
    "cola": (None, [("gj04\t1\t\tIt rains.", 1), ("gj04\t0\t*\tIt rain.", 0)]),
    "sst2": ("sentence\tlabel", [("a joy \t1", 1), ("a bore \t0", 0)]),
    "mrpc": (
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        [("1\t7\t8\tHe said .\tHe did .", 1), ("0\t7\t9\tA\tB", 0)],
    ),
    "stsb": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1"
        "\tsentence2\tscore",
        [
            ("0\tg\tf\t2012\t1\tnone\tnone\tA dog\tA cat\t2.500", 2.5),
            ("1\tg\tf\t2012\t2\tnone\tnone\tA dog\tA dog\t5.000", 5.0),
        ],
    ),
    "qqp": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        [("3\t4\t5\tWhy?\tHow?\t0", 0), ('6\t7\t8\tWhy?\t"Why\nso?"\t1', 1)],
    ),
    "mnli": (
        "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse"
        "\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse\tsentence1"
        "\tsentence2\tlabel1\tgold_label",
        [
            ("0\t1\t1n\tfiction\tb\tb\tp\tp\tOne\tTwo\tneutral\tneutral", 1),
            ("1\t2\t2e\tfiction\tb\tb\tp\tp\tOne\tTwo\tneutral\tentailment", 0),
            ("2\t3\t3c\tx\tb\tb\tp\tp\tOne\tTwo\tneutral\tcontradiction", 2),
        ],
    ),
    "qnli": (
        "index\tquestion\tsentence\tlabel",
        [
            ("0\tWhen?\tIn 1066.\tentailment", 0),
            ("1\tWhen?\tIn Kent.\tnot_entailment", 1),
        ],
    ),
    "rte": (
        "index\tsentence1\tsentence2\tlabel",
        [("0\tA\tB\tnot_entailment", 1), ("1\tA\tA\tentailment", 0)],
    ),
    "wnli": (
        "index\tsentence1\tsentence2\tlabel",
        [("0\tA\tB\t1", 1), ("1\tA\tC\t0", 0)],
    ),
}
FOLDERS = {
    "cola": "CoLA",
    "sst2": "SST-2",
    "mrpc": "MRPC",
    "stsb": "STS-B",
    "qqp": "QQP",
    "mnli": "MNLI",
    "qnli": "QNLI",
    "rte": "RTE",
    "wnli": "WNLI",
}


def write_table(data_dir, name, stem, header, rows):
    folder = data_dir / FOLDERS[name]
    folder.mkdir(exist_ok=True)
    lines = [*([] if header is None else [header]), *rows]
    content = "".join(f"{line}\n" for line in lines)
    (folder / f"{stem}.tsv").write_bytes(content.encode("utf-8"))


@pytest.mark.parametrize("name", GLUE)
def test_glue_task_reads_its_official_layout(tmp_path, name):
    header, rows = OFFICIAL[name]
    write_table(tmp_path, name, "train", header, [row for row, _ in rows])
    examples = TASKS[name].load("train", tmp_path)
    assert len(examples.texts) == TASKS[name].num_texts
    assert all(text for column in examples.texts for text in column)
    np.testing.assert_array_equal(examples.labels, [label for _, label in rows])


def test_mnli_has_matched_and_mismatched_splits(tmp_path):
    header, rows = OFFICIAL["mnli"]
    for stem, (row, _) in zip(
        ("dev_matched", "dev_mismatched"), rows, strict=False
    ):
        write_table(tmp_path, "mnli", stem, header, [row])
    task = TASKS["mnli"]
    assert task.load("dev", tmp_path).labels.tolist() == [1]
    assert task.load("dev_mismatched", tmp_path).labels.tolist() == [0]
    header = header.removesuffix("\tlabel1\tgold_label")
    row = "0\t1\t1n\tfiction\tb\tb\tp\tp\tOne\tTwo"
    for stem, split in (
        ("test_matched", "test"),
        ("test_mismatched", "test_mismatched"),
    ):
        write_table(tmp_path, "mnli", stem, header, [row])
        assert task.load(split, tmp_path).labels is None


def test_cola_test_file_has_a_header_and_no_labels(tmp_path):
    write_table(tmp_path, "cola", "test", "index\tsentence", ["0\tIt rains."])
    examples = TASKS["cola"].load("test", tmp_path)
    assert examples.texts == (["It rains."],)
    assert examples.labels is None


@pytest.mark.parametrize("name", GLUE)
def test_glue_task_agrees_with_tensorflow_datasets(name):
    task = TASKS[name]
    configs = {
        config.name: config
        for config in tensorflow_datasets.builder_cls("glue").BUILDER_CONFIGS
    }
    dataset, config_name = task.tfds.name.split("/")
    config = configs[config_name]
    assert dataset == "glue"
    assert config_name == name
    assert task.tfds.text_features == tuple(config.text_features)
    classes = config.label_classes
    assert task.class_names == (classes and tuple(classes))
    assert set(task.tfds.splits) == set(task.layout.files)


@pytest.mark.parametrize("name", TASKS)
def test_task_is_consistent(name):
    task = get_task(name)
    assert task.name == name
    assert task.primary_metric in task.metrics
    assert set(task.metrics) <= set(METRICS)
    assert {"train", "dev", "test"} <= set(task.splits)
    assert set(task.other_dev_splits) <= set(task.splits)
    if not task.has_classes_in_data:
        assert task.is_regression == (task.num_classes == 1)
        assert task.head.num_classes == task.num_classes


@pytest.mark.parametrize("name", GLUE)
def test_glue_task_has_its_folder_and_tinyberts_lengths(name):
    task = get_task(name)
    assert task.sequence_length == {1: 64, 2: 128}[task.num_texts]
    assert task.layout.folder == FOLDERS[name]
    assert len(task.layout.text_columns) == task.num_texts


def test_task_without_data_dir_asks_tensorflow_datasets(monkeypatch):
    def load(name, split):
        raise ConnectionError(f"{name} {split}")

    monkeypatch.setattr(tensorflow_datasets, "load", load)
    with pytest.raises(ConnectionError, match="mnli validation_mismatched"):
        TASKS["mnli"].load("dev_mismatched")
