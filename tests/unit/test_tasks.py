"""The built-in tasks: their files in the official layouts, their fields."""

import json

import keras_hub
import numpy as np
import pytest
import tensorflow_datasets
from kit.tasks import TAGS, write_conll, write_polyphone

from kdkit.losses import SoftBinaryCrossEntropy
from kdkit.recipes import RECIPES
from kdkit.tasks import TASKS, get_task

NO_LABEL, UNKNOWN = -1, -2
# Of the nine GLUE tasks: the folder, the columns of train.tsv, or none, and
# rows with their labels.
GLUE = {
    "cola": (
        "CoLA",
        None,
        [("gj04\t1\t\tIt rains.", 1), ("gj04\t0\t*\tIt rain.", 0)],
    ),
    "sst2": ("SST-2", "sentence\tlabel", [("a joy \t1", 1), ("a bore \t0", 0)]),
    "mrpc": (
        "MRPC",
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        [("1\t7\t8\tHe said .\tHe did .", 1), ("0\t7\t9\tA\tB", 0)],
    ),
    "stsb": (
        "STS-B",
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1"
        "\tsentence2\tscore",
        [
            ("0\tg\tf\t2012\t1\tnone\tnone\tA dog\tA cat\t2.500", 2.5),
            ("1\tg\tf\t2012\t2\tnone\tnone\tA dog\tA dog\t5.000", 5.0),
        ],
    ),
    "qqp": (
        "QQP",
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        [("3\t4\t5\tWhy?\tHow?\t0", 0), ('6\t7\t8\tWhy?\t"Why\nso?"\t1', 1)],
    ),
    "mnli": (
        "MNLI",
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
        "QNLI",
        "index\tquestion\tsentence\tlabel",
        [
            ("0\tWhen?\tIn 1066.\tentailment", 0),
            ("1\tWhen?\tIn Kent.\tnot_entailment", 1),
        ],
    ),
    "rte": (
        "RTE",
        "index\tsentence1\tsentence2\tlabel",
        [("0\tA\tB\tnot_entailment", 1), ("1\tA\tA\tentailment", 0)],
    ),
    "wnli": (
        "WNLI",
        "index\tsentence1\tsentence2\tlabel",
        [("0\tA\tB\t1", 1), ("1\tA\tC\t0", 0)],
    ),
}


