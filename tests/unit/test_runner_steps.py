"""kdkit.runs.runner: the steps before a distillation, in their places."""

import dataclasses

from kdkit.recipes import RECIPES
from kdkit.runs import runner, smoke
from kdkit.runs.pipeline import Pipeline
from kdkit.runs.task_parts import DistillParts
from kdkit.training import ModelSettings


def test_a_teacher_is_made_from_the_encoder_that_the_run_pretrained(
    monkeypatch, tmp_path
):
    made = []
    monkeypatch.setattr(
        runner, "pretrain", lambda _, path, *more, **force: made.append(path)
    )
    monkeypatch.setattr(
        runner, "train_teacher", lambda *made_with: made.append(made_with)
    )
    settings = smoke.distillation(RECIPES["lightpaff"])
    model = ModelSettings(checkpoint="pretrained")
    teacher = dataclasses.replace(settings.teacher, model=model)
    settings = dataclasses.replace(settings, teacher=teacher)
    parts = DistillParts(settings, tmp_path)
    *before, _ = Pipeline(settings, tmp_path).steps
    for step in before:
        runner._make(step, before, parts, False, None)
    first, (recorded, path, pretrained, force) = made
    assert (parts.places[0], parts.pretrained) == (path, first)
    assert (pretrained, force) == (first, False)
    # The recorded settings do not depend on where the run is.
    assert recorded == settings.teacher
