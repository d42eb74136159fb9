"""Recipes: one paper a file, as data."""

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

__all__ = ["RECIPES", "CopiedBlocks", "Recipe", "run_on_arrays"]

# It trains, and so needs Keras.
__getattr__, _ = late_names(__name__, {"run_on_arrays": "arrays"})
