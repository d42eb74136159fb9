"""Ablations and sweeps: which runs they consist of, and what they rank.

Their runs are noted, not run, but for one that is there already.
"""

import json
import shutil

import pytest
from kit.adapter import command, resolved
from kit.runs import LENGTH, ON_TASK, ON_TEXT, RUNS, TAUGHT
from kit.studies import noted_runs

PKD = ("pkd", *TAUGHT, "--num-layers", "2")
TINYBERT = ("tinybert", *TAUGHT)
LIGHTPAFF = ("lightpaff", *TAUGHT, *ON_TEXT, "--pretrained", "@encoder")
ON_CORPUS = ("lightpaff", "--corpus", "@corpus.txt", "--teacher", "@encoder")


def study(workspace, directory, verb, *words, **noting):
    """The noted runs' settings, and the last line of a command."""
    words = workspace.words([verb, *words, "--run-dir", directory])
    with noted_runs(**noting) as runs:
        answer = command(words)
    assert answer.status == 0, answer
    return runs, json.loads(answer.out.splitlines()[-1]), answer.out


def losses(settings):
    """The losses of each stage; `labels` where there is no teacher."""
    return ", ".join(
        " ".join(one["loss"]["name"] for one in stage["objectives"].values())
        or "labels" * int(stage["hard_label_weight"])
        for stage in settings["stages"].values()
    )


TAUGHT_TWICE = "logit_kl_divergence, logit_kl_divergence"
# By recipe and table: the losses of each arm's stages.
ARMS = {
    ("tinybert", "objectives"): {
        "full": "attention_mse hidden_state_mse, soft_cross_entropy",
        "no_embeddings": "attention_mse hidden_state_mse, soft_cross_entropy",
        "no_prediction": "attention_mse hidden_state_mse, labels",
        "no_transformer": "embedding_mse, soft_cross_entropy",
        "no_attention": "hidden_state_mse, soft_cross_entropy",
        "no_hidden_states": "attention_mse embedding_mse, soft_cross_entropy",
    },
    ("tinybert", "layer_map"): dict.fromkeys(
        ("uniform", "top", "bottom"),
        "attention_mse hidden_state_mse, soft_cross_entropy",
    ),
    ("pkd", "objectives"): {
        "full": "soft_cross_entropy patience_mse",
        "no_patience": "soft_cross_entropy",
    },
    ("lightpaff", "stages"): {
        "full": TAUGHT_TWICE,
        "no_kd_in_pretraining": "labels, logit_kl_divergence",
        "no_kd_in_fine_tuning": "logit_kl_divergence, labels",
        "no_kd": "labels, labels",
        "no_pretraining": "logit_kl_divergence",
        "no_pretraining_no_kd": "labels",
    },
}


@pytest.mark.parametrize("table", ARMS, ids=" ".join)
def test_arms_leave_out_what_their_names_say(table, workspace, tmp_path):
    recipe, over = table
    words = {"tinybert": TINYBERT, "pkd": PKD, "lightpaff": LIGHTPAFF}[recipe]
    runs, _, _ = study(workspace, tmp_path, "ablate", *words, "--over", over)
    found = {place.parent.name: settings for place, settings in runs.items()}
    assert {arm: losses(found[arm]) for arm in found} == ARMS[table]
    whole = resolved(
        workspace.words(["distill", *words, "--run-dir", tmp_path / "whole"])
    )
    first = next(iter(found.values()))
    for stage in (*first["stages"].values(), *whole["stages"].values()):
        del stage["epochs"]  # more on a small table
    assert first["stages"] == whole["stages"]
    for arm, settings in found.items():
        states = [
            objective
            for stage in settings["stages"].values()
            for objective in stage["objectives"].values()
            if objective["layer_map"] is not None
        ]
        if over == "layer_map":
            assert {objective["layer_map"] for objective in states} == {arm}
        if arm == "no_embeddings":
            assert not states[1]["include_embeddings"]


def test_every_arm_and_seed_is_a_run_and_a_row(workspace, tmp_path):
    words = ("ablate", *PKD, "--over", "layer_map", "--seeds", "0", "1")
    values = {"skip": (0.6, 0.7), "last": (0.8, 0.9)}
    runs, answer, _ = study(
        workspace,
        tmp_path,
        *words,
        accuracy=lambda place: values[place.parent.name][int(place.name[-1])],
    )
    for row, paper in zip(answer["arms"], (92.0, 91.9), strict=True):
        own = values[row["arm"]]
        assert (row["values"], row["paper"]) == ([*own], paper)
        assert row["mean"] == pytest.approx(sum(own) / 2)
        assert row["standard_deviation"] == pytest.approx(0.1 / 2**0.5)
        for seed in (0, 1):
            training = runs[tmp_path / row["arm"] / f"seed_{seed}"]["training"]
            assert training["seed"] == seed


