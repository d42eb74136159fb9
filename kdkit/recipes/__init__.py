"""Recipes: one paper per module, as data."""

from kdkit.errors import UsageError
from kdkit.late_names import late_names
from kdkit.recipes import bert_small
from kdkit.recipes import distilbert
from kdkit.recipes import distilled_bilstm
from kdkit.recipes import fine_tuning
from kdkit.recipes import lightpaff
from kdkit.recipes import pkd
from kdkit.recipes import tinybert
from kdkit.recipes import vanilla_kd
from kdkit.recipes.recipe import CopiedBlocks
from kdkit.recipes.recipe import Recipe
from kdkit.recipes.stages import OptimizerSettings
from kdkit.recipes.stages import Stage

RECIPES = {
    "tinybert": tinybert.RECIPE,
    "pkd": pkd.RECIPE,
    "vanilla_kd": vanilla_kd.RECIPE,
    "distilbert": distilbert.RECIPE,
    "distilled_bilstm": distilled_bilstm.RECIPE,
    "lightpaff": lightpaff.RECIPE,
    "fine_tuning": fine_tuning.RECIPE,
    "bert_small": bert_small.RECIPE,
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
        raise UsageError(
            f"The recipe name {recipe.name!r} is taken. Expected a new name. "
            f"Received: {recipe.title!r}. Register it under another name."
        )
    RECIPES[recipe.name] = recipe
    return recipe


__all__ = [
    "RECIPES",
    "CopiedBlocks",
    "OptimizerSettings",
    "Recipe",
    "Stage",
    "register_recipe",
    "run_on_arrays",
]

# It trains and therefore needs Keras.
__getattr__, _ = late_names(
    __name__, {"run_on_arrays": "kdkit.training.arrays"}
)
