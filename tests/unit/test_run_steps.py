"""kdkit.runs: the runs before a run, in their places and their order."""

import pytest

from kdkit.runs import run as module
from kdkit.runs.configure import config_of
from kdkit.runs.steps import place_of_step, with_places
from kdkit.training.distribution import ONE_DEVICE

CHAIN = config_of("lightpaff", {"model": "gpt2"}, smoke=True)


def test_steps_are_made_in_order_from_the_steps_before_them(
    monkeypatch, tmp_path
):
    made = []
    monkeypatch.setattr(
        module,
        "run",
        lambda config, place, force: made.append((place, config)),
    )
    places = module.make_steps(CHAIN, tmp_path, ONE_DEVICE, False)
    pretrained, teacher, general = (
        tmp_path / f"{name}_run"
        for name in ("pretrained", "teacher", "general")
    )
    assert [place for place, _ in made] == [pretrained, teacher, general]
    assert list(places.values()) == [pretrained, teacher, general]
    assert made[1][1].student.checkpoint == str(pretrained)
    assert made[2][1].teacher == str(pretrained)
    last = with_places(CHAIN, places)
    assert last.teacher == str(teacher)
    assert last.student.checkpoint == str(general)
    # What is saved does not depend on where the run is.
    assert CHAIN.teacher == "run:teacher"
    assert last.steps == CHAIN.steps


def test_a_step_that_is_not_there_is_named(tmp_path):
    places = dict.fromkeys(CHAIN.steps, tmp_path)
    with pytest.raises(ValueError, match="'techer'.*teacher"):
        with_places(CHAIN.replace(teacher="run:techer"), places)


def test_a_step_has_its_own_place(tmp_path):
    there = CHAIN.steps["general"].replace(run_dir=str(tmp_path / "there"))
    chain = CHAIN.replace(steps={**CHAIN.steps, "general": there})
    folder = tmp_path / "run"
    assert place_of_step(chain, "general", folder) == tmp_path / "there"
    assert place_of_step(chain, "teacher", folder) == folder / "teacher_run"


def test_a_failed_start_does_not_hand_its_texts_to_the_next(tmp_path):
    texts, pieces = tmp_path / "texts.txt", tmp_path / "vocab.txt"
    pieces.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n")
    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2}
    config = config_of(
        "pretraining",
        {
            "corpus": {"files": [str(texts)], "sequence_length": 16},
            "tokenizer": str(pieces),
            "student": {**sizes, "intermediate_dim": 8},
        },
    )
    for lines, told in ((50, "too short"), (2000, "other inputs")):
        texts.write_text("a b\n" * lines)
        with pytest.raises(ValueError, match=told):
            module.run(config, tmp_path / "run")
