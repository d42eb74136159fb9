"""The tasks: GLUE in its official layout, and generated sentiment."""

from kdkit.data.sentiment import SENTIMENT_SPLITS
from kdkit.data.sentiment import load_sentiment
from kdkit.data.tables import TableLayout
from kdkit.data.tfds import TfdsLayout
from kdkit.errors import UsageError
from kdkit.tasks.task import Task

MNLI_FILES = {
    "train": "train",
    "dev": "dev_matched",
    "dev_mismatched": "dev_mismatched",
    "test": "test_matched",
    "test_mismatched": "test_mismatched",
}
MNLI_TFDS_SPLITS = {
    "train": "train",
    "dev": "validation_matched",
    "dev_mismatched": "validation_mismatched",
    "test": "test_matched",
    "test_mismatched": "test_mismatched",
}

# class numbers are those of TensorFlow Datasets
TASKS = {
    "cola": Task(
        name="cola",
        num_texts=1,
        class_names=("unacceptable", "acceptable"),
        metrics=("matthews_correlation",),
        primary_metric="matthews_correlation",
        layout=TableLayout(
            folder="CoLA",
            text_columns=(3,),
            label_column=1,
            label_words=("0", "1"),
            has_header=False,
            num_columns=4,
            test_layout=TableLayout(
                folder="CoLA",
                text_columns=("sentence",),
                label_column="label",
                label_words=("0", "1"),
            ),
        ),
        tfds=TfdsLayout("glue/cola", ("sentence",)),
    ),
    "sst2": Task(
        name="sst2",
        num_texts=1,
        class_names=("negative", "positive"),
        metrics=("accuracy",),
        primary_metric="accuracy",
        layout=TableLayout(
            folder="SST-2",
            text_columns=("sentence",),
            label_column="label",
            label_words=("0", "1"),
        ),
        tfds=TfdsLayout("glue/sst2", ("sentence",)),
    ),
    "mrpc": Task(
        name="mrpc",
        num_texts=2,
        class_names=("not_equivalent", "equivalent"),
        metrics=("accuracy", "f1"),
        primary_metric="accuracy",
        layout=TableLayout(
            folder="MRPC",
            text_columns=("#1 String", "#2 String"),
            label_column="Quality",
            label_words=("0", "1"),
        ),
        tfds=TfdsLayout("glue/mrpc", ("sentence1", "sentence2")),
    ),
    "stsb": Task(
        name="stsb",
        num_texts=2,
        class_names=None,
        metrics=("pearson", "spearman"),
        primary_metric="pearson",
        layout=TableLayout(
            folder="STS-B",
            text_columns=("sentence1", "sentence2"),
            label_column="score",
            label_words=None,
        ),
        tfds=TfdsLayout("glue/stsb", ("sentence1", "sentence2")),
    ),
    "qqp": Task(
        name="qqp",
        num_texts=2,
        class_names=("not_duplicate", "duplicate"),
        metrics=("accuracy", "f1"),
        primary_metric="accuracy",
        layout=TableLayout(
            folder="QQP",
            text_columns=("question1", "question2"),
            label_column="is_duplicate",
            label_words=("0", "1"),
            # https://github.com/nyu-mll/GLUE-baselines/issues/5
            joins_broken_rows=True,
        ),
        tfds=TfdsLayout("glue/qqp", ("question1", "question2")),
    ),
    "mnli": Task(
        name="mnli",
        num_texts=2,
        class_names=("entailment", "neutral", "contradiction"),
        metrics=("accuracy",),
        primary_metric="accuracy",
        layout=TableLayout(
            folder="MNLI",
            text_columns=("sentence1", "sentence2"),
            label_column="gold_label",
            label_words=("entailment", "neutral", "contradiction"),
            files=MNLI_FILES,
        ),
        tfds=TfdsLayout(
            "glue/mnli", ("premise", "hypothesis"), MNLI_TFDS_SPLITS
        ),
    ),
    "qnli": Task(
        name="qnli",
        num_texts=2,
        class_names=("entailment", "not_entailment"),
        metrics=("accuracy",),
        primary_metric="accuracy",
        layout=TableLayout(
            folder="QNLI",
            text_columns=("question", "sentence"),
            label_column="label",
            label_words=("entailment", "not_entailment"),
        ),
        tfds=TfdsLayout("glue/qnli", ("question", "sentence")),
    ),
    "rte": Task(
        name="rte",
        num_texts=2,
        class_names=("entailment", "not_entailment"),
        metrics=("accuracy",),
        primary_metric="accuracy",
        layout=TableLayout(
            folder="RTE",
            text_columns=("sentence1", "sentence2"),
            label_column="label",
            label_words=("entailment", "not_entailment"),
        ),
        tfds=TfdsLayout("glue/rte", ("sentence1", "sentence2")),
    ),
    "wnli": Task(
        name="wnli",
        num_texts=2,
        class_names=("not_entailment", "entailment"),
        metrics=("accuracy",),
        primary_metric="accuracy",
        layout=TableLayout(
            folder="WNLI",
            text_columns=("sentence1", "sentence2"),
            label_column="label",
            label_words=("0", "1"),
        ),
        tfds=TfdsLayout("glue/wnli", ("sentence1", "sentence2")),
    ),
    "sentiment": Task(
        name="sentiment",
        num_texts=1,
        class_names=("negative", "positive"),
        metrics=("accuracy",),
        primary_metric="accuracy",
        generate=load_sentiment,
        generated_splits=SENTIMENT_SPLITS,
    ),
}


def get_task(name: str) -> Task:
    """Returns the task of this name, a key of `TASKS`.

    >>> get_task("mnli").num_classes
    3
    """
    if name not in TASKS:
        raise UsageError(
            f"Unknown task. Expected one of {', '.join(TASKS)}. "
            f"Received: {name!r}."
        )
    return TASKS[name]
