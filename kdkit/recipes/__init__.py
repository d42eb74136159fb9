"""Recipes: one paper per module, as data.

A new recipe is a module here with a `RECIPE`, and a line in `RECIPES`.
Register your own recipes with `kdkit.recipes.register_recipe`.
"""

import importlib

from kdkit.errors import UsageError
from kdkit.recipes.recipe import CopiedBlocks, Recipe, TokenVectors
from kdkit.recipes.stages import OptimizerSettings, Stage


def _recipe_in(module):
    return importlib.import_module(f"{__name__}.{module}").RECIPE


RECIPES = {
    "tinybert": _recipe_in("tinybert"),
    "pkd": _recipe_in("pkd"),
    "vanilla_kd": _recipe_in("vanilla_kd"),
    "distilbert": _recipe_in("distilbert"),
    "distilled_bilstm": _recipe_in("distilled_bilstm"),
    "lightpaff": _recipe_in("lightpaff"),
    "fine_tuning": _recipe_in("fine_tuning"),
    "bert_small": _recipe_in("bert_small"),
    "sentence_embedding": _recipe_in("sentence_embedding"),
    "static_embedding": _recipe_in("static_embedding"),
    "multilingual": _recipe_in("multilingual"),
    "reranker_to_embedder": _recipe_in("reranker_to_embedder"),
}


def register_recipe(recipe: Recipe) -> Recipe:
    """Adds a recipe, so that the command line finds it under its name.

    Args:
        recipe: `Recipe`.

    Returns:
        The recipe.

    Raises:
        UsageError: (a `ValueError`) if another recipe already has this name.
    """
    if RECIPES.get(recipe.name, recipe) != recipe:
        raise UsageError(f"The recipe name {recipe.name!r} is taken.")
    RECIPES[recipe.name] = recipe
    return recipe


__all__ = [
    "RECIPES",
    "CopiedBlocks",
    "OptimizerSettings",
    "Recipe",
    "Stage",
    "TokenVectors",
    "register_recipe",
]