def written(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


@pytest.mark.parametrize("name", GLUE)
def test_glue_task_reads_its_official_layout(tmp_path, name):
    folder, header, rows = GLUE[name]
    lines = [*([] if header is None else [header]), *(row for row, _ in rows)]
    written(tmp_path / folder / "train.tsv", *lines)
    task = TASKS[name]
    examples = task.load("train", tmp_path)
    assert len(examples.texts) == task.num_texts
    assert all(text for column in examples.texts for text in column)
    assert examples.labels.tolist() == [label for _, label in rows]
    # TinyBERT's lengths.
    assert task.sequence_length == {1: 64, 2: 128}[task.num_texts]


@pytest.mark.parametrize("name", GLUE)
def test_glue_task_agrees_with_tensorflow_datasets(name):
    task = TASKS[name]
    configs = {
        config.name: config
        for config in tensorflow_datasets.builder_cls("glue").BUILDER_CONFIGS
    }
    assert task.tfds.name == f"glue/{name}"
    assert task.tfds.text_features == tuple(configs[name].text_features)
    classes = configs[name].label_classes
    assert task.class_names == (classes and tuple(classes))
    assert set(task.tfds.splits) == set(task.layout.files)


def test_without_a_folder_tensorflow_datasets_are_asked(monkeypatch):
    def load(name, split, batch_size):
        raise ConnectionError(f"{name} {split}")

    monkeypatch.setattr(tensorflow_datasets, "load", load)
    with pytest.raises(ConnectionError, match="mnli validation_mismatched"):
        TASKS["mnli"].load("dev_mismatched")


@pytest.mark.parametrize(
    ("split", "file", "number"),
    [
        ("dev", "dev_matched", 0),
        ("dev_mismatched", "dev_mismatched", 1),
        ("test", "test_matched", None),
        ("test_mismatched", "test_mismatched", None),
    ],
)
def test_mnli_has_matched_and_mismatched_splits(split, file, number, tmp_path):
    folder, header, rows = GLUE["mnli"]
    if number is None:
        lines = [header.removesuffix("\tlabel1\tgold_label")]
        lines.append("0\t1\t1n\tfiction\tb\tb\tp\tp\tOne\tTwo")
    else:
        lines = [header, rows[number][0]]
    written(tmp_path / folder / f"{file}.tsv", *lines)
    labels = TASKS["mnli"].load(split, tmp_path).labels
    if number is None:
        assert labels is None
    else:
        assert labels.tolist() == [rows[number][1]]


def test_colas_test_file_has_a_header_and_no_labels(tmp_path):
    written(tmp_path / "CoLA/test.tsv", "index\tsentence", "0\tIt rains.")
    examples = TASKS["cola"].load("test", tmp_path)
    assert examples.texts == (["It rains."],)
    assert examples.labels is None


@pytest.mark.parametrize("name", TASKS)
def test_task_is_consistent(name):
    task = get_task(name)
    assert task.name == name
    assert task.primary_metric in task.metrics
    assert {"train", "dev", "test"} <= set(task.splits)
    assert set(task.other_dev_splits) <= set(task.splits)
    if not task.has_classes_in_data:
        assert task.is_regression == (task.num_classes == 1)
        assert task.head.num_classes == task.num_classes


PASSAGE = {
    "id": "middle7.txt",
    "article": "the plot is dull",
    "questions": ["is the plot fresh ?", "the plot"],
    "options": [["dull", "fresh", "warm", "cold"], ["a", "b", "c", "d d d"]],
    "answers": ["B", "D"],
}


def test_race_reads_lines_and_the_official_folders(tmp_path):
    for split in ("train", "dev"):
        file = tmp_path / "race_middle" / f"{split}_middle.jsonl"
        written(file, json.dumps(PASSAGE))
    rows = get_task("race_middle").load("train", tmp_path)
    assert rows.passages == [PASSAGE["article"]] * 2
    assert rows.questions == PASSAGE["questions"]
    assert rows.options[1] == ("a", "b", "c", "d d d")
    assert rows.labels.tolist() == [1, 3]
    high = json.dumps({**PASSAGE, "article": "high"})
    written(tmp_path / "RACE/dev/high/3.txt", high)
    assert len(get_task("race_high").load("dev", tmp_path)) == 2
    rows = get_task("race").load("dev", tmp_path)
    assert rows.passages == [PASSAGE["article"]] * 2 + ["high"] * 2


def test_conll_files_are_sentences_of_words_and_tags(tmp_path):
    write_conll(tmp_path, num_rows=2)
    task = get_task("conll").for_data(tmp_path)
    assert set(task.class_names) == set(TAGS)
    assert task.class_names[0] == "O"
    rows = task.load("train", tmp_path)
    assert len(rows) == 2
    tags = [task.class_names[number] for number in rows.labels[1]]
    assert tags == ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]
    assert rows.words[0][-1] == "."
    (tmp_path / "conll" / "tags.txt").write_text("O\nB-PER\nI-PER\n")
    assert get_task("conll").for_data(tmp_path).num_classes == 3


@pytest.mark.parametrize(
    ("text", "words", "tags"),
    [
        # Tabs alone separate the columns of lines that have them.
        (
            "pay\tVB\tO\n10\u00a0000\tCD\tB-MONEY\nEUR\tNN\tI-MONEY\t\n\n"
            "New York\tNNP\tB-LOC\n sleeps \tVB\tO \n\n \n\n",
            [("pay", "10\u00a0000", "EUR"), ("New York", "sleeps")],
            [["O", "B-MONEY", "I-MONEY"], ["B-LOC", "O"]],
        ),
        (
            "10\u00a0000  CD B-MONEY\nEUR NN O \n",
            [("10\u00a0000", "EUR")],
            [["B-MONEY", "O"]],
        ),
    ],
)
def test_columns_of_conll_files(text, words, tags, tmp_path):
    written(tmp_path / "conll" / "train.txt", text)
    task = get_task("conll").for_data(tmp_path)
    rows = task.load("train", tmp_path)
    assert rows.words == words
    named = [[task.class_names[tag] for tag in row] for row in rows.labels]
    assert named == tags


def write_polyphones(root, split, rows):
    sentences, readings = zip(*rows, strict=True)
    written(root / "polyphone" / f"{split}.sent", *sentences)
    written(root / "polyphone" / f"{split}.lb", *readings)


