"""The tasks by name: GLUE, generated sentiment, and other kinds."""

from kdkit.data.layouts import (
    LETTERS,
    ConllLayout,
    PolyphoneLayout,
    RaceLayout,
    TableLayout,
)
from kdkit.data.synthetic import (
    SENTIMENT_SPLITS,
    load_sentiment,
    load_similarity,
)
from kdkit.data.tfds import TfdsLayout
from kdkit.errors import UsageError, unknown
from kdkit.tasks.kinds import (
    MultiLabel,
    MultipleChoice,
    Polyphones,
    Regression,
    SingleLabel,
    Tagging,
)
from kdkit.tasks.own import from_toml
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

RACE_LEVELS = {
    "race_middle": ("middle",),
    "race_high": ("high",),
    "race": ("middle", "high"),
}

# In the order of the data set's emotions.txt.
GOEMOTIONS = (
    "admiration", "amusement", "anger", "annoyance", "approval", "caring",
    "confusion", "curiosity", "desire", "disappointment", "disapproval",
    "disgust", "embarrassment", "excitement", "fear", "gratitude", "grief",
    "joy", "love", "nervousness", "optimism", "pride", "realization", "relief",
    "remorse", "sadness", "surprise", "neutral",
)  # fmt: skip

# Class numbers are those of TensorFlow Datasets.
TASKS = {
    "cola": Task(
        name="cola",
        num_texts=1,
        kind=SingleLabel(("unacceptable", "acceptable")),
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
        kind=SingleLabel(("negative", "positive")),
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
        kind=SingleLabel(("not_equivalent", "equivalent")),
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
        kind=Regression(),
        metrics=("pearson", "spearman"),
        primary_metric="pearson",
        layout=TableLayout(
            folder="STS-B",
            text_columns=("sentence1", "sentence2"),
            label_column="score",
        ),
        tfds=TfdsLayout("glue/stsb", ("sentence1", "sentence2")),
    ),
    "qqp": Task(
        name="qqp",
        num_texts=2,
        kind=SingleLabel(("not_duplicate", "duplicate")),
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
        kind=SingleLabel(("entailment", "neutral", "contradiction")),
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
        other_dev_splits=("dev_mismatched",),
    ),
    "qnli": Task(
        name="qnli",
        num_texts=2,
        kind=SingleLabel(("entailment", "not_entailment")),
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
        kind=SingleLabel(("entailment", "not_entailment")),
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
        kind=SingleLabel(("not_entailment", "entailment")),
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
        kind=SingleLabel(("negative", "positive")),
        metrics=("accuracy",),
        primary_metric="accuracy",
        generate=load_sentiment,
        generated_splits=SENTIMENT_SPLITS,
    ),
    "similarity": Task(
        name="similarity",
        num_texts=2,
        kind=Regression(),
        metrics=("spearman", "pearson"),
        primary_metric="spearman",
        generate=load_similarity,
        generated_splits=SENTIMENT_SPLITS,
    ),
    "goemotions": Task(
        name="goemotions",
        kind=MultiLabel(GOEMOTIONS),
        metrics=("micro_f1", "macro_f1", "subset_accuracy"),
        primary_metric="macro_f1",
        layout=TableLayout(
            folder="goemotions",
            text_columns=(0,),
            label_column=1,
            label_words=tuple(map(str, range(len(GOEMOTIONS)))),
            label_separator=",",
            has_header=False,
            num_columns=3,
        ),
    ),
    "multi_label": Task(
        name="multi_label",
        kind=MultiLabel(),
        metrics=("micro_f1", "macro_f1", "subset_accuracy"),
        primary_metric="micro_f1",
        layout=TableLayout(
            folder="multi_label",
            text_columns=("text",),
            label_column="labels",
            reads_label_set=True,
            label_separator=",",
        ),
    ),
    **{
        name: Task(
            name=name,
            kind=MultipleChoice(LETTERS),
            metrics=("accuracy",),
            primary_metric="accuracy",
            num_texts=2,
            longest=512,
            layout=RaceLayout(levels),
        )
        for name, levels in RACE_LEVELS.items()
    },
    "polyphone": Task(
        name="polyphone",
        kind=Polyphones(),
        metrics=("accuracy",),
        primary_metric="accuracy",
        layout=PolyphoneLayout(),
    ),
    "conll": Task(
        name="conll",
        kind=Tagging(),
        metrics=("span_f1", "span_precision", "span_recall"),
        primary_metric="span_f1",
        longest=128,
        layout=ConllLayout("conll"),
    ),
}


def get_task(name: str) -> Task:
    """Returns the task with this name, a key of `TASKS`.

    A name that ends with `.toml` is a file, as for `from_toml`.

    >>> get_task("mnli").num_classes
    3
    """
    if name.endswith(".toml"):
        return from_toml(name)
    if name not in TASKS:
        raise unknown("task", name, TASKS)
    return TASKS[name]


def register_task(task: Task) -> Task:
    """Adds a task, so that `--task` and `get_task` find it under its name.

    Args:
        task: `Task`.

    Returns:
        The task.

    Raises:
        UsageError: (a `ValueError`) if another task already has this name.
    """
    if TASKS.get(task.name, task) != task:
        raise UsageError(
            f"The task name {task.name!r} is taken. Expected a new name."
        )
    TASKS[task.name] = task
    return task
