"""--smoke of every recipe: nothing else is needed, and it learns."""

import pytest
from kit.adapter import command
from kit.helpers import ON_TASKS, read_events

from kdkit.models import load_language_model

pytestmark = pytest.mark.large


@pytest.mark.parametrize("recipe", ON_TASKS)
def test_the_loss_of_every_stage_falls(recipe, tmp_path):
    run = tmp_path / "run"
    words = ["distill", recipe, "--smoke", "--run-dir", run]
    assert command(words).status == 0
    losses = {}
    for event in read_events(run, "epoch"):
        losses.setdefault(event["stage"], []).append(event["logs"]["loss"])
    assert losses
    for stage, values in losses.items():
        assert len(values) == 1 or values[-1] < values[0], stage


@pytest.mark.parametrize(
    ("family", "arm", "vocabulary_size"),
    [
        ("gpt2", "decoder", 300),
        ("llama3", "decoder", 300),
        ("qwen3", "decoder", 300),
        ("mass", "encoder_decoder", 400),
    ],
)
def test_the_four_steps_on_text_learn(family, arm, vocabulary_size, tmp_path):
    run = tmp_path / "run"
    words = f"distill lightpaff --model {family} --smoke every_stage.epochs=8"
    assert command([*words.split(), "--run-dir", run]).status == 0
    # Random weights have a uniform guess's perplexity, those of MASS 1.5 times.
    limit = 0.8 * vocabulary_size
    found = {}
    for name in ("pretrained_run", "teacher_run", "general_run", "."):
        (finished,) = read_events(run / name, "run_finished")
        saved = arm if name in ("pretrained_run", "teacher_run") else "student"
        assert (run / name / saved).is_dir()
        found[name] = finished["best"][saved]["metrics"]["perplexity"]
    assert found["teacher_run"] < found["pretrained_run"] < limit
    assert found["."] < found["general_run"] < limit
    assert load_language_model(run).has_trained_head
