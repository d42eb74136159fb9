"""Run directories built from events, and what reports show of them."""

import html
import json
import re
import xml.etree.ElementTree as ElementTree

from kdkit.config.runs import ADAPTER
from kdkit.reporting import comparison_table, read_run, render_report
from kdkit.runs.configure import config_of

TEACHER = "all_minilm_l6_v2"
STUDENT = "tinybert_4_layer_en_uncased"
# Bytes and median milliseconds of files.
FILES = {
    ("teacher", "fp32"): (91_200_000, 61.3),
    ("student", "fp32"): (57_600_000, 15.02),
    ("student", "fp16"): (28_900_000, 15.31),
    ("student", "int8"): (14_500_000, 5.93),
}


SST2 = {"task": "sst2", "data_dir": "glue"}
CORPUS = {"kind": "corpus", "files": ["text.txt"]}
# By a run's kind: its recipe, and what is given.
BASES = {
    "distill": (
        "vanilla_kd",
        {
            "data": SST2,
            "teacher": ["bert"],
            "student": {"checkpoint": STUDENT},
        },
    ),
    "teacher": (
        "fine_tuning",
        {"data": SST2, "student": {"checkpoint": TEACHER}},
    ),
    "text": (
        "pretraining",
        {"corpus": CORPUS, "student": {"checkpoint": TEACHER}},
    ),
    "taught": ("lightpaff", {"kind": "text", "corpus": CORPUS, "teacher": "x"}),
}


def config(base="distill", **fields):
    """The config of a kind of run, with some fields changed."""
    recipe, given = BASES[base]
    tree = config_of(recipe, {**given}).model_dump(mode="json")
    return ADAPTER.validate_python(tree | fields)


def own_table(name):
    """The data of a task of one's own, whose name may be anything."""
    columns = {"text_columns": ["text"], "label_column": "label"}
    return {"task": name, "table": {"train": "own.csv", **columns}}


class RunWriter:
    """Writes one run directory, event by event."""

    def __init__(self, run_dir, config, provenance=None):
        self.run_dir = run_dir
        self.clock = 1_790_000_000.0
        run_dir.mkdir(parents=True)
        saved = config.model_dump(mode="json") | {"provenance": provenance}
        (run_dir / "config.json").write_text(json.dumps(saved))
        (run_dir / "metrics.jsonl").touch()

    @property
    def records(self):
        return read_run(self.run_dir)

    def log(self, event, **fields):
        self.clock += 1.0
        line = {"event": event, "time": self.clock, **fields}
        with open(self.run_dir / "metrics.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")

    def model(self, arm):
        is_teacher = arm == "teacher"
        self.log(
            "model",
            arm=arm,
            name=TEACHER if is_teacher else STUDENT,
            parameters=22_713_602 if is_teacher else 14_350_250,
            num_layers=6 if is_teacher else 4,
            hidden_dim=384 if is_teacher else 312,
            num_heads=12,
            intermediate_dim=1536 if is_teacher else 1200,
        )

    def epoch(self, arm, stage, epoch, **logs):
        self.log(
            "epoch",
            arm=arm,
            stage=stage,
            epoch=epoch,
            step=2105 * epoch,
            seconds=605.0,
            logs={"learning_rate": 5e-5, **logs},
        )

    def evaluation(self, arm, stage, epoch, accuracy, agreement=None, **more):
        self.log(
            "evaluation",
            arm=arm,
            stage=stage,
            epoch=epoch,
            **{
                "split": "dev",
                "examples": 872,
                "metrics": {"accuracy": accuracy},
                "agreement": agreement,
                **more,
            },
        )

    def export(self, arm, precision, accuracy=None, **more):
        file = f"exports/{arm}-{precision}.tflite"
        size, _ = FILES.get((arm, precision), (57_600_000, None))
        self.log(
            "export",
            **{
                "arm": arm,
                "file": file,
                "format": "litert",
                "title": "LiteRT",
                "precision": precision,
                "size_bytes": size,
                "sequence_length": 128,
                "max_abs_difference": 3.1e-7 if precision == "fp32" else 2.4e-2,
                "same_top_class": 1.0 if precision == "fp32" else 0.9989,
                "metrics": None if accuracy is None else {"accuracy": accuracy},
                "split": "dev",
                "examples": 256,
                **more,
            },
        )
        return file

    def latency(self, file, median, **more):
        self.log(
            "latency",
            **{
                "file": file,
                "median_ms": median,
                "p95_ms": 1.09 * median,
                "threads": 1,
                "batch_size": 1,
                "sequence_length": 128,
                "warmup": 10,
                "runs": 100,
                "size_bytes": 1,
                "parameters": 1,
                **more,
            },
        )

    def timed_export(self, arm, precision, accuracy):
        _, median = FILES[arm, precision]
        self.latency(self.export(arm, precision, accuracy), median)

    def finish(self, seconds, **best):
        """The best epochs, each as (stage, epoch, accuracy)."""
        names = ("stage", "epoch", "metrics")
        found = {
            arm: dict(zip(names, (*where, {"accuracy": accuracy}), strict=True))
            for arm, (*where, accuracy) in best.items()
        }
        self.log("run_finished", seconds=seconds, best=found)


