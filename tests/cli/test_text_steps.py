"""LightPAFF on text as one command: its runs, their inputs, its ablation."""

import json
import shutil

import pytest
from kit.adapter import command
from kit.helpers import decoder, read_events
from kit.steps import noted_steps

from kdkit import models

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


def steps_of(*words, run="run"):
    """The settings of the runs of `kdkit distill`, by the names of places."""
    with noted_steps() as found:
        answer = command(("distill", *words, "--run-dir", run))
    assert answer.status == 0, answer
    return {place.name: config for place, config in found.items()}


def test_four_runs_on_running_text_follow_each_other(text_files):
    steps = steps_of("lightpaff", *GPT2, "--one-document")
    assert list(steps) == STEPS
    pretrained, teacher, general, student = steps.values()
    places = [str(text_files / "run" / name) for name in STEPS[:3]]
    assert pretrained["vocabulary_size"] == 300
    assert [one["model"]["num_layers"] for one in (pretrained, general)] == [
        24,
        4,
    ]
    assert [one["teacher"] for one in steps.values()] == [
        None, None, places[0], places[1],
    ]  # fmt: skip
    assert teacher["model"]["checkpoint"] == places[0]
    assert student["model"]["checkpoint"] == places[2]
    assert general["corpus"] == pretrained["corpus"] != teacher["corpus"]
    assert student["corpus"] == teacher["corpus"]
    documents = [one["corpus"]["one_document"] for one in steps.values()]
    assert documents == [False, True, False, True]
    assert [one["soft_label_weight"] for one in general["stages"]] == [0.4]
    assert [one["name"] for one in student["stages"]] == ["fine_tuning"]
    assert not teacher["stages"][0]["objectives"]


@pytest.mark.parametrize("third", [None, "de", "fr"])
def test_an_encoder_decoder_learns_sentences_and_then_pairs(third, text_files):
    held_out, texts = ("held_out.txt", "task.txt"), SENTENCES
    if third is not None:  # a further file
        texts = (*SENTENCES[:3], held_out[0], *SENTENCES[3:], third)
    held_out = ("--task-held-out", *held_out)
    steps = steps_of("lightpaff", *MASS, *texts, *held_out)
    pretrained, teacher, general, student = steps.values()
    languages = ["en", "de", *filter(None, [third])]
    for one in (pretrained, general):
        assert one["corpus"]["languages"] == languages
        assert one["corpus"]["spans"]["share"] == 0.5
        assert one["corpus"]["held_out"] == []
    for one in (teacher, student):
        assert one["corpus"]["languages"] == ["en", "de"]
        files = [str(text_files / name) for name in held_out[1:]]
        assert one["corpus"]["held_out"] == files
    layers = [
        one["model"]["mass"]["decoder_num_layers"]
        for one in (pretrained, general)
    ]
    assert layers == [6, 4]
    assert [one["soft_label_weight"] for one in general["stages"]] == [0.7]
    assert not teacher["stages"][0]["objectives"]
    assert student["stages"][0]["objectives"]
    assert {one["jit_compile"] for one in steps.values()} == {"update"}


def test_settings_are_of_the_step_that_they_name(text_files):
    sets = (
        *("stages.0.epochs=7", "general.stages.0.epochs=2"),
        *("pretrained.model.num_layers=6", "jit_compile=false"),
        *("corpus.sequence_length=64", "teacher.corpus.sequence_length=32"),
    )
    steps = list(steps_of("lightpaff", *GPT2, *sets, "--seed", 3).values())
    assert [one["stages"][0]["epochs"] for one in steps[1:]] == [3, 2, 7]
    assert steps[0]["model"]["num_layers"] == 6
    lengths = [one["corpus"]["sequence_length"] for one in steps]
    assert lengths == [64, 32, 64, 64]
    assert [one["seed"] for one in steps] == [0, 0, 3, 3]
    assert not any(one["jit_compile"] for one in steps)


def test_a_checkpoint_stands_for_a_step(text_files):
    text = (text_files / "general.txt").read_text()
    tokenizer = models.train_byte_pairs([text], 262)
    checkpoint = text_files / "checkpoint"
    model = decoder(1, vocabulary_size=262)
    loaded = models.LoadedModel(model, tokenizer, sequence_length=12)
    models.save_model(loaded, checkpoint)
    common = ("lightpaff", "--model", "gpt2", "--task-text", "task.txt")
    common += ("corpus.sequence_length=12",)
    one = steps_of(*common, "--teacher", checkpoint, "--general", checkpoint)
    (student,) = one.values()
    assert student["teacher"] == str(checkpoint)
    assert student["model"]["checkpoint"] == str(checkpoint)
    more = ("--pretrained", checkpoint, "--corpus", "general.txt")
    assert list(steps_of(*common, *more)) == STEPS[1:]


def test_the_file_of_the_last_step_alone_makes_all_of_them_again(text_files):
    first = steps_of("lightpaff", *GPT2, "general.seed=7")
    (text_files / "config.json").write_text(json.dumps(first["run"]))
    again = steps_of("--config", "config.json", run="new")
    assert list(again) == [*STEPS[:3], "new"]
    old, new = (f"{text_files / name}/" for name in ("run", "new"))
    moved = json.loads(json.dumps(list(first.values())).replace(old, new))
    assert list(again.values()) == moved


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
    pretrained, teacher = map(str, teachers)
    for name, (begun, learns) in ARMS.items():
        for seed in (0, 3):
            student = found[folder / name / f"seed_{seed}"]
            assert student["seed"] == seed
            start = begun and str(folder / begun / f"seed_{seed}")
            assert student["model"]["checkpoint"] == start
            (stage,) = student["stages"]
            assert stage["name"] == "fine_tuning"
            assert bool(stage["objectives"]) == learns
            assert student["teacher"] == (teacher if learns else None)
            alone = begun is None and not learns
            assert student["tokenizer"] == (pretrained if alone else None)
    taught, untaught = (found[folder / name / "seed_3"] for name in names[:2])
    assert (taught["teacher"], untaught["teacher"]) == (pretrained, None)
    assert (taught["tokenizer"], untaught["tokenizer"]) == (None, pretrained)
    for field in ("model", "corpus", "seed"):
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
