"""The scripts of experiments/ use options that the command line has."""

import os
import pathlib
import subprocess

import pytest
from helpers import experiment

from kdkit.cli import ablate
from kdkit.cli import choosing
from kdkit.cli import resolving
from kdkit.cli import sweep
from kdkit.cli.embedders import embedder_settings
from kdkit.cli.embedders import is_about_embedders
from kdkit.cli.main import make_command_parser
from kdkit.cli.main import make_verb_parser
from kdkit.cli.text_steps import text_pipeline
from kdkit.recipes.ablations import get_ablation
from kdkit.runs.sweep import validate_axes

ROOT = pathlib.Path(__file__).parents[2]
SCRIPTS = [
    path
    for path in sorted((ROOT / "experiments").glob("*.sh"))
    if path.name not in ("texts.sh", "sst2_teachers.sh")
]
# Imitates kdkit and python: records their arguments.
NOTE = '#!/usr/bin/env bash\nprintf "%s\\0" "$@" "" >> "$NOTES"\n'
# They get a second argument.
WITH_ENCODER = ("quantization", "sentence_encoders")
PERTURB = "experiments/perturb.py"
DIFFICULTY = "experiments/difficulty.py"


def data(folder):
    """Small files where the data sets have theirs."""
    for name in (
        "imdb_unlabeled/reviews.tsv",
        "glue/SST-2/train.tsv",
        "glue/SST-2/dev.tsv",
        "wikitext2/wiki.valid.raw",
        "ptb/ptb.train.txt",
        "ptb/ptb.valid.txt",
        "multi30k/train.en",
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("sentence\tlabel\ngood\t1\n")
    return folder


def commands(script, folder):
    """What a script asks of kdkit and python, as lists of words."""
    (folder / "experiments").symlink_to(ROOT / "experiments")
    stand_ins = folder / "bin"
    stand_ins.mkdir()
    for name in ("kdkit", "python"):
        (stand_ins / name).write_text(NOTE)
        (stand_ins / name).chmod(0o755)
    notes = folder / "notes"
    texts = folder / "runs" / "data"
    texts.mkdir(parents=True)  # by texts.sh
    (texts / "sentences.txt").write_text("text\n")  # by sentence_texts.py
    (folder / "encoder").mkdir()
    (folder / "encoder" / "config.json").write_text('{"num_layers": 6}')
    subprocess.run(
        ["bash", script, data(folder / "data"), folder / "encoder"]
        if "sst2" in script.name or script.stem in WITH_ENCODER
        else ["bash", script, data(folder / "data")],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{stand_ins}:{os.environ['PATH']}",
            "NOTES": str(notes),
        },
        check=True,
    )
    for command in notes.read_text().split("\0\0")[:-1]:
        yield command.split("\0")


def family(place):
    """What a run that is not there would be."""
    for part, found in (
        ("multi30k", ("MASS", "mass")),
        ("gpt2", ("GPT-2", "gpt2")),
        ("ptb", ("GPT-2", "gpt2")),
    ):
        if part in place:
            return found
    return "BERT", None


def parser_of(verb):
    """The parser of a verb, or of a script that python runs."""
    if verb in (PERTURB, DIFFICULTY):
        return make_command_parser(verb, experiment(pathlib.Path(verb).stem))
    return make_verb_parser(verb)


def check(verb, options):
    """Resolves a command to settings, which are refused where they clash."""
    if verb == "pretrain":
        resolving.pretrain_settings(options)
    elif verb == "train-teacher":
        resolving.teacher_settings(options)
    elif verb == DIFFICULTY:
        experiment("difficulty").difficulty_settings(options)
    elif verb == "sweep":
        (step,) = sweep._steps(options)
        validate_axes(*sweep._resolved(options, step, {}))
    elif verb == "ablate" and options.model != "bert":
        options.seed = options.seeds[0]
        recipe = resolving.get_recipe(options.recipe)
        settings = text_pipeline(recipe, options).settings
        for arm in get_ablation(options.recipe, options.over).arms:
            ablate.chain(arm, settings, options)
    elif verb == "distill" and is_about_embedders(options):
        embedder_settings(options)
    elif verb in ("distill", "ablate"):
        resolving.distill_settings(options)
    if verb == "ablate":
        get_ablation(options.recipe, options.over, options.arms)
    if verb == "export":
        assert options.overwrite  # so that the script can be given again


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_asks_for_what_can_be_done(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(choosing, "_family_of_teacher", family)
    asked = list(commands(script, tmp_path))
    assert len(asked) > 4
    directories = []
    for verb, *words in asked:
        options = parser_of(verb).parse_args(words)
        check(verb, options)
        if verb != "ablate":
            directories.append(getattr(options, "run_dir", None))
    named = [name for name in directories if name]
    assert len(set(named)) == len(named)


def test_the_page_names_each_script():
    page = (ROOT / "experiments" / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "experiments").glob("*.[ps]*"):
        assert f"| {path.name} |" in page