def provenance(command):
    return {
        "command": command,
        "commit": "0c1d2e3",
        "versions": {"kdkit": "0.1.0", "keras": "3.15.1"},
        "machine": "2 cores, CPU",
    }


def write_teacher_run(run_dir, seed=1):
    """A finished run of `train-teacher` with one timed file."""
    command = f"kdkit train-teacher --task sst2 --seed {seed}"
    made = config("teacher", training={"seed": seed})
    run = RunWriter(run_dir, made, provenance(command))
    run.model("teacher")
    run.epoch("teacher", "fine_tuning", 1, loss=0.29, val_loss=0.31)
    run.evaluation("teacher", "fine_tuning", 1, 0.8876)
    run.finish(930.0, teacher=("fine_tuning", 1, 0.8876))
    run.timed_export("teacher", "fp32", 0.8876)
    return run


def write_distillation_run(
    run_dir,
    teacher,
    seed=1,
    student=0.8379,
    control=0.7833,
    task="sst2",
    exported=True,
):
    """A finished run of TinyBERT with control and three timed files."""
    command = f"kdkit distill tinybert --task sst2 --seed {seed}"
    made = config(
        recipe="tinybert",
        data={"task": task, "data_dir": "glue"},
        teacher=[str(teacher)],
        training={"seed": seed},
    )
    run = RunWriter(run_dir, made, provenance(command))
    for arm in ("teacher", "student", "control"):
        run.model(arm)
    run.evaluation("teacher", None, None, 0.8876)
    stage = "intermediate_layer"
    for epoch in (1, 2, 3):
        terms = {
            "attention_mse": 4.1 / epoch**1.5,
            "hidden_state_mse": 0.9 / epoch**0.7,
        }
        logs = {**terms, "loss": sum(terms.values())}
        logs |= {f"val_{name}": 1.07 * value for name, value in logs.items()}
        run.epoch("student", stage, epoch, **logs)
        run.evaluation("student", stage, epoch, 0.491, {"same_top_class": 0.47})
    stage = "prediction_layer"
    for epoch in (1, 2, 3):
        loss = 0.52 / epoch**0.6
        run.epoch("student", stage, epoch, loss=loss, val_loss=loss + 0.05)
        agreement = {"same_top_class": 0.855 + 0.01 * epoch}
        agreement["kl_divergence"] = 0.21
        accuracy = student - 0.011 * (3 - epoch)
        run.evaluation("student", stage, epoch, accuracy, agreement)
    stage = "fine_tuning"
    for epoch in range(1, 7):
        logs = {"loss": 0.61 / epoch**0.9, "val_loss": 0.5 + 0.03 * epoch}
        run.epoch("control", stage, epoch, **logs)
        agreement = {"same_top_class": 0.801, "kl_divergence": 0.47}
        accuracy = control - 0.006 * abs(epoch - 4)
        run.evaluation("control", stage, epoch, accuracy, agreement)
    run.finish(
        5480.0,
        student=("prediction_layer", 3, student),
        control=("fine_tuning", 4, control),
    )
    if exported:
        for precision, lost in (("fp32", 0.0), ("fp16", 0.0), ("int8", 0.0011)):
            run.timed_export("student", precision, student - lost)
    return run


def table(*records):
    """The rows of the runs' table, by name and by heading without its unit."""
    markdown = comparison_table(records).markdown()
    heads, _, *rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in markdown.splitlines()
    ]
    heads = [head.partition(",")[0] for head in heads[1:]]
    return {
        name.strip("*"): dict(zip(heads, cells, strict=True))
        for name, *cells in rows
    }


def page(*records):
    """The words of the page of runs."""
    parts = r"(?s:<style.*?</style>)|<[^>]*>"
    text = re.sub(parts, " ", render_report(records))
    return " ".join(html.unescape(text).split())


def svg_texts(svg):
    """The texts of a picture, which must be well-formed XML."""
    root = ElementTree.fromstring(svg)
    return [
        "".join(element.itertext())
        for element in root.iter("{http://www.w3.org/2000/svg}text")
    ]
