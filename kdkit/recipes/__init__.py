"""Recipes: one paper a file, as data."""

from kdkit.recipes import fine_tuning
from kdkit.recipes import pkd
from kdkit.recipes import tinybert
from kdkit.recipes import vanilla_kd
from kdkit.recipes.recipe import CopiedBlocks
from kdkit.recipes.recipe import Recipe

RECIPES = {
    "tinybert": tinybert.RECIPE,
    "pkd": pkd.RECIPE,
    "vanilla_kd": vanilla_kd.RECIPE,
    "fine_tuning": fine_tuning.RECIPE,
}

__all__ = ["RECIPES", "CopiedBlocks", "Recipe"]
