"""Arms of the papers' tables: what each omits, and the command."""

import json

import pytest

from kdkit.cli.main import main
from kdkit.errors import UsageError
from kdkit.recipes import RECIPES
from kdkit.recipes.ablations import ABLATIONS, get_ablation
from kdkit.runs.directory import RunDirectory
from kdkit.runs.events import Best, Evaluation, RunFinished
from kdkit.tasks import get_task


def stages_of(recipe, over):
    """Stages by arm."""
    stages = RECIPES[recipe].stages_for(get_task("mrpc"))
    ablation = ABLATIONS[recipe][over]
    return {arm.name: arm.change(stages) for arm in ablation.arms}


def losses_of(stages):
    return [[o.loss.name for o in stage.objectives] for stage in stages]


def test_first_arm_of_objectives_is_the_recipe():
    for recipe, tables in ABLATIONS.items():
        assert set(tables) <= {"layer_map", "objectives", "stages"}
        stages = RECIPES[recipe].stages_for(get_task("mrpc"))
        for over in set(tables) - {"layer_map"}:
            arms = stages_of(recipe, over)
            assert next(iter(arms)) == "full"
            assert arms["full"] == stages


def test_tinyberts_arms_leave_out_what_their_names_say():
    arms = stages_of("tinybert", "objectives")
    assert losses_of(arms["no_attention"])[0] == ["hidden_state_mse"]
    assert losses_of(arms["no_hidden_states"])[0] == [
        "attention_mse",
        "embedding_mse",
    ]
    assert losses_of(arms["no_transformer"])[0] == ["embedding_mse"]
    assert losses_of(arms["no_prediction"])[1] == []
    assert arms["no_prediction"][1].label_weight == 1.0
    hidden = arms["no_embeddings"][0].objectives[1]
    assert not hidden.include_embeddings
    for name in ("no_attention", "no_hidden_states", "no_embeddings"):
        assert arms[name][1] == arms["full"][1]


@pytest.mark.parametrize("recipe", ["tinybert", "pkd"])
def test_layer_map_arms_change_every_map_and_nothing_else(recipe):
    arms = stages_of(recipe, "layer_map")
    stages = RECIPES[recipe].stages_for(get_task("mrpc"))
    for name, changed in arms.items():
        assert losses_of(changed) == losses_of(stages)
        maps = {
            objective.layer_map
            for stage in changed
            for objective in stage.objectives
            if objective.layer_map
        }
        assert maps == {name}


def test_lightpaffs_arms_are_the_six_of_its_table():
    found = {}
    for name, stages in stages_of("lightpaff", "stages").items():
        steps = ["PT" if s.data == "corpus" else "FT" for s in stages]
        found[name] = [
            f"{step}+KD" if stage.objectives else step
            for step, stage in zip(steps, stages, strict=True)
        ]
    assert found == {
        "full": ["PT+KD", "FT+KD"],
        "no_kd_in_pretraining": ["PT", "FT+KD"],
        "no_kd_in_fine_tuning": ["PT+KD", "FT"],
        "no_kd": ["PT", "FT"],
        "no_pretraining": ["FT+KD"],
        "no_pretraining_no_kd": ["FT"],
    }


def test_arms_that_do_not_exist_name_those_that_do():
    with pytest.raises(UsageError, match="ablation 'stages'.*objectives"):
        get_ablation("pkd", "stages")
    with pytest.raises(UsageError, match="recipe with ablations.*tinybert"):
        get_ablation("vanilla_kd", "objectives")
    with pytest.raises(UsageError, match="Unknown arm 'bottom'.*skip"):
        get_ablation("pkd", "layer_map", ["skip", "bottom"])


@pytest.fixture
def ran(monkeypatch):
    """The settings and places of runs, which are noted and not run.

    A real run of `distill` is what the other tests of this folder have.
    """
    found = {}

    def note(pipeline, force, needs_models):
        assert not needs_models
        settings, path = pipeline.settings, pipeline.run_dir
        run = RunDirectory(path)
        path.mkdir(parents=True)
        value = 0.6 + 0.1 * len(found)
        best = {"student": Best(metrics={"accuracy": value})}
        run.log(RunFinished(seconds=1.0, best=best))
        found[path] = settings

    monkeypatch.setattr("kdkit.runs.pipeline.Pipeline.run", note)
    return found


