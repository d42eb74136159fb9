"""The ablation of LightPAFF on text: its arms and what they share."""

import json
import shutil

import pytest
from kit.adapter import command
from kit.helpers import read_events
from kit.steps import noted_steps

STEPS = ["pretrained_run", "teacher_run", "general_run", "run"]
GPT2 = (
    *("--model", "gpt2", "--decoder", "gpt2_medium_en"),
    *("--vocabulary-size", 300, "--corpus", "general.txt"),
    *("--task-text", "task.txt", "--task-held-out", "held_out.txt"),
)
MASS = (
    *("--model", "mass", "--decoder", "mass_6_layer"),
    *("--vocabulary-size", 400, "--pairs", "general.txt", "task.txt"),
)
SENTENCES = ("--corpus", "general.txt", "task.txt", "--languages", "en", "de")


# From where, and with which teacher, an arm's student goes on with the task.
ARMS = {
    "full": ("general_kd", True),
    "no_kd_in_pretraining": ("general_labels", True),
    "no_kd_in_fine_tuning": ("general_kd", False),
    "no_kd": ("general_labels", False),
    "no_pretraining": (None, True),
    "no_pretraining_no_kd": (None, False),
}


def ablate(*words, finish):
    """The settings of runs by place, and what `kdkit ablate` prints at last."""
    words = ("ablate", "lightpaff", "--over", "stages", *words)
    with noted_steps(finish) as found:
        answer = command((*words, "--run-dir", "arms"))
    assert answer.status == 0, answer
    return found, json.loads(answer.out.splitlines()[-1])


def test_arms_share_their_teachers_and_what_is_pretrained(
    text_files, workspace
):
    log = workspace.make("next_tokens") / "metrics.jsonl"
    found, result = ablate(
        *(*GPT2, "--seeds", 0, 3),
        finish=lambda place: shutil.copy(log, place),
    )
    folder = text_files / "arms"
    names = ("general_kd", "general_labels", *ARMS)
    places = {
        folder / name / f"seed_{seed}" for name in names for seed in (0, 3)
    }
    teachers = [folder / name for name in STEPS[:2]]
    assert found.keys() == {*teachers, *places}
    pretrained = str(teachers[0])
    for name, (begun, learns) in ARMS.items():
        for seed in (0, 3):
            student = found[folder / name / f"seed_{seed}"]
            assert ("teacher" in student["steps"]) == learns
            assert student["training"]["seed"] == seed
            start = begun and str(folder / begun / f"seed_{seed}")
            general = student["steps"].get("general", {})
            assert general.get("run_dir") == start
            checkpoint = student["student"].get("checkpoint")
            assert checkpoint == (begun and "run:general")
            ((stage_name, stage),) = student["stages"].items()
            assert stage_name == "fine_tuning"
            assert bool(stage["objectives"]) == learns
            assert student["teacher"] == ("run:teacher" if learns else None)
            alone = begun is None and not learns
            assert student["tokenizer"] == ("run:pretrained" if alone else None)
    taught, untaught = (found[folder / name / "seed_3"] for name in names[:2])
    assert (taught["teacher"], untaught["teacher"]) == (pretrained, None)
    assert (taught["tokenizer"], untaught["tokenizer"]) == (None, pretrained)
    for field in ("student", "corpus", "training"):
        assert taught[field] == untaught[field]
    assert (result["model"], result["metric"]) == ("gpt2", "word_perplexity")
    papers = {row["arm"]: row["paper"] for row in result["arms"]}
    assert papers["full"] == 18.8


def test_what_an_arm_writes_is_measured_once(text_files, workspace):
    run = workspace.make("spans_and_pairs")
    words = (*MASS, *SENTENCES, "--arms", "full")

    def finish(place):
        shutil.copytree(run, place, dirs_exist_ok=True)

    _, result = ablate(*words, finish=finish)
    arm = text_files / "arms" / "full" / "seed_0"
    (noted,) = read_events(arm, "measurement")
    assert noted["signatures"]["bleu"] == result["signature"]
    assert (result["model"], result["metric"]) == ("mass", "bleu")
    (row,) = result["arms"]
    assert row["paper"] == 32.2
    assert row["mean"] == pytest.approx(noted["metrics"]["bleu"])
    ablate(*words, finish=lambda place: None)
    assert read_events(arm, "measurement") == [noted]