@pytest.mark.parametrize("examples", [None, 872])
def test_arms_near_the_first_are_marked(examples, workspace, tmp_path):
    """0.60 and 0.61: their difference's error on 872 examples is 0.023."""
    _, answer, printed = study(
        workspace,
        tmp_path,
        *("ablate", *PKD, "--over", "layer_map"),
        accuracy=lambda place: {"skip": 0.60, "last": 0.61}[place.parent.name],
        examples=examples,
    )
    marks = [row["within_two_standard_errors"] for row in answer["arms"]]
    is_known = examples is not None
    assert marks == [False, is_known]
    assert ("61.0 ≈" in printed) == is_known


def test_arms_do_without_what_comes_before_the_stages(workspace, tmp_path):
    words = ("ablate", *TINYBERT, "--over", "stages")
    runs, _, printed = study(workspace, tmp_path / "arms", *words)
    assert "no_general: skipped" in printed
    assert "no_augment: skipped" in printed
    arms = {path.parent.name for path in runs}
    assert arms == {"full", "no_task", "no_intermediate_layer"}
    some = (*words, "--arms", "no_task", "full")
    runs, _, _ = study(workspace, tmp_path / "some", *some)
    assert [path.parent.name for path in runs] == ["full", "no_task"]
    copies = tmp_path / "copies.tsv"
    copies.write_text("source_row\tcolumn\tcopy\tsentence\n")
    runs, _, _ = study(
        workspace,
        tmp_path / "more",
        *(*words, "--general", tmp_path / "general", "--corpus", "@corpus.txt"),
        *("--pretrained", "@encoder", "--augment", copies),
        *("--cache", tmp_path / "cache"),
        *("--set", "steps.general.student.num_layers=3"),
    )
    found = {path.parent.name: settings for path, settings in runs.items()}
    assert set(found) == arms | {"no_general", "no_augment"}
    full, without = found["full"], found["no_general"]
    assert full["student"]["checkpoint"] == str(tmp_path / "general")
    # The student that it would have been, from random weights.
    assert without["student"] == full["steps"]["general"]["student"]
    assert without["student"]["num_layers"] == 3
    assert without["steps"] == {}
    assert without["augmented"] == full["augmented"]
    assert found["no_augment"]["augmented"] is None
    labels = found["no_task"]
    assert not any(one["objectives"] for one in labels["stages"].values())
    assert (labels["cache"], labels["steps"]) == (None, full["steps"])


def test_arms_without_a_teacher_have_the_updates_of_all_stages(
    workspace, tmp_path
):
    """On a small table, whose stages have more epochs than the paper's."""
    words = ("ablate", *TINYBERT, "--over", "stages")
    runs, _, _ = study(workspace, tmp_path, *words)
    found = {
        path.parent.name: config["stages"] for path, config in runs.items()
    }
    full = sum(stage["epochs"] for stage in found["full"].values())
    assert found["no_task"]["fine_tuning"]["epochs"] == full > 23


def stage_of(config):
    (stage,) = config["stages"].values()
    return stage


def loss_of(stage):
    """The first objective's loss."""
    return next(iter(stage["objectives"].values()))["loss"]


def test_a_sweep_runs_every_choice_and_ranks_them_on_dev(workspace, tmp_path):
    over = ("--over", "temperature=1.0,5.0", "learning_rate=1e-3,2e-3")
    words = ("sweep", "vanilla_kd", *PKD[1:], *over)
    accuracy = {"temperature=1.0,learning_rate=0.002": 0.9}
    runs, answer, _ = study(
        workspace,
        tmp_path / "grid",
        *words,
        accuracy=lambda place: accuracy.get(place.name, 0.5),
    )
    chosen = [
        (
            loss_of(stage_of(settings))["temperature"],
            stage_of(settings)["learning_rate"],
        )
        for settings in runs.values()
    ]
    every = [(1.0, 1e-3), (1.0, 2e-3), (5.0, 1e-3), (5.0, 2e-3)]
    assert chosen == every
    written = json.loads((tmp_path / "grid" / "sweep.json").read_text())
    assert written["split"] == "dev"
    assert [trial["accuracy"] for trial in written["trials"]] == [
        *(0.9, 0.5, 0.5, 0.5)
    ]
    (step,) = answer["steps"]
    assert [*step["best"].values()] == [1.0, 2e-3]
    drawn = [
        [
            place.name
            for place in study(
                workspace,
                tmp_path / str(number),
                *(*words, "--random", "3", "--seed", seed),
            )[0]
        ]
        for number, seed in enumerate((1, 1, 2))
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) == 3
    assert {*drawn[0]} < {place.name for place in runs}