def test_every_arm_and_seed_is_a_run_and_a_row(
    ran, finished_run, tmp_path, capsys
):
    command = [
        "ablate", "pkd", "--over", "layer_map", "--task", "sentiment",
        "--teacher", str(finished_run / "teacher_run"),
        "--pretrained", str(finished_run / "teacher_run"),
        "--num-layers", "2", "--seeds", "0", "1", "--run-dir", str(tmp_path),
    ]  # fmt: skip
    assert main(command) == 0
    output = capsys.readouterr().out
    result = json.loads(output.strip().splitlines()[-1])
    assert [row["arm"] for row in result["arms"]] == ["skip", "last"]
    for row, values in zip(
        result["arms"], ([0.6, 0.7], [0.8, 0.9]), strict=True
    ):
        assert row["values"] == pytest.approx(values)
        assert row["mean"] == pytest.approx(sum(values) / 2)
        assert row["standard_deviation"] == pytest.approx(0.1 / 2**0.5)
        for seed in (0, 1):
            settings = ran[tmp_path / row["arm"] / f"seed_{seed}"]
            assert settings.seed == seed
            (objective,) = [
                objective
                for objective in settings.stages[0].objectives
                if objective.loss.name == "patience_mse"
            ]
            assert objective.layer_map == row["arm"]
    assert "not printed" in output


@pytest.mark.parametrize("examples", [None, 872])
def test_arms_near_the_first_are_called_that(
    examples, ran, finished_run, tmp_path, capsys, monkeypatch
):
    """0.60 and 0.61 on 872 examples, of one seed each."""
    values = {"skip": 0.60, "last": 0.61}

    def note(pipeline, force, needs_models):
        path = pipeline.run_dir
        path.mkdir(parents=True)
        metrics = {"accuracy": values[path.parent.name]}
        run = RunDirectory(path)
        if examples is not None:
            where = {"arm": "student", "stage": "s", "epoch": 1, "split": "dev"}
            run.log(Evaluation(**where, examples=examples, metrics=metrics))
        best = {"student": Best(metrics=metrics)}
        run.log(RunFinished(seconds=1.0, best=best))

    monkeypatch.setattr("kdkit.runs.pipeline.Pipeline.run", note)
    teacher = str(finished_run / "teacher_run")
    command = [
        "ablate", "pkd", "--over", "layer_map", "--task", "sentiment",
        "--teacher", teacher, "--pretrained", teacher,
        "--num-layers", "2", "--seeds", "0", "--run-dir", str(tmp_path),
    ]  # fmt: skip
    assert main(command) == 0
    output = capsys.readouterr().out
    rows = json.loads(output.strip().splitlines()[-1])["arms"]
    error = ((0.60 * 0.40 + 0.61 * 0.39) / 872) ** 0.5
    is_known = examples is not None and 2 * error >= 0.01
    marks = [row["within_two_standard_errors"] for row in rows]
    assert marks == [False, is_known]
    assert ("61.0 ≈" in output) == is_known
    assert ("≈: within two standard errors of skip." in output) == is_known


def test_arms_do_without_what_comes_before_the_stages(
    ran, finished_run, tmp_path, capsys
):
    folder = tmp_path / "given"
    folder.mkdir()
    copies = folder / "copies.tsv"
    copies.write_text("source_row\tcolumn\tcopy\tsentence\n")
    text = folder / "text.txt"
    text.write_text("a fine film\n")
    command = [
        "ablate", "tinybert", "--over", "stages", "--task", "sentiment",
        "--teacher", str(finished_run / "teacher_run"),
        "--run-dir", str(tmp_path / "arms"),
    ]  # fmt: skip
    assert main(command) == 0
    output = capsys.readouterr().out
    assert "no_general: skipped" in output
    assert "no_augment: skipped" in output
    arms = {path.parent.name for path in ran}
    assert arms == {"full", "no_task", "no_intermediate_layer"}
    ran.clear()
    command[-1] = str(tmp_path / "some")
    assert main([*command, "--arms", "no_task", "full"]) == 0
    assert [path.parent.name for path in ran] == ["full", "no_task"]
    ran.clear()
    command[-1] = str(tmp_path / "more")
    command += [
        "--general", str(folder / "general"), "--corpus", str(text),
        "--pretrained", "somewhere", "--augment", str(copies),
        "--cache", str(folder / "cache"),
        "--set", "general.model.num_layers=3",
    ]  # fmt: skip
    assert main(command) == 0
    settings = {path.parent.name: made for path, made in ran.items()}
    assert set(settings) == arms | {"no_general", "no_augment"}
    full = settings["full"]
    assert full.student.checkpoint == str(folder / "general")
    assert full.augmented.file == str(copies)
    without = settings["no_general"]
    # The student that it would have been, from random weights.
    assert without.student == full.general.model
    assert without.student.num_layers == 3
    assert without.general is None
    assert without.augmented == full.augmented
    assert settings["no_augment"].augmented is None
    assert settings["no_augment"].general == full.general
    labels = settings["no_task"]
    assert not any(stage.objectives for stage in labels.stages)
    assert (labels.cache, labels.general) == (None, full.general)
