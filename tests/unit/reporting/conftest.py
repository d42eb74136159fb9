"""Run directories built from events, as the training commands write them."""

import json
import pathlib
import subprocess
import sys

import pytest

from kdkit.runs.predictions import write_predictions

ROOT = pathlib.Path(__file__).parents[3]

TEACHER = "all_minilm_l6_v2"
STUDENT = "tinybert_4_layer_en_uncased"
PARAMETERS = {
    "teacher": 22_713_602,
    "control": 14_350_250,
    "student": 14_350_250,
}
SIZES = {
    ("teacher", "fp32"): 91_200_000,
    ("student", "fp32"): 57_600_000,
    ("student", "fp16"): 28_900_000,
    ("student", "int8"): 14_500_000,
}
MEDIANS = {
    ("teacher", "fp32"): 61.3,
    ("student", "fp32"): 15.02,
    ("student", "fp16"): 15.31,
    ("student", "int8"): 5.93,
}


class RunWriter:
    """Writes one run directory, event by event."""

    def __init__(self, run_dir, config):
        self.run_dir = run_dir
        self.clock = 1_790_000_000.0
        run_dir.mkdir(parents=True)
        (run_dir / "config.json").write_text(json.dumps(config))
        (run_dir / "metrics.jsonl").touch()

    def log(self, event, **fields):
        self.clock += 1.0
        line = {"event": event, "time": self.clock, **fields}
        with open(self.run_dir / "metrics.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")

    def model(self, arm):
        self.log(
            "model",
            arm=arm,
            name=TEACHER if arm == "teacher" else STUDENT,
            parameters=PARAMETERS[arm],
            num_layers=6 if arm == "teacher" else 4,
            hidden_dim=384 if arm == "teacher" else 312,
            num_heads=12,
            intermediate_dim=1536 if arm == "teacher" else 1200,
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
        self.log(
            "export",
            **{
                "arm": arm,
                "file": file,
                "format": "litert",
                "title": "LiteRT",
                "precision": precision,
                "size_bytes": SIZES.get((arm, precision), 57_600_000),
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

    def predictions(self, *found):
        write_predictions(self.run_dir, found)

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


def write_teacher_run(run_dir, seed=1, exported=True):
    run = RunWriter(
        run_dir,
        {
            "verb": "train-teacher",
            "data": {"task": "sst2", "data_dir": "glue"},
            "model": {"checkpoint": TEACHER},
            "seed": seed,
            "provenance": {
                "command": f"kdkit train-teacher --task sst2 --seed {seed}",
                "commit": "0c1d2e3",
                "versions": {"kdkit": "0.1.0", "keras": "3.15.1"},
                "machine": "2 cores, CPU",
            },
        },
    )
    run.model("teacher")
    run.epoch("teacher", "fine_tuning", 1, loss=0.29, val_loss=0.31)
    run.evaluation("teacher", "fine_tuning", 1, 0.8876)
    run.log("stage_finished", arm="teacher", stage="fine_tuning", seconds=905.0)
    best = {"stage": "fine_tuning", "epoch": 1, "metrics": {"accuracy": 0.8876}}
    run.log("run_finished", seconds=930.0, best={"teacher": best})
    if exported:
        file = run.export("teacher", "fp32", 0.8876)
        run.latency(file, MEDIANS["teacher", "fp32"])
    return run


def write_distillation_run(
    run_dir, teacher, seed=1, student=0.8379, control=0.7833, task="sst2"
):
    run = RunWriter(
        run_dir,
        {
            "verb": "distill",
            "recipe": "tinybert",
            "data": {"task": task, "data_dir": "glue"},
            "teacher": teacher if isinstance(teacher, dict) else str(teacher),
            "student": {"num_layers": 4, "hidden_dim": 312},
            "seed": seed,
            "stages": [
                {"name": "intermediate_layer", "epochs": 3},
                {"name": "prediction_layer", "epochs": 3},
            ],
            "provenance": {
                "command": f"kdkit distill tinybert --task sst2 --seed {seed}",
                "commit": "0c1d2e3",
                "versions": {"kdkit": "0.1.0", "keras": "3.15.1"},
                "machine": "2 cores, CPU",
            },
        },
    )
    for arm in ("teacher", "student", "control"):
        run.model(arm)
    run.evaluation("teacher", None, None, 0.8876)
    _log_student(run, student)
    _log_control(run, control)
    return run


def _log_student(run, accuracy):
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
    run.log("stage_finished", arm="student", stage=stage, seconds=1815.0)
    stage = "prediction_layer"
    for epoch in (1, 2, 3):
        loss = 0.52 / epoch**0.6
        run.epoch("student", stage, epoch, loss=loss, val_loss=loss + 0.05)
        run.evaluation(
            "student",
            stage,
            epoch,
            accuracy - 0.011 * (3 - epoch),
            {
                "same_top_class": 0.885 - 0.01 * (3 - epoch),
                "kl_divergence": 0.21,
            },
        )
    run.log("stage_finished", arm="student", stage=stage, seconds=1500.0)


def _log_control(run, accuracy):
    for epoch in range(1, 7):
        run.epoch(
            "control",
            "fine_tuning",
            epoch,
            loss=0.61 / epoch**0.9,
            val_loss=0.5 + 0.03 * epoch,
            sparse_categorical_accuracy=0.7,
            val_accuracy=0.7 + 0.04 * epoch,
            val_same_top_class=0.8,
            val_kl_divergence=0.47,
        )
        run.evaluation(
            "control",
            "fine_tuning",
            epoch,
            accuracy - 0.006 * abs(epoch - 4),
            {"same_top_class": 0.801, "kl_divergence": 0.47},
        )
    run.log(
        "stage_finished", arm="control", stage="fine_tuning", seconds=2100.0
    )


def finish(run, student=0.8379, control=0.7833, exported=True):
    best = {
        "student": {
            "stage": "prediction_layer",
            "epoch": 3,
            "metrics": {"accuracy": student},
        },
        "control": {
            "stage": "fine_tuning",
            "epoch": 4,
            "metrics": {"accuracy": control},
        },
    }
    run.log("run_finished", seconds=5480.0, best=best)
    if exported:
        losses = {"fp32": 0.0, "fp16": 0.0, "int8": 0.0011}
        for precision, loss in losses.items():
            file = run.export("student", precision, student - loss)
            run.latency(file, MEDIANS["student", precision])
    return run


@pytest.fixture
def make_run(tmp_path):
    """A function of a name and a configuration that starts a run."""

    def start(name, config):
        return RunWriter(tmp_path / name, {"verb": "distill", **config})

    return start


@pytest.fixture
def make_distillation(tmp_path, teacher_run):
    """A function of a name that makes a finished run, with fields changed."""

    def make(name, seed=1, student=0.8379, control=0.7833, **more):
        exported = more.pop("exported", True)
        more.setdefault("teacher", teacher_run.run_dir)
        run = write_distillation_run(
            tmp_path / name, seed=seed, student=student, control=control, **more
        )
        return finish(run, student, control, exported)

    return make


@pytest.fixture
def make_teacher(tmp_path):
    """A function of a name and a seed that makes a teacher's run."""

    def make(name, **more):
        return write_teacher_run(tmp_path / name, **more)

    return make


@pytest.fixture
def run_python():
    """A function of a program that returns what it prints on its own."""

    def run(program):
        return subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            text=True,
            cwd=ROOT,
        ).stdout

    return run


@pytest.fixture
def teacher_run(tmp_path):
    """A finished run of `train-teacher` with one timed file."""
    return write_teacher_run(tmp_path / "teacher")


@pytest.fixture
def distillation_run(tmp_path, teacher_run):
    """A finished distillation with control, three timed files."""
    run = write_distillation_run(tmp_path / "run", teacher_run.run_dir)
    return finish(run)
