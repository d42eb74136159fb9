"""Recipes as users know them: names, students, and what differs."""

import dataclasses

import pytest

from kdkit.models import PRESETS
from kdkit.recipes import RECIPES, CopiedBlocks, TokenVectors, register_recipe
from kdkit.tasks import get_task


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_has_its_name_and_a_known_student(name):
    assert RECIPES[name].name == name
    student = RECIPES[name].student
    own = (CopiedBlocks, TokenVectors)
    assert isinstance(student, own) or student in PRESETS


@pytest.mark.parametrize("parity", [None, "paper", "pkd"])
def test_pkd_is_vanilla_kd_and_patience(parity):
    (pkd,) = RECIPES["pkd"].stages_for(get_task("sst2"), parity)
    (vanilla,) = RECIPES["vanilla_kd"].stages_for(get_task("sst2"), parity)
    *others, patience = pkd.objectives
    assert tuple(others) == vanilla.objectives
    assert (patience.tap, patience.layer_map) == ("cls_states", "skip")
    assert pkd.label_weight == vanilla.label_weight == 0.5


def test_a_name_is_of_one_recipe():
    with pytest.raises(ValueError, match="'pkd' is taken"):
        register_recipe(dataclasses.replace(RECIPES["tinybert"], name="pkd"))


def test_unknown_parity_names_the_known():
    with pytest.raises(ValueError, match="paper"):
        RECIPES["tinybert"].stages_for(get_task("sst2"), "slides")
