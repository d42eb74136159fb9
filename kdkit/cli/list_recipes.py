"""Lists recipes, student presets with their sizes, and tasks.

example:
  kdkit list
"""

import dataclasses


@dataclasses.dataclass
class Options:
    """no options"""


def run(options):
    del options
    from rich.console import Console
    from rich.table import Table

    from kdkit.models import PRESETS
    from kdkit.recipes import RECIPES
    from kdkit.tasks import TASKS

    recipes = Table("recipe", "what it does", "paper", title="Recipes")
    for recipe in RECIPES.values():
        paper = recipe.paper.replace("https://arxiv.org/abs/", "arXiv:")
        recipes.add_row(recipe.name, recipe.title, paper)
    presets = Table(
        "preset", "size", "heads", "feed-\nforward", "source",
        title="Student presets",
    )  # fmt: skip
    for name, preset in PRESETS.items():
        presets.add_row(name, *_sizes(preset.config), preset.paper)
    tasks = Table(
        "task", "kind", "classes", "chosen by", "tokens", title="Tasks"
    )
    for task in TASKS.values():
        tasks.add_row(
            task.name,
            task.kind.title,
            _classes(task),
            task.primary_metric,
            str(task.sequence_length),
        )
    console = Console()
    for table in (recipes, presets, tasks):
        names, *others = table.columns
        names.no_wrap = True  # so that users can copy them
        for column in others:
            column.overflow = "fold"
        console.print(table)


def _sizes(config):
    from kdkit.models import BilstmConfig, MassConfig

    if isinstance(config, BilstmConfig):
        size, heads = f"1 × {2 * config.units}", ""
    elif isinstance(config, MassConfig):
        layers = f"{config.encoder_num_layers} + {config.decoder_num_layers}"
        size, heads = f"({layers}) × {config.hidden_dim}", str(config.num_heads)
    else:
        size = f"{config.num_layers} × {config.hidden_dim}"
        heads = str(config.num_heads)
    return size, heads, str(config.intermediate_dim)


def _classes(task):
    if task.is_regression:
        return ""
    return "in the data" if task.has_classes_in_data else str(task.num_classes)
