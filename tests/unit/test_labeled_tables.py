"""A user's own tables: formats, labels, the dev set aside, and mistakes."""

import csv
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from kdkit import tasks

HEADER = ("id", "review", "sentiment")
ROWS = [
    (1, 'He said: "fine", or\nso; it seems', "good"),
    (2, "naïve,\tand dull ", "bad"),
    (3, '"quoted"', "good"),
    (4, "2012", "so so"),
]
COLUMNS = {"text_column": "review", "label_column": "sentiment"}


def write_csv(path, **settings):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, **settings).writerows([HEADER, *ROWS])


def write_jsonl(path):
    lines = [json.dumps(dict(zip(HEADER, row, strict=True))) for row in ROWS]
    path.write_text("\n".join(lines))


def write_list(path):
    rows = [dict(zip(HEADER, row, strict=True)) for row in ROWS]
    path.write_text(json.dumps(rows, indent=1))


def arrow_table(rows=ROWS):
    columns = map(list, zip(*rows, strict=True))
    return pa.table(dict(zip(HEADER, columns, strict=True)))


def write_parquet(path):
    pa.parquet.write_table(arrow_table(), path)


def write_dataset(folder, names=None, rows=ROWS):
    """The files that `save_to_disk` of Hugging Face datasets writes."""
    folder.mkdir(parents=True)
    info = {"features": {"review": {"dtype": "string", "_type": "Value"}}}
    if names is not None:
        rows = [(*row[:2], names.index(row[2])) for row in rows]
        feature = {"names": names, "_type": "ClassLabel"}
        info["features"]["sentiment"] = feature
    table = arrow_table(rows)
    halves = table.slice(0, 2), table.slice(2)
    files = [f"data-{number:05}-of-00002.arrow" for number in range(2)]
    for name, half in zip(files, halves, strict=True):
        with (
            pa.OSFile(str(folder / name), "wb") as file,
            pa.ipc.new_stream(file, half.schema) as writer,
        ):
            writer.write_table(half)
    state = {"_data_files": [{"filename": name} for name in files]}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text(json.dumps(info))


def write_named_parquet(path):
    """As `to_parquet` of Hugging Face datasets writes classes."""
    names = ["bad", "good", "so so"]
    feature = {"names": names, "_type": "ClassLabel"}
    info = {"info": {"features": {"sentiment": feature}}}
    rows = [(*row[:2], names.index(row[2])) for row in ROWS]
    table = arrow_table(rows).replace_schema_metadata(
        {"huggingface": json.dumps(info)}
    )
    pa.parquet.write_table(table, path)


FORMATS = {
    "a.csv": write_csv,
    "semicolons.csv": lambda path: write_csv(path, delimiter=";"),
    "line ends.csv": lambda path: write_csv(path, lineterminator="\n"),
    "all.csv": lambda path: write_csv(path, quoting=csv.QUOTE_ALL),
    "tabs.csv": lambda path: write_csv(path, delimiter="\t"),
    "quoted.tsv": lambda path: write_csv(path, delimiter="\t"),
    "a.jsonl": write_jsonl,
    "a.json": write_list,
    "a.parquet": write_parquet,
    "named.parquet": write_named_parquet,
    "dataset": write_dataset,
    "numbered": lambda path: write_dataset(path, ["bad", "good", "so so"]),
}


@pytest.mark.parametrize("name", FORMATS)
def test_all_formats_give_the_same_examples(name, tmp_path):
    path = tmp_path / name
    FORMATS[name](path)
    task = tasks.from_table(test=path, **COLUMNS)
    examples = task.load("test")
    breaks = re.compile(r"[\t\r\n]+")
    expected = [breaks.sub(" ", row[1]).strip() for row in ROWS]
    assert examples.texts == (expected,)
    names = [task.class_names[number] for number in examples.labels]
    assert names == [row[2] for row in ROWS]
    assert task.class_names == ("bad", "good", "so so")
    assert task.name == path.stem


def test_a_byte_order_mark_is_no_part_of_the_first_heading(tmp_path):
    path = tmp_path / "excel.csv"
    path.write_bytes("review;sentiment\r\na;x\r\nb;y\r\n".encode("utf-8-sig"))
    assert len(tasks.from_table(test=path, **COLUMNS).load("test")) == 2


