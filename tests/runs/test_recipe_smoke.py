"""Every recipe from end to end, small: it learns, and its file is right."""

import dataclasses
import json

import pytest
from kit.helpers import ON_TASKS, large_except, read_events

from kdkit.cli.main import main
from kdkit.models import load_language_model
from kdkit.recipes import RECIPES
from kdkit.runs import smoke
from kdkit.settings import override
from kdkit.training import distill, pretrain

ROWS = 64
TEXTS = 200  # of the corpus
EPOCHS = 2


@pytest.fixture(scope="module")
def pretrained_run(tmp_path_factory):
    """One tiny pretrained encoder for the recipes that learn from one."""
    path = tmp_path_factory.mktemp("recipes") / "pretrained"
    settings = override(smoke.PRETRAINING, [f"corpus.max_texts={TEXTS}"])
    pretrain(settings, path)
    return path


@pytest.fixture(
    scope="module",
    # tinybert: the finished run that other tests read.
    params=large_except(ON_TASKS, "distilled_bilstm"),
)
def recipe_run(request, finished_run, tmp_path_factory):
    """A finished run of a recipe, of a few updates."""
    settings = smoke.distillation(RECIPES[request.param])
    changes = [f"data.max_train_rows={ROWS}"]
    if settings.corpus is not None:
        changes.append(f"corpus.max_texts={TEXTS}")
    pretrained = None
    if settings.pretrained is not None:
        pretrained = str(request.getfixturevalue("pretrained_run"))
    settings = dataclasses.replace(
        override(settings, changes),
        teacher=str(finished_run / "teacher_run"),
        pretrained=pretrained,
        stages=tuple(
            dataclasses.replace(stage, epochs=EPOCHS, keep_best=False)
            for stage in settings.stages
        ),
    )
    path = tmp_path_factory.mktemp("recipes") / request.param
    distill(settings, path)
    return path


def test_the_loss_of_every_stage_falls(recipe_run):
    losses = {}
    for line in (recipe_run / "metrics.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "epoch":
            losses.setdefault(event["stage"], []).append(event["logs"]["loss"])
    assert losses
    for stage, values in losses.items():
        assert len(values) == EPOCHS, stage
        assert values[-1] < values[0], stage


@pytest.mark.large
@pytest.mark.parametrize(
    ("family", "arm"),
    [("gpt2", "decoder"), ("llama3", "decoder"), ("mass", "encoder_decoder")],
)
def test_the_four_steps_on_text_need_nothing_else(family, arm, tmp_path):
    run = tmp_path / "run"
    words = ["distill", "lightpaff", "--model", family, "--smoke"]
    assert main([*words, "--run-dir", str(run)]) == 0
    found = {}
    for name in ("pretrained_run", "teacher_run", "general_run", "."):
        (finished,) = read_events(run / name, "run_finished")
        saved = arm if name in ("pretrained_run", "teacher_run") else "student"
        assert (run / name / saved).is_dir()
        found[name] = finished["best"][saved]["metrics"]["perplexity"]
    vocabulary_size = smoke.VOCABULARY_SIZES[arm]
    assert found["teacher_run"] < found["pretrained_run"] < vocabulary_size
    assert found["."] < found["general_run"] < 1.1 * vocabulary_size
    assert load_language_model(run).has_trained_head
