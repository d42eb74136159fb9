"""Recipes: one paper a file, as data."""

from kdkit.recipes import tinybert
from kdkit.recipes.recipe import Recipe

RECIPES = {
    "tinybert": tinybert.RECIPE,
}

__all__ = ["RECIPES", "Recipe"]