def test_the_splits_of_a_saved_dataset_are_found(tmp_path):
    folder = tmp_path / "films"
    names = ["so so", "good", "bad"]
    for split in ("train", "validation", "test"):
        write_dataset(folder / split, names)
    splits = {"splits": ["train", "validation", "test"]}
    (folder / "dataset_dict.json").write_text(json.dumps(splits))
    task = tasks.from_table(folder, **COLUMNS)
    assert task.splits == ("train", "dev", "test")
    assert task.class_names == tuple(names)  # as the dataset numbers them
    assert task.name == "films"
    assert task.load("train").labels.tolist() == [1, 2, 1, 0]


def write(path, rows, header="review,sentiment"):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def many(count, label=lambda n: "ab"[n % 2]):
    return [f"text {n},{label(n)}" for n in range(count)]


def test_a_tenth_is_set_aside_by_content(tmp_path):
    rows = many(200, lambda n: "rare" if n < 20 else "usual")
    task = tasks.from_table(write(tmp_path / "a.csv", rows), **COLUMNS)
    train, dev = task.load("train"), task.load("dev")
    assert len(train) == 180
    assert np.bincount(dev.labels).tolist() == [2, 18]
    assert not set(train.texts[0]) & set(dev.texts[0])
    assert sorted(train.texts[0] + dev.texts[0]) == sorted(
        row.split(",")[0] for row in rows
    )
    reverse = write(tmp_path / "b.csv", rows[::-1])
    again = tasks.from_table(reverse, **COLUMNS).load("dev")
    assert set(again.texts[0]) == set(dev.texts[0])
    described = task.table.description("dev")
    assert described == "dev: 10 % of a.csv set aside, 20 examples"


@pytest.mark.parametrize("is_score", [False, True])
def test_a_text_that_is_repeated_often_is_not_most_of_dev(is_score, tmp_path):
    for word in ("ok", "good", "great app", "so so"):
        rows = many(400) + [f"{word},b"] * 60 + [f"{word} film,c"] * 30
        rows += [f"rare {word},c"]
        if is_score:
            rows = [row.replace(",c", ",3") for row in rows]
            rows = [row.replace(",a", ",1").replace(",b", ",2") for row in rows]
        path = write(tmp_path / f"{word}.csv", rows)
        task = tasks.from_table(path, **COLUMNS, regression=is_score)
        dev = task.load("dev")
        assert len(dev) <= 48
        assert is_score or {*dev.labels} == {0, 1, 2}


@pytest.mark.parametrize("regression", [False, True])
def test_hidden_labels_of_a_test_split_are_none(regression, tmp_path):
    train = write(tmp_path / "a.csv", many(40, lambda n: n % 2))
    test = write(tmp_path / "b.csv", many(9, lambda n: -1))
    files = {"train": train, "test": test, "regression": regression}
    task = tasks.from_table(**files, **COLUMNS)
    assert task.load("test").labels is None


def test_the_same_text_is_on_one_side(tmp_path):
    texts = [f"word{n}" for n in range(30)]
    rows = [f"{text},x" for text in texts] + [f"{text}!,y" for text in texts]
    rows += [f"{text.upper()}  ,x" for text in texts]
    task = tasks.from_table(write(tmp_path / "a.csv", rows), **COLUMNS)
    words = [
        {re.sub(r"\W", "", text).lower() for text in task.load(split).texts[0]}
        for split in ("train", "dev")
    ]
    assert not words[0] & words[1]
    assert words[0] | words[1] == set(texts)


def test_pairs_in_the_other_order_are_on_one_side(tmp_path):
    pairs = [(f"a{n}", f"b{n}") for n in range(40)]
    rows = [f"{a},{b},x\n{b},{a},y" for a, b in pairs]
    table = write(tmp_path / "a.csv", rows, "a,b,c")
    task = tasks.from_table(table, text_column=["a", "b"], label_column="c")
    aside = zip(*task.load("dev").texts, strict=True)
    numbers = [one[1:] for one, _ in aside]
    assert len(numbers) == 8
    assert sorted(numbers) == sorted(2 * [*set(numbers)])


