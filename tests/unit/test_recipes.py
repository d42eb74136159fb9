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


# Epochs and learning rates of stages, published or chosen: docs/fidelity.md.
TRAINED = {
    "tinybert": [(20, 5e-5), (3, 3e-5)],
    "pkd": [(4, 5e-5)],
    "vanilla_kd": [(4, 5e-5)],
    "distilbert": [(3, 5e-4), (3, 5e-5)],
    "distilled_bilstm": [(10, 1e-3)],
    "lightpaff": [(3, 5e-4), (4, 5e-5)],
    "gpt2": [(1, 5e-4), (3, 1e-4)],
    "mass": [(3, 5e-4), (10, 5e-4)],
    "sentence_embedding": [(1, 2e-4)],
    "static_embedding": [(3, 2e-3)],
    "multilingual": [(5, 5e-4)],
    "reranker_to_embedder": [(1, 5e-5)],
}


@pytest.mark.parametrize("name", TRAINED)
def test_stages_have_their_epochs_and_learning_rates(name):
    recipes = {**RECIPES, **RECIPES["lightpaff"].for_families}
    stages = recipes[name].stages_for(get_task("sst2"))
    assert [(one.epochs, one.learning_rate) for one in stages] == TRAINED[name]


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
