"""Recipes: one paper a file, as data."""

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
    """Adds a recipe, so that the command line finds it by its name.

    Args:
        recipe: `Recipe`.

    Returns:
        The recipe.

    Raises:
        UsageError: (a `ValueError`) if another recipe has the name.
    """
    if RECIPES.get(recipe.name, recipe) != recipe:
        raise UsageError(
            f"A recipe named {recipe.name!r} exists already. Expected a new "
            f"name. Received: {recipe.title!r}."
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

# It trains, and so needs Keras.
__getattr__, _ = late_names(
    __name__, {"run_on_arrays": "kdkit.training.arrays"}
)