def test_of_scores_each_ten_neighbours_give_one(tmp_path):
    scores = np.random.default_rng(0).permutation(100)
    table = write(tmp_path / "a.csv", many(100, lambda n: scores[n]))
    dev = tasks.from_table(table, **COLUMNS, regression=True).load("dev")
    assert (np.sort(dev.labels) // 10).tolist() == list(range(10))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["b", "a", "B"], ("B", "a", "b")),
        (["10", "2", "0"], ("0", "2", "10")),
        (["4.0", "0.0", "-1.0"], ("-1.0", "0.0", "4.0")),
        (["True", "False"], ("False", "True")),
    ],
)
def test_labels_are_sorted_numbers_by_value(words, expected, tmp_path):
    rows = [f"text {n},{word}" for n, word in enumerate(words * 3)]
    task = tasks.from_table(write(tmp_path / "a.csv", rows), **COLUMNS)
    assert task.class_names == expected


def test_scores_are_numbers(tmp_path):
    table = write(tmp_path / "a.csv", many(200, lambda n: n % 50 / 10))
    task = tasks.from_table(table, **COLUMNS, regression=True)
    assert task.is_regression
    assert task.metrics == ("pearson", "spearman")
    assert task.load("train").labels.dtype == np.float32


def test_a_test_table_may_lack_labels(tmp_path):
    train = write(tmp_path / "a.csv", many(9))
    test = write(tmp_path / "b.csv", ["one", "two"], "review")
    task = tasks.from_table(train, test=test, **COLUMNS)
    assert task.load("test").labels is None


def test_equal_numbers_are_one_label(tmp_path):
    """pandas writes 0 and 1 as 0.0 and 1.0 if a value is missing."""
    words = ["0", "1.0", "0.0", "1"]
    train = write(tmp_path / "a.csv", many(40, lambda n: words[n % 4]))
    test = write(tmp_path / "b.csv", many(4, lambda n: n % 2 + 0.0))
    task = tasks.from_table(train, test=test, **COLUMNS)
    assert task.class_names == ("0", "1")
    assert np.bincount(task.load("train").labels).tolist() == [18, 18]
    assert task.load("test").labels.tolist() == [0, 1, 0, 1]


def labels_of(folder, names):
    """A kdkit model's names of its classes."""
    (folder / "labels.json").write_text(json.dumps({"classes": names}))


def config_of(folder, names):
    """A checkpoint's names of its classes."""
    config = {
        "architectures": ["BertForSequenceClassification"],
        "id2label": dict(reversed([*enumerate(names)])),
    }
    (folder / "config.json").write_text(json.dumps(config))


NUMBERED = ["LABEL_0", "LABEL_1"]
WORDS, NUMBERS = ("neg", "pos"), (0, 1)  # of each table, as they come


@pytest.mark.parametrize(
    ("words", "teacher", "names", "listed", "labels", "class_names"),
    [
        (WORDS, labels_of, ["pos", "neg"], None, "pos neg", "pos neg"),
        (WORDS, labels_of, ["POS", "Neg"], None, "pos neg", "POS Neg"),
        (NUMBERS, config_of, ["BAD", "FINE"], None, "0 1", "BAD FINE"),
        (NUMBERS, config_of, NUMBERED, None, "0 1", "0 1"),
        (WORDS, None, None, ["pos", "neg"], "pos neg", "pos neg"),
        (WORDS, config_of, NUMBERED, ["pos", "neg"], "pos neg", "pos neg"),
        (WORDS, config_of, ["P", "N"], ["pos", "neg"], "pos neg", "P N"),
        (
            WORDS,
            config_of,
            ["Neg", "pos"],
            ["pos", "neg"],
            "pos neg",
            "pos Neg",
        ),
    ],
)
def test_classes_are_those_of_the_teacher_by_name_number_or_list(
    words, teacher, names, listed, labels, class_names, tmp_path
):
    table = write(tmp_path / "a.csv", many(9, lambda n: words[n % 2]))
    if teacher is not None:
        teacher(tmp_path, names)
    task = tasks.from_table(
        table, **COLUMNS, teacher=teacher and tmp_path, labels=listed
    )
    assert task.table.labels == tuple(labels.split())
    assert task.class_names == tuple(class_names.split())
    first = task.load("train").labels[0]
    assert task.table.labels[first] == str(words[0])
