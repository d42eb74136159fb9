"""The tasks by name: GLUE, generated sentiment, and other kinds."""

from kdkit.data.layouts import (
    LETTERS,
    ConllLayout,
    PolyphoneLayout,
    RaceLayout,
    TableLayout,
)
from kdkit.data.synthetic import (
    NUM_EXAMPLES,
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

BITS = ("0", "1")  # the words in the label column of several tasks
SENTENCES = ("sentence1", "sentence2")
INFERENCE = ("entailment", "neutral", "contradiction")
ENTAILMENT = ("entailment", "not_entailment")
MNLI_FILES = {
    "train": "train",
    "dev": "dev_matched",
    "dev_mismatched": "dev_mismatched",
    "test": "test_matched",
    "test_mismatched": "test_mismatched",
}
MNLI_TFDS_SPLITS = {
    split: file.replace("dev_", "validation_")
    for split, file in MNLI_FILES.items()
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


# The files of GLUE.
GLUE = {
    "cola": TableLayout(
        "CoLA",
        (3,),
        1,
        BITS,
        num_columns=4,
        test_layout=TableLayout("CoLA", ("sentence",), "label", BITS),
    ),
    "sst2": TableLayout("SST-2", ("sentence",), "label", BITS),
    "mrpc": TableLayout("MRPC", ("#1 String", "#2 String"), "Quality", BITS),
    "stsb": TableLayout("STS-B", SENTENCES, "score"),
    "qqp": TableLayout(
        "QQP",
        ("question1", "question2"),
        "is_duplicate",
        BITS,
        # https://github.com/nyu-mll/GLUE-baselines/issues/5
        joins_broken_rows=True,
    ),
    "mnli": TableLayout(
        "MNLI", SENTENCES, "gold_label", INFERENCE, files=MNLI_FILES
    ),
    "qnli": TableLayout("QNLI", ("question", "sentence"), "label", ENTAILMENT),
    "rte": TableLayout("RTE", SENTENCES, "label", ENTAILMENT),
    "wnli": TableLayout("WNLI", SENTENCES, "label", BITS),
}


def _task(name, kind, *metrics, **fields) -> Task:
    """Returns a task whose first metric chooses models."""
    return Task(name, kind, metrics, metrics[0], **fields)


def _glue(name, class_names, *metrics, tfds=(), **fields) -> Task:
    """Returns a task of GLUE; `tfds` are other names than those in files."""
    layout = GLUE[name]
    return _task(
        name,
        SingleLabel(class_names) if class_names else Regression(),
        *(metrics or ("accuracy",)),
        num_texts=len(layout.text_columns),
        layout=layout,
        tfds=TfdsLayout(f"glue/{name}", *(tfds or (layout.text_columns,))),
        **fields,
    )


# Class numbers are those of TensorFlow Datasets.
_BUILT_IN = (
    _glue(
        "cola",
        ("unacceptable", "acceptable"),
        "matthews_correlation",
        tfds=(("sentence",),),
    ),
    _glue("sst2", ("negative", "positive")),
    _glue(
        "mrpc",
        ("not_equivalent", "equivalent"),
        "accuracy",
        "f1",
        tfds=(SENTENCES,),
    ),
    _glue("stsb", None, "pearson", "spearman"),
    _glue("qqp", ("not_duplicate", "duplicate"), "accuracy", "f1"),
    _glue(
        "mnli",
        INFERENCE,
        tfds=(("premise", "hypothesis"), MNLI_TFDS_SPLITS),
        other_dev_splits=("dev_mismatched",),
    ),
    _glue("qnli", ENTAILMENT),
    _glue("rte", ENTAILMENT),
    _glue("wnli", ("not_entailment", "entailment")),
    _task(
        "sentiment",
        SingleLabel(("negative", "positive")),
        "accuracy",
        generate=load_sentiment,
        generated_splits=tuple(NUM_EXAMPLES),
    ),
    _task(
        "similarity",
        Regression(),
        "spearman",
        "pearson",
        num_texts=2,
        generate=load_similarity,
        generated_splits=tuple(NUM_EXAMPLES),
    ),
    _task(
        "goemotions",
        MultiLabel(GOEMOTIONS),
        "macro_f1",
        "micro_f1",
        "subset_accuracy",
        layout=TableLayout(
            "goemotions",
            (0,),
            1,
            tuple(map(str, range(len(GOEMOTIONS)))),
            label_separator=",",
            num_columns=3,
        ),
    ),
    _task(
        "multi_label",
        MultiLabel(),
        "micro_f1",
        "macro_f1",
        "subset_accuracy",
        layout=TableLayout(
            "multi_label", ("text",), "labels", label_separator=","
        ),
    ),
    *(
        _task(
            name,
            MultipleChoice(LETTERS),
            "accuracy",
            num_texts=2,
            longest=512,
            layout=RaceLayout(levels),
        )
        for name, levels in RACE_LEVELS.items()
    ),
    _task("polyphone", Polyphones(), "accuracy", layout=PolyphoneLayout()),
    _task(
        "conll",
        Tagging(),
        "span_f1",
        "span_precision",
        "span_recall",
        longest=128,
        layout=ConllLayout("conll"),
    ),
)
TASKS = {task.name: task for task in _BUILT_IN}


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
