"""LightPAFF's table 7 on text only: the runs of an arm, and shares."""

import json

import pytest

from kdkit.cli import ablate as ablating_text
from kdkit.cli.main import main
from kdkit.runs.directory import RunDirectory
from kdkit.runs.events import Best, RunFinished
from kdkit.runs.pipeline import Pipeline

TEXT_OF = {
    "gpt2": [
        *("--decoder", "gpt2_medium_en", "--corpus", "general.txt"),
        *("--task-text", "task.txt", "--task-held-out", "held_out.txt"),
    ],
    "mass": [
        *("--decoder", "mass_6_layer", "--languages", "en", "de"),
        *("--corpus", "general.txt", "task.txt"),
        *("--pairs", "general.txt", "task.txt"),
    ],
}
# From where, and with which teacher, the student goes on with the task.
EXPECTED = {
    "full": ("general_kd", True),
    "no_kd_in_pretraining": ("general_labels", True),
    "no_kd_in_fine_tuning": ("general_kd", False),
    "no_kd": ("general_labels", False),
    "no_pretraining": (None, True),
    "no_pretraining_no_kd": (None, False),
}


@pytest.fixture
def runs(text_files, monkeypatch):
    """Settings by place; a run that is noted and not run."""
    found = {}

    def note(pipeline, findings):
        assert findings is not None
        (step,) = pipeline.steps
        settings, place = step.settings, step.place.absolute()
        if place not in found:
            metrics = {"perplexity": 40.0 - len(found), "word_perplexity": 9.5}
            place.mkdir(parents=True)
            best = {"decoder": Best(metrics=metrics)}
            RunDirectory(place).log(RunFinished(seconds=1.0, best=best))
        found[place] = settings

    monkeypatch.setattr(Pipeline, "run", note)
    monkeypatch.setattr(
        ablating_text,
        "written_metrics",
        lambda path: {
            "metrics": {"bleu": 20.0, "perplexity": 9.0},
            "signatures": {"bleu": "tok:13a"},
        },
    )
    return found


def ablate(family, *arguments):
    return main(
        ["ablate", "lightpaff", "--model", family, "--over", "stages"]
        + [*TEXT_OF[family], "--vocabulary-size", "300", "--run-dir", "arms"]
        + list(arguments)
    )


@pytest.mark.parametrize("family", TEXT_OF)
def test_arms_share_their_teachers_and_what_is_pretrained(
    family, runs, tmp_path, capsys
):
    assert ablate(family, "--seeds", "0", "3") == 0
    folder = tmp_path / "arms"
    places = {str(place.relative_to(folder)) for place in runs}
    assert places == {
        "pretrained_run", "teacher_run",
        *(
            f"{name}/seed_{seed}"
            for name in ("general_kd", "general_labels", *EXPECTED)
            for seed in (0, 3)
        ),
    }  # fmt: skip
    pretrained = str(folder / "pretrained_run")
    for name, (begun, learns) in EXPECTED.items():
        for seed in (0, 3):
            student = runs[folder / name / f"seed_{seed}"]
            assert student.seed == seed
            if begun is None:
                assert student.model.has_random_weights
            else:
                assert student.model.checkpoint == str(
                    folder / begun / f"seed_{seed}"
                )
            (stage,) = student.stages
            assert stage.name == "fine_tuning"
            assert bool(stage.objectives) == learns
            teacher = str(folder / "teacher_run") if learns else None
            assert student.teacher == teacher
            needs = begun is None and not learns
            assert student.tokenizer == (pretrained if needs else None)
    with_teacher = runs[folder / "general_kd" / "seed_3"]
    without = runs[folder / "general_labels" / "seed_3"]
    assert (with_teacher.teacher, without.teacher) == (pretrained, None)
    assert (with_teacher.tokenizer, without.tokenizer) == (None, pretrained)
    assert with_teacher.model == without.model
    assert with_teacher.corpus == without.corpus
    assert with_teacher.seed == without.seed == 3
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    metric = {"gpt2": "word_perplexity", "mass": "bleu"}[family]
    assert (result["model"], result["metric"]) == (family, metric)
    assert result.get("signature") == {"gpt2": None, "mass": "tok:13a"}[family]
    papers = {row["arm"]: row["paper"] for row in result["arms"]}
    assert papers["full"] == {"gpt2": 18.8, "mass": 32.2}[family]
