"""Mistakes are reported before TensorFlow and Keras are imported."""

import json
import subprocess
import sys

import pytest

from kdkit.cli.main import VERBS

# Missing files are named MISSING, a folder of something else FULL, and one with
# the config of a classifier PRESET.
MISTAKES = {
    "list": [["--nothing"]],
    "show": [["nothing"], ["tinybert", "--task", "nothing"]],
    "init": [["nothing"], ["tinybert", "--output", "FULL/novel.txt"]],
    "demo": [["--run-dir", "FULL"]],
    "train-teacher": [
        ["--run-dir", "RUN"],
        ["--task", "nothing", "--model", "bert", "--run-dir", "RUN"],
        ["--task", "sst2", "--model", "MISSING/model", "--run-dir", "RUN"],
        ["--smoke", "--set", "nothing=1", "--run-dir", "RUN"],
        ["--smoke", "--run-dir", "FULL"],
        [
            *("--task", "sst2", "--model", "bert_base_en_uncased"),
            *("--data-dir", "MISSING", "--run-dir", "RUN"),
        ],
        [
            *("--train", "FULL/novel.txt", "--text-column", "text"),
            *("--label-column", "label", "--model", "bert_base_en_uncased"),
            *("--run-dir", "RUN"),
        ],
    ],
    "pretrain": [
        ["--run-dir", "RUN"],
        ["--smoke", "--set", "stages.0.nothing=1", "--run-dir", "RUN"],
        [
            *("--corpus", "MISSING", "--run-dir", "RUN"),
            *("--student", "tinybert_4_layer_en_uncased"),
        ],
    ],
    "augment": [
        ["--task", "nothing", "--model", "MISSING", "--output", "a.tsv"]
    ],
    "cache": [
        [
            *("tinybert", "--task", "nothing", "--cache", "CACHE"),
            *("--teacher", "MISSING"),
        ]
    ],
    "distill": [
        ["nothing", "--run-dir", "RUN"],
        ["tinybert", "--run-dir", "RUN"],
        ["tinybert", "--config", "MISSING", "--run-dir", "RUN"],
        ["tinybert", "--parity", "nothing", "--smoke", "--run-dir", "RUN"],
        ["tinybert", "--smoke", "--run-dir", "FULL"],
        [
            *("tinybert", "--smoke", "--run-dir", "RUN"),
            *("--set", "stages.0.epochs=0"),
        ],
        [
            *("tinybert", "--smoke", "--run-dir", "RUN"),
            *("--set", "stages.0.objectives.0.loss=nothing"),
        ],
        [
            *("tinybert", "--task", "nothing", "--teacher", "MISSING"),
            *("--run-dir", "RUN"),
        ],
        ["sentence_embedding", "--texts", "MISSING", "--run-dir", "RUN"],
        [
            *("multilingual", "--parallel", "FULL/novel.txt", "MISSING"),
            *("--teacher", "PRESET", "--run-dir", "RUN"),
        ],
        [
            *("sentence_embedding", "--texts", "FULL/novel.txt"),
            *("--teacher", "PRESET", "--run-dir", "RUN"),
        ],
        [
            *("sentence_embedding", "--smoke", "--run-dir", "RUN"),
            *("--set", "stages.0.nothing=1"),
        ],
        [
            *("reranker_to_embedder", "--candidates", "FULL/novel.txt"),
            *("--teacher", "PRESET", "--run-dir", "RUN"),
        ],
        [
            *("lightpaff", "--model", "gpt2", "--smoke", "--run-dir", "RUN"),
            *("--set", "general.nothing=1"),
        ],
        [
            *("lightpaff", "--model", "mass", "--smoke", "--run-dir", "RUN"),
            *("--set", "stages.0.epochs=x"),
        ],
        [
            *("pkd", "--task", "sentiment", "--teacher", "PRESET"),
            *("--set", "stages.0.epochs=x", "--run-dir", "RUN"),
        ],
        [
            *("tinybert", "--smoke", "--run-dir", "RUN", "--set"),
            "stages.1.objectives.0.loss.temperature=-1",
        ],
        [
            *("tinybert", "--smoke", "--run-dir", "RUN", "--set"),
            'stages.1.objectives.0.loss={"name": "logit_mse", "tau": 1}',
        ],
    ],
    "doctor": [
        ["nothing"],
        ["tinybert", "--smoke", "--set", "nothing=1"],
    ],
    "sweep": [
        ["tinybert", "--smoke", "--run-dir", "RUN", "--over", "nothing=1,2"],
        [
            *("tinybert", "--smoke", "--run-dir", "RUN"),
            *("--over", "intermediate_layer.epochs=0,1"),
        ],
    ],
    "ablate": [["nothing", "--over", "objectives", "--run-dir", "RUN"]],
    "evaluate": [
        ["MISSING/model"],
        ["MISSING.keras"],
        [
            *("PRESET", "--test", "FULL/novel.txt", "--text-column", "text"),
            *("--label-column", "label"),
        ],
        ["PRESET", "--queries", "FULL/novel.txt"],
        ["PRESET", "--bitext", "FULL/novel.txt", "FULL/novels.txt"],
        ["PRESET", "--bitext", "FULL/novel.txt", "FULL/novel.txt"],
        [
            *("PRESET", "--pooling", "mean"),
            *("--bitext", "FULL/novel.txt", "FULL/empty.txt"),
        ],
        [
            *("PRESET", "--pooling", "mean", "--queries", "FULL/novel.txt"),
            *("--documents", "FULL/novel.txt", "--judgements"),
            "FULL/novel.txt",
        ],
        ["PRESET", "--pooling", "mean", "--task", "sst2"],
    ],
    "export": [["MISSING/model"], ["FULL", "--format", "onyx"]],
    "benchmark": [["MISSING.tflite"], ["MISSING.onnx"], ["FULL"]],
    "push": [
        ["MISSING", "hf://a/b"],
        ["PRESET", "hf://a"],
        ["FULL", "hf://a/b"],
        ["PRESET", "hf://a/b", "--yes", "--dry-run"],
    ],
    "generate": [["--prompt", "a"]],
    "report": [["MISSING"]],
}
CASES = [
    (verb, *options) for verb, cases in MISTAKES.items() for options in cases
]
# One process for all: none of them may import what another would then find.
PROGRAM = """
import contextlib, io, json, sys
from kdkit.cli.main import main

for arguments in json.loads(sys.argv[1]):
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            status = main(arguments)
        except SystemExit as stop:
            status = stop.code
    heavy = {"keras.src", "keras_hub.src", "tensorflow.python"}
    imported = sorted(heavy & set(sys.modules))
    print(json.dumps([status, said.getvalue(), imported]))
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What the command line does with each mistake."""
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "FULL").mkdir()
    (folder / "FULL" / "novel.txt").write_text("Once upon a time")
    (folder / "FULL" / "empty.txt").touch()
    (folder / "PRESET").mkdir()
    preset = {"registered_name": "keras_hub>BertBackbone"}
    (folder / "PRESET" / "config.json").write_text(
        json.dumps({**preset, "config": {"num_layers": 4}})
    )
    for name in ("task.json", "model.weights.h5"):
        (folder / "PRESET" / name).write_text("{}")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(CASES)],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.strip().splitlines()
    assert not (folder / "RUN").exists()
    return dict(zip(CASES, map(json.loads, lines), strict=True))


def test_every_verb_has_a_mistake():
    assert set(MISTAKES) == set(VERBS)


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_mistake_is_reported_before_tensorflow_is_imported(case, outcomes):
    status, said, imported = outcomes[case]
    assert status == 2
    assert said.startswith(f"kdkit {case[0]}: ")
    assert "loading" not in said
    assert imported == []


@pytest.mark.parametrize("verb", ["distill", "doctor"])
def test_first_line_of_a_run_comes_before_tensorflow_is_imported(
    verb, tmp_path
):
    run = str(tmp_path / "run")
    words, place = ["--run-dir", run], f" in {run}"
    if verb == "doctor":  # which needs no directory, and names none
        words, place = [], ""
    program = (
        "import builtins, os, sys\n"
        "from kdkit.cli.main import main\n"
        "say = print\n"
        "def first(*values, **options):\n"
        "    say(*values, **options)\n"
        "    os._exit(3 if 'keras.src' in sys.modules else 0)\n"
        "builtins.print = first\n"
        "main(sys.argv[1:])\n"
    )
    done = subprocess.run(
        [
            *(sys.executable, "-c", program, verb, "tinybert", "--smoke"),
            *words,
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == (
        f"kdkit {verb} tinybert{place}: loading TensorFlow.\n"
    )