def test_a_sweep_over_epochs_has_those_epochs(workspace, tmp_path):
    """Also on a small table, where the recipe asks for more updates."""
    whole = resolved(workspace.words(["distill", *PKD, "--run-dir", tmp_path]))
    assert stage_of(whole)["least_updates"] == 1000
    words = ("sweep", *PKD, "--over", "epochs=1,2")
    runs, _, _ = study(workspace, tmp_path / "sweep", *words)
    stages = [*map(stage_of, runs.values())]
    assert [one["epochs"] for one in stages] == [1, 2]
    assert [one["least_updates"] for one in stages] == [0, 0]


def test_trials_share_the_runs_before_them(workspace, tmp_path):
    """Unless these are what differs."""
    words = ("sweep", "pkd", "--encoder", "@encoder", *ON_TASK, "--num-layers")
    for over, count in (
        ("epochs=1,2", 1),
        ("steps.teacher.training.seed=1,2", 2),
    ):
        folder = tmp_path / str(count)
        runs, _, _ = study(workspace, folder, *words, "1", "--over", over)
        steps = [config["steps"]["teacher"] for config in runs.values()]
        assert len({one["run_dir"] for one in steps}) == 1
        assert (steps[0]["run_dir"] is None) == (count == 2)


def test_the_papers_search_fixes_what_its_first_step_found(workspace, tmp_path):
    best = "temperature=20.0,soft_label_weight=0.7,learning_rate=2e-05"
    runs, answer, _ = study(
        workspace,
        tmp_path,
        *("sweep", *PKD, "--paper"),
        accuracy=lambda place: 0.9 if place.name == best else 0.5,
    )
    assert [step["trials"] for step in answer["steps"]] == [27, 12]
    for settings in [*runs.values()][27:]:
        stage = stage_of(settings)
        assert stage["soft_label_weight"] == 0.7
        assert loss_of(stage)["temperature"] == 20.0


def test_a_layer_map_with_commas_is_one_value(workspace, tmp_path):
    pairs = '{"1": 1, "2": 3}'
    over = ("--over", f"patience_mse.layer_map={pairs},skip")
    runs, _, _ = study(workspace, tmp_path, "sweep", *PKD, *over)
    maps = [
        stage_of(config)["objectives"]["patience_mse"]["layer_map"]
        for config in runs.values()
    ]
    assert maps == [json.loads(pairs), "skip"]


def test_a_finished_trial_is_read_and_needs_no_models(workspace, tmp_path):
    """They may have been removed for disk space."""
    over = ("--over", "stages.fine_tuning.learning_rate=0.002")
    directory = tmp_path / "grid"
    trial = directory / "trials" / "learning_rate=0.002"
    workspace.copy("pkd", trial)
    for name in ("student", "checkpoints"):
        shutil.rmtree(trial / name)
    words = ["sweep", *RUNS["pkd"].words[1:], *over, "--run-dir", directory]
    answer = command(workspace.words(words))
    assert answer.status == 0, answer
    assert "nothing to do" in answer.out
    (step,) = json.loads(answer.out.splitlines()[-1])["steps"]
    assert step["metric"] == 0.75  # events.json


MISTAKES = [
    (("ablate", *PKD, "--over", "stages"), "objectives"),
    (("ablate", "vanilla_kd", *TAUGHT, "--over", "objectives"), "tinybert"),
    (("ablate", *PKD, "--over", "layer_map", "--arms", "bottom"), "skip"),
    (("sweep", *PKD, "--over", "learning_rte=1,2"), "learning_rate"),
    (("sweep", *TINYBERT, "--over", "epochs=1,2"), "prediction_layer"),
    (("sweep", *PKD, "--over", "recipe=pkd,vanilla_kd"), "recipe"),
    *(
        (("sweep", *PKD, "--over", f"{field}=a,b"), field)
        for field in ("data.task", "data.data_dir", "data.dev_split")
    ),
    *(
        (("sweep", *ON_CORPUS, "--over", f"corpus.{field}"), field[:6])
        for field in (
            *("masking.share=0.1,0.2", "masking.whole_words=true,false"),
            *("column=1,2", "detokenizer=null,ptb", "max_texts=10,20"),
            f"sequence_length=8,{LENGTH}",
        )
    ),
]


@pytest.mark.parametrize(("words", "named"), MISTAKES)
def test_what_cannot_be_compared_is_refused(words, named, workspace, tmp_path):
    """A choice of what is measured, and arms that are not there."""
    run = tmp_path / "run"
    with noted_runs() as runs:
        answer = command(workspace.words([*words, "--run-dir", run]))
    assert answer.status == 2, answer
    assert named in answer.err
    assert not runs
    assert not run.exists()
