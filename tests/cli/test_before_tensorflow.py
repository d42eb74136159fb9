"""Help, lists and wrong words are answered before TensorFlow loads."""

import subprocess
import sys

from kdkit.models import PRESETS
from kdkit.recipes import RECIPES
from kdkit.tasks import TASKS

MISTAKES = [
    "destill",
    "distill tinybert --smoke",
    "train-teacher --task sst2",
    "train-teacher --smoke --set nothing=1 --run-dir RUN",
    "pretrain --smoke --set stages.pretraining.nothing=1 --run-dir RUN",
    "distill nothing --run-dir RUN",
    "distill tinybert --smoke --nothing --run-dir RUN",
    "distill pkd --smoke --epochs many --run-dir RUN",
    "distill tinybert --parity nothing --smoke --run-dir RUN",
    "distill pkd --smoke --run-dir RUN stages.fine_tuning.epochs=0",
    "distill pkd --smoke --run-dir RUN "
    "stages.fine_tuning.objectives.patience_mse.loss=nothing",
    "distill tinybert --task nothing --teacher RUN --run-dir RUN",
    "distill sentence_embedding --smoke --run-dir RUN stages.nothing.epochs=1",
    "distill lightpaff --model gpt2 --smoke --run-dir RUN "
    "steps.general.nothing=1",
    "distill lightpaff --model mass --smoke --run-dir RUN "
    "stages.fine_tuning.epochs=x",
    "doctor tinybert --smoke --set nothing=1",
    "cache tinybert --smoke --nothing",
    "augment --nothing",
    "sweep tinybert --smoke --run-dir RUN --over nothing=1,2",
    "ablate nothing --over objectives --run-dir RUN",
    "show tinybert --task nothing",
    "init nothing",
    "report MISSING",
    "benchmark kdkit --threads many",
]
PROGRAM = f"""
import contextlib, io, sys
from kdkit.cli.main import VERBS, main
for verb in VERBS:
    assert main([verb, "--help"]) == 0, verb
for recipe in {(*RECIPES,)}:
    assert main(["distill", recipe, "--help"]) == 0, recipe
    assert main(["init", recipe]) == 0, recipe
assert main(["init", "--schema"]) == main(["list"]) == 0
for line in {MISTAKES}:
    with contextlib.redirect_stderr(io.StringIO()) as told:
        assert main(line.split()) == 2, line
    assert "Traceback" not in told.getvalue(), line
assert not {{"tensorflow", "keras"}} & set(sys.modules)
"""


def test_help_and_wrong_words_do_not_load_tensorflow():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name in (*RECIPES, *PRESETS, *TASKS):
        assert f" {name} " in done.stdout