def test_the_marked_character_has_the_label(tmp_path):
    rows = [("来▁了▁ 。", "le5"), ("▁了▁解", "liao3"), ("你▁好▁", "hao3")]
    write_polyphones(tmp_path, "train", rows)
    task = get_task("polyphone").for_data(tmp_path)
    assert task.class_names == ("hao3", "le5", "liao3")
    assert task.kind.candidates == {"了": (1, 2), "好": (0,)}
    found = task.load("train", tmp_path)
    assert found.words == [("来", "了", "。"), ("了", "解"), ("你", "好")]
    assert [row.tolist() for row in found.labels] == [
        [NO_LABEL, 1, NO_LABEL], [2, NO_LABEL], [NO_LABEL, 0],
    ]  # fmt: skip


def test_readings_that_training_does_not_have_are_unknown(tmp_path):
    write_polyphones(tmp_path, "train", [("▁了▁", "le5"), ("▁好▁", "hao3")])
    rows = [
        ("▁了▁", "liao3"),  # a new reading
        ("▁了▁", "hao3"),  # another character's
        ("▁行▁", "hao3"),  # a new character with a known reading
        ("▁行▁", "xing2"),
    ]
    write_polyphones(tmp_path, "dev", rows)
    found = get_task("polyphone").load("dev", tmp_path)
    labels = [label for (label,) in found.labels]
    assert labels == [UNKNOWN, UNKNOWN, 0, UNKNOWN]


def test_without_a_training_file_every_tenth_row_of_dev_is_held_out(tmp_path):
    rows = [(f"{number}▁了▁", "le5") for number in range(20)]
    write_polyphones(tmp_path, "dev", rows)
    task = get_task("polyphone")
    train, dev = (task.load(split, tmp_path) for split in ("train", "dev"))
    assert dev.words == [("9", "了"), ("1", "9", "了")]
    assert len(train) == 18
    assert not set(dev.words) & set(train.words)
    write_polyphones(tmp_path, "train", rows)
    assert len(task.load("dev", tmp_path)) == 20


def test_the_vocabulary_is_the_characters_of_train_polyphones_first(tmp_path):
    write_polyphone(tmp_path)
    task = get_task("polyphone").for_data(tmp_path)
    rows = task.load("train", tmp_path)
    vocabulary = list(task.kind.vocabulary)
    assert vocabulary[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert set(vocabulary[5:8]) == set(task.kind.candidates)
    assert set(vocabulary[5:]) == {c for words in rows.words for c in words}
    assert len(set(vocabulary)) == len(vocabulary)
    tokenizer = keras_hub.tokenizers.BertTokenizer(vocabulary, lowercase=False)
    encoded = task.encode(rows, tokenizer, 16)
    for row in range(5):
        ids = encoded.row(row)[1:-1]
        pieces = [tokenizer.id_to_token(int(token)) for token in ids]
        assert pieces == list(rows.words[row])


def test_label_words_become_a_row_of_zeros_and_ones(tmp_path):
    words = ("joy", "fear", "anger")
    folder = tmp_path / "multi_label"
    written(folder / "labels.txt", *words)
    lines = "text\tlabels", "a\tjoy", "b\tanger, joy", "c\t"
    written(folder / "train.tsv", *lines)
    examples = get_task("multi_label").load("train", tmp_path)
    assert examples.texts == (["a", "b", "c"],)
    assert examples.labels.tolist() == [[1, 0, 0], [1, 0, 1], [0, 0, 0]]
    assert get_task("multi_label").for_data(tmp_path).class_names == words


def test_goemotions_has_the_official_layout(tmp_path):
    lines = "Love it!\t0,18\teebbqej", "Fine.\t27\ted00q6i"
    written(tmp_path / "goemotions" / "train.tsv", *lines)
    task = get_task("goemotions")
    labels = task.load("train", tmp_path).labels
    assert [
        [task.class_names[number] for number in np.flatnonzero(row)]
        for row in labels
    ] == [["admiration", "love"], ["neutral"]]


@pytest.mark.parametrize(
    ("recipe", "parity", "temperature", "is_scaled"),
    [
        ("tinybert", "tinybert", 1.0, False),
        ("vanilla_kd", None, 10.0, True),
        ("vanilla_kd", "pkd", 10.0, True),
    ],
)
def test_soft_labels_of_recipes_become_those_of_each_class(
    recipe, parity, temperature, is_scaled
):
    stages = RECIPES[recipe].stages_for(get_task("multi_label"), parity)
    (soft,) = [o for o in stages[-1].objectives if o.tap == "logits"]
    assert soft.loss == SoftBinaryCrossEntropy(
        temperature=temperature, scale_by_temperature_squared=is_scaled
    )
